"""Real models with varying batch and sequence: equal to eager at other sizes, with torch.export's signature."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import stator
from tests.export.same import inputs_of, saved
from tests.models.zoo import make

batch, seq = Dim("batch", max=32), Dim("seq", max=48)
SAVED = ("mlp", "llama")  # also through a file
COMPARED = ("mlp", "bert")  # also with torch.export itself


def resized(inputs: dict[str, torch.Tensor], rows: int, length: int) -> dict[str, Any]:
    """The arguments with other sizes; tokens have a length too."""
    made = {}
    for name, value in inputs.items():
        value = torch.cat([value] * rows)[:rows]
        tokens = value.dtype is torch.int64 and value.dim() == 2
        made[name] = torch.cat([value] * 3, 1)[:, :length].contiguous() if tokens else value
    return made


@pytest.mark.parametrize("name", ["mlp", "resnet", "llama", "bert"])
def test_model(name: str) -> None:
    model, inputs = make(name, train=False)
    inputs = {key: value for key, value in inputs.items() if key != "labels"}
    tokens = {key: value.dtype is torch.int64 for key, value in inputs.items()}
    shapes = {key: {0: batch, 1: seq} if tokens[key] else {0: batch} for key in inputs}
    constants = {"use_cache": False} if name == "llama" else {}
    example = resized(inputs, 3, 12) | constants
    with torch.no_grad():
        program = stator.export(model, (), example, dynamic_shapes=shapes)
        loaded = saved(program) if name in SAVED else program
        for rows, length in ((3, 12), (2, 16), (7, 5)):
            call = resized(inputs, rows, length) | constants
            torch.testing.assert_close(logits(loaded.module()(**call)), logits(model(**call)), rtol=1e-4, atol=1e-5)
        if name in COMPARED:
            theirs = torch.export.export(model, (), example, dynamic_shapes=shapes, strict=False)
            assert inputs_of(program) == inputs_of(theirs)
            assert program.call_spec == theirs.call_spec


def logits(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result["logits"]


def test_training_step_of_a_program() -> None:
    """Gradients of the program are those of the model."""
    model, inputs = make("mlp", train=True)
    run = stator.export(model, (), inputs, dynamic_shapes={key: {0: batch} for key in inputs}).module()
    call = resized(inputs, 5, 0)
    run(**call)["loss"].backward()
    grads = {name: parameter.grad.clone() for name, parameter in run.named_parameters()}
    model.zero_grad()
    model(**call)["loss"].backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(grads[name], parameter.grad)
