"""The guards of one capture: collecting, compiling, explaining."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stator._entry import GuardProgram
from stator.errors import Location, unsupported
from stator.guards.check import CALL_SHAPE, DISTINCT, PRESENT, RELATION, SAME, STATE, Check, show
from stator.guards.emitter import Emitter
from stator.guards.mortal import GONE, alive, held
from stator.guards.path import Missing, Path
from stator.guards.relation import NUMBER, Relation, read
from stator.guards.state import StateSnapshot
from stator.guards.tree import Node, Tree

DEBUG = os.environ.get("STATOR_DEBUG_GUARDS", "") not in ("", "0")

Row = tuple[Path | None, Check, Any, Any]  # path, check, key, origin


@dataclass(frozen=True, slots=True)
class Failure:
    """One check that does not hold: where, what it was, what it is now, which line of the user's asked for it."""

    path: Path | None
    check: Check
    old: str
    new: str
    origin: Any
    sentence: str
    key: Any = None

    @property
    def text(self) -> str:
        """The sentence, and the line of the program that made it count."""
        if self.origin is None:
            return self.sentence
        place = Location(self.origin[0], 2 * self.origin[1])
        return f"{self.sentence} ({os.path.basename(place.file)}:{place.lineno} in {place.function})"


class GuardSet:
    """Collects checks on paths and compiles them to a guard program."""

    __slots__ = ("_kept", "_rows", "_shape", "names", "unsettled")

    def __init__(self) -> None:
        self._rows: dict[Any, Row] = {}  # keys of weak checks are `held`
        self._kept: list[Any] = []
        self._shape: tuple[int, tuple[str, ...]] | None = None
        self.names: Sequence[str] = ()  # of the values of the call, for people
        self.unsettled: Container[
            tuple[Path, Check]
        ] = ()  # checks that keep failing: what needs one is left to CPython

    def add(self, path: Path, check: Check, key: Any = None, origin: Any = None) -> None:
        """Adds a check; the first one of its kind on a path stays, as the value at a path is one."""
        ident = (path, check, key) if check.many else (path, check)
        if ident not in self._rows:
            if self.unsettled and (path, check) in self.unsettled:
                detail = f"{path.describe(self.names)} differs from call to call"
                raise unsupported("outside-type", detail, type=f"changing {check.name}")
            self._rows[ident] = (path, check, held(key) if check.weak else key, origin)

    def keep(self, obj: Any) -> None:
        """The object lives for as long as these guards."""
        self._kept.append(obj)

    def has(self, path: Path, check: Check) -> bool:
        """Whether there is such a check."""
        return (path, check) in self._rows

    def replace(self, path: Path, check: Check, key: Any) -> None:
        """Gives a check another key."""
        known = self._rows[path, check]
        self._rows[path, check] = (path, check, held(key) if check.weak else key, known[3])

    def distinct(self, paths: Iterable[Path], origin: Any = None) -> None:
        """The values at these paths are pairwise different objects."""
        unique = tuple(dict.fromkeys(paths))
        if len(unique) > 1:
            self._rows.setdefault((DISTINCT, unique), (None, DISTINCT, unique, origin))

    def relation(self, relation: Relation, origin: Any = None) -> None:
        """This relation between sizes and ints holds."""
        self._rows.setdefault((RELATION, relation), (None, RELATION, relation, origin))

    def rows(self) -> Iterable[Row]:
        """All rows in the order they were added; GONE is the key of a check whose object has died."""
        return [(path, check, alive(key), origin) for path, check, key, origin in self._rows.values()]

    def bereft(self) -> list[tuple[Path, Check]]:
        """The checks whose object has died."""
        return [(row[0], row[1]) for row in self._rows.values() if row[0] is not None and alive(row[2]) is GONE]

    def state(self, snapshot: StateSnapshot, origin: Any = None) -> None:
        """torch's state is this one."""
        self._rows.setdefault(STATE, (None, STATE, snapshot, origin))

    def call_shape(self, npos: int, kwnames: Sequence[str] | None = ()) -> None:
        """The call has this many positional arguments and these keywords in this order."""
        self._shape = npos, tuple(kwnames or ())
        self._rows[CALL_SHAPE] = (None, CALL_SHAPE, _show_shape(*self._shape), None)

    def __len__(self) -> int:
        return len(self._rows)

    def compile(self, loads: Sequence[Path]) -> GuardProgram:
        """The program that runs all checks and hands out the values at `loads`."""
        tree = Tree()
        rows = list(self.rows())
        apart: list[tuple[list[Node], int]] = []
        related: list[tuple[dict[Path, Node], Relation, int]] = []
        for number, (path, check, key, _) in enumerate(rows):
            if path is not None:
                tree.add(path, check, key, number)
            elif check is DISTINCT:
                apart.append(([tree.node(each, number) for each in key], number))
            elif check is RELATION:
                paths = {path for operand in key.operands for path in operand.paths()}
                related.append(({path: tree.node(path, number) for path in paths}, key, number))
        outputs = [tree.node(path, number) for number, path in enumerate(loads, len(rows))]
        tree.settle()
        emitter = Emitter(tree)
        shape_row = len(rows)
        for number, (_, check, key, _) in enumerate(rows):
            if check is STATE:
                emitter.state(key, number)
            elif check is CALL_SHAPE:
                shape_row = number
        emitter.values()
        for nodes, number in apart:
            emitter.distinct(nodes, number)
        for found, relation, number in related:
            emitter.relation(found, relation, number)
        npos, kwnames = self._shape or (-1, ())
        program = emitter.finish(outputs, npos, kwnames, shape_row)
        if any(key is GONE for _, _, key, _ in rows) or any(value is GONE for value in tree.const_values):
            program.expire()
        if DEBUG:
            program.twin = _Twin(self, tuple(loads))
        return program

    def row(self, number: int, loads: Sequence[Path] = ()) -> Row:
        """The row that a program reported by its number."""
        rows = list(self.rows())
        if number < len(rows):
            return rows[number]
        path = loads[number - len(rows)] if number - len(rows) < len(loads) else None
        return (path, PRESENT if path is not None else CALL_SHAPE, None, None)

    def first_failure(
        self,
        args: Sequence[Any],
        kwnames: Sequence[str] | None = (),
        loads: Sequence[Path] = (),
    ) -> Failure | None:
        """The first check, in the order they were added, that does not hold for these argument values."""
        names, arg_names = tuple(kwnames or ()), self.names
        shape = (len(args) - len(names), names)
        if self._shape is not None and shape != self._shape:
            return _failure(self._rows[CALL_SHAPE], arg_names, new=_show_shape(*shape))
        memo: dict[Path, Any] = {}
        for row in self.rows():
            failure = _evaluate(row, args, memo, arg_names)
            if failure is not None:
                return failure
        for path in loads:
            failure = _evaluate((path, PRESENT, None, None), args, memo, arg_names)
            if failure is not None:
                return failure
        return None

    def describe(self) -> list[str]:
        """One line per check."""
        return [_describe(row, self.names) for row in self.rows()]


class _Twin:
    """Debug mode: evaluates the rows in Python after each run of the program and insists on the same outcome."""

    __slots__ = ("guards", "loads")

    def __init__(self, guards: GuardSet, loads: tuple[Path, ...]) -> None:
        self.guards = guards
        self.loads = loads

    def __call__(self, args: tuple[Any, ...], kwnames: tuple[str, ...] | None, row: int) -> None:
        failure = self.guards.first_failure(args, kwnames, self.loads)
        if row < 0 and failure is not None:
            raise AssertionError(f"C says hit, the twin says: {failure.sentence}")
        if row >= 0 and failure is None:
            reported = self.guards.row(row, self.loads)
            raise AssertionError(f"C says miss by {_describe(reported, self.guards.names)}, the twin says hit")


def _evaluate(row: Row, args: Sequence[Any], memo: dict[Path, Any], arg_names: Sequence[str]) -> Failure | None:
    path, check, key, _ = row
    try:
        if check is DISTINCT:
            return _evaluate_distinct(row, args, memo, arg_names)
        if check is RELATION:
            return _evaluate_relation(row, args, memo, arg_names)
        value = None if path is None else path.load(args, memo)
        if check is SAME:
            return None if value is key.load(args, memo) else _failure(row, arg_names, value)
    except Missing as missing:
        return _failure((missing.args[0], PRESENT, None, row[3]), arg_names)
    if check is PRESENT or check is CALL_SHAPE or _holds(check, value, key):
        return None
    return _failure(row, arg_names, value)


def _holds(check: Check, value: Any, key: Any) -> bool:
    try:
        return check.holds(value, key)
    except (AttributeError, TypeError, KeyError, ValueError, RuntimeError):
        return False


def _evaluate_distinct(
    row: Row, args: Sequence[Any], memo: dict[Path, Any], arg_names: Sequence[str]
) -> Failure | None:
    seen: dict[int, Path] = {}
    for path in row[2]:
        value = path.load(args, memo)
        if id(value) in seen:
            return _failure((path, DISTINCT, seen[id(value)], row[3]), arg_names, value)
        seen[id(value)] = path
    return None


def _evaluate_relation(
    row: Row, args: Sequence[Any], memo: dict[Path, Any], arg_names: Sequence[str]
) -> Failure | None:
    values = [operand.load(args, memo) for operand in row[2].operands]
    if row[2].holds(values):
        return None
    return _failure(row, arg_names, new=", ".join(_read(row[2], values, arg_names)))


def _read(relation: Relation, values: Sequence[Any], arg_names: Sequence[str]) -> Iterable[str]:
    for operand, value in zip(relation.operands, values, strict=True):
        if operand.kind == NUMBER:
            continue
        try:
            yield f"{operand.describe(arg_names)} is {read(operand, value)}"
        except Exception:
            yield f"{operand.describe(arg_names)} is {show(value)}"


def _failure(row: Row, arg_names: Sequence[str], value: Any = None, new: str | None = None) -> Failure:
    path, check, key, origin = row
    old = key.describe(arg_names) if issubclass(type(key), Path | Relation) else check.old(key)
    if new is None:
        try:
            new = check.new(value, key)
        except Exception:
            new = show(value)
    where = "" if path is None else path.describe(arg_names)
    return Failure(path, check, old, new, origin, check.sentence.format(path=where, old=old, new=new), key)


def _describe(row: Row, arg_names: Sequence[str]) -> str:
    path, check, key, _ = row
    if check is DISTINCT:
        return f"DISTINCT {', '.join(each.describe(arg_names) for each in key)}"
    old = key.describe(arg_names) if issubclass(type(key), Path | Relation) else check.old(key)
    where = "" if path is None else path.describe(arg_names)
    return " ".join(part for part in (check.name, where, old) if part)


def _show_shape(npos: int, kwnames: tuple[str, ...]) -> str:
    return f"{npos} positional arguments and keywords {kwnames!r}"
