"""What functions and bound methods hand out: their globals, their builtins, their attributes."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

COUNT = 0


class Owner:
    def method(self) -> None: ...


OWNER = Owner()
BOUND = OWNER.method


def counted(namespace: dict[str, Any]) -> tuple[int, bool]:
    """The global, seen as a name and in the namespace."""
    global COUNT
    COUNT += 1
    namespace["COUNT"] += 10
    return COUNT, namespace is globals()


def of_function(x: Any) -> Any:
    def inner() -> None: ...

    return x + 1, counted(inner.__globals__)


def of_method_of_outside(x: Any) -> Any:
    return x + 1, counted(OWNER.method.__globals__)


def of_method_made(x: Any) -> Any:
    class Made:
        def method(self) -> None: ...

    return x + 1, counted(Made().method.__globals__)


def by_descriptor(x: Any) -> Any:
    def inner() -> None: ...

    return x + 1, counted(types.FunctionType.__dict__["__globals__"].__get__(inner))


def by_getter(x: Any) -> Any:
    def inner() -> None: ...

    return x + 1, counted(operator.attrgetter("__globals__")(inner))


def by_object(x: Any) -> Any:
    def inner() -> None: ...

    return x + 1, counted(object.__getattribute__(inner, "__globals__"))


@pytest.mark.parametrize("fn", [of_function, of_method_of_outside, of_method_made, by_descriptor, by_getter, by_object])
def test_globals(fn: Callable[[Any], Any]) -> None:
    check(fn, torch.ones(1), globals=["COUNT"], expect_recompiles=None)


def test_builtins() -> None:
    def fn(x: Any) -> Any:
        def inner() -> None: ...

        other = type(inner)(inner.__code__, {})
        namespace = vars(__import__("builtins"))
        return x + 1, [part.__builtins__ is namespace for part in (inner, other, counted)]

    check(fn, torch.ones(1))


def test_attributes_of_methods() -> None:
    """They are the function's: guarded, and written back."""

    def read(x: Any) -> Any:
        return x + OWNER.method.scale + BOUND.scale, BOUND.__doc__  # type: ignore[attr-defined]

    def write(x: Any) -> Any:
        BOUND.seen.append(1)  # type: ignore[attr-defined]
        return x + len(OWNER.method.seen)  # type: ignore[attr-defined]

    function: Any = Owner.method
    for fn in (read, write):
        function.scale, function.seen = 1, []
        compiled = stator.compile(fn, backend="eager", fullgraph=True)
        for scale, doc in ((1, None), (1, None), (2, "text")):
            function.scale, function.__doc__ = scale, doc
            before = list(function.seen)
            want, after = fn(torch.ones(1)), function.seen
            function.seen = before
            assert compiled(torch.ones(1)) == want
            assert function.seen == after
