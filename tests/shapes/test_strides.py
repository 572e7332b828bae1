"""A tensor whose strides vary: symbols from the second compilation on."""

from __future__ import annotations

import pytest
import torch

import stator
from tests.harness import check


def sweep(fn, tensors, graphs=2, backend="eager"):
    check(fn, vary=[(x,) for x in tensors], expect_recompiles=graphs - 1, expect_graphs=graphs, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_columns_of_wider_and_wider_tensors(backend):
    tensors = [torch.randn(4, width)[:, :3] for width in (5, 7, 8, 11, 20)]
    sweep(lambda x: (x * 2 + 1, x.sum(1), x.t() @ x), tensors, backend=backend)


def test_sizes_and_strides():
    tensors = [torch.randn(2 + i, 9 + 2 * i)[:, : 3 + i] for i in range(5)]
    sweep(lambda x: (x * 2, x.reshape(-1), x.contiguous()), tensors)


def test_strides_as_numbers():
    tensors = [torch.randn(4, width)[:, :3] for width in (5, 7, 8, 11)]
    sweep(lambda x: (x.stride(0), x.stride(), x * x.stride(0)), tensors)


def test_a_question():
    """Dense and not: the answer is guarded."""
    tensors = [torch.randn(4, width)[:, :3] for width in (5, 7, 3, 8, 3)]
    sweep(lambda x: x.view(-1) if x.is_contiguous() else x * 2, tensors, graphs=3)


def test_only_what_differs():
    compiled = stator.compile(lambda x, y: x * 2 + y, backend="eager", fullgraph=True)
    for width in (5, 7, 9):
        compiled(torch.ones(4, width)[:, :3], torch.ones(4, 3))
    assert len(compiled.entries()) == 2


def test_repeated_dimensions_are_not_compared():
    """How the copy of an expanded tensor is laid out does not depend on which of its dimensions is longer."""

    def program(x):
        mask = torch.ones(2, 3).tril()[None, :, None].expand(x.shape[0], 2, 4, 3)
        copy = mask.bool()
        return copy, copy.stride()

    report = check(program, vary=[(torch.ones(n),) for n in (2, 3, 6, 9, 4)], expect_recompiles=None)
    assert report.gained("frames_captured") == 2, report.counts


def test_what_had_gaps_may_have_some_again():
    """A tensor without gaps in between does not make its stride the extent of the others."""
    calls = [(torch.randn(2 + i, length, 4)[:, :4],) for i, length in enumerate((7, 4, 9, 5, 4, 12))]
    check(lambda x: x.mean(1) + 1, vary=calls, expect_recompiles=1, expect_graphs=None)
