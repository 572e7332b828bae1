"""Loops are captured round by round. Two kinds go on behind breaks instead, so that their body is compiled once.

One that would make too large a graph, again and again; and one whose number of rounds was seen to vary. What makes
something of such a number (`range(n)`, `x.unbind(1)`), what is made of that (`enumerate`, the iterator) and the loop
itself are left to CPython then.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch

from stator.code.decode import CodeInfo, units
from stator.code.loops import innermost_for
from stator.errors import Again, Unsupported
from stator.frame import Frame
from stator.runtime.continuation import origin_of, resumed_from
from stator.runtime.learned import GROWING
from stator.shapes.scalar import TracedInt
from stator.tensors.traced import TracedTensor
from stator.world.generators import STACK, SUSPENDED, VARIABLES, state_of
from stator.world.lazy import Lazy

MOST_OPERATIONS = 20_000  # in one graph
MOST_GRADIENTS = 8  # times that a loop calls backward: a whole epoch should not be one graph
FEW = 8
LEVELS = 8  # of such containers in one another: one may hold itself
LEAST_ROUNDS = 2  # of a loop that is worth breaks
COUNTED = frozenset({tuple, list, type(iter(()))})  # results of operations that may have as many items as a size says
PARTING = frozenset({  # operations that give as many items as a size or a number says
    "chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "tolist", "unbind", "unsafe_chunk",
    "unsafe_split", "vsplit", "__iter__",
})  # fmt: skip
TOLD = frozenset({"chunk", "tensor_split", "unsafe_chunk", "dsplit", "hsplit", "vsplit"})  # they are told how many
PASSING = frozenset({enumerate, zip, map, reversed, iter, list, tuple})  # what is made of such a thing has so many, too
FUNCTIONS = (type, BuiltinFunctionType)
COMPREHENSIONS = frozenset({"<listcomp>", "<genexpr>"})

Places = frozenset[tuple[CodeType, int]]


class Loops:
    """What belongs to loops that are not unrolled: instructions by code object."""

    def __init__(self) -> None:
        self.units: WeakKeyDictionary[CodeType, set[int]] = WeakKeyDictionary()
        self.unrolled: WeakKeyDictionary[CodeType, bool] = WeakKeyDictionary()  # where a break was no help
        self.worked: WeakSet[CodeType] = WeakSet()  # frames with a loop whose rounds work on tensors
        self.tests: set[tuple[CodeType, int]] = set()  # the first ones of loops that data ends, see first_tests.py
        self.numbers: set[tuple[CodeType, int]] = set()  # calls that are compiled for one number only, see pinning.py
        self.large: set[tuple[int, int]] = set()  # loops that are unrolled stretch by stretch: address of code, unit

    def add(self, places: Places) -> None:
        for code, unit in places:
            self.units.setdefault(code, set()).add(unit)

    def give_up(self, code: CodeType) -> None:
        """No break can be made in there: its loops are unrolled as ever."""
        self.unrolled[code] = True
        self.units.pop(code, None)

    def may_add(self, places: Places) -> bool:
        """Whether it is of use to capture again, with breaks there."""
        if any(code in self.unrolled for code, _ in places):
            return False
        return any(unit not in self.units.get(code, ()) for code, unit in places)

    def is_large(self, f: Frame) -> bool:
        code, unit = origin_of(f.code, f.lasti)
        return (id(code), unit) in self.large

    def of(self, info: CodeInfo) -> Iterable[int]:
        """The instructions of a code object, which may be one of a resumed frame."""
        if not self.units:
            return ()
        known = resumed_from(info.code)
        code = info.code if known is None else known.code
        return [unit + info.prefix for unit in self.units.get(code, ())]


def check(host: Any, f: Frame) -> None:
    """The loop of a frame begins another round."""
    iterator, place = id(f.stack[-1]), (f.path, f.lasti)  # not the object itself, which must end when its loop does
    size = host.recorder.graph._len
    known, gradients, operations, rounds = host.unrolled.get(place, (0, 0, 0, 0))
    if known != iterator:
        gradients, operations, rounds = host.backwards, size, 0
    elif host.backwards - gradients >= MOST_GRADIENTS:
        raise refusal(host, f, f"{host.backwards - gradients} calls of backward")
    elif size > MOST_OPERATIONS and size > operations:
        raise refusal(host, f, f"{size - operations} operations")
    if rounds >= LEAST_ROUNDS and iterator in host.counted:
        go_round(host, f, host.counted[iterator])
    elif rounds and size > operations and ends_sooner_or_later(host, iterator) and not host.loops.is_large(f):
        go_round(host, f, frozenset())
    host.unrolled[place] = iterator, gradients, operations, rounds + 1


def check_below(host: Any, f: Frame) -> None:
    """The loop of a frame that C drives, as that of a generator, begins another round."""
    iterator = id(f.stack[-1])
    if iterator in host.counted:
        rounds = host.rounds_below.get(iterator, 0)
        if rounds >= LEAST_ROUNDS:
            go_round(host, f, host.counted[iterator])
        host.rounds_below[iterator] = rounds + 1


def ends_sooner_or_later(host: Any, iterator: int) -> bool:
    """Whether an iterator that came over a break has more or fewer items left than it had before."""
    hollow = host.hollow.get(iterator)
    return hollow is not None and hollow.record.path in host.ending


def refusal(host: Any, f: Frame, count: str) -> Exception:
    code, unit = origin_of(f.code, f.lasti)
    host.loops.large.add((id(code), unit))
    refused: Exception = host.refuse("large-graph", function=f.code.co_qualname, count=count)
    return refused


# ---- numbers of rounds that vary ----------------------------------------------------------------------------------


def go_round(host: Any, f: Frame, places: Places) -> None:
    """The number of rounds varies, and they work on tensors: from now on CPython goes round.

    It also makes everything else that has as many items as such a number says: else that alone would tell it.
    """
    places = places.union(here(f), *host.counted.values())
    if may_break(host) and host.loops.may_add(places):
        raise Again(None, breaks=places)


def may_break(host: Any) -> bool:
    return host.recorder.sub is None and not host.regions.errors()


def left_to_python(host: Any, f: Frame) -> Unsupported | None:
    """The break at an instruction of a loop; what was made of a number on the way there belongs to it."""
    if not may_break(host):
        return None
    for value in f.stack:
        places = host.counted.get(id(value), frozenset())
        if host.loops.may_add(places):
            raise Again(None, breaks=places)
    refused: Unsupported
    if here(f).isdisjoint(host.loops.numbers):
        refused = host.refuse("varying-loop", function=f.code.co_qualname)
    else:
        refused = host.refuse("varying-number", function=f.code.co_qualname)
    return refused


def check_open_loops(host: Any, iterators: Iterable[Any]) -> None:
    """There is a break in the middle of loops: numbers of rounds that vary must not tell entries apart."""
    for value in iterators:
        places = open_in(host, value)
        if may_break(host) and host.loops.may_add(places):
            raise Again(None, breaks=places)


def open_in(host: Any, value: Any, levels: int = LEVELS) -> Places:
    """What belongs to an iterator of a loop, or to those of the loops that a suspended generator is in."""
    found: Places = host.counted.get(id(value), frozenset())
    if type(value) in SUSPENDED and levels and (state := state_of(value)) is not None:
        return found.union(*(open_in(host, inner, levels - 1) for inner in (*state[VARIABLES], *state[STACK])))
    return found


def item_left_to_python(host: Any, f: Frame) -> Unsupported | None:
    """The break where a list of tensors is indexed by a number that varies; None for all else."""
    container, key = f.stack[-2:]
    if type(container) is Lazy:
        container = container.value
    elif (hollow := host.hollow.get(id(container))) is not None:
        container = hollow.obj
    else:
        return None
    varies = type(key.value) is int if type(key) is Lazy else type(key) is TracedInt
    if not varies or type(container) not in (list, tuple) or not may_break(host):
        return None
    if not all(item is None or issubclass(type(item), torch.Tensor) for item in container):
        return None
    refused: Unsupported = host.refuse("varying-loop", function=f.code.co_qualname)
    return refused


def is_data(value: Any, levels: int = LEVELS) -> bool:
    """A tensor, a number, or a few of them: nothing that chooses what to do, as modules and functions would."""
    if type(value) in (tuple, list):
        return levels > 0 and len(value) <= FEW and all(is_data(item, levels - 1) for item in value)
    return value is None or issubclass(type(value), (int, float, torch.Tensor))


def stamp(host: Any) -> Any:
    """Another one once something was found out about sizes and ints."""
    if host.symbols is None:
        return None
    env = host.symbols.env
    return len(env.guards), env._replacements_version_counter


def note(host: Any, f: Frame, function: Any, args: list[Any], made: Any, before: Any) -> None:
    """A call made something: with as many items as a number says that varies, or of what has so many."""
    if type(function) in FUNCTIONS and function in PASSING:
        places = frozenset().union(*(places_of(host, f, arg) for arg in args))
        if any(type(arg) is TracedTensor and arg._meta.size and type(arg._meta.size[0]) is TracedInt for arg in args):
            places |= here(f)
    elif type(function) is FunctionType and function.__name__ in COMPREHENSIONS:  # what it makes has as many items
        places = host.counted.get(id(args[0]), frozenset())
    elif function is len and args and id(args[0]) in host.counted:
        host.lengths[f.path, made] = host.counted[id(args[0])] | here(f)
        return
    elif function is range:
        places = frozenset().union(*(host.lengths.get((f.path, arg), ()) for arg in args if type(arg) is int))
        places |= here(f) if TracedInt in map(type, args) else frozenset()
    elif type(made) in COUNTED and stamp(host) != before and is_parting(host, function, args):
        places = here(f)
    else:
        return
    if places:
        check_guesses(host, before)
        host.counted[id(made)] = places | here(f)


def check_guesses(host: Any, before: Any) -> None:
    """Starts again with constants if a number of rounds follows from sizes alone that nobody has seen change."""
    if before is None or not host.policy.guessed:
        return
    drop_guesses(host, set().union(*(guard.expr.free_symbols for guard in host.symbols.env.guards[before[0] :])))


def drop_guesses(host: Any, symbols: Iterable[Any]) -> None:
    """Starts again with constants if these symbols are sizes that nobody has seen change."""
    known = host.symbols.sources
    lessons = frozenset(lesson for symbol in symbols if symbol in known for lesson in known[symbol].lessons())
    if lessons and lessons <= host.policy.guessed:
        raise Again(None, lessons)


def is_parting(host: Any, function: Any, args: list[Any]) -> bool:
    """Whether how many items an operation gives depends on a number that varies, and none that it is given says so."""
    name = getattr(function, "__name__", "")
    if name not in PARTING or any(type(arg) in (list, tuple) for arg in args) or not host.recorder.takes(function):
        return False
    return name not in TOLD or TracedInt in map(type, args)


def note_iterator(host: Any, f: Frame, value: Any, made: Any, before: Any) -> None:
    """A loop is about to begin."""
    places = places_of(host, f, value)
    if places or (type(value) is TracedTensor and stamp(host) != before):
        check_guesses(host, before)
        host.counted[id(made)] = places | here(f)


def note_entries(host: Any, f: Frame, source: Any, made: Any) -> None:
    """A loop over a dict from outside is about to begin: the iterator, or what the next instruction makes one of."""
    if host.counts_rounds and f.direct and has_varied(host, source):
        code, unit = origin_of(f.code, f.lasti)
        behind = {(code, unit + units(f.code)[f.lasti][2] - f.lasti)} if is_iterated(f) else set()
        host.counted[id(made)] = here(f) | behind


def places_of(host: Any, f: Frame, value: Any) -> Places:
    """The instructions that made what has as many items as a number that varies; this one, if it comes from outside."""
    return host.counted.get(id(value)) or (here(f) if has_varied(host, value) else frozenset())


def has_varied(host: Any, value: Any) -> bool:
    """Whether it is a container from outside that was longer or shorter before, or another range than it was."""
    if type(value) is range:
        return id(value) in host.varied_ranges
    record = host.records.get(id(value)) if type(value) in GROWING else None
    return record is not None and (record.path.part("length", len), "int", 0) in host.varying


def note_operation(host: Any, f: Frame, args: tuple[Any, ...], made: Any, before: Any) -> None:
    """An operation with a number that varies: `[None] * n` has so many items, `while i < n` so many rounds."""
    if type(made) in (list, tuple):
        if places := here(f):
            check_guesses(host, before)
            host.counted[id(made)] = places
    elif type(made) is bool and f.direct and stamp(host) != before and goes_back(f):
        place = f.path, f.lasti
        rounds = host.tests.get(place, 0)
        if rounds >= LEAST_ROUNDS:
            check_guesses(host, before)
            go_round(host, f, here(f))
        host.tests[place] = rounds + 1
    elif type(made) is bool and f.direct and len(args) == 2 and stamp(host) != before:
        note_choice(host, f, args)


def note_choice(host: Any, f: Frame, args: tuple[Any, ...]) -> None:
    """`if i >= n: break` in a loop: the answers of all rounds together would tell the number."""
    number, other = args if type(args[0]) is TracedInt else args[::-1]
    place = f.path, f.lasti
    asked = host.chosen_rounds.setdefault(place, set())
    if type(other) is int:
        asked.add(other)
    if len(asked) <= LEAST_ROUNDS or not was_seen_to_change(host, number):
        return
    loop = innermost_for(f.info, f.lasti)
    if loop is None or not may_break(host) or not has_worked(host, f, loop):
        return
    places = frozenset({origin_of(f.code, loop)})
    if host.loops.may_add(places):
        raise Again(None, breaks=places)


def has_worked(host: Any, f: Frame, loop: int) -> bool:
    """Whether the rounds of a loop so far worked on tensors."""
    _, _, operations, rounds = host.unrolled.get((f.path, loop), (0, 0, 0, 0))
    return bool(rounds) and host.recorder.graph._len > operations


def was_seen_to_change(host: Any, number: TracedInt) -> bool:
    """Whether an int of the program differed from call to call; not a size."""
    known = host.symbols.sources
    value: Any = number.number
    symbols = () if type(value) is int else host.symbols.unknowns.symbols_of(value)
    lessons = {lesson for symbol in symbols if symbol in known for lesson in known[symbol].lessons()}
    kinds = {kind for _, kind, _ in lessons}
    return kinds == {"int"} and lessons <= host.varying.lessons and lessons.isdisjoint(host.policy.guessed)


def truth(host: Any, f: Frame, number: TracedInt) -> bool:
    """`while n`: whether there is another round."""
    before, answer = stamp(host), bool(number)
    if host.counts_rounds:
        note_operation(host, f, (number,), answer, before)
    return answer


def is_iterated(f: Frame) -> bool:
    """Whether the next instruction asks for the iterator of what this one makes, and nothing else sees it."""
    rows = units(f.code)
    return rows[rows[f.lasti][2]][0] == "GET_ITER"


def goes_back(f: Frame) -> bool:
    """Whether the instruction is the condition of another round of a `while`."""
    rows = units(f.code)
    return any(rows[unit][0].startswith("POP_JUMP_BACKWARD") for unit in (f.lasti, rows[f.lasti][2]))


def directly(f: Frame) -> Frame:
    """The innermost frame in which there can be a break."""
    while not f.direct and f.outer is not None:
        f = f.outer
    return f


def here(f: Frame) -> Places:
    """The instruction that can be a break: of a generator that which asks for its next item."""
    f = directly(f)
    return frozenset({origin_of(f.code, f.lasti)}) if f.direct else frozenset()
