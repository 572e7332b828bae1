"""Branches on tensors with one element that come from outside: flags and counters among the buffers of a module.

The entry function looks at them before the graph runs, as at other numbers that are read (`tensors/readings.py`), and
passes a call that goes the other way on. So both ways are graphs without a break. A place that the program comes to a
second time is a loop that data ends: there the branch is a break. Not so where another frame asks for a flag of its
own, as each layer of a model does that is set up by its first batch.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from stator.frame import Frame
from stator.shapes.guesses import is_given
from stator.shapes.scalar import TracedBool
from stator.tensors.traced import TracedTensor

MOST_NODES = 16
MOST_FLAGS = 256  # that frames of one code object ask for at one place
_LARGEST = 1 << 53  # ints up to here are floats exactly
_METHODS = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def decided(host: Any, f: Frame, condition: Any) -> bool | None:
    """Which way a branch goes, from now on in all calls that this entry takes; None if that cannot be read."""
    if host.floats.conditions is None or host.recorder.sub is not None:
        return None
    of_numbers = type(condition) is TracedBool
    key = condition.expr if of_numbers else (condition._node, len(condition._storage.writes))
    if key in host.read_truths:
        return bool(host.read_truths[key])
    asked = _comparison(host, condition) if of_numbers else (condition, "!=", 0)
    if asked is None or math.prod(asked[0]._meta.size) != 1 or asked[0]._meta.dtype.is_complex:
        return None
    traced, sign, bound = asked
    flags, before = _flags(host.recorder, traced._node), host.branched.setdefault((f.code, f.lasti), {})
    if not flags or (before and not _is_another(host, f, flags, before)):
        return None
    call = host.recorder.call
    number = host.read_number(call(torch.Tensor.to, (call(torch.Tensor.detach, (traced,)), torch.float64)))
    if number is None:
        return None
    before[f.path] = flags
    answer = host.read_truths[key] = bool(getattr(number, _METHODS[sign])(bound))
    return answer


def _is_another(host: Any, f: Frame, flags: frozenset[fx.Node], before: dict[Any, frozenset[fx.Node]]) -> bool:
    """Whether a frame asks for flags that no other has asked for, and that are not given with the call."""
    if len(before) >= MOST_FLAGS or f.path in before or not flags.isdisjoint(frozenset().union(*before.values())):
        return False
    records = [host.records.get(id(host.recorder.tensor(node.name))) for node in flags]
    return not any(record is None or is_given(record.path) for record in records)


def _comparison(host: Any, condition: TracedBool) -> tuple[TracedTensor, str, int] | None:
    """The tensor whose number is compared with a constant, how, and with which."""
    expr = condition.expr
    if not expr.is_Relational or len(expr.free_symbols) != 1:
        return None
    left, right, sign = expr.lhs, expr.rhs, expr.rel_op
    if right.is_Symbol:
        left, right, sign = right, left, _MIRRORED.get(sign)
    known = host.recorder.numbers.read.get(left) if left.is_Symbol and right.is_Integer else None
    if known is None or sign not in _METHODS or abs(right) > _LARGEST:
        return None
    traced, writes = known
    return (traced, sign, int(right)) if len(traced._storage.writes) == writes else None


def _flags(recorder: Any, node: fx.Node) -> frozenset[fx.Node]:
    """The tensors with one element from outside that a few operations lead from; none if others do."""
    pending, seen = [node], {node}
    while pending:
        node = pending.pop()
        if node.op == "placeholder":
            real = recorder.tensor(node.name)
            if not isinstance(real, torch.Tensor) or real.numel() != 1 or real.device.type != "cpu":
                return frozenset()
        fresh = [arg for arg in node.all_input_nodes if arg not in seen]
        seen.update(fresh)
        pending += fresh
        if len(seen) > MOST_NODES:
            return frozenset()
    return frozenset(node for node in seen if node.op == "placeholder")
