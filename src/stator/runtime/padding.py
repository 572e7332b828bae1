"""Branches on sizes whose sides give the same: padding by an amount that is zero where the branch is not taken.

`if pad > 0: x = F.pad(x, (0, pad))`: so the branch is taken in any case, and nothing is guarded. Each value that it
gives to a variable must be the one that the variable has where the amounts are zero. Whether it is the very tensor is
left open (`tensors/doubts.py`). Anything else that turns up starts the capture again, with the question.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, NoReturn

import torch
import torch.nn.functional as F

from stator.code.pads import Pad, pad_after
from stator.errors import Again, Unsupported
from stator.frame import Frame
from stator.guards import path as paths
from stator.guards.path import Path
from stator.runtime.cutting import Unknown, excess_of, excesses
from stator.shapes.arithmetic import number_of
from stator.shapes.polynomial import Number
from stator.shapes.scalar import TracedInt
from stator.shapes.symbols import Symbols
from stator.tensors.doubts import ASKING
from stator.tensors.lowering import ForeignArgument
from stator.tensors.rules.layout import is_surely_channels_last, is_surely_row_major
from stator.tensors.signals import NotLeaf, OutsideAttribute
from stator.tensors.traced import TracedTensor

CATS = frozenset({torch.cat, torch.concat})
SUMS = frozenset({operator.add, operator.sub, operator.iadd, operator.isub})
_KEPT = ("dtype", "device", "requires_grad", "inference", "conj", "neg")


class Padding:
    """A branch that was taken; it ends with its last value."""

    def __init__(self, symbols: Symbols, f: Frame, pad: Pad, gone: set[Number], place: Path) -> None:
        self.symbols = symbols
        self.frame = f
        self.pad = pad
        self.gone = gone  # numbers that are zero where the branch is not taken
        self.place = place
        self.last = max(pad.results)

    def vanishes(self, value: Any) -> bool:
        """Whether a number is zero where the branch is not taken."""
        if type(value) is int:
            return value == 0
        if type(value) is not TracedInt:
            return False
        number = number_of(value)
        difference = self.symbols.unknowns.difference
        return difference(number, 0) in self.gone or difference(0, number) in self.gone

    def old(self, f: Frame) -> Any:
        """What the variable holds that is about to get a value."""
        return f.locals[self.pad.results[f.lasti]]


def start(host: Any, f: Frame, function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a branch on this comparison is taken in any case."""
    symbols = next(arg.symbols for arg in args if type(arg) is TracedInt)
    if host.recorder.sub is not None or host.padding is not None or ASKING in host.whole_paths:
        return False
    pad = None if symbols.is_answered(function, *args) else pad_after(f.info, f.lasti)
    excess = None if pad is None else excess_of(symbols, function, *args)
    place = paths.const(sys.intern(f"padding in {f.code.co_qualname} at {f.lasti - f.info.prefix}"))
    if pad is None or excess is None or place in host.whole_paths:
        return False
    try:
        gone = {excess, *excesses(symbols, f, pad.others)}
    except Unknown:
        return False
    host.padding = Padding(symbols, f, pad, gone, place)
    return True


def refuse(host: Any) -> NoReturn:
    """Something else happens in the branch."""
    raise Again(host.padding.place)


def calculated(host: Any, f: Frame, function: Any, args: tuple[Any, ...], made: Any) -> Any:
    """What an operator gave in the branch: the same, or an amount that is zero where the branch is not taken."""
    padding = host.padding
    if padding.frame is not f or type(made) not in (int, TracedInt):
        refuse(host)
    if function is operator.sub and type(args[0]) is int and _is_rest(padding, *args):
        made = made % args[0]
        padding.gone.add(padding.symbols.unknowns.difference(number_of(made), 0))
    elif _stays_zero(padding, function, args):
        padding.gone.add(padding.symbols.unknowns.difference(number_of(made), 0))
    if f.lasti in padding.pad.results:
        if padding.pad.results[f.lasti] not in padding.pad.fresh and not _adds(padding, f, function, args):
            refuse(host)
        end(host, f)
    return made


def _is_rest(padding: Padding, whole: int, part: Any) -> bool:
    """`4 - n % 4`, where the remainder is not zero."""
    return (
        type(part) is TracedInt and padding.vanishes(part) and bool(padding.symbols.settled(operator.lt, part, whole))
    )


def _stays_zero(padding: Padding, function: Any, args: tuple[Any, ...]) -> bool:
    if function is operator.floordiv:
        return padding.vanishes(args[0]) and type(args[1]) is int and args[1] > 0
    return function in SUMS and all(map(padding.vanishes, args)) and TracedInt in map(type, args)


def _adds(padding: Padding, f: Frame, function: Any, args: tuple[Any, ...]) -> bool:
    """`n = n + pad`."""
    old = padding.old(f)
    if type(old) not in (int, TracedInt) or function not in SUMS:
        return False
    return number_of(args[0]) == number_of(old) and padding.vanishes(args[1])


def called(host: Any, f: Frame, function: Any, args: Any, kwargs: Any) -> Any:
    """What a call in the branch gives."""
    padding = host.padding
    if padding.frame is not f:
        refuse(host)
    try:
        made = host.recorder.call(function, tuple(args), kwargs or {})
    except (NotLeaf, OutsideAttribute, ForeignArgument, Unsupported, AttributeError, TypeError):
        refuse(host)
    if f.lasti not in padding.pad.results:
        return made
    if padding.pad.results[f.lasti] in padding.pad.fresh:
        end(host, f)
        return made
    old = padding.old(f)
    lengthens = _pads if function is F.pad else _joins if function in CATS else None
    if lengthens is None or not lengthens(padding, old, *args, **kwargs or {}) or not _is_like(host, old, made):
        refuse(host)
    host.recorder.doubts.add(old._storage, made._storage)
    end(host, f)
    return made


def _pads(padding: Padding, old: Any, input: Any, pad: Any, mode: Any = "constant", value: Any = None) -> bool:
    amounts = pad if type(pad) in (tuple, list) else ()
    return old is input and mode == "constant" and bool(amounts) and all(map(padding.vanishes, amounts))


def _joins(padding: Padding, old: Any, tensors: Any, dim: Any = 0, **more: Any) -> bool:
    if type(tensors) not in (tuple, list) or type(dim) is not int or more or type(old) is not TracedTensor:
        return False
    others = [tensor for tensor in tensors if tensor is not old]
    if len(others) != len(tensors) - 1:
        return False
    fits = all(type(tensor) is TracedTensor and len(tensor._meta.size) == len(old._meta.size) for tensor in others)
    return fits and all(padding.vanishes(tensor._meta.size[dim]) for tensor in others)


def _is_like(host: Any, old: Any, made: Any) -> bool:
    """Whether a tensor tells nothing by its type, memory or history that the one before it would not."""
    if type(old) is not TracedTensor or old._stands_for is not torch.Tensor or host.recorder.real(made) is not None:
        return False
    metas = old._meta, made._meta
    alike = all(getattr(metas[0], name) == getattr(metas[1], name) for name in _KEPT)
    return alike and any(all(map(lies, metas)) for lies in (is_surely_row_major, is_surely_channels_last))


def end(host: Any, f: Frame) -> None:
    if f.lasti == host.padding.last:
        host.padding = None
