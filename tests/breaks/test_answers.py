"""Breaks inside methods that instructions and C functions ask: the rest of all frames is one graph."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator.eval import forced
from tests.harness import check

pytestmark = pytest.mark.usefixtures("unaudited")
PROGRAMS: list[Callable[..., Any]] = []
X = torch.arange(6.0).reshape(2, 3)


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(fn)
    return fn


def run(fn: Any) -> Any:
    return check(fn, X, calls=2, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def graphs(fn: Any) -> int:
    """Graphs after three calls that are as in eager."""
    check(fn, vary=[(X,), (X + 1,), (X * 2,)], fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert stator.stats()["frames_skipped"] == 0
    return int(stator.stats()["graphs"])


class Answering:
    """Methods that instructions and C functions ask."""

    def __init__(self, x: Any, rounds: int = 2) -> None:
        self.x = x * 2
        self.rounds = rounds

    def __len__(self) -> int:
        return self.rounds

    def __bool__(self) -> bool:
        return self.rounds > 0

    def __iter__(self) -> Answering:
        return self

    def __next__(self) -> Any:
        if not self:
            raise StopIteration
        self.rounds -= 1
        return self.x + self.rounds

    def __enter__(self) -> Any:
        return self.x - 1

    def __exit__(self, *error: object) -> bool:
        self.rounds = 5
        return error[0] is KeyError

    @property
    def absent(self) -> Any:
        raise AttributeError("absent")

    @property
    def stored(self) -> Any:
        return self.x

    @stored.setter
    def stored(self, value: Any) -> None:
        self.x = value * 3


@program
def asked_by_instructions(x: Any) -> Any:
    made = Answering(x)
    total = x
    for y in made:
        total = total + y
    empty = not made
    kept = made and x
    other = made or x + 1
    with made as entered:
        total = total + entered
    return total, empty, kept is made, other, len(made), bool(made)


@program
def asked_by_functions(x: Any) -> Any:
    made = Answering(x, rounds=1)
    setattr(made, "stored", x + 1)  # noqa: B010
    first, second = next(made, None), next(made, 7)
    found = getattr(made, "stored"), getattr(made, "absent", 3), hasattr(made, "absent"), hasattr(made, "stored")
    return first, second, found, len(list(iter(Answering(x))))


@program
def answers_that_raise(x: Any) -> Any:
    seen: list[Any] = []

    class Wrong:
        def __init__(self, answer: Any) -> None:
            self.answer = answer
            if answer == 5:
                raise KeyError("in init")

        def __bool__(self) -> bool:
            return self.answer

        def __iter__(self) -> Any:
            return self.answer

        def __len__(self) -> int:
            return self.answer

        def __next__(self) -> Any:
            raise ValueError("in next")

        def __enter__(self) -> Any:
            raise ValueError("in enter")

        def __exit__(self, *error: object) -> None:
            seen.append("not reached")

    class Returning:
        def __init__(self) -> None:
            return 3  # type: ignore[return-value]  # noqa: PLE0101

    attempts: list[Callable[[], Any]] = [lambda: Wrong(5), lambda: not Wrong(1), lambda: [*iter(Wrong(3))], Returning]
    attempts += [lambda: len(Wrong(-1)), lambda: next(Wrong(1), 0)]
    for attempt in attempts:
        try:
            seen.append(attempt())
        except (KeyError, TypeError, ValueError) as error:
            seen.append((type(error).__name__, str(error)))
    try:
        for _ in Wrong(Wrong(1)):
            x = x + 100
    except ValueError as error:
        seen.append(str(error))
        x = x * 2
    try:
        with Wrong(1):
            x = x + 100
    except ValueError as error:
        seen.append(str(error))
    return x, seen


@pytest.mark.parametrize("fn", PROGRAMS)
def test_broken_at_some_instructions(fn: Any) -> None:
    for number in (*range(3, 120, 40), "all"):
        forced.force(str(number))
        stator.reset()
        run(fn)


class Broken:
    """Every method breaks in the middle of its work."""

    def __init__(self, x: Any) -> None:
        self.x = self.work(x)
        self.rounds = 2

    def work(self, x: Any) -> Any:
        y = x + 1
        stator.graph_break()
        return y * 2

    def __len__(self) -> int:
        self.x = self.work(self.x)
        return 3

    def __bool__(self) -> bool:
        self.x = self.work(self.x)
        return True

    def __iter__(self) -> Any:
        return iter([self.work(self.x), self.x])

    def __enter__(self) -> Any:
        return self.work(self.x)

    def __exit__(self, *error: object) -> None:
        pass

    @property
    def got(self) -> Any:
        return self.work(self.x)

    @got.setter
    def got(self, value: Any) -> None:
        self.x = self.work(value)


def plain(x: Any) -> Broken:
    made = Broken.__new__(Broken)
    made.x = x * 3
    return made


def branch(x: Any) -> Any:
    made = plain(x)
    return made.x + 1 if made else made.x


def negated(x: Any) -> Any:
    made = plain(x)
    return not made, made.x + 1


def either(x: Any) -> Any:
    made = plain(x)
    return (made and x + 1), made.x


def iterated(x: Any) -> Any:
    for y in plain(x):
        x = x + y
    return x


def entered(x: Any) -> Any:
    with plain(x) as y:
        x = x + y
    return x * 2


def counted(x: Any) -> Any:
    made = plain(x)
    return len(made), made.x - 1


def set_by_name(x: Any) -> Any:
    made = plain(x)
    setattr(made, "got", x + 1)  # noqa: B010
    return made.x - 1


def set_by_object(x: Any) -> Any:
    made = plain(x)
    object.__setattr__(made, "got", x + 1)
    return made.x - 1


ONE_BREAK = [
    lambda x: Broken(x * 3).x + 1,
    branch,
    negated,
    either,
    iterated,
    entered,
    counted,
    lambda x: getattr(plain(x), "got") + 1,  # noqa: B009
    lambda x: getattr(plain(x), "got", None) + 1,
    lambda x: (hasattr(plain(x), "got"), x + 1),
    set_by_name,
    set_by_object,
]


@pytest.mark.parametrize("fn", ONE_BREAK)
def test_one_break_makes_two_graphs(fn: Any) -> None:
    assert graphs(fn) == 2


class Rounds:
    def __init__(self, x: Any, rounds: int) -> None:
        self.x, self.rounds = x, rounds

    def __iter__(self) -> Rounds:
        return self

    def __next__(self) -> Any:
        if not self.rounds:
            raise StopIteration
        self.rounds -= 1
        y = self.x + 1
        stator.graph_break()
        return y * 2


@pytest.mark.parametrize("rounds", [3, 30])
def test_a_break_in_next_does_not_grow_with_the_rounds(rounds: int) -> None:
    def program(x: Any) -> Any:
        for y in Rounds(x, rounds):
            x = x + y
        return x

    assert graphs(program) <= 5


class Feeding:
    def __init__(self, items: Any) -> None:
        self.items = items

    def __iter__(self) -> Feeding:
        return self

    def __next__(self) -> Any:
        return next(self.items) + 1


def test_the_breaking_instruction_itself_ends_the_loop() -> None:
    class Source:
        """An iterator in CPython's hands."""

        def __init__(self, x: Any) -> None:
            self.left = [x, x + 1]

        def __iter__(self) -> Source:
            return self

        @stator.disable
        def __next__(self) -> Any:
            if not self.left:
                raise StopIteration
            return self.left.pop()

    def program(x: Any) -> Any:
        for y in Feeding(Source(x)):
            x = x + y
        return x, next(Feeding(Source(x)), None), next(Feeding(iter(())), 5)

    assert graphs(program) <= 5


class Numbered:
    def __init__(self, n: int) -> None:
        self.n = n

    def __hash__(self) -> int:
        return self.n

    def __eq__(self, other: object) -> bool:
        return self.n == other.n  # type: ignore[attr-defined]

    def __index__(self) -> int:
        return self.n

    def __float__(self) -> float:
        return self.n * 0.5

    def __bool__(self) -> bool:
        return self.n > 3


ASKED_BY_C: dict[str, Any] = {
    "hash": lambda o: hash(o),
    "set": lambda o: len({o, Numbered(4)}),
    "key": lambda o: {o: 1}[Numbered(o.n)],
    "index": lambda o: [*range(9)][o],
    "slice": lambda o: [*range(9)][o:],
    "repeat": lambda o: "ab" * o,
    "float": lambda o: math.floor(o),
    "bool": lambda o: (bool(o), not o),
    "all": lambda o: all([o]),
}


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("name", ASKED_BY_C)
def test_numbers_that_c_asks_special_methods_for(name: str, drawn: bool) -> None:
    """C looks at their types: a stand-in would be a TypeError that no plain run has."""
    ask = ASKED_BY_C[name]

    def f(x: torch.Tensor, n: int) -> Any:
        o = Numbered(random.randrange(2, 7) if drawn else n)
        try:
            return x + 1, ask(o)
        except TypeError as error:
            return x - 1, str(error)

    def seen(function: Any) -> list[Any]:
        random.seed(3)
        return [str(function(torch.ones(1), n)) for n in (2, 4, 5, 6)]

    assert seen(stator.compile(f, backend="eager")) == seen(f)
