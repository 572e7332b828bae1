"""Subscripts that change: a number of a table is calculated as others are, and the key is guarded to be in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from stator._entry import RELATION_OPS
from stator.guards.relation import WHOLE, Operand, Relation
from stator.shapes.float_conditions import NoCondition, int_operand
from stator.shapes.floats import Floats, TracedFloat, calculated, depends_on_data
from stator.shapes.roundings import MOST_NESTED, nested
from stator.shapes.scalar import TracedInt
from stator.shapes.tables import LONGEST, Table, picked

LARGEST = 1 << 62  # ints beyond stay constants


def number_at(floats: Floats, container: Any, key: TracedInt) -> Any:
    """What a container of ints or of floats has there; NotImplemented where that is no table."""
    place = key.symbols.unknowns.hint(key.number)
    rows = ROWS[type(container)]
    values = container.values() if type(container) is dict else container
    kinds = set(map(type, values))
    if place is not None and TracedFloat in kinds and type(container) is not dict:
        return _picked(floats, container, key)
    if place is None or not floats.has_ints or len(kinds) != 1 or not kinds <= MAKERS.keys():
        return NotImplemented
    try:
        operand = int_operand(key)
        value = container[place]
    except (NoCondition, LookupError):
        return NotImplemented
    maker = MAKERS[type(value)]
    if nested(operand) >= MOST_NESTED or (maker is _int and not _fits(values)):
        return NotImplemented
    found = rows(floats, container, key, operand)
    if found is None:
        return NotImplemented
    return maker(floats, TracedFloat(floats, value, Table(found), (key,)), operand)


def _picked(floats: Floats, container: Sequence[Any], key: TracedInt) -> Any:
    """One of several floats that vary themselves."""
    if not {float, TracedFloat}.issuperset(map(type, container)) or any(map(depends_on_data, container)):
        return NotImplemented
    inside = floats.has_ints and len(container) <= LONGEST and bool(key < len(container))
    return calculated(picked, key, *container) if inside and bool(key >= -len(container)) else NotImplemented


def _of_sequence(
    floats: Floats, container: Sequence[Any], key: TracedInt, operand: Operand
) -> Mapping[int, Any] | None:
    """Counted from the start, or from the end, and inside."""
    size, from_start = len(container), bool(key >= 0)
    inside = bool(key < size if from_start else key >= -size)
    return dict(enumerate(container, 0 if from_start else -size)) if inside else None


def _of_dict(floats: Floats, container: dict[Any, Any], key: TracedInt, operand: Operand) -> Mapping[int, Any] | None:
    if len(container) > LONGEST or set(map(type, container)) != {int} or not _fits(container):
        return None
    rows = dict(container)
    floats.relation(operand, _code(Table(rows).has()), f"{{0}} in {tuple(rows)}")
    return rows


def _fits(values: Collection[int]) -> bool:
    """Whether C calculates with these ints, and looks at so many."""
    return len(values) <= LONGEST and all(abs(value) < LARGEST for value in values)


def _code(steps: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    names = {"KEY": "LOAD", "NUMBER": "CONST"}
    return tuple(part for name, arg in steps for part in (RELATION_OPS[names.get(name, name)], arg))


def _int(floats: Floats, number: TracedFloat, operand: Operand) -> Any:
    relation = Relation((operand,), _code(number.function.steps()), "table[{0}]")
    return floats.rounded(Operand(operand.path, WHOLE, inner=relation), number)


ROWS: dict[type, Callable[..., Mapping[int, Any] | None]] = {list: _of_sequence, tuple: _of_sequence, dict: _of_dict}
MAKERS: dict[type, Callable[[Floats, TracedFloat, Operand], Any]] = {
    float: lambda floats, number, operand: number,
    int: _int,
}
