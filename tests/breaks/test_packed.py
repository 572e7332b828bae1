"""Packed sequences: how many rows there are only the lengths tell, which fake tensors do not know."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tests.harness import check


class Packed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(3, 3)
        self.rnn = torch.nn.RNN(3, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        data = self.project(packed.data)
        out, last = self.rnn(PackedSequence(data, *packed[1:]))
        shapes = packed.data.shape[0], packed.batch_sizes.dtype, len(packed.batch_sizes)
        return pad_packed_sequence(out)[0], last, data, shapes, data.new_ones(data.shape[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_rows_of_packed_sequences(backend):
    x = torch.randn(6, 3, 3)
    check(
        Packed(),
        vary=[(x, torch.tensor([2, 5, 6])), (x, torch.tensor([3, 3, 1]))],
        backend=backend,
        backward=True,
        fullgraph=False,
        expect_graphs=None,
        expect_breaks=None,
        expect_recompiles=None,
        tolerance=1e-6,
    )
