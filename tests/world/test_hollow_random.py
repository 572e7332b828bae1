"""Random programs on hollow containers: what they read and leave behind is what plain Python does."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import stator
from tests.world.test_hollow import Holder


@pytest.fixture
def unaudited(monkeypatch):
    """Hundreds of captures: without the list of everything that exists."""
    monkeypatch.setattr("stator.world.world.AUDITING", False)


VALUES = st.integers(-3, 5)
KEYS = st.one_of(st.integers(-3, 8), st.sampled_from(["a", "b", True, 1.0, None, (1, 2)]))
LIST_STEPS = {
    "append": lambda x, a, b: x.append(a), "extend": lambda x, a, b: x.extend([a, b]),
    "iadd": lambda x, a, b: iadd(x, (a,)),
    "get": lambda x, a, b: x[a], "pop": lambda x, a, b: x.pop(), "pop_at": lambda x, a, b: x.pop(a),
    "len": lambda x, a, b: len(x), "truth": lambda x, a, b: not x, "slice": lambda x, a, b: x[a:b],
    "set": lambda x, a, b: x.__setitem__(a, b), "in": lambda x, a, b: a in x, "copy": lambda x, a, b: tuple(x),
    "del": lambda x, a, b: x.__delitem__(a), "insert": lambda x, a, b: x.insert(a, b),
    "last": lambda x, a, b: x[a:], "first": lambda x, a, b: x[:b], "sum": lambda x, a, b: sum(x),
    "min": lambda x, a, b: min(x), "max": lambda x, a, b: max(x) / 2, "half": lambda x, a, b: x.append(a / 2),
}  # fmt: skip


def iadd(x: Any, values: Any) -> None:
    x += values


def delete(x: Any, key: Any) -> None:
    del x[key]


def store(x: Any, key: Any, value: Any) -> None:
    x[key] = value


def over_keys(x: Any, a: Any, b: Any) -> Any:
    seen = []
    for key in x:
        seen.append((key, x[key]))
        if key == a:
            break
    return seen


def over_items(x: Any, a: Any, b: Any) -> Any:
    for key, value in x.items():
        x[key] = value + 1 if key != a else b
    return [value for value in x.values()], {key: pair for key, *pair in x.items()}  # noqa: C416


def over_pairs(x: Any, a: Any, b: Any) -> Any:
    found = []
    for pair in x.items():
        found.append(pair)
        if pair[1] == b:
            x[a] = b  # an error if it is new
    return found


DICT_STEPS = {
    "keys": over_keys, "items": over_items, "pairs": over_pairs, "views": lambda x, a, b: (x.keys(), len(x.values())),
    "set": store, "get": lambda x, a, b: x[a], "get_or": lambda x, a, b: x.get(a, b), "in": lambda x, a, b: a in x,
    "del": lambda x, a, b: delete(x, a), "pop": lambda x, a, b: x.pop(a), "pop_or": lambda x, a, b: x.pop(a, b),
    "setdefault": lambda x, a, b: x.setdefault(a, b), "len": lambda x, a, b: len(x), "truth": lambda x, a, b: not x,
    "update": lambda x, a, b: x.update({a: b, "u": 1}), "list": lambda x, a, b: list(x.items()),
}  # fmt: skip
SET_STEPS = {
    "add": lambda x, a, b: x.add(a), "discard": lambda x, a, b: x.discard(a), "remove": lambda x, a, b: x.remove(a),
    "in": lambda x, a, b: a in x, "len": lambda x, a, b: len(x), "truth": lambda x, a, b: not x,
    "size": lambda x, a, b: sum(1 for _ in x), "list": lambda x, a, b: list(x), "pop": lambda x, a, b: x.pop(),
    "update": lambda x, a, b: x.update((a, b, a)), "clear": lambda x, a, b: x.clear(),
}  # fmt: skip
DEQUE_STEPS = {
    "append": lambda x, a, b: x.append(a), "appendleft": lambda x, a, b: x.appendleft(a),
    "extend": lambda x, a, b: x.extend((a, b)), "get": lambda x, a, b: x[a], "len": lambda x, a, b: len(x),
    "truth": lambda x, a, b: not x, "pop": lambda x, a, b: x.pop(), "popleft": lambda x, a, b: x.popleft(),
}  # fmt: skip


# The places of 8 and 0 in a table depend on its size, and on what was there.
AGAIN = [(SET_STEPS[name], a, 0) for name, a in (("clear", 0), ("add", 8), ("add", 0))]


def run_steps(steps: Any, holder: Any) -> list[Any]:
    seen = []
    for step, a, b in steps:
        try:
            seen.append(step(holder.x, a, b))
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            seen.append((type(error), str(error)))
    return seen


def random_program(table: dict[str, Any], arguments: Any) -> Any:
    names = st.sampled_from(sorted(table))
    return st.lists(st.tuples(names, arguments, VALUES), min_size=1, max_size=8).map(
        lambda rows: [(table[name], a, b) for name, a, b in rows]
    )


def run_random(steps: Any, start: Any) -> None:
    """Compiled first for one state and then used for others: static, then hollow."""

    def program(holder):
        return run_steps(steps, holder)

    stator.reset()
    compiled = stator.compile(program, backend="eager", options={"recompile_limit": 20})
    ours, theirs = Holder(x=copy.copy(start)), Holder(x=copy.copy(start))
    for _ in range(3):
        assert repr(compiled(ours)) == repr(program(theirs))
        assert repr(ours) == repr(theirs)
    big = type(start)((key, key) for key in range(70)) if type(start) is dict else type(start)(range(70))
    ours, theirs = Holder(x=copy.copy(big)), Holder(x=copy.copy(big))
    for _ in range(2):
        assert repr(compiled(ours)) == repr(program(theirs))
        assert repr(ours) == repr(theirs)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random_program(LIST_STEPS, VALUES), st.lists(VALUES, max_size=5))
def test_random_lists(unaudited, steps, start):
    run_random(steps, start)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random_program(DICT_STEPS, KEYS), st.dictionaries(KEYS, VALUES, max_size=5))
def test_random_dicts(unaudited, steps, start):
    run_random(steps, start)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random_program(SET_STEPS, KEYS), st.sets(KEYS, max_size=5))
@example(steps=[(SET_STEPS["add"], n, 0) for n in (1, 2, "a")] + AGAIN, start=set())
@example(steps=[(SET_STEPS["update"], 5, -2), *AGAIN], start={2, 3})
def test_random_sets(unaudited, steps, start):
    run_random(steps, start)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random_program(DEQUE_STEPS, VALUES), st.lists(VALUES, max_size=5), st.sampled_from([None, 3, 80]))
def test_random_deques(unaudited, steps, start, maxlen):
    run_random(steps, deque(start, maxlen))
