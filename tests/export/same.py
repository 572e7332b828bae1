"""`same(model, args, ...)`: exports a call, and compares the program with eager, if need be through a file."""

from __future__ import annotations

import copy
import io
import re
import warnings
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

import stator

# Text that a report ends with: definitions of Dims and the dynamic_shapes that would pass.
SUGGESTION = re.compile(r"^this would pass:\n((?:    .*\n?)+)", re.M)


def saved(program: ExportedProgram) -> ExportedProgram:
    """The program as it comes back from a file."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(file)


def fresh(values: Any) -> Any:
    """Copies of the tensors, in the same containers."""
    return pytree.tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, values)


def assert_same(found: Any, expected: Any) -> None:
    """Equal in structure, values, dtypes and shapes."""
    assert pytree.tree_structure(found) == pytree.tree_structure(expected)
    for mine, theirs in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
        else:
            assert mine == theirs and type(mine) is type(theirs)


def same(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    more: Any = (),
    save: bool = False,
    **options: Any,
) -> ExportedProgram:
    """Exports the call; the program does what eager does for it, twice in a row, and for `more` arguments.

    With `save`, so does the program that comes back from a file.
    """
    eager = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model
    program = stator.export(model, args, kwargs, **options)
    programs = [program.module()] + ([saved(program).module()] if save else [])
    originals = [copy.deepcopy(eager) if isinstance(eager, torch.nn.Module) else eager for _ in programs]
    for call_args, call_kwargs in ((args, kwargs or {}), (args, kwargs or {}), *more):
        for run, original in zip(programs, originals, strict=True):
            mine, theirs = fresh((call_args, call_kwargs)), fresh((call_args, call_kwargs))
            assert_same(run(*mine[0], **mine[1]), original(*theirs[0], **theirs[1]))
            assert_same(mine, theirs)  # what became of the arguments
    for run, original in zip(programs, originals, strict=True):
        if isinstance(original, torch.nn.Module):
            buffers = dict(run.named_buffers())
            for name, buffer in original.named_buffers():
                torch.testing.assert_close(buffers[name], buffer)
    return program


def inputs_of(program: ExportedProgram) -> list[tuple[str, str, str | None]]:
    """Kind, name and target of each input of the graph."""
    return [(spec.kind.name, spec.arg.name, spec.target) for spec in program.graph_signature.input_specs]


def suggested(error: BaseException) -> Any:
    """The dynamic_shapes that a report suggests, evaluated as if pasted."""
    (text,) = SUGGESTION.findall(str(error))
    names: dict[str, Any] = {"Dim": Dim}
    exec("\n".join(line[4:] for line in text.splitlines()), names)
    return names["dynamic_shapes"]


def violation(model: Any, args: tuple[Any, ...], dynamic_shapes: Any, **options: Any) -> str:
    """The report about dynamic_shapes that do not fit; what it suggests does, for stator and for torch."""
    with pytest.raises(stator.ConstraintViolation) as raised:
        stator.export(model, args, dynamic_shapes=dynamic_shapes, **options)
    better = suggested(raised.value)
    same(model, args, dynamic_shapes=better, **options)
    return str(raised.value)
