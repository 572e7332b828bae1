"""Branches on sizes whose sides give the same: a cut that changes nothing where the branch is not taken.

`if pad > 0: x = x[:, :n]` behind `x = F.pad(x, …)`: without padding the slice is all of `x`. So the branch is taken in
any case, and nothing is guarded. Nobody may see that the variable is another object then, or shares memory: it holds
the only reference to a tensor of the graph that is no input.

`if n > most: x = x[:, :most]`: so is the slice of a shorter tensor. It shares the memory in any case; that it is
another object is a doubt (`tensors/doubts.py`).
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import torch

from stator.code.cuts import Cut, Steps, cut_after
from stator.code.needed import looks_at_variables, needed_slots
from stator.code.operators import BINARY, COMPARE
from stator.frame import Frame
from stator.shapes import polynomial
from stator.shapes.arithmetic import number_of
from stator.shapes.polynomial import Number
from stator.shapes.scalar import TracedInt
from stator.shapes.symbols import Symbols
from stator.tensors.cuts import contiguous
from stator.tensors.doubts import ASKING, ask
from stator.tensors.rules.layout import is_surely_row_major, surely
from stator.tensors.traced import TracedTensor

# Comparisons that ask whether one number exceeds another one: which of the operands is the larger one then.
COMPARED: dict[Any, int] = {operator.gt: 0, operator.ne: 0, operator.lt: 1, operator.eq: 0}
_ARITHMETIC = frozenset({operator.add, operator.sub, operator.mul})
_DIVISIONS = frozenset({operator.floordiv, operator.mod})
_INTS = frozenset({int, TracedInt})
_REFERENCES = 3  # the variable's, one here, and that of the call which counts them


class Unknown(Exception):
    """Something that is no number of the kind that is understood here."""


def is_taken(host: Any, f: Frame, function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a branch on this comparison can be taken in any case."""
    symbols = next(arg.symbols for arg in args if type(arg) is TracedInt)
    if host.recorder.sub is not None:
        return False
    cut = None if symbols.is_answered(function, *args) else cut_after(f.info, f.lasti)
    if cut is None:
        return False
    excess = excess_of(symbols, function, *args)
    try:
        if excess is None:
            return _truncates(host, f, cut, function, args)
        gone = {excess, *excesses(symbols, f, cut.others)}
        if not _changes_nothing(host, f, cut, gone):
            return False
    except Unknown:
        return False
    host.copied = None if cut.copies is None else (f, cut.copies)
    return True


def called(host: Any, f: Frame, function: Any, args: Any) -> tuple[Any, Any]:
    """What to call in the graph: a copy behind such a cut may be none."""
    tensor = getattr(function, "__self__", None)
    if host.copied != (f, f.lasti) or type(tensor) is not TracedTensor or args or function.__name__ != "contiguous":
        return function, args
    host.copied = None
    return contiguous, (tensor,)


def excess_of(symbols: Symbols, function: Any, a: Any, b: Any) -> Number | None:
    """What is zero if a comparison does not hold, and positive if it does; None if it may be negative."""
    if function not in COMPARED or {type(a), type(b)} - _INTS:
        return None
    large, small = map(number_of, (b, a) if COMPARED[function] else (a, b))
    if function is operator.eq:  # `n % 2 == 1`: with the largest value that there may be
        if symbols.unknowns.known(operator.le, large, small) is not True:
            return None
        small = polynomial.subtract(small, 1)
    if symbols.unknowns.known(operator.ge, large, small) is not True:
        return None
    return symbols.unknowns.difference(large, small)


def excesses(symbols: Symbols, f: Frame, others: list[tuple[str, Steps]]) -> set[Number]:
    """The same for comparisons that are yet to come."""
    found = set()
    for comparison, steps in others:
        operands = _values(f, steps)
        excess = excess_of(symbols, COMPARE[comparison], *operands)
        if excess is None or (type(excess) is int and excess):
            raise Unknown
        found.add(excess)
    return found


def _values(f: Frame, steps: Steps) -> list[Any]:
    """What is left on the stack, for variables that are numbers or tuples of them."""
    stack: list[Any] = []
    for term, arg in steps:
        if term == "constant":
            stack.append(arg)
        elif term == "variable":
            stack.append(f.locals[arg])
        elif term == "slice":
            stack[-arg:] = [slice(*stack[-arg:])]
        elif term == "tuple":
            stack[len(stack) - arg :] = [tuple(stack[len(stack) - arg :])]
        elif term == "item":
            values, at = stack[-2:]
            if type(values) is not tuple or type(at) is not int or not -len(values) <= at < len(values):
                raise Unknown
            stack[-2:] = [values[at]]
        else:
            function, operands = BINARY[arg], stack[-2:]
            divides = function in _DIVISIONS and type(operands[1]) is int and operands[1] > 0
            if not (divides or function in _ARITHMETIC) or {type(operand) for operand in operands} - _INTS:
                raise Unknown
            stack[-2:] = [function(*operands)]
    return stack


def _changes_nothing(host: Any, f: Frame, cut: Cut, gone: set[Number]) -> bool:
    """Whether the cut gives all of the tensor where these numbers are zero, and nobody sees which it is."""
    tensor = f.locals[cut.variable]
    if type(tensor) is not TracedTensor or sys.getrefcount(tensor) > _REFERENCES + _unread(f, cut.variable):
        return False
    if host.recorder.is_of_input(tensor) or (cut.copies is not None and not is_surely_row_major(tensor._meta)):
        return False
    (index,) = _values(f, cut.key)
    return all(_is_all(size, part, gone) for size, part in _parts(tensor._meta.size, index))


def _unread(f: Frame, variable: int) -> int:
    """How many other variables hold the same object, that nothing reads any more."""
    if looks_at_variables(f.code):
        return 0
    needed = needed_slots(f.info, f.lasti)
    others = (slot for slot, value in enumerate(f.locals) if value is f.locals[variable] and slot != variable)
    return sum(not needed >> slot & 1 for slot in others)


def _truncates(host: Any, f: Frame, cut: Cut, function: Any, args: tuple[Any, ...]) -> bool:
    """Whether the cut ends a dimension where the comparison says that it is too long, and does nothing else."""
    tensor = f.locals[cut.variable]
    if (
        function in (operator.ne, operator.eq)
        or cut.others
        or cut.copies is not None
        or type(tensor) is not TracedTensor
    ):
        return False
    if ASKING in host.whole_paths or tensor._stands_for is not torch.Tensor or {type(arg) for arg in args} - _INTS:
        return False
    long, most = reversed(args) if COMPARED[function] else args
    (index,) = _values(f, cut.key)
    parts = [(size, part) for size, part in _parts(tensor._meta.size, index) if part != slice(None)]
    if len(parts) != 1 or type(parts[0][1]) is not slice or type(parts[0][1].stop) not in _INTS:
        return False
    size, part = parts[0]
    if part.start not in (None, 0) or part.step is not None:
        return False
    if not surely(operator.eq, size, long) or not surely(operator.eq, part.stop, most):
        return False
    symbols = next(arg.symbols for arg in args if type(arg) is TracedInt)
    host.cut = f, cut.indexes, symbols.compute(torch.sym_min, size, most)
    return True


def cut_off(host: Any, f: Frame, tensor: Any, index: Any) -> Any:
    """What such a cut makes of a tensor."""
    most, host.cut = host.cut[2], None
    parts = list(index) if type(index) is tuple else [index]
    at = next(i for i, part in enumerate(parts) if type(part) is slice and part.stop is not None)
    parts[at] = slice(None, most)
    made = host.recorder.call(operator.getitem, (tensor, tuple(parts)), {})
    before, now = tensor._meta, made._meta
    if (before.requires_grad, before.inference) != (now.requires_grad, now.inference):
        ask()
    host.recorder.doubts.add_object(tensor, made)
    return made


def _parts(sizes: Any, index: Any) -> list[tuple[Any, Any]]:
    """The dimensions that are indexed, and by what."""
    parts = index if type(index) is tuple else (index,)
    places = [i for i, part in enumerate(parts) if part is ...]
    if len(places) > 1 or len(parts) - len(places) > len(sizes):
        raise Unknown
    at = places[0] if places else len(parts)
    behind = parts[at + 1 :]
    front = zip(sizes, parts[:at], strict=False)
    return [*front, *zip(sizes[len(sizes) - len(behind) :], behind, strict=True)]


def _is_all(size: Any, part: Any, gone: set[Number]) -> bool:
    """Whether a slice is the whole dimension where these numbers are zero."""
    if type(part) is not slice or part.step is not None or (part.start is not None and type(part.start) is not int):
        return False
    if part.start:
        return False
    if part.stop is None:
        return True
    if type(part.stop) not in _INTS:
        raise Unknown
    if surely(operator.eq, size, part.stop):
        return True
    if type(size) is not TracedInt and type(part.stop) is not TracedInt:
        return False
    symbols = (size if type(size) is TracedInt else part.stop).symbols
    fits = surely(operator.ge, size, part.stop) and surely(operator.ge, part.stop, 1)
    return fits and symbols.unknowns.difference(number_of(size), number_of(part.stop)) in gone
