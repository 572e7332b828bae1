"""Equal constants are not always one object, and programs can tell: `default is SUPPRESS`."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

TEXT = "==" + "text" * 2 + "=="
PAIR = (1, 2.5)
NAN = float("nan")
OTHERS = {"text": "".join(["==", "texttext", "=="]), "pair": tuple([1, 2.5]), "nan": float("nan")}


@stator.disable
def opaque(value: Any) -> Any:
    return value


@pytest.mark.parametrize(("value", "other"), [(TEXT, "text"), (PAIR, "pair"), (NAN, "nan")])
def test_equal_constants_are_told_apart(value: Any, other: str) -> None:
    def f(given: Any) -> Any:
        return given is TEXT, given is PAIR, given is NAN

    compiled = stator.compile(f, backend="eager")
    for given in (value, OTHERS[other], value, OTHERS[other]):
        assert compiled(given) == f(given)


@pytest.mark.parametrize("value", [TEXT, PAIR, b"==bytes=="])
def test_constants_over_a_break_are_the_same_objects(value: Any) -> None:
    def f(x: torch.Tensor, given: Any) -> Any:
        kept, listed, named = [given], [given, 1, 2], {given: given}
        x = opaque(x + 1)
        return x * 2, kept[0] is given, listed[0] is given, named[given] is given, kept[0] is value

    check(f, torch.ones(2), value, fullgraph=False, expect_breaks=1, expect_graphs=2)


def test_arguments_that_are_suppressed() -> None:
    def f(x: torch.Tensor) -> Any:
        parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
        parser.add_argument("--name")
        x = opaque(x + 1)
        return x * 2, vars(parser.parse_args([]))

    compiled = stator.compile(f, backend="eager")
    assert compiled(torch.ones(2))[1] == compiled(torch.ones(2))[1] == {}


with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)
    exec(
        "def numbers(x, n):\n"
        "    size = x.shape[0]\n"
        "    return x * n, n is 5, size is 5, size is n, n is None, n is 5000\n"
    )


def test_identity_of_numbers_that_vary() -> None:
    numbers: Any = globals()["numbers"]
    compiled = stator.compile(numbers, backend="eager")
    for n in (2, 3, 4, 5, 6, 5):
        assert compiled(torch.ones(n), n)[1:] == numbers(torch.ones(n), n)[1:]
    assert stator.stats()["recompiles"] == 2


def test_identity_of_conditions_on_data() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, (x.sum() > 0).item() is True

    for sign in (1, -1):
        check(f, torch.ones(2) * sign, fullgraph=False, expect_breaks=None, expect_graphs=None)


def searched(x: torch.Tensor, given: Any, values: Any) -> Any:
    return x * 2, given in values, values.count(given), values == [given], given is values[0]


MAKERS = [lambda: float("nan"), lambda: complex("nan"), lambda: (float("nan"),), lambda: frozenset([float("nan")])]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("order", [(1, 0, 1, 0), (0, 1, 0, 1), (1, 1, 1, 1)])
def test_a_nan_is_equal_to_the_same_object_alone(make: Any, order: tuple[int, ...]) -> None:
    compiled = stator.compile(searched, backend="eager")
    for same in order:
        given = make()
        values = [given if same else make()]
        assert compiled(torch.ones(2), given, values)[1:] == searched(torch.ones(2), given, values)[1:]
    assert type(given) is not float or stator.stats()["recompiles"] <= 1


def test_a_nan_among_floats_that_vary() -> None:
    compiled = stator.compile(searched, backend="eager")
    nan = float("nan")
    for given, other in ((1.0, 2.5), (1.5, 2.0), (2.5, 3.0), (nan, nan), (nan, float("nan")), (4.0, nan)):
        assert compiled(torch.ones(2), given, [other])[1:] == searched(torch.ones(2), given, [other])[1:]


def test_a_nan_of_an_attribute_over_a_break() -> None:
    def f(x: torch.Tensor, o: Any) -> Any:
        given = o.given
        x = opaque(x + 1)
        return x * 2, given in o.values, given is o.values[0]

    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        nan = float("nan")
        o = argparse.Namespace(given=nan, values=[nan])
        assert compiled(torch.ones(2), o)[1:] == (True, True)


def test_nobody_is_asked_whether_tuples_are_equal() -> None:
    asked = []

    class Loud:
        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return False

        __hash__ = None  # type: ignore[assignment]

    known = (Loud(),)

    def f(x: torch.Tensor, given: Any) -> Any:
        return x + 1, given is known

    compiled = stator.compile(f, backend="eager")
    assert [compiled(torch.ones(1), given)[1] for given in (known, (Loud(),), known, (Loud(),))] == [1, 0, 1, 0]
    assert not asked


def test_sizes_are_asked_for_anew():
    """Each `x.shape` is an object of its own, also where one entry serves all rounds and calls."""

    def program(x):
        seen = []
        for _ in range(4):
            seen.append(x.shape)
            stator.graph_break()
        return x + 1, seen

    def outcome(function):
        first, second = function(torch.ones(2))[1], function(torch.ones(2))[1]
        return len({id(size) for size in [*first, *second]})

    assert outcome(stator.compile(program, backend="eager")) == outcome(program) == 8
