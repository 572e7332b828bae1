"""Generators and coroutines from outside: the program drives others in the same state; effects bring them along."""

from __future__ import annotations

import operator
import types
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.code.decode import units
from stator.code.own_files import OWN_FILES
from stator.guards.check import EQ, IS, LEN, TYPE_IS
from stator.world.iterators import enter_opaque
from stator.world.lazy import Lazy
from stator.world.record import Importer, Record

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World

HEAD = 4  # what `generator_values` tells before the values: function, exception being handled, place, which there are


def enter_generator(world: World, obj: Any, path: Path) -> Any:
    """One that is suspended: its place is guarded, and its variables when somebody looks at them."""
    state = state_of(obj)
    if state is None:
        return enter_opaque(world, obj, path)
    function, unit, *places, handled, name, qualname = state
    wanders = (path, "frame", 0) in world.varying
    if unit == RUNNING or wanders or handled is not None or not is_plain(function.__code__):
        return refuse_generator(world, obj, path)
    values = [value for place in places for value in place]
    shape, origin = bytes(value is not UNBOUND for value in values), world.origin()
    parts = frame_path(path)
    world.guards.add(path, TYPE_IS, type(obj), origin)
    world.guards.add(parts, LEN, HEAD + len(values), origin)
    for i, (check, known) in enumerate([(IS, None), (EQ, unit), (EQ, shape)], 1):
        world.guards.add(parts.item(i), check, known, origin)
    world.guards.add(path.get("__name__"), EQ, name, origin)
    world.guards.add(path.get("__qualname__"), EQ, qualname, origin)
    function = world.enter(function, parts.item(0))
    inner = _frames.make_generator(function, name, qualname, -1, (UNBOUND,) * len(places[0]), (), None)
    world.driven.append(inner)
    record = world.register(obj, path, inner)  # before the values: they may lead back to it
    paths = iter([parts.item(HEAD + i) for i in range(len(values))])
    entered = [[enter_value(world, value, next(paths)) for value in place] for place in places]
    if entered[1] and delegates(function.__code__, unit) and type(entered[1][-1]) is Lazy:
        entered[1][-1] = entered[1][-1].force(world)  # C asks it for its methods
    _frames.put_generator(inner, function, unit, *map(tuple, entered), None)
    record.before = _frames.generator_state(inner)
    if any(carried is obj for carried in world.carried):
        world.perishable.append(obj)
    return inner


def is_plain(code: types.CodeType) -> bool:
    """Whether a frame has all its variables in slots, and is one of the program that a capture can drive."""
    return bool(code.co_flags & OPTIMIZED) and not (code.co_filename.startswith(OWN_FILES) or _frames.is_skipped(code))


OPTIMIZED = 1


def delegates(code: types.CodeType, unit: int) -> bool:
    """Whether a frame that is suspended there waits for what lies on top (`yield from`, `await`)."""
    name, arg, _ = units(code)[unit + 1] if unit >= 0 else ("", 0, 0)
    return name == "RESUME" and arg >= YIELD_FROM


YIELD_FROM = 2  # argument of RESUME behind such a yield
RUNNING = -2
VARIABLES, STACK = 2, 3  # where a state has the values of variables, and those that lie on the stack


def state_of(obj: Any) -> Any:
    """As `generator_state`, with a place of its own for one that runs."""
    try:
        return _frames.generator_state(obj)
    except ValueError:
        return None, RUNNING, (), (), None, "", ""


def enter_value(world: World, value: Any, path: Path) -> Any:
    """A variable, or what is on the stack: nobody has looked at it yet."""
    if value is UNBOUND:
        return value
    if type(value) is types.CellType:
        return world.enter(value, path)
    return Lazy(value, path) if world.lazy else world.light(value, path)


def has_moved(before: Any, now: Any) -> bool:
    """Whether one with these states is at another place, or has other values."""
    if now is None or before is None:
        return now is not before
    return (
        now[1] != before[1]
        or now[5:] != before[5:]
        or not all(map(operator.is_, (*now[2], *now[3]), (*before[2], *before[3])))
    )


def numbers_of(record: Record) -> list[tuple[Path, Any, Any]]:
    """(where, before, now) of the values of one that is at the same place again."""
    before, now = record.before, state_of(record.inner)
    if before is None or now is None or before[1] != now[1] or len(before[3]) != len(now[3]):
        return []
    pairs = zip((*before[2], *before[3]), (*now[2], *now[3]), strict=True)
    parts = frame_path(record.path)
    return [
        (parts.item(HEAD + i), old.value if type(old) is Lazy else old, new)
        for i, (old, new) in enumerate(pairs)
        if old is not new
    ]


def frame_path(path: Path) -> Path:
    return path.part("frame", _frames.generator_values)


def values_of(obj: Any, path: Path) -> list[tuple[Any, Path]]:
    """The values of a suspended generator that the program made, and where they will be found behind a break."""
    state = state_of(obj)
    parts = frame_path(path)
    return [] if state is None else [(value, parts.item(HEAD + i)) for i, value in enumerate((*state[2], *state[3]))]


def refuse_generator(world: World, obj: Any, path: Path) -> Any:
    """Resuming it cannot be undone."""
    raise world.refuse("outside-iterator", f"{obj.__name__} from outside", type=type(obj).__name__)


def enter_asynchronous(world: World, obj: Any, path: Path) -> Any:
    return enter_opaque(world, obj, path) if obj.ag_frame is None else refuse_generator(world, obj, path)


SUSPENDED = frozenset({types.GeneratorType, types.CoroutineType})
GENERATOR_ROWS: dict[type, Importer] = {
    types.GeneratorType: enter_generator,
    types.CoroutineType: enter_generator,
    types.AsyncGeneratorType: enter_asynchronous,
}
