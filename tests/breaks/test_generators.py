"""Generators that live on over breaks: captures behind them drive them, and bring the real ones along."""

from __future__ import annotations

import ast
import contextlib
import tokenize
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator import _frames
from tests.harness import check

X = torch.arange(3.0)


def same(program: Any, calls: list[tuple[Any, ...]], **expected: Any) -> None:
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None, **expected)


def scaled(x: Any, n: int, log: list[str]) -> Iterator[Any]:
    try:
        for i in range(n):
            yield x * i + 1
    finally:
        log.append("end")
        print("end")


def over_a_generator(x: Any, n: int) -> Any:
    log: list[str] = []
    for value in scaled(x, n, log):
        x = (x + value).sin()
        stator.graph_break()
        x = x * 0.5
    return x, log


def counted(x: Any, n: int) -> Any:
    def numbers() -> Iterator[Any]:
        i = 0
        while i < n:
            yield x * i
            i += 1

    total = x
    for value in numbers():
        total = (total + value).cos()
        stator.graph_break()
        total = total * 0.5
    return total


@contextlib.contextmanager
def scaling(owner: list[float], scale: float) -> Iterator[None]:
    before, owner[0] = owner[0], scale
    try:
        yield
    finally:
        owner[0] = before


def inside_a_context(x: Any, n: int) -> Any:
    owner = [1.0]
    for _ in range(n):
        with scaling(owner, 3.0):
            x = (x * owner[0]).sin()
            stator.graph_break()
            x = x + owner[0]
        x = x * owner[0]
    return x, owner


def sent(x: Any, n: int) -> Any:
    def average() -> Iterator[Any]:
        state = yield None
        while True:
            state = state * 0.9 + (yield state) * 0.1  # type: ignore[operator]

    made: Any = average()
    next(made)
    made.send(x)
    for _ in range(n):
        x = made.send(x + 1).sin()
        stator.graph_break()
        x = x + 1
    return x


def delegating(x: Any, n: int) -> Any:
    rows = [x * i for i in range(n)]

    def each() -> Iterator[Any]:
        yield from rows

    for value in each():
        x = (x + value).sin()
        stator.graph_break()
        x = x * 0.5
    return x


@pytest.mark.parametrize(
    ("program", "number"), [(delegating, 2), (over_a_generator, 2), (counted, 2), (inside_a_context, 2), (sent, 2)]
)
@pytest.mark.parametrize("n", [3, 11])
def test_as_many_graphs_for_any_number_of_rounds(program: Any, n: int, number: int) -> None:
    same(program, [(X, n), (X + 1, n)], expect_graphs=number)


class Node:
    def __init__(self, value: Any, children: Any) -> None:
        self.value, self.children = value, children

    def walk(self) -> Iterator[Any]:
        yield self.value
        for child in self.children:
            yield from child.walk()


def walked(x: Any, depth: int) -> Any:
    node = Node(x, [])
    for i in range(depth):
        node = Node(x * i, [node, Node(x + i, [])])
    total = x
    for value in node.walk():
        total = (total + value).sin()
        stator.graph_break()
        total = total * 0.5
    return total


def test_one_that_is_at_many_places_is_driven_by_cpython() -> None:
    same(walked, [(X, 12), (X + 1, 12)], expect_graphs=2)


def left_early(x: Any) -> Any:
    log: list[str] = []
    for value in scaled(x, 5, log):
        stator.graph_break()
        x = value + 1
        if not log:
            break
    log.append("after")
    print("after")
    return x, log


def left_by_an_error(x: Any) -> Any:
    log: list[str] = []
    try:
        for value in scaled(x, 5, log):
            stator.graph_break()
            x = value + 1
            raise ValueError(x)
    except ValueError:
        log.append("handled")
    return x, log


def left_by_a_callee(x: Any) -> Any:
    log: list[str] = []

    def first() -> Any:
        for value in scaled(x, 5, log):
            stator.graph_break()
            return value * 2

    found = first()
    log.append("behind")
    return found, log


def left_with_a_rest(x: Any) -> Any:
    log: list[str] = []
    pairs = enumerate(scaled(x, 5, log), 5)
    for i, value in pairs:
        x = (x + value).sin()
        stator.graph_break()
        if i == 6:
            break
    stator.graph_break()
    return x, list(pairs), log


def uneven(x: Any) -> Any:
    log: list[str] = []
    generator = scaled(x, 6, log)
    pairs = zip(generator, [1, 2, 3], strict=False)
    for value, k in pairs:
        x = (x + value * k).sin()
        stator.graph_break()
    log.append("behind")
    stator.graph_break()
    return x, next(generator), next(pairs, None), log


def thrown_into(x: Any) -> Any:
    log = []

    def made() -> Iterator[Any]:
        try:
            yield x + 1
        except KeyError:
            log.append("caught")
            yield x * 3
        finally:
            log.append("finally")

    generator: Any = made()
    next(generator)
    stator.graph_break()
    thrown = generator.throw(KeyError("a"))
    stator.graph_break()
    return thrown, next(generator, None), log, generator.gi_frame


def delegated(x: Any) -> Any:
    def inner() -> Any:
        yield x * 1
        return x * 5

    def outer() -> Any:
        result = yield from inner()
        yield result + 1

    generator = outer()
    first = next(generator)
    stator.graph_break()
    second = next(generator)
    stator.graph_break()
    return first, second, next(generator, "over"), generator.__qualname__, generator.gi_code.co_name


def shared_variables(x: Any) -> Any:
    n = 0

    def made() -> Iterator[Any]:
        nonlocal n
        for i in range(4):
            n += i
            yield x * n

    for value in made():
        stator.graph_break()
        n += 10
        x = x + value
    return x, n


def that_holds_itself(x: Any) -> Any:
    made: dict[str, Any] = {}

    def itself() -> Iterator[Any]:
        for i in range(3):
            made["i"] = i
            yield made["generator"]

    generator = made["generator"] = itself()
    first = next(generator)
    stator.graph_break()
    return first is generator, next(generator) is made["generator"], x * made["i"]


def handling(x: Any) -> Any:
    def made() -> Iterator[Any]:
        try:
            raise KeyError("z")
        except KeyError:
            yield x * 2
            yield x * 3

    generator = made()
    first = next(generator)
    stator.graph_break()
    return first, list(generator)


def thrown_through(x: Any) -> Any:
    log = []

    def inner() -> Any:
        try:
            yield x
        except KeyError:
            log.append("inner")
            raise

    def outer() -> Any:
        try:
            yield from inner()
        except KeyError:
            log.append("outer")
            yield x * 2

    generator = outer()
    generator.__name__ = "first"
    next(generator)
    stator.graph_break()
    caught = generator.throw(KeyError)
    generator.__name__ = "second"
    stator.graph_break()
    return caught + 1, log, generator.__name__, generator.gi_yieldfrom


@pytest.mark.parametrize(
    "program",
    [
        left_early, left_by_an_error, left_by_a_callee, thrown_into, thrown_through, delegated, shared_variables,
        that_holds_itself, handling, left_with_a_rest, uneven,
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_same_as_eager(program: Any, backend: str) -> None:
    same(program, [(X,), (X + 1,), (X + 2,)], backend=backend)


def awaited(x: Any) -> Any:
    class Step:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __await__(self) -> Any:
            answer = yield self.x + 1
            return answer * 2

    async def main() -> Any:
        first = await Step(x)
        stator.graph_break()
        return first + await Step(first)

    coroutine = main()
    asked = coroutine.send(None)
    stator.graph_break()
    asked = coroutine.send(asked * 3)
    try:
        coroutine.send(asked + 1)
    except StopIteration as end:
        return end.value * 2


def test_coroutines() -> None:
    same(awaited, [(X,), (X + 1,)])


def test_one_from_outside_is_brought_along() -> None:
    def program(x: Any, steps: Any) -> Any:
        return x * next(steps) + next(steps)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    steps = (i for i in range(1, 9))
    for round_ in range(3):
        torch.testing.assert_close(compiled(X, steps), X * (2 * round_ + 1) + 2 * round_ + 2)
    assert list(steps) == [7, 8]


def test_one_from_outside_ends() -> None:
    compiled = stator.compile(lambda x, steps: x + sum(steps), backend="eager", fullgraph=True)
    steps = (i for i in range(4))
    torch.testing.assert_close(compiled(X, steps), X + 6)
    assert next(steps, "over") == "over"
    assert steps.gi_frame is None


def test_the_copy_of_one_from_outside_ends_silently() -> None:
    log: list[str] = []
    compiled = stator.compile(lambda x, steps: x + next(steps), backend="eager", fullgraph=True)
    steps = scaled(X, 4, log)
    for i in range(3):
        torch.testing.assert_close(compiled(X, steps), X + X * i + 1)
    assert log == []
    steps.close()
    assert log == ["end"]


def test_variables_in_a_namespace() -> None:
    """Code with `await` outside of functions has no slots for its variables."""
    code = compile("n = 2\nbreak_here()\nawait step\nm = n * 3", "?", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def program(x: Any) -> Any:
        class Step:
            def __await__(self) -> Any:
                yield 1

        names = {"step": Step(), "break_here": stator.graph_break}
        made = eval(code, names)
        first = made.send(None)
        stator.graph_break()
        return x * first, next(made.__await__(), "over"), names["m"]

    same(program, [(X,), (X + 1,)])


def counted(numbers: list[int]) -> Iterator[int]:
    while numbers:
        yield numbers.pop()


def test_generators_of_code_that_cpython_runs_in_any_case() -> None:
    def f(x: torch.Tensor, several: Any) -> Any:
        return x + 1, [*several]

    _frames.mark_code(counted.__code__, _frames.SKIPPED)
    try:
        found = stator.explain(f, backend="eager")(X, counted([1, 2, 3]))
    finally:
        _frames.mark_code(counted.__code__, _frames.TAKEN)
    assert found.result[1] == [3, 2, 1] and found.breaks[0].id == "outside-iterator"


class Reader:
    def __init__(self) -> None:
        self.lines = ["a = 1\n", "b = 2\n"]
        self.asked = 0

    def readline(self) -> str:
        self.asked += 1
        return self.lines.pop(0) if self.lines else ""


def test_tokens_of_what_a_method_of_the_program_reads() -> None:
    def f(x: torch.Tensor, reader: Any) -> Any:
        return x + 1, [token.string for token in tokenize.generate_tokens(reader.readline)]

    def seen(function: Any) -> list[Any]:
        found = []
        for _ in range(3):
            reader = Reader()
            found.append((str(function(torch.ones(1), reader)), reader.asked, reader.lines))
        return found

    assert seen(stator.compile(f, backend="eager")) == seen(f)
