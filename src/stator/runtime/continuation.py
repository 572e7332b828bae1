"""Going on after a break: which instruction CPython executes, and the functions that resume every frame behind it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from stator import _frames
from stator._frames import UNBOUND
from stator.code import resume
from stator.code.decode import units
from stator.code.finishing import FINISHES, nothing
from stator.code.hidden import goes_over_hooks, is_module_call
from stator.code.loops import is_in_loop, passes_loop
from stator.code.needed import needed_slots
from stator.code.resume import Exits, Layout
from stator.errors import InternalError, Location
from stator.eval.machine import Place, Snapshot, code_info
from stator.runtime.libraries import is_left_whole
from stator.runtime.naming import carried_names
from stator.weak_values import WeakValues


class Origin(NamedTuple):
    """Where code of stator's own making comes from; kept for as long as that lives."""

    made: weakref.ref[CodeType]
    code: CodeType
    prefix: int = 0  # units in front of the original body
    caller: int | None = None  # the instruction that the call in the prefix stands for
    resumed: bool = False  # it goes on where the original was, rather than execute one instruction of it
    finish: str | None = None  # what is done with the result of that call


IsSpared = Callable[[Any], bool]

CALLS = frozenset({"CALL", "CALL_FUNCTION_EX"})

_made: WeakValues[tuple[Any, ...], CodeType] = WeakValues()  # one code object per place
_origins: dict[int, Origin] = {}  # by address


def note_origin(made: CodeType, key: tuple[Any, ...], *origin: Any) -> CodeType:
    """Remembers what was made; it keeps the original alive, whose address is in the key."""
    address = id(made)
    reference = weakref.ref(made, partial(_origins.pop, address))  # in C: no interruption
    _origins[address] = Origin(reference, *origin)
    _made[key] = made
    return made


def resumed_code(code: CodeType, unit: int, layout: Layout, caller: int | None, finish: str | None = None) -> CodeType:
    key = (id(code), "resumed", unit, layout, caller, finish)
    found = _made.get(key)
    if found is None:
        made, prefix = resume.resumed(code, unit, layout, caller, finish)
        found = note_origin(made, key, code, prefix, caller, True, finish)
        code_info(made).prefix = prefix
    return found


def native_code(kind: Callable[..., CodeType], code: CodeType, unit: int, *shape: Any) -> CodeType:
    key = (id(code), kind.__name__, unit, *shape)
    found = _made.get(key)
    if found is None:
        found = note_origin(kind(code, unit, *shape), key, code)
        _frames.mark_code(found, _frames.TRANSPARENT)
    return found


def resumed_from(code: CodeType) -> Origin | None:
    """What a resumed frame's code was made from; None for all other code."""
    known = _origins.get(id(code))
    return known if known is not None and known.resumed else None


def origin_of(code: CodeType, unit: int) -> tuple[CodeType, int]:
    """The user's code and the instruction in it that a place in a resumed frame stands for."""
    known = resumed_from(code)
    if known is None:
        return code, unit
    if unit >= known.prefix:
        return known.code, unit - known.prefix
    if known.caller is None:
        raise InternalError("a break in the prefix of a resumed frame")
    return known.code, known.caller


def origin_of_location(location: Any) -> tuple[str, int, int] | None:
    """The innermost place in the user's code of a stack that a capture noted."""
    if location is None or not location.places:
        return None
    code, unit = origin_of(*location.places[0])
    return code.co_filename, code.co_firstlineno, unit


def is_resumed(code: CodeType) -> bool:
    return resumed_from(code) is not None


class FrameState:
    """One frame at a break: where it is in the user's code, and the numbers of its values among those carried on."""

    def __init__(self, snapshot: Snapshot, values: list[Any], innermost: bool, is_spared: IsSpared) -> None:
        self.code, self.unit = origin_of(snapshot.code, snapshot.unit)
        self.globals = snapshot.globals
        self.name = snapshot.function.__name__
        self.qualname = snapshot.function.__qualname__
        self.info = info = code_info(self.code)
        locals_ = list(snapshot.locals)
        if resume.slot_shift(self.code) and is_resumed(snapshot.code):
            del locals_[0]
        needed = needed_slots(info, self.unit)
        bound = resume.bound_slots(locals_, UNBOUND, info.first_free)
        self.slots = tuple(slot for slot in bound if needed >> slot & 1 or not is_spared(locals_[slot]))
        self.slot_values = [self.number(values, locals_[slot]) for slot in self.slots]
        closure = snapshot.function.__closure__ or ()
        self.closure = [self.number(values, cell) for cell in closure]
        self.window = resume.window_of(self.code, self.unit) if innermost else 0
        stack = list(snapshot.stack)
        known = resumed_from(snapshot.code) if snapshot.unit < code_info(snapshot.code).prefix else None
        self.finish = snapshot.finish or (None if known is None else known.finish) or units(self.code)[self.unit][0]
        if not innermost and known is None:
            del stack[len(stack) - FINISHES[self.finish].replaced :]
        self.stack = [-1 if value is UNBOUND else self.number(values, value) for value in stack]
        self.handler = resume.handler_of(self.code, self.unit)
        self.lasti = self.number(values, self.unit) if self.handler is not None and self.handler.lasti else None

    @staticmethod
    def number(values: list[Any], value: Any) -> int:
        values.append(value)
        return len(values) - 1

    @property
    def key(self) -> list[Any]:
        """What is equal where the values have the same places."""
        return [id(self.code), id(self.globals), self.slots, shape(self.stack), len(self.closure)]

    @property
    def below(self) -> list[int]:
        """The stack under what the breaking instruction takes."""
        return self.stack[: len(self.stack) - self.window]

    @property
    def operands(self) -> list[int]:
        return self.stack[len(self.stack) - self.window :]


@dataclass(eq=False)
class Piece:
    """How one function of a continuation is made and called; numbers are those of the continuation's arguments."""

    code: CodeType
    globals: dict[str, Any]
    name: str
    qualname: str
    closure: tuple[int, ...]
    items: tuple[int, ...]  # of its state, without the inner call
    stack: tuple[int, ...]  # the rest of its state: stack values from the top down
    names: tuple[str, ...]  # of the variables that the first items are
    constant: Any = None  # the function, if it has no closure

    def __post_init__(self) -> None:
        if not self.closure:
            self.constant = self.function(())

    def function(self, values: Sequence[Any]) -> Any:
        if self.constant is not None:
            return self.constant
        closure = tuple(values[number] for number in self.closure)
        made = FunctionType(self.code, self.globals, self.name, None, closure or None)
        made.__qualname__ = self.qualname
        return made


def piece(frame: FrameState, code: CodeType, items: Sequence[int], stack: Sequence[int]) -> Piece:
    present = tuple(number for number in reversed(stack) if number >= 0)
    names = tuple(frame.info.slots[slot] for slot in frame.slots)
    return Piece(code, frame.globals, frame.name, frame.qualname, tuple(frame.closure), tuple(items), present, names)


def looping(frames: Iterable[FrameState]) -> set[CodeType]:
    """Frames that are in a loop; the one over the hooks of a module is none of the program's."""
    return {one.code for one in frames if is_in_loop(one.info, one.unit) and not goes_over_hooks(one.code)}


def shape(stack: Sequence[int]) -> tuple[bool, ...]:
    return tuple(number >= 0 for number in stack)


class Variables(NamedTuple):
    """Where the outermost frame of a call begins, and the numbers of the values that its variables have there."""

    code: CodeType
    unit: int
    numbers: dict[str, int]  # by name


class Start(NamedTuple):
    """Where the innermost frame of a continuation goes on, and the instruction whose handlers take an error there."""

    code: CodeType
    unit: int
    layout: Layout
    thrown_at: int


def handed_over(values: Iterable[Any]) -> Iterator[Any]:
    """The values as an iterator that lets go of them: what takes them holds them alone, and ends them in time."""
    left = [*values]
    left.reverse()
    return map(left.pop, repeat(-1, left.__len__()))  # without a builtin that the program may have replaced


class Continuation:
    """The rest of all frames behind one way out of a breaking instruction.

    Takes the values that the instruction left, then everything that was carried over the break.
    """

    def __init__(self, pieces: list[Piece], frames: list[FrameState], results: int, unit: int) -> None:
        self.pieces = pieces
        outer = pieces[0]  # the innermost frame goes on at `unit`
        begin = unit if len(frames) == 1 else frames[0].unit
        self.variables = Variables(frames[0].code, begin, dict(zip(outer.names, outer.items, strict=False)))
        self.code = next((frame.code for frame in frames if not is_module_call(frame.code)), frames[0].code)
        self.broken = frames[-1].code, frames[-1].unit  # the instruction
        self.results = results
        self.start: Start | None = None
        self.requested = False  # by the program, this break
        self.first = False  # no other break comes before this one
        self.gives_text = False  # the instruction made a string of values
        self.loops = looping(frames)  # or leaving a loop
        self.goes_round = False  # does not leave it

    @cached_property
    def names(self) -> dict[int, str]:
        """What the program calls the values, by number."""
        return carried_names(self.pieces, self.results, self.line)

    @property
    def line(self) -> int:
        """Where the break is."""
        code, unit = self.broken
        return Location(code, 2 * unit).lineno

    @property
    def title(self) -> str:
        """What goes on where, for people."""
        code, _ = self.broken
        file = "" if code.co_filename == self.code.co_filename else f" of {os.path.basename(code.co_filename)}"
        return f"{self.code.co_qualname} behind the break on line {self.line}{file}"

    def build(self, values: Sequence[Any], state: Callable[[Iterable[Any]], Any] = tuple) -> tuple[FunctionType, Any]:
        """The outermost function and its argument."""
        inner: Any = ()
        for part in reversed(self.pieces):
            items, stack = [values[number] for number in part.items], [values[number] for number in part.stack]
            inner = (part.function(values), state((*items, *inner[::-1], *stack)))
        return inner

    def functions(self, function: FunctionType, state: tuple[Any, ...]) -> Iterator[FunctionType]:
        """The functions of a call that `build` made, outermost first."""
        yield function
        for part in self.pieces[:-1]:
            state, function = state[len(part.items) : len(part.items) + 2]
            yield function

    def run(self, *values: Any) -> Any:
        """The rest, in CPython."""
        function, state = self.build(values)
        return function(state)


class Break:
    """One break: the frames at it, everything they hold, and the ways to go on."""

    def __init__(self, snapshots: list[Snapshot], handled: Any, is_spared: IsSpared) -> None:
        """`handled` is the exception being handled, UNBOUND if it is the one that the caller handles.

        `is_spared` tells of a value whether it may be left behind by a variable that nothing will read.
        """
        self.values: list[Any] = []
        last = len(snapshots) - 1
        self.frames = [FrameState(snap, self.values, at == last, is_spared) for at, snap in enumerate(snapshots)]
        self.handled = -1 if handled is UNBOUND else FrameState.number(self.values, handled)
        inner = self.frames[-1]
        self.exits: Exits = resume.exits_of(inner.code, inner.unit)

    @property
    def loops(self) -> set[CodeType]:
        """Frames that may come to the instruction again."""
        return looping(self.frames)

    # ---- the instruction itself -----------------------------------------------------------------

    def callee(self) -> Any:
        """What the instruction calls; None for those that are no calls."""
        inner = self.frames[-1]
        if units(inner.code)[inner.unit][0] not in CALLS:
            return None
        method, function = inner.operands[:2]
        return self.values[function if method < 0 else method]

    def step(self) -> list[Piece]:
        """The functions that execute the breaking instruction inside frames that look like the user's."""
        made = []
        last = len(self.frames) - 1
        for level, frame in enumerate(self.frames):
            handled = self.handled >= 0 and level == 0
            operands = frame.operands if level == last else frame.stack[-1:] if FINISHES[frame.finish].told else []
            layout = Layout(frame.slots, shape(operands), handled, calls=level != last)
            if level == last:
                code = native_code(resume.single, frame.code, frame.unit, layout, level)
            else:
                code = native_code(resume.shell, frame.code, frame.unit, layout, level, frame.finish)
            items = [*frame.slot_values, *([self.handled] if handled else [])]
            made.append(piece(frame, code, items, operands))
        return made

    # ---- what comes after -----------------------------------------------------------------------

    def kept(self) -> set[int]:
        """Numbers of the values that something behind the break may need; the others end with the instruction."""
        found = {self.handled}
        for frame in self.frames:
            depth = frame.handler.depth if frame.handler is not None else 0
            found.update(frame.slot_values, frame.closure, frame.below, frame.stack[:depth])
            if frame.lasti is not None:
                found.add(frame.lasti)
        return found

    def only_returns(self) -> bool:
        """Whether what the instruction gives is the result of the call: all frames return it at once."""
        exits, inner = self.exits, self.frames[-1]
        if exits.fall != 1 or exits.null or inner.below or self.handled >= 0:
            return False
        if not resume.returns_at(inner.code, exits.following):
            return False
        return all(
            FINISHES[frame.finish].emit is nothing
            and not frame.stack
            and resume.returns_at(frame.code, units(frame.code)[frame.unit][2])
            for frame in self.frames[:-1]
        )

    def ways(self) -> dict[int, tuple[tuple[Any, ...], Callable[[], Continuation]]]:
        """For each edge: a key that is equal where the continuation is, and how to make it."""
        found: dict[int, tuple[tuple[Any, ...], Callable[[], Continuation]]] = {}
        exits, inner, last = self.exits, self.frames[-1], len(self.frames) - 1
        if exits.fall is not None:
            found[resume.FALL] = self.way(last, exits.following, exits.fall, inner.below, exits.null)
        if exits.jump is not None:
            found[resume.JUMP] = self.way(last, exits.target, exits.jump, inner.below, False)
        for level, frame in enumerate(self.frames):
            if (row := frame.handler) is not None:
                stack = [*frame.stack[: row.depth], *([] if frame.lasti is None else [frame.lasti])]
                found[resume.thrown(level)] = self.way(level, row.target, 1, stack, False)
            if level != last and (rest := FINISHES[frame.finish]).catches is not None and rest.told is None:
                unit = resume.jump_target(frame.code, frame.unit) if rest.jumps else units(frame.code)[frame.unit][2]
                stack = frame.stack[: len(frame.stack) - rest.dropped]
                found[resume.caught(level)] = self.way(level, unit, 0, stack, False)
        return found

    def way(
        self, level: int, unit: int, results: int, below: list[int], null: bool
    ) -> tuple[tuple[Any, ...], Callable[[], Continuation]]:
        """Frames up to `level` go on, the innermost of them at `unit` with the results pushed."""
        frames = self.frames[: level + 1]
        key: list[Any] = [results, unit, null, tuple(below), self.handled >= 0]
        for frame in frames[:-1]:
            key += [*frame.key, frame.unit, frame.finish]
        inner = frames[-1]  # several instructions may lead to where it goes on
        key += [*inner.key, inner.handler, inner.lasti is None, units(inner.code)[inner.unit][0] in GIVE_TEXT]
        key.append(len(self.values))

        def make() -> Continuation:
            return self.continuation(frames, unit, results, below, null)

        return tuple(key), make

    def continuation(
        self, frames: list[FrameState], unit: int, results: int, below: list[int], null: bool
    ) -> Continuation:
        pieces = []
        for level, frame in enumerate(frames):
            handled = self.handled >= 0 and level == 0
            items = [*frame.slot_values, *([self.handled] if handled else [])]
            innermost = level == len(frames) - 1
            stack = below if innermost else frame.stack
            stack = [number + results if number >= 0 else number for number in stack]
            if innermost:
                stack += [*([-1] * null), *range(results)]
            layout = Layout(frame.slots, shape(stack), handled, calls=not innermost)
            if innermost:
                code = resumed_code(frame.code, unit, layout, None)
            else:
                following = units(frame.code)[frame.unit][2]
                code = resumed_code(frame.code, following, layout, frame.unit, frame.finish)
            part = piece(frame, code, [number + results for number in items], stack)
            part.closure = tuple(number + results for number in part.closure)
            pieces.append(part)
        made, inner = Continuation(pieces, frames, results, unit), frames[-1]
        if is_in_loop(inner.info, unit) or passes_loop(inner.info, inner.unit, unit):
            made.loops.add(inner.code)
        made.goes_round = is_in_loop(inner.info, unit) or bool(looping(frames[:-1]))
        if inner.handler is None or unit != inner.handler.target:
            following = units(inner.code)[inner.unit][2]
            made.start = Start(inner.code, unit, layout, unit if unit == following else inner.unit)
            made.gives_text = units(inner.code)[inner.unit][0] in GIVE_TEXT
        return made


def break_place(places: Sequence[Place]) -> Place | None:
    """The innermost instruction to break at: in a frame that all frames around it can go on after."""
    direct: list[Place] = []
    for place in reversed(places):
        if not place.direct or not place.code.co_flags & OPTIMIZED:
            break
        direct.append(place)
    for place in reversed(direct[: min(MOST_FRAMES, len(places) - left_whole(places))]):
        known = resumed_from(place.code)
        code, unit = (place.code, place.unit) if known is None else (known.code, place.unit - known.prefix)
        if unit >= 0 and resume.can_run_alone(code, unit):
            return place
    return None


def left_whole(places: Sequence[Place]) -> int:
    """How many of the innermost frames belong to calls of libraries that are not gone on inside of."""
    return next((i for i, place in enumerate(places) if not is_left_whole(place.code.co_filename)), 0)


MOST_FRAMES = 24  # that go on behind one break: under deep recursion each break would carry more of them than the last
GIVE_TEXT = frozenset({"FORMAT_VALUE", "BUILD_STRING"})
OPTIMIZED = 1  # a flag of code objects: locals live in slots
