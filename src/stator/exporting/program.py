"""`stator.export`: a call, captured whole, as a program that can be saved, loaded and run without this code."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from stator.errors import ConstraintViolation, InvalidArgument, Unsupported
from stator.exporting import dims
from stator.exporting.capture import Captured, capture
from stator.exporting.module import Program
from stator.exporting.report import Facts
from stator.exporting.suggestion import Relaxed, Suggestion, passing, violation
from stator.exporting.symbols import number_paths
from stator.exporting.traced import TracedSizes
from stator.report.explain import uncompiled
from stator.runtime.calls import Call


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
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # a ShapesCollection, or AdditionalInputs
        dynamic_shapes = dynamic_shapes.dynamic_shapes(model, args, kwargs)
    deferred = prefer_deferred_runtime_asserts_over_guards
    try:
        return exported(model, args, kwargs, dynamic_shapes, deferred)
    except ConstraintViolation as error:
        better = passing(error, lambda spec: exported(model, args, kwargs, spec, deferred))
        error.args = ("\n".join([str(error), *better]),)
        raise


def exported(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, deferred: bool
) -> torch.export.ExportedProgram:
    """The program for these sizes, if it can do with what is said about them."""
    bound = dims.bind(model, args, kwargs)
    shapes = dims.Shapes(bound, dynamic_shapes)
    root = module_of(model)
    if root is not None and any(is_lazy(member) for member in (*root.parameters(), *root.buffers())):
        raise InvalidArgument("the model has lazy modules, whose parameters do not exist yet: run it once first")
    call = Call(model.__call__ if isinstance(model, nn.Module) else model, args, kwargs)
    names = parameter_names(bound.signature, args, kwargs)
    positions = {name: i for i, name in reversed(list(enumerate(names)))}
    try:
        captured = capture(call, shapes, number_paths(shapes, positions), root, names)
    except Unsupported as error:
        error.add_note("stator.explain(model)(*args, **kwargs) runs the call and lists all breaks, not only the first")
        raise
    try:
        return traced(captured, root, bound, shapes, deferred)
    except TooMuch as complaint:
        loose = violated(str(complaint.error)) or set(shapes.dims)
        shapes.loosen(loose)
        try:
            return traced(captured, root, bound, shapes, deferred)
        except TooMuch:
            raise violation(in_words(str(complaint.error)), Relaxed(shapes, loose)) from complaint.error


class TooMuch(Exception):
    """Torch cannot prove that the program demands no more of sizes than what is said, though that seems to be so."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def traced(
    captured: Captured, root: nn.Module | None, bound: dims.Call, shapes: dims.Shapes, deferred: bool
) -> torch.export.ExportedProgram:
    """The captured program as torch traces it."""
    signature, spec = bound.flat(shapes.spec())
    program = Program(captured, root, signature, shapes.relations())
    complaint, made = None, None
    try:
        made = torch.export.export(
            program.module,
            captured.call.args,
            captured.call.kwargs,
            dynamic_shapes=spec if shapes.dynamic else None,
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=deferred,
        )
    except Exception as error:
        if not is_about_sizes(error):
            raise
        complaint = error
    if made is None or shapes.loose:
        facts = Facts(TracedSizes(shapes, program.traced))
        facts.find()
        if facts.demands:
            raise violation(facts.lines(), Suggestion(facts)) from complaint
    if complaint is not None:
        raise TooMuch(complaint)
    return made


def is_about_sizes(error: Exception) -> bool:
    """Whether torch says that the program needs other Dims, or fails while it thinks of some."""
    return "Constraints violated" in str(error) or "Cannot create Dim" in str(error)


def violated(text: str) -> set[str]:
    """The Dims that torch complains about."""
    found = re.findall(r"Not all values of (\w+) =|You marked (\w+) as dynamic", text)
    return {name for row in found for name in row if name}


def in_words(text: str) -> list[str]:
    """What torch says about sizes, with them as the user knows them; it suggests names that are not the user's."""
    text = re.sub(r"L\['(\w+)'\]((?:\[[^\]]*\]|\.(?!size\()\w+)*)\.size\(\)\[(\d+)\]", r"\1\2.shape[\3]", text)
    text = re.sub(r"L\['(\w+)'\]", r"\1", text)
    rows = re.split(r"\n(?:Suggested fixes|\nThe error above)", text)[0].splitlines()[1:]
    return [row for row in rows if row.strip()]


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


def parameter_names(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The name of the parameter that takes each value of the call; values of `*args` are named by number."""
    rows = list(signature.parameters.values())
    names: list[str] = []
    for i in range(len(args)):
        row = next((row for row in rows if row.kind is row.VAR_POSITIONAL), rows[i]) if i >= len(rows) else rows[i]
        names.append(f"{row.name}[{i - rows.index(row)}]" if row.kind is row.VAR_POSITIONAL else row.name)
    return [*names, *kwargs]
