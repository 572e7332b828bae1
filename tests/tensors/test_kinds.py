"""Kinds of tensors and results that torch makes apart from plain ones."""

import warnings
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


def quantized(x: Any) -> Any:
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() * 2


with warnings.catch_warnings():  # torch says once that such types will go away
    warnings.simplefilter("ignore")
    quantized(torch.ones(1))


def named_results(x: Any) -> Any:
    """torch's result tuples live on behind a break."""
    ordered = x.sort()
    if x.sum() > 0:
        x = ordered.values * 2
    return x, ordered, ordered.indices, torch.max(x, 0)


def solved(x: Any) -> Any:
    found = torch.linalg.lstsq(x @ x.T + torch.eye(3), x)
    return found.solution * 2, type(found).__name__


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x).relu()


traced = torch.jit.trace(Net(), torch.ones(3, 3))


def through_a_trace(x: Any) -> Any:
    return traced(x * 2) + 1


@pytest.mark.parametrize("program", [quantized, named_results, solved, through_a_trace], ids=lambda one: one.__name__)
def test_breaks_once(program: Any) -> None:
    inputs = [(torch.randn(3, 3),) for _ in range(2)] + [(torch.full((3, 3), sign),) for sign in (0.5, -0.5)]
    report = check(program, vary=inputs, fullgraph=False, expect_breaks=None, expect_recompiles=None, tolerance=1e-6)
    assert report.gained("graph_breaks") <= 3
    assert report.gained("frames_skipped") == 0


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_break_with_their_reason() -> None:
    import stator

    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(lambda x: x * 2, backend="eager", fullgraph=True)(nested)
    assert caught.value.break_id == "tensor-subclass"
    made = stator.compile(lambda x: x * 2, backend="eager")(nested)
    assert all(torch.equal(part, torch.full_like(part, 2)) for part in made.unbind())


@pytest.mark.filterwarnings("ignore")
def test_encoder_with_padding() -> None:
    """Without gradients torch's encoder makes nested tensors of what is padded, and zeros of the padding."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    compiled = stator.compile(encoder, backend="eager")
    for length in (5, 6):
        x, mask = torch.randn(2, length, 8), torch.zeros(2, length, dtype=torch.bool)
        mask[0, 3:] = True
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, src_key_padding_mask=mask), encoder(x, src_key_padding_mask=mask))
        torch.testing.assert_close(compiled(x, src_key_padding_mask=mask), encoder(x, src_key_padding_mask=mask))
    whole = stator.compile(encoder, backend="eager", fullgraph=True)
    with torch.no_grad():
        found = whole(x, src_key_padding_mask=mask)
        torch.testing.assert_close(found[~mask], encoder(x, src_key_padding_mask=mask)[~mask])


def python_types(x: Any) -> Any:
    made = torch.ones(x.shape[0], dtype=bool), torch.zeros(2, dtype=int), torch.tensor([1, 2], dtype=complex)
    return (
        made,
        x.to(float),
        x.to("cpu", int),
        x.sum(dtype=float),
        torch.softmax(x, 0, float),
        x.new_zeros(2, dtype=int),
    )


def test_classes_of_python_are_dtypes() -> None:
    check(python_types, vary=[(torch.arange(3.0),), (torch.arange(4.0),), (torch.arange(5.0),)], expect_recompiles=1)
    check(lambda x: x.type(float), torch.ones(2), fullgraph=False, expect_breaks=None)


def legacy_types(x: Any) -> Any:
    made = x.type(torch.LongTensor), x.type(dtype=torch.BoolTensor), x.type("torch.IntTensor")
    return made, x.type(torch.FloatTensor) is x, isinstance(x, torch.FloatTensor)


def test_classes_of_torch_are_dtypes_of_one_method() -> None:
    check(legacy_types, torch.arange(3.0))
