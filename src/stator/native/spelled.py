"""C functions that are simple loops, spelt out: a break in what they call goes on in the middle of the loop.

They take their places only where a capture has found a break below the C function. Each does what C does, in the same
order; numbers are compared last, by C, so that all that leads to them is one graph.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from types import BuiltinFunctionType, GeneratorType
from typing import Any, NamedTuple

import torch

from stator.frame import UNBOUND, Frame
from stator.world.lazy import forced

FILE = "<stator builtins>"  # no traceback shows it
UNSET: Any = object()


def sum(iterable: Any, /, start: Any = 0) -> Any:
    total = builtins.sum((), start)
    for item in iterable:
        total = total + item
    return total


def any(iterable: Any, /) -> bool:
    for item in iterable:  # noqa: SIM110
        if item:
            return True
    return False


def all(iterable: Any, /) -> bool:
    for item in iterable:  # noqa: SIM110
        if not item:
            return False
    return True


def list(iterable: Any, /) -> Any:
    made = []
    for item in iterable:
        made.append(item)
    return made


def tuple(iterable: Any, /) -> Any:
    made = []
    for item in iterable:
        made.append(item)
    return builtins.tuple(made)


def set(iterable: Any, /) -> Any:
    made = builtins.set()
    for item in iterable:
        made.add(item)
    return made


def join(separator: str, iterable: Any, /) -> str:
    made = []
    for item in iterable:
        made.append(item)
    return separator.join(made)


def reduce(function: Any, sequence: Any, initial: Any = UNSET, /) -> Any:
    iterator = iter(sequence)
    result = initial
    if result is UNSET:
        for item in iterator:
            result = item
            break
        else:
            return functools.reduce(function, ())
    for item in iterator:
        result = function(result, item)
    return result


def ranked(items: Any, key: Any) -> Any:
    """A key that gives what `key` makes of each item, asked for beforehand."""
    if key is None:
        return None
    ranks = []
    for item in items:
        ranks.append(key(item))
    return functools.partial(next, iter(ranks))


def sorted(iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    items = list(iterable) if type(iterable) in LAZY else builtins.list(iterable)
    items.sort(key=ranked(items, key), reverse=reverse)
    return items


def sort_lazily(iterable: Any, /, *, reverse: Any = False) -> Any:
    items = list(iterable)
    items.sort(reverse=reverse)
    return items


def sort(items: Any, /, *, key: Any = None, reverse: Any = False) -> None:
    """The list is empty as long as it is sorted."""
    taken = items.copy()
    items.clear()
    try:
        taken.sort(key=ranked(taken, key), reverse=reverse)
    finally:
        touched = len(items)
        items[:] = taken
    if touched:
        raise ValueError("list modified during sort")


def waits(rank: Any) -> bool:
    """Whether nobody can tell when something is compared: numbers, and tensors with one."""
    return type(rank) in (int, float, bool) or (issubclass(type(rank), torch.Tensor) and rank.numel() == 1)


def extreme(choose: Any, better: Any, iterable: Any, key: Any, default: Any) -> Any:
    """`max` or `min`; what may wait is compared last: all that leads to it comes before the first comparison."""
    best = top = UNSET
    items: Any = []
    ranks: Any = []
    for item in iterable:
        rank = item if key is None else key(item)
        if best is UNSET:
            best, top = item, rank
        elif waits(rank) and waits(top):
            items.append(item)
            ranks.append(rank)
        else:
            if ranks:
                best = choose([best, *items], key=functools.partial(next, iter([top, *ranks])))
                top = choose([top, *ranks])
                items, ranks = [], []
            if better(rank, top):
                best, top = item, rank
    if best is UNSET:
        return choose(()) if default is UNSET else default
    return choose([best, *items], key=functools.partial(next, iter([top, *ranks]))) if ranks else best


def greater(one: Any, other: Any) -> bool:
    return bool(one > other)


def less(one: Any, other: Any) -> bool:
    return bool(one < other)


def max(iterable: Any, /, *, key: Any = None, default: Any = UNSET) -> Any:
    return extreme(builtins.max, greater, iterable, key, default)


def min(iterable: Any, /, *, key: Any = None, default: Any = UNSET) -> Any:
    return extreme(builtins.min, less, iterable, key, default)


def max_of(*items: Any, key: Any = None) -> Any:
    return extreme(builtins.max, greater, items, key, UNSET)


def min_of(*items: Any, key: Any = None) -> Any:
    return extreme(builtins.min, less, items, key, UNSET)


# ---- which one, when ------------------------------------------------------------------------------------------------

LAZY = frozenset({GeneratorType, map, filter, zip, enumerate})  # that nobody asks for their length


class Row(NamedTuple):
    """A function in place of one of C's, for calls with so many arguments and these keywords."""

    twin: Any
    least: int
    most: int
    keywords: frozenset[str] = frozenset()
    lazy: int | None = None  # the argument that must be an iterator without a length
    needs: str | None = None  # the keyword that must be there
    compares: bool = False  # C compares what it was given, or what a function made of that


KEYED = frozenset({"key", "reverse"})
RANKED = frozenset({"key", "default"})
Rows = builtins.tuple[Row, ...]
ROWS: dict[int, Rows] = {
    id(builtins.sum): (Row(sum, 1, 2, frozenset({"start"})),),
    id(builtins.any): (Row(any, 1, 1),),
    id(builtins.all): (Row(all, 1, 1),),
    id(builtins.list): (Row(list, 1, 1, lazy=0),),
    id(builtins.tuple): (Row(tuple, 1, 1, lazy=0),),
    id(builtins.set): (Row(set, 1, 1, lazy=0),),
    id(str.join): (Row(join, 2, 2, lazy=1),),
    id(functools.reduce): (Row(reduce, 2, 3),),
    id(builtins.sorted): (
        Row(sorted, 1, 1, KEYED, needs="key", compares=True),
        Row(sort_lazily, 1, 1, frozenset({"reverse"}), lazy=0),
    ),
    id(builtins.list.sort): (Row(sort, 1, 1, KEYED, needs="key", compares=True),),
    id(builtins.max): (Row(max, 1, 1, RANKED, compares=True), Row(max_of, 2, 99, frozenset({"key"}))),
    id(builtins.min): (Row(min, 1, 1, RANKED, compares=True), Row(min_of, 2, 99, frozenset({"key"}))),
}


def spelled(function: Any) -> Rows:
    """The rows for a function of C, or a method of one of its types."""
    return ROWS.get(id(method_of(function) or function), ())


def method_of(function: Any) -> Any:
    """What a bound method of an object of a C type is made of; None for other functions."""
    if type(function) is not BuiltinFunctionType or function.__self__ is None:
        return None
    return vars(type(function.__self__)).get(function.__name__)


def spell(handler: Callable[[Frame, Any], Any], f: Frame, count: int) -> Any:
    """A CALL in which a break was found: the function that spells out what it calls takes its place."""
    stack, at = f.stack, len(f.stack) - count - 2
    at += stack[at] is UNBOUND
    function = stack[at] = forced(f.world, stack[at])
    bound = method_of(function) is not None
    given = [function.__self__, *stack[at + 1 :]] if bound else stack[at + 1 :]
    if (twin := twin_of(f, spelled(function), given)) is not None:
        stack[at - bound : at + 1] = [twin, function.__self__] if bound else [twin]
    return handler(f, count)


def twin_of(f: Frame, rows: Rows, given: Any) -> Any:
    """What spells a call out; None if nothing does."""
    positional = len(given) - len(f.kwnames)
    for row in rows:
        fits = row.least <= positional <= row.most and row.keywords.issuperset(f.kwnames)
        if not fits or (row.needs is not None and row.needs not in f.kwnames):
            continue
        if row.lazy is None or type(forced(f.world, given[row.lazy])) in LAZY:
            return row.twin
    return None


for _rows in ROWS.values():
    for _row in _rows:
        _row.twin.__code__ = _row.twin.__code__.replace(co_filename=FILE)
for _function in (extreme, waits, greater, less, ranked):
    _function.__code__ = _function.__code__.replace(co_filename=FILE)
