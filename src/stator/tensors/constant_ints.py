"""Which arguments of torch's operations are ints that no symbol may stand for, once a compiler traces the call."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

_SYMBOLS = re.compile(r"SymInt(?:\[\d*\])?\??\s+(\w+)")  # parameters, in the text of a schema
FUNCTIONAL = torch.nn.functional.__name__


def constants_in(node: Node) -> Iterator[Any]:
    """The arguments of a node that have to be ints, those in lists one by one."""
    places = _places(_name(node))
    for place in places:
        value = node.args[place] if isinstance(place, int) and place < len(node.args) else node.kwargs.get(str(place))
        yield from value if isinstance(value, (list, tuple)) else (value,)


def _name(node: Node) -> str:
    """The name of the operation of torch; empty for others."""
    target: Any = node.target
    if node.op == "call_method":
        return str(target)
    is_torch = isinstance(target, types.BuiltinFunctionType) or getattr(target, "__module__", "") == FUNCTIONAL
    return target.__name__ if is_torch else ""


@functools.cache
def _places(name: str) -> frozenset[int | str]:
    """Numbers and names of parameters that are ints in every overload that has them, and nowhere a symbol."""
    packet = getattr(torch.ops.aten, name, None) if name else None
    kinds: dict[int | str, set[bool]] = {}
    for overload in packet.overloads() if packet is not None else ():
        schema = getattr(packet, overload)._schema
        if any(argument.is_out for argument in schema.arguments):
            continue
        symbols = set(_SYMBOLS.findall(str(schema)))
        for place, argument in enumerate(schema.arguments):
            is_int = "int" in str(argument.type) and argument.name not in symbols
            for key in (argument.name,) if argument.kwarg_only else (place, argument.name):
                kinds.setdefault(key, set()).add(is_int)
    return frozenset(key for key, found in kinds.items() if found == {True})
