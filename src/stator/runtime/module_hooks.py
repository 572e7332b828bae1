"""Calls of modules with hooks that see what goes in and what comes out.

Torch numbers all hooks of the process, so a hook that is registered anew for each call has another number each time.
Here hooks are known by their order, and nothing depends on their numbers. Hooks for gradients and those that run even
if the module raises are left to torch's own code, and so are tables that the program has got hold of.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from stator.errors import Again
from stator.frame import Frame, Raised
from stator.guards import path as paths
from stator.guards.check import LEN, SAME, TYPE_IS
from stator.guards.path import Path
from stator.native.callers import call_python
from stator.native.hooked import (
    AFTER,
    BEFORE,
    NONE,
    Kind,
    call_hooked,
    finished,
    for_all,
    hooks_after,
    hooks_before,
    takes_more_after,
    takes_more_before,
)
from stator.native.rows import standin
from stator.runtime.continuation import Break
from stator.world.record import Namespace, Record

EMPTY = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks_always_called")
OWN = (*BEFORE[:2], *AFTER[:2], *EMPTY)
FOR_ALL = (*BEFORE[2:], *AFTER[2:], *map(for_all, EMPTY))
TABLES = frozenset({dict, OrderedDict})
LIST_ITERATOR: Any = type(iter([]))


def call_with_hooks(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    try:
        return call_python(host, f, call_hooked, [args[0], tuple(args[1:]), dict(kwargs or {})], None)
    except Raised:
        stay(host, host.records[id(args[0])])
        raise


def is_hooked(host: Any, f: Frame, record: Record) -> bool:
    """Whether hooks on the way forward are all that is around the forward of a module, which is guarded then."""
    members = host.namespace_of(record)
    if record.path in host.whole_paths or not are_untouched(host, members, OWN, FOR_ALL):
        return False
    if any(members.real[name] or for_all(name) for name in EMPTY):
        return False
    if host.load_attr(f, record.obj, "_compiled_call_impl") is not None:
        return False
    for name in EMPTY:
        host.guards.add(record.path.attr(name), LEN, 0, host.origin())
        host.guards.add(paths.const(for_all(name)), LEN, 0, host.origin())
    return True


def are_untouched(host: Any, members: Namespace, names: Iterable[str], tables: Iterable[Any]) -> bool:
    """Whether these tables are from outside, and the program has not got hold of them."""
    if members.full or not members.touched.keys().isdisjoint(names):
        return False
    found = [*(members.real.get(name) for name in names), *tables]
    return all(type(table) in TABLES and not host.is_reachable(table) for table in found)


@standin(finished)
def stand_finished(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    record = host.records.get(id(args[0]))
    if record is not None and record.obj is args[0]:
        stay(host, record)


@standin(takes_more_before, takes_more_after)
def tell_kind(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The answer itself stands for the number of a hook that is known by its order."""
    return args[1] if type(args[1]) is bool else call_python(host, f, function, args, None)


def stay(host: Any, record: Record) -> None:
    """Where the program has got hold of flags meanwhile, and there are some, numbers tell whose they are."""
    if record.path in host.whole_paths:  # they do; hooks that were counted before a break have no flags
        return
    members = host.namespace_of(record)
    names = (BEFORE.own_flags, AFTER.own_flags, *EMPTY)
    tables = [BEFORE.for_all_flags, AFTER.for_all_flags, *map(for_all, EMPTY)]
    if not are_untouched(host, members, names, tables):
        tables += [members.real.get(name) for name in names]
        if any(table or (id(table) in host.records and host.records[id(table)].inner) for table in tables):
            raise Again(record.path)


@standin(hooks_before)
def take_before(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return take(host, f, function, args, BEFORE)


@standin(hooks_after)
def take_after(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return take(host, f, function, args, AFTER)


def check_break(host: Any, at: Break) -> None:
    """At a break between hooks: what goes on may take away the flag of one that is still to come."""
    for frame in at.frames if host.flagged_hooks else ():
        for value in (at.values[number] for number in frame.stack if number >= 0):
            if type(value) is LIST_ITERATOR:
                state: Any = value.__reduce__()
                hooks, *position = state[1]
                known, path = host.flagged_hooks.get(id(hooks), (None, None))
                if known is hooks and any(flag for _, flag in hooks[position[0] :]):
                    raise Again(path)


def take(host: Any, f: Frame, function: Any, args: list[Any], kind: Kind) -> Any:
    """The hooks in two tables, read and guarded by their order; by number where that is not known."""
    record = host.records.get(id(args[0]))
    found = known_by_order(host, record, kind) if record is not None and record.obj is args[0] else None
    return call_python(host, f, function, args, None) if found is None else found


def known_by_order(host: Any, record: Record, kind: Kind) -> list[tuple[Any, bool]] | None:
    members = host.namespace_of(record)
    if record.path in host.whole_paths or not are_untouched(host, members, kind[:2], kind[2:]):
        return None
    own, own_flags = ((members.real[name], record.path.attr(name)) for name in kind[:2])
    for_all, for_all_flags = ((table, paths.const(table)) for table in kind[2:])
    hooks = [row for table in (for_all, own) for row in rows(host, *table)]
    flagged = set()
    for flag in [row for table in (own_flags, for_all_flags) for row in rows(host, *table)]:
        positions = [at for at, hook in enumerate(hooks) if hook.number is flag.number]
        if len(positions) != 1:
            return None
        host.guards.add(flag.number_path, SAME, hooks[positions[0]].number_path, host.origin())
        flagged.update(positions)
    made = [(host.enter(hook.value, hook.value_path), at in flagged) for at, hook in enumerate(hooks)]
    if flagged:
        host.flagged_hooks[id(made)] = made, record.path
    return made


class Row(NamedTuple):
    """One entry of a table, and how to reach it by its place."""

    number: Any
    number_path: Path
    value: Any
    value_path: Path


def rows(host: Any, table: Any, path: Path) -> list[Row]:
    """All entries of a table in order."""
    if table is NONE:
        return []
    host.guards.add(path, TYPE_IS, type(table), host.origin())
    host.guards.add(path, LEN, len(table), host.origin())
    pairs = path.part("items()", type(table).items).part("list", list)
    places = [pairs.item(at) for at in range(len(table))]
    return [
        Row(number, place.item(0), value, place.item(1))
        for place, (number, value) in zip(places, table.items(), strict=True)
    ]
