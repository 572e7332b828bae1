"""Loops with a break over ordered dicts, dicts backwards and deques: their rounds are compiled."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

X = torch.arange(3.0)


class Kept(OrderedDict[Any, Any]):
    """A class of the program."""


class Named(str):
    """A key that says itself where it lies."""

    asked = 0

    def __hash__(self) -> int:
        Named.asked += 1
        return str.__hash__(self)


def four(kind: Any = OrderedDict) -> Any:
    return kind((name, float(i)) for i, name in enumerate("abcd"))


def over_items(x: Any, table: Any) -> Any:
    for key, value in table.items():
        x = x + value
        stator.graph_break()
        x = x * len(key) + 1
    return x


def over_keys(x: Any, table: Any) -> Any:
    for key in table:
        x = x + len(key)
        stator.graph_break()
    return x


def over_values(x: Any, table: Any) -> Any:
    for i, value in enumerate(table.values()):
        x = x + value * i
        stator.graph_break()
    return x


def backwards(x: Any, table: Any) -> Any:
    for key in reversed(table):
        x = x + len(key)
        stator.graph_break()
    for value in reversed(table.values()):
        x = x * value
        stator.graph_break()
    for key, value in reversed(table.items()):
        x = x - value * len(key)
        stator.graph_break()
    return x


def over_one_of_its_own(x: Any, table: Any) -> Any:
    scaled = OrderedDict((key, x * value) for key, value in table.items())
    for value in scaled.values():
        x = x + value
        stator.graph_break()
    return x


@pytest.mark.parametrize("program", [over_items, over_keys, over_values, backwards, over_one_of_its_own])
@pytest.mark.parametrize("kind", [dict, OrderedDict, Kept])
def test_rounds_are_compiled(program: Any, kind: Any) -> None:
    with events.recording("break") as breaks:
        report = check(program, X, four(kind), calls=2, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert report.gained("graphs")
    assert "outside-iterator" not in {row.fields["break_id"] for row in breaks}


def views(x: Any, table: Any) -> Any:
    keys, values, items = table.keys(), table.values(), table.items()
    stator.graph_break()
    return x + sum(values), list(keys), len(items), ("a", 0.0) in items, keys & {"a", "z"}


@pytest.mark.parametrize("kind", [OrderedDict, Kept])
def test_views_behind_a_break(kind: Any) -> None:
    check(views, X, four(kind), fullgraph=False, expect_breaks=1, expect_graphs=1)


def writes(x: Any, table: Any) -> Any:
    for key in table:
        table[key] += 1
        stator.graph_break()
        x = x + table[key]
    return x


def adds(x: Any, table: Any) -> Any:
    for key in table:
        x = x + 1
        stator.graph_break()
        table[key + "'"] = 0.0
    return x


def moves(x: Any, table: Any) -> Any:
    for key in table:
        x = x + 1
        stator.graph_break()
        table.move_to_end(key)
    return x


def puts_in_again(x: Any, table: Any) -> Any:
    for key in table.keys():
        x = x + 1
        stator.graph_break()
        table[key] = table.pop(key)
    return x


def takes_out(x: Any, table: Any) -> Any:
    for key in reversed(table):
        x = x + 1
        stator.graph_break()
        del table[key]
    return x


@pytest.mark.parametrize("program", [writes, adds, moves, puts_in_again, takes_out])
@pytest.mark.parametrize("kind", [dict, OrderedDict, Kept])
def test_dicts_that_change_under_a_loop(program: Any, kind: Any) -> None:
    if program is not moves or kind is not dict:
        check(program, X, four(kind), calls=2, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def keeps_an_iterator(x: Any, table: Any) -> Any:
    items = iter(table.items())
    first = next(items)
    stator.graph_break()
    x = x + first[1] + next(items)[1]
    stator.graph_break()
    return x, list(items), next(items, None)


@pytest.mark.parametrize("kind", [dict, OrderedDict, Kept])
def test_an_iterator_goes_on_where_it_was(kind: Any) -> None:
    check(keeps_an_iterator, X, four(kind), calls=2, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_keys_are_not_asked_behind_its_back() -> None:
    def program(x: Any, table: Any) -> Any:
        before = Named.asked
        for key in table:
            x = x + len(key)
            stator.graph_break()
        return x, Named.asked - before

    table = OrderedDict((Named(name), 1) for name in "abc")
    check(program, X, table, calls=2, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def over_a_deque(x: Any, queue: Any) -> Any:
    for value in queue:
        x = x + value
        stator.graph_break()
    for i, value in enumerate(reversed(queue)):
        x = x * value + i
        stator.graph_break()
    return x


def over_a_deque_of_its_own(x: Any, queue: Any) -> Any:
    for value in deque([x * 2, x * 3, *queue], maxlen=5):
        x = x + value
        stator.graph_break()
    return x


class Queue(deque[Any]):
    """A class of the program."""


@pytest.mark.parametrize("program", [over_a_deque, over_a_deque_of_its_own])
@pytest.mark.parametrize("kind", [deque, Queue])
def test_rounds_over_deques_are_compiled(program: Any, kind: Any) -> None:
    with events.recording("break") as breaks:
        report = check(program, X, kind([1.0, 2.0, 3.0]), fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert report.gained("graphs")
    assert "outside-iterator" not in {row.fields["break_id"] for row in breaks}


def sets_an_item(x: Any, queue: Any) -> Any:
    for value in queue:
        queue[1] = value + 1
        stator.graph_break()
        x = x + value
    return x


def appends(x: Any, queue: Any) -> Any:
    for value in queue:
        stator.graph_break()
        queue.append(value)
        x = x + value
    return x


def appends_at_the_end(x: Any, queue: Any) -> Any:
    for i, value in enumerate(queue):
        stator.graph_break()
        x = x + value
        if i == 2:
            queue.append(x)
    return x


def takes_from_the_left(x: Any, queue: Any) -> Any:
    for value in reversed(queue):
        x = x + value
        stator.graph_break()
        queue.popleft()
    return x


def turns(x: Any, queue: Any) -> Any:
    for value in queue:
        x = x + value
        stator.graph_break()
        queue.rotate(1)
        queue.rotate(-1)
    return x


@pytest.mark.parametrize("program", [sets_an_item, appends, appends_at_the_end, takes_from_the_left, turns])
def test_deques_that_change_under_a_loop(program: Any) -> None:
    queue = deque([1.0, 2.0, 3.0])
    check(program, X, queue, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def changes_before_the_break(x: Any, queue: Any) -> Any:
    values, pairs = iter(queue), zip(queue, reversed(queue), strict=False)
    queue.rotate(1)
    stator.graph_break()
    try:
        next(values)
    except RuntimeError as error:
        return x + 1, str(error), list(pairs)


def test_an_iterator_knows_that_its_deque_has_changed() -> None:
    queue = deque([1.0, 2.0, 3.0])
    check(changes_before_the_break, X, queue, fullgraph=False, expect_breaks=None, expect_recompiles=None)
