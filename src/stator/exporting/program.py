"""`stator.export`: a call, captured whole, as a program that can be saved, loaded and run without this code."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from stator.errors import InvalidArgument
from stator.exporting import dims
from stator.exporting.capture import capture
from stator.exporting.module import Program
from stator.exporting.symbols import number_paths
from stator.report.explain import uncompiled
from stator.runtime.capture import Call


def export(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    prefer_deferred_runtime_asserts_over_guards: bool,
) -> torch.export.ExportedProgram:
    """See `stator.export`."""
    check_arguments(model, args, kwargs)
    model = uncompiled(model)
    args, kwargs = distinct(args, kwargs or {})
    bound = dims.bind(model, args, kwargs)
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # a ShapesCollection, or AdditionalInputs
        dynamic_shapes = dynamic_shapes.dynamic_shapes(model, args, kwargs)
    shapes = dims.Shapes(bound, dynamic_shapes)
    root = module_of(model)
    call = Call(model.__call__ if isinstance(model, nn.Module) else model, args, kwargs)
    names = parameter_names(bound.signature, args, kwargs)
    positions = {name: i for i, name in reversed(list(enumerate(names)))}
    captured = capture(call, shapes, number_paths(shapes, positions), root, names)
    program = Program(captured, root, bound.signature)
    return torch.export.export(
        program.module,
        args,
        kwargs,
        dynamic_shapes=shapes.spec(),
        strict=False,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )


def check_arguments(model: Any, args: Any, kwargs: Any) -> None:
    """Says clearly what is wrong with a call of `stator.export`."""
    usage = "write stator.export(model, (x, y), {'name': z}, dynamic_shapes=...)"
    if inspect.isclass(model) or not callable(model):
        raise InvalidArgument(f"stator.export needs a function or a module, got {model!r:.60}; {usage}")
    if not isinstance(args, tuple):
        raise InvalidArgument(f"args must be a tuple of arguments, got {type(args).__qualname__}; {usage}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise InvalidArgument(f"kwargs must be a dict of arguments, got {type(kwargs).__qualname__}; {usage}")


def distinct(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with a tensor of its own for each place: that two were one is a coincidence of the example."""
    seen: set[int] = set()

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        copy = leaf.detach().clone(memory_format=torch.preserve_format)
        return copy.requires_grad_(leaf.requires_grad)

    repeated = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if len({id(leaf) for leaf in repeated}) == len(repeated):
        return args, kwargs
    return pytree.tree_map(own, (args, kwargs))


def module_of(model: Any) -> nn.Module | None:
    """The module whose parameters and buffers are the program's: the model itself, or the owner of a method."""
    owner = model if isinstance(model, nn.Module) else getattr(model, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def parameter_names(signature: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The name of the parameter that takes each value of the call; values of `*args` are named by number."""
    names: list[str] = []
    rows = list(signature.parameters.values()) if signature is not None else []
    for i in range(len(args)):
        row = rows[min(i, len(rows) - 1)] if rows else None
        if row is None:
            names.append(f"arg{i}")
        elif row.kind is row.VAR_POSITIONAL:
            names.append(f"{row.name}[{i - rows.index(row)}]")
        else:
            names.append(row.name)
    return [*names, *kwargs]
