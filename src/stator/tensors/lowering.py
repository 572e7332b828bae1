"""Arguments of a torch call as three things at once: memo key, FX arguments, and the traced tensors inside."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from stator.shapes.assumptions import is_long
from stator.shapes.expressions import NoForm
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedBool, TracedInt
from stator.tensors.signals import UnsupportedOp, UnsupportedTensor
from stator.tensors.traced import TracedTensor

Lowered = tuple[Any, Any]  # key, FX argument
Found = list[TracedTensor]

# Values that are their own key: no two of different types here are equal.
PLAIN: frozenset[type] = frozenset(
    {
        int,
        str,
        type(None),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        types.EllipsisType,
    }
)


def _form(value: Any) -> Any:
    """A symbolic number or condition as the recorder makes nodes of it."""
    if type(value) is TracedBool:
        return value.expr
    number = value.symbols.unknowns.settled(value.number)
    return number if is_long(number) else value.expr


def lower(value: Any, found: Found) -> Lowered:
    """Key and FX form of one argument; appends traced tensors to `found`."""
    kind = type(value)
    if kind is TracedTensor:
        found.append(value)
        return value._meta, value._node
    if kind in PLAIN:
        return value, value
    rule = _RULES.get(kind)
    if rule is None:
        rule = _RULES[kind] = _rule_for(kind)
    return rule(value, found)


def _typed(value: Any, found: Found) -> Lowered:
    """bool, float and complex compare equal to ints, so the key names the type."""
    return (type(value), value), value


def _sequence(value: Any, found: Found) -> Lowered:
    pairs = [lower(item, found) for item in value]
    kind = type(value)
    return (kind, *[key for key, _ in pairs]), kind([arg for _, arg in pairs])


def _plain_tuple(value: Any, found: Found) -> Lowered:
    """torch.Size and torch's result tuples mean the same as a tuple."""
    return _sequence(tuple(value), found)


def _named_tuple(value: Any, found: Found) -> Lowered:
    pairs = [lower(item, found) for item in value]
    kind = type(value)
    return (kind, *[key for key, _ in pairs]), kind(*[arg for _, arg in pairs])


def _dict(value: dict[Any, Any], found: Found) -> Lowered:
    pairs = [(name, *lower(item, found)) for name, item in value.items()]
    return (dict, *[(type(name), name, key) for name, key, _ in pairs]), {name: arg for name, _, arg in pairs}


def _slice(value: slice, found: Found) -> Lowered:
    keys, args = zip(*(lower(item, found) for item in (value.start, value.stop, value.step)), strict=True)
    return (slice, *keys), slice(*args)


def _range(value: range, found: Found) -> Lowered:
    return (range, value.start, value.stop, value.step), value


def _as_python(value: Any, found: Found) -> Lowered:
    """NumPy scalars mean what their Python value means to torch."""
    return lower(value.item(), found)


def _as_base(base: Callable[[Any], Any]) -> Callable[[Any, Found], Lowered]:
    """Subclasses of numbers and strings (enums) mean what their base value means to torch."""
    return lambda value, found: lower(base(value), found)


def _real_tensor(value: Any, found: Found) -> Lowered:
    raise UnsupportedTensor(type(value).__name__, "a tensor that did not come through the door reached a torch call")


def _generator(value: Any, found: Found) -> Lowered:
    raise UnsupportedOp("torch.Generator", "explicit random generators are not recorded", "random-state")


def _traced_int(value: TracedInt | TracedBool, found: Found) -> Lowered:
    """A symbolic int: its expression as key, and nodes that calculate it; a constant if no node can."""
    try:
        node = value.symbols.node(_form(value))
    except NoForm:
        return lower(value.decay(), found)
    if type(node) is int:
        return node, node
    return value.number if type(value) is TracedInt else (bool, value.expr), node


def _symbolic(value: Any, found: Found) -> Lowered:
    raise UnsupportedOp(type(value).__name__, "a symbolic scalar that is not of this capture", "symbolic-value")


class ForeignArgument(UnsupportedOp):
    """An argument that has no form in a graph."""


def _foreign(value: Any, found: Found) -> Lowered:
    raise ForeignArgument(type(value).__name__, f"an argument of type {type(value).__qualname__} cannot be in a graph")


Rule = Callable[[Any, Found], Lowered]

_RULES: dict[type, Rule] = {
    bool: _typed,
    float: _typed,
    complex: _typed,
    list: _sequence,
    tuple: _sequence,
    dict: _dict,
    slice: _slice,
    range: _range,
    torch.Size: _plain_tuple,
    torch.Tensor: _real_tensor,
    torch.Generator: _generator,
    TracedInt: _traced_int,
    TracedBool: _traced_int,
    TracedFloat: lambda value, found: lower(value.decay(), found),
    torch.SymInt: _symbolic,
    torch.SymFloat: _symbolic,
    torch.SymBool: _symbolic,
}


def _rule_for(kind: type) -> Rule:
    """The rule for a type met for the first time."""
    if issubclass(kind, torch.Tensor):
        return _real_tensor
    if kind.__module__ == "numpy" and hasattr(kind, "item") and kind.__name__ != "ndarray":
        return _as_python
    if issubclass(kind, tuple):
        return _named_tuple if hasattr(kind, "_fields") else _plain_tuple
    for base in (int, float, complex, str):
        if issubclass(kind, base):
            return _as_base(base)
    if issubclass(kind, list):
        return lambda value, found: _sequence(list(value), found)
    if issubclass(kind, dict):
        return _dict
    return _foreign


def substitute(value: Any, replace: Callable[[TracedTensor], Any]) -> Any:
    """The same arguments with every traced tensor replaced."""
    kind = type(value)
    if kind is TracedTensor:
        return replace(value)
    if kind in (list, tuple, torch.Size):
        return (list if kind is list else tuple)(substitute(item, replace) for item in value)
    if isinstance(value, tuple):
        items = [substitute(item, replace) for item in value]
        return kind(*items) if hasattr(kind, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {name: substitute(item, replace) for name, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, replace) for item in value]
    if kind is TracedInt or kind is TracedBool:
        return value.plain
    if kind is TracedFloat:
        return value.value
    if kind is slice:
        return slice(*(substitute(item, replace) for item in (value.start, value.stop, value.step)))
    return value
