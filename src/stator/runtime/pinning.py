"""Calls for which a number that varies is a constant (`x.chunk(n)`): CPython makes them, so that there is one graph.

With the number as a constant there would be a compilation for each. What the call gives is data, and a symbol again
where it is a size, so what comes before and after is compiled once.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Set
from typing import Any

from torch import nn
from torch.fx import Node

from stator import _frames
from stator.code.decode import units
from stator.errors import Again
from stator.frame import Frame
from stator.guards.path import ATTR, GETATTR, PART, Path
from stator.runtime.choosing_modules import FEW
from stator.runtime.libraries import is_foreign
from stator.runtime.numpy_numbers import np
from stator.runtime.unrolling import COUNTED, directly, here, is_iterated, may_break
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedBool, TracedInt
from stator.shapes.texts import TracedText
from stator.tensors.constant_ints import constants_in
from stator.tensors.traced import TracedTensor

CHOOSING = (-1, 0, 1)  # ints that choose rather than count: a dimension, a flag
NONE: Set[Any] = frozenset()
CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential, nn.ParameterList)  # whose items a number or text may choose
LISTED = frozenset({list, tuple, dict})
NUMBERS_AND_TEXTS = (int, float, complex, str) if np is None else (int, float, complex, str, np.generic)
VARYING = frozenset({TracedInt, TracedFloat, TracedText})
CHOICES = frozenset({TracedInt, TracedText})
COUNTABLE = frozenset({int, float, TracedInt, TracedFloat})
NUMBERS = frozenset({TracedBool, TracedInt, TracedFloat})


def constants(host: Any) -> Set[Any]:
    """Numbers, sizes and texts from outside that are constants by now, though they were to vary."""
    found: Set[Any] = NONE if host.symbols is None else host.symbols.settled_sources()
    more = host.floats.constants | host.text_constants
    return found | more if more else found


def note(host: Any, f: Frame, given: list[Any], made: Any, before: Set[Any]) -> None:
    """A call was made: if it needed a number that varies, the next capture leaves it to CPython.

    A loop over what it gives may have its rounds compiled instead, so that is waited for.
    """
    if type(made) in COUNTED:
        told = id(made) in host.counted and is_made_of_tensors(made) and not is_unpacked(f)
        if told and not chooses(host, f, given, before):
            host.told_apart[id(made)] = made, host.counted[id(made)]
        return
    for arg in given:
        if type(arg) is list and id(arg) in host.counted and is_made_of_tensors(made):
            leave(host, host.counted[id(arg)] | here(f))
    if is_made_of_tensors(made) and (needed(host, given, before) or compilers_need(host, given, made)):
        leave(host, here(f))


def compilers_need(host: Any, given: list[Any], made: Any) -> bool:
    """Whether the backend will trace the call, and make a constant of a number in it that varies."""
    if not host.recorder.traces or TracedInt not in map(type, symbolic(given)):
        return False
    first = next(parts(made), None)
    node = getattr(first, "_node", None)
    if node is not None and node.target is operator.getitem:
        node = node.args[0]
    return (
        node is not None
        and any(isinstance(arg, Node) for arg in constants_in(node))
        and any(varies(host, lesson) for number in symbolic(given) for lesson in sources(host, number))
    )


def note_opaque(host: Any, f: Frame, before: Set[Any]) -> None:
    """A node was tried that nobody looks into: if it asked for a size or number that varies, CPython makes the call, or
    the one of the native code that led there."""
    if any(varies(host, lesson) for lesson in constants(host) - before):
        leave(host, here(directly(f)))


def note_native(host: Any, f: Frame, given: list[Any], made: Any, before: Set[Any]) -> None:
    """A function made in C was called: what has as many items as a number is for loops to decide.

    One that makes a number of so many others (`sum(1 / k for k in range(n))`) is left to CPython with what made them.
    """
    if type(made) in COUNTABLE:
        for arg in given:
            if id(arg) in host.counted:
                leave(host, host.counted[id(arg)] | here(f))
    if id(made) not in host.counted and not is_made_of_tensors(made):
        lengths = {lesson for lesson in constants(host) - before if is_length(lesson[0])}
        note_opaque(host, f, before | lengths)


def is_length(path: Path) -> bool:
    """Whether it is how many items a container from outside has."""
    return path.accessor is PART and path.key[1] is len


def needed(host: Any, given: list[Any], before: Set[Any]) -> bool:
    """Whether one of these numbers varies and has become a constant since."""
    found = constants(host) - before
    return bool(found) and any(
        varies(host, lesson) for number in symbolic(given) for lesson in sources(host, number) if lesson in found
    )


def chooses(host: Any, f: Frame, given: list[Any], before: Set[Any]) -> bool:
    """Whether numbers have become constants, but none that counts."""
    found = constants(host) - before
    if not found or needed(host, given, before):
        return False
    return is_iterated(f) or not any(lesson[1] == "size" and varies(host, lesson) for lesson in found)


def note_operation(host: Any, f: Frame, args: tuple[Any, ...], made: Any, before: Set[Any]) -> None:
    """An operator was used: a list is as long as another one, or as a number says, or one has chosen a text, modules or
    tensors."""
    if (type(made) is list or type(made) is tuple) and needed(host, list(args), before):
        told = host.counted.get(id(made))
        if told:  # `[None] * n`, which may still be gone through by a loop
            host.told_apart[id(made)] = made, told
    if type(made) is list:
        places = frozenset().union(*(host.counted.get(id(arg), ()) for arg in args))
        sliced = type(args[-1]) is slice and not is_foreign(f.code.co_filename)
        if sliced and needed(host, list(bounds(args[-1])), before):
            places |= here(f)
        if places and id(made) not in host.counted:
            host.counted[id(made)] = places | here(f)
    elif type(args[-1]) in CHOICES and is_chosen(args[0], made) and needed(host, [args[-1]], before):
        leave(host, here(f))
    elif type(args[-1]) is slice and is_chosen(args[0], made) and needed(host, list(bounds(args[-1])), before):
        host.counted[id(made)] = here(f)  # modules, which a loop may go through
        host.told_apart[id(made)] = made, here(f)
    elif issubclass(type(made), NUMBERS_AND_TEXTS) and type(made) is not bool:
        note_opaque(host, f, before)


def is_chosen(container: Any, made: Any) -> bool:
    """Whether it is a text, or one of many tensors or modules, which are inputs behind a break."""
    if type(container) in LISTED:
        many = len(container) > FEW
        return type(made) is str or (many and (type(made) is TracedTensor or issubclass(type(made), nn.Module)))
    if not issubclass(type(container), CONTAINERS):
        return False
    members = _frames.instance_dict(container)  # nobody's `__getattribute__` is asked
    return len(members["_modules"] or members["_parameters"]) > FEW


def may_choose(args: tuple[Any, ...]) -> bool:
    """Whether a number that varies is an operand, or bounds a slice."""
    kinds = list(map(type, args))
    return not CHOICES.isdisjoint(kinds) or (kinds[-1] is slice and TracedInt in map(type, bounds(args[-1])))


def bounds(key: Any) -> tuple[Any, ...]:
    """The numbers of an index or slice."""
    return (key.start, key.stop, key.step) if type(key) is slice else (key,)


def note_iterator(host: Any, f: Frame, value: Any, before: Set[Any]) -> None:
    """A loop over the letters of a text that varies is about to begin."""
    if type(value) is TracedText:
        note_opaque(host, f, before)


def is_made_of_tensors(made: Any) -> bool:
    """A tensor, or some of them."""
    return all(type(item) is TracedTensor for item in parts(made))


def parts(made: Any) -> Iterator[Any]:
    """The items of a tuple or list, none of whose methods is asked, or the thing itself."""
    base = next((base for base in (tuple, list) if issubclass(type(made), base)), None)
    return iter((made,)) if base is None else base.__iter__(made)


def is_made_of_numbers(made: Any) -> bool:
    """A list of numbers that data tells, or of such lists."""
    return type(made) is list and all(type(item) in NUMBERS or is_made_of_numbers(item) for item in made)


def is_unpacked(f: Frame) -> bool:
    """Whether the program says how many there are (`a, b = x.split(n)`)."""
    rows = units(f.code)
    return rows[rows[f.lasti][2]][0] == "UNPACK_SEQUENCE"


def leave(host: Any, places: Any) -> None:
    """Captures again, with breaks at these calls."""
    if may_break(host) and host.loops.may_add(places):
        host.loops.numbers.update(places)
        raise Again(None, breaks=places)


def leave_counted(host: Any, f: Frame, values: Any) -> None:
    """Leaves a call to CPython, and what made so many values for it, if that is a number that varies."""
    places = host.counted.get(id(values))
    if places:
        leave(host, places | here(f))


def check(host: Any) -> None:
    """The capture is over: what has as many parts as a number says, and was not taken apart by a loop."""
    for _, places in host.told_apart.values():
        leave(host, places)


def check_carried(host: Any, values: Iterable[Any]) -> None:
    """The same for lists of numbers that are carried over a break: behind it, another length is another entry."""
    for value in values:
        if id(value) in host.counted and is_made_of_numbers(value):
            leave(host, host.counted[id(value)])


def symbolic(given: list[Any]) -> Iterator[Any]:
    """The numbers that vary among arguments."""
    for arg in given:
        if type(arg) in (list, tuple):
            yield from symbolic(arg)
        elif type(arg) in VARYING:
            yield arg


def sources(host: Any, number: Any) -> Iterator[Any]:
    """Where a number comes from."""
    if type(number) is TracedFloat or type(number) is TracedText:
        yield from constants(host)
    elif host.symbols is not None and type(number.number) is not int:
        known = host.symbols.sources
        for symbol in host.symbols.unknowns.symbols_of(number.number):
            if symbol in known:
                yield from known[symbol].lessons()


def varies(host: Any, lesson: Any) -> bool:
    """Whether a number was seen to change that counts, and is not one that each object has of its own."""
    path: Path = lesson[0]
    if lesson not in host.varying or lesson in host.policy.guessed:
        return False
    if not host.is_outermost and any(step.accessor in (ATTR, GETATTR) for step in path.chain()):
        return False
    number = host.symbolic_numbers.get(path)
    return type(number) is not TracedInt or host.symbols.unknowns.hint(number.number) not in CHOOSING
