"""Where in the result of a node a number lies that the node made: nodes that take it out again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from stator.tensors.meta import Meta, SymbolicMeta
from stator.tensors.signals import DataDependent, HiddenNumber, describe

Path = tuple[Any, ...]

_METHODS: dict[str, Any] = {
    "size": torch.ops.aten.sym_size.int,
    "stride": torch.ops.aten.sym_stride.int,
    "storage_offset": torch.ops.aten.sym_storage_offset.default,
}


def fresh(env: Any, func: Any, result: Any) -> dict[Any, Path]:
    """The symbols that a call made, with their places in its result."""
    if env is None or not env.pending_fresh_unbacked_symbols:
        return {}
    from torch.fx.experimental.symbolic_shapes import PendingUnbackedSymbolNotFound, compute_unbacked_bindings  # heavy

    try:
        return compute_unbacked_bindings(env, result) or {}
    except PendingUnbackedSymbolNotFound:
        raise HiddenNumber(describe(func), "it makes a number that is not in its result") from None


def take(node: Any, path: Path, add: Callable[[Any, tuple[Any, ...]], Any], item: Callable[[Any, Any], Any]) -> Any:
    """The node for the number at a path."""
    steps = list(path)
    while steps:
        step = steps.pop(0)
        if isinstance(step, pytree.SequenceKey):
            node = item(node, step.idx)
            continue
        if type(step).__name__ == "DivideByKey":
            node = add(operator.floordiv, (node, int(step.divisor)))
            continue
        function = _METHODS.get(getattr(step, "name", ""))
        if function is None:
            raise DataDependent(f"the number at {path}")
        args = (steps.pop(0).idx,) if function is not _METHODS["storage_offset"] else ()
        node = add(function, (node, *args))
    return node


def are_untold(metas: Iterable[Meta]) -> bool:
    """Whether sizes of results are calculated from a number that only data tells and no size of them is.

    A backward pass knows the gradients it is given only, and a trace of it gives other names to such numbers.
    """
    told, needed, backed = set[Any](), set[Any](), set[Any]()
    for meta in metas:
        if type(meta) is SymbolicMeta:
            backed |= meta.symbols.env.backed_var_to_val.keys()
            sizes, strides, _ = meta.plain()
            for number in (*sizes, *strides):
                if type(number) is torch.SymInt:
                    expr = number.node.expr
                    (told if expr.is_Symbol else needed).update(expr.free_symbols)
    return bool(needed - told - backed)
