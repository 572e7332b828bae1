"""Which object it is: numbers, tuples and references that are equal and yet are two, and addresses behind a break."""

from __future__ import annotations

import copy
import datetime
import operator
import weakref
from typing import Any

import pytest
import torch

import stator
from stator.eval import forced
from stator.report import events
from tests.harness import check


class Plain:
    pass


def same_results(f: Any, *args: Any, **options: Any) -> None:
    """Whatever it costs."""
    check(f, *args, fullgraph=False, expect_breaks=None, expect_graphs=None, expect_recompiles=None, **options)


@pytest.mark.parametrize("same", [lambda a, b: a is b, operator.is_])
def test_large_ints_that_vary(same: Any) -> None:
    """Small ones are one object each; for others the objects tell."""

    def f(x: torch.Tensor, a: int, b: int) -> Any:
        return same(a, b), same(a, 3), x + a

    large = 5000
    pairs = [(1, 1), (2, 3), (4, 5), (6, 6), (large, large), (large, int("5000")), (large + 1, large)]
    same_results(f, vary=[(torch.ones(1), *pair) for pair in pairs])


def test_tuples_that_came_in_by_two_ways() -> None:
    def f(x: torch.Tensor, a: Any, b: Any) -> Any:
        return a is b, x + b[0]

    pair = (1, 2)
    others = [(1, 2), (3, 4), (5, 6), pair, (7, 8), pair]
    same_results(f, vary=[(torch.ones(1), pair, other) for other in others])


def test_tuples_and_numbers_behind_a_break() -> None:
    """A copy of them would be another object."""

    def f(x: torch.Tensor, o: Any) -> Any:
        pair, number = o.pair, o.number
        stator.graph_break()
        return pair is o.pair, number is o.number, x + 1

    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        o = Plain()
        o.pair, o.number = tuple([1, 2]), float("nan")  # type: ignore[attr-defined]
        assert compiled(torch.ones(1), o)[:2] == (True, True)


def test_references_to_what_is_gone() -> None:
    def f(x: torch.Tensor) -> Any:
        o = Plain()
        reference = weakref.ref(o)
        same = copy.deepcopy(reference) is reference
        del o
        gone = reference() is None
        return same, gone, copy.deepcopy(reference) is reference, x + 1

    forced.force("7")
    same_results(f, torch.ones(1))


@pytest.mark.usefixtures("unaudited")
@pytest.mark.parametrize("place", ["3", "7"])
def test_copies_that_note_addresses_behind_a_break(place: str) -> None:
    """The memo is another object on each call, so its address is no constant."""

    def f(x: torch.Tensor) -> Any:
        memo: dict[int, Any] = {}
        made = [1, (2, 3)]
        copied = copy.deepcopy(made, memo)
        return memo[id(memo)][0] is made, memo[id(made)] is copied, copied[1] is made[1], len(memo), x + 1

    forced.force(place)
    same_results(f, torch.ones(1), calls=3)


def test_a_list_that_holds_itself_under_a_key_that_varies() -> None:
    def f(x: torch.Tensor, table: dict[int, Any], key: int) -> Any:
        return table[key][0] is table[key], x + 1

    ring: list[Any] = []
    ring.append(ring)
    compiled = stator.compile(f, backend="eager")
    for key in range(100, 105):
        assert compiled(torch.ones(1), {key: ring}, key)[0]


LARGE, TEXT, PAIR, HALF = 10**20, "a text", (1, 2), 0.5


@pytest.mark.parametrize(
    ("one", "other"),
    [(LARGE, int(str(LARGE))), (TEXT, TEXT[:3] + TEXT[3:]), (PAIR, tuple([1, 2])), (HALF, float("0.5"))],
)
def test_equal_arguments_behind_a_break(one: Any, other: Any) -> None:
    """The arguments themselves are carried on, not what was equal to them in the first call."""

    def f(x: torch.Tensor, a: Any, b: Any) -> Any:
        stator.graph_break()
        return a is b, x + 1

    def given_back(x: torch.Tensor, a: Any) -> Any:
        return x + 1, a

    same_results(f, vary=[(torch.ones(1), one, second) for second in (one, other, one)])
    same_results(f, vary=[(torch.ones(1), one, second) for second in (other, one, other)])
    compiled = stator.compile(given_back, backend="eager")
    assert all(compiled(torch.ones(1), value)[1] is value for value in (one, other, one))


def read_again(x: torch.Tensor, o: Any) -> Any:
    value = o.value
    stator.graph_break()
    return value is o.value, value is o.items[0], x + 1


def by_two_ways(x: torch.Tensor, o: Any) -> Any:
    one, other = o.value, o.items[0]
    stator.graph_break()
    return one is other, x + 1


def stored(x: torch.Tensor, o: Any) -> Any:
    o.last = o.value
    return x + 1


def kept(x: torch.Tensor, o: Any) -> Any:
    made = {"value": o.value}
    stator.graph_break()
    return made["value"] is o.value, x + 1


@pytest.mark.parametrize("program", [read_again, by_two_ways, stored, kept])
@pytest.mark.parametrize(
    "make",
    [
        lambda: int("5" * 12),
        lambda: "".join(["ab", "cd"]),
        lambda: float("0.25"),
        lambda: range(3),
        lambda: torch.device("cpu"),
        lambda: slice(int("1"), 2),
        lambda: torch.Size([1, 300]),
    ],
)
def test_constants_of_objects(program: Any, make: Any) -> None:
    compiled = stator.compile(program, backend="eager")
    for same in (True, False, True):
        o = Plain()
        o.value = make()  # type: ignore[attr-defined]
        o.items = [o.value if same else make()]  # type: ignore[attr-defined]
        expected, found = (run(torch.ones(1), o) for run in (program, compiled))
        if program is stored:
            assert o.last is o.value  # type: ignore[attr-defined]
        else:
            assert found[:-1] == expected[:-1]


class Zone(datetime.tzinfo):
    def utcoffset(self, moment: Any) -> datetime.timedelta:
        return datetime.timedelta(hours=1)


class Moment(datetime.datetime):
    pass


@pytest.mark.parametrize("cls", [datetime.datetime, Moment])
def test_zones_of_times(cls: Any) -> None:
    """What C makes of a time from outside has its zone, not a copy of it."""

    def f(x: torch.Tensor, moment: Any) -> Any:
        later = moment + datetime.timedelta(hours=1)
        clock = moment.timetz().replace(fold=1)
        stator.graph_break()
        return later.tzinfo is moment.tzinfo, clock.tzinfo is moment.tzinfo, later == moment, x + 1

    same_results(f, torch.ones(1), cls(2020, 1, 1, tzinfo=Zone()))


def made_before(x: Any, kept: list[Any]) -> Any:
    kind, either = dict[str, list[int]], int | None
    kept.append(kind)
    stator.graph_break()
    same = kind is kept[-1], kind is kept[0], kind == kept[0], either == (int | None)
    return x + 1, kind, kept[-1], kind.__args__, isinstance(3, either), {kind: same}


def test_generic_types_made_before_a_break() -> None:
    compiled = stator.compile(made_before, backend="eager")
    kept: list[Any] = []
    expected: list[Any] = []
    with events.recording("break") as breaks:
        for _ in range(4):
            got = compiled(torch.ones(3), kept)
            assert str(got) == str(made_before(torch.ones(3), expected))
            assert got[1] is got[2] is kept[-1]
    assert {row.fields["break_id"] for row in breaks} == {"graph-break-requested"}
