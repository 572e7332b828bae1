"""Functions of the program, their cells, defaults and globals, as a capture meets them: the world's methods."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from stator import _frames
from stator._frames import UNBOUND
from stator.frame import Frame
from stator.guards.check import EMPTY_CELL, SAME
from stator.guards.path import Path
from stator.world.aliasing import is_fixed_cell
from stator.world.hollow_namespaces import as_dict

if TYPE_CHECKING:
    from stator.world.world import World


def inside_function(world: World, function: Any) -> None:
    world.inside_functions[id(function)] = weakref.ref(function)


def is_inside_function(world: World, function: Any) -> bool:
    known = world.inside_functions.get(id(function))
    return known is not None and known() is function


def as_held(world: World, function: Any) -> Any:
    """A function as a table may hold it: one that the program made ends when the program lets go of it."""
    known = world.inside_functions.get(id(function))
    return function if known is None or known() is not function else known


def know_cells(world: World, f: Frame) -> None:
    """A frame has got the cells of its function: those of one from outside are from outside."""
    if not world.is_inside_function(f.function):
        for cell in f.function.__closure__:
            world.outside_cells[id(cell)] = cell


def load_cell(world: World, f: Frame, slot: int) -> Any:
    cell = f.locals[slot]
    if id(cell) in world.outside_cells:
        return world.outside_cell(f, cell, slot)[3]
    return _frames.cell_get(cell)


def store_cell(world: World, f: Frame, slot: int, value: Any) -> None:
    cell = f.locals[slot]
    if id(cell) in world.outside_cells:
        world.outside_cell(f, cell, slot)[3] = value
    else:
        _frames.cell_set(cell, value)


def outside_cell(world: World, f: Frame, cell: Any, slot: int) -> list[Any]:
    """[cell, path, value before, value now] of a closure cell made before the capture."""
    known = world.cells.get(id(cell))
    if known is None:
        known = world.enter_cell(cell, world.cell_path(f, cell, slot))
    if world.cell_ways.get((id(f.function), slot)) is not f.function:
        one_cell(world, f, slot, known[1])
    return known


def one_cell(world: World, f: Frame, slot: int, known: Path) -> None:
    """A cell that two functions from outside close over is one cell in each call."""
    function = f.function
    if world.is_inside_function(function):
        return
    world.cell_ways[id(function), slot] = function
    if f.info.prefix:  # behind a break: its cells are arguments, and each of them is one
        return
    way = world.path_of(function).get("__closure__").item(slot - f.info.first_free)
    if way is not known and not (is_fixed_cell(way) and is_fixed_cell(known)):
        world.guards.add(way, SAME, known, world.origin())


def cell_path(world: World, f: Frame, cell: Any, slot: int) -> Path:
    record = world.records.get(id(cell))
    if record is not None:
        return record.path
    closure = world.record_of(f.function).path.get("__closure__")
    return closure.item(slot - f.info.first_free)


def know_closure(world: World, function: Any) -> None:
    """The cells of an outside function can be named from now on, without being looked into."""
    if world.is_inside_function(function):
        return
    for index, cell in enumerate(function.__closure__ or ()):
        world.outside_cells[id(cell)] = cell
        if id(cell) not in world.records and id(cell) not in world.cells:
            world.register(cell, world.record_of(function).path.get("__closure__").item(index))


def enter_cell(world: World, cell: Any, path: Path) -> list[Any]:
    content = _frames.cell_get(cell)
    if content is UNBOUND:
        world.guards.add(path, EMPTY_CELL, None, world.origin())
        value = UNBOUND
    else:
        value = world.light(content, path.cell())
    known = world.cells[id(cell)] = [cell, path, value, value]
    return known


def frame_enters(world: World, f: Frame) -> None:
    """A frame starts: defaults CPython bound by itself come through the door."""
    function = f.function
    known = world.plain_functions.get(id(function))
    if known is function or (type(known) is weakref.ref and known() is function):
        return
    plain = not world.function_enters(f, function)
    if f.generator is not None:
        plain = False
        if function.__closure__:  # the instruction that gives it its cells is over
            world.know_cells(f)
    if not world.is_inside_function(function):
        if function.__defaults__:
            world.enter_defaults(f, function)
            plain = False
        if function.__kwdefaults__:
            world.enter_kwdefaults(f, function)
            plain = False
    if plain:
        world.plain_functions[id(function)] = world.as_held(function)


def function_enters(world: World, f: Frame, function: Any) -> bool:
    """The first frame of a function, or of one that needs a look each time; True if this is such a one."""
    if id(f.globals) not in world.namespaces:
        world.namespace(f.globals)
    if id(f.builtins) not in world.namespaces:
        world.namespace(f.builtins)
    return False


def enter_defaults(world: World, f: Frame, function: Any) -> None:
    defaults = function.__defaults__
    first = f.info.code.co_argcount - len(defaults)
    for i, default in enumerate(defaults):
        slot = first + i
        if f.locals[slot] is default:
            path = world.record_of(function).path.get("__defaults__").item(i)
            f.locals[slot] = world.light(default, path)


def enter_kwdefaults(world: World, f: Frame, function: Any) -> None:
    code = f.info.code
    for i in range(code.co_argcount, code.co_argcount + code.co_kwonlyargcount):
        name = code.co_varnames[i]
        default = function.__kwdefaults__.get(name, UNBOUND)
        if f.locals[i] is default:
            path = world.record_of(function).path.get("__kwdefaults__").entry(name)
            f.locals[i] = world.light(default, path)


def function_part(world: World, function: Any, name: str) -> Any:
    part = getattr(function, name)
    namespace = world.namespace(part) if type(part) is dict else None
    return part if namespace is None else as_dict(namespace)


def load_global(world: World, f: Frame, name: str) -> Any:
    value = world.namespace_get(f.globals, name)
    if value is UNBOUND:
        value = world.namespace_get(f.builtins, name)
    return value
