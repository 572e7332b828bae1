"""Warnings next to changes of who listens to them: recorded, filtered, shown by the program."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from test.support import import_helper

import stator


@stator.disable
def opaque(value: Any) -> Any:
    return value


def filtered_later(x: Any, log: Any) -> Any:
    warnings.warn("1", stacklevel=1)
    warnings.simplefilter("ignore")
    warnings.warn("2", stacklevel=1)
    return x + 1


def block_that_ends(x: Any, log: Any) -> Any:
    with warnings.catch_warnings():
        x = opaque(x)
        warnings.warn("in", stacklevel=1)
        warnings.simplefilter("ignore")
        warnings.warn("no", stacklevel=1)
    warnings.warn("out", stacklevel=1)
    return x + 1


def counted(x: Any, log: Any) -> Any:
    warnings.warn("n", stacklevel=1)
    return x + 1, len(log)


def recorded_over_a_break(x: Any, log: Any) -> Any:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        x = opaque(x + 1)
        warnings.warn("b", DeprecationWarning, stacklevel=1)
        count = len(found)
        x = x * 2
        warnings.warn("c", stacklevel=1)
    return x, count, [str(one.message) for one in found]


def shown_by_the_program(x: Any, log: Any) -> Any:
    before = warnings.showwarning
    warnings.showwarning = lambda message, *rest: log.append(str(message))
    x = opaque(x)
    warnings.warn("m", stacklevel=1)
    count = len(log)
    warnings.showwarning = before
    return x + 1, count


def observed(function: Any, own: bool) -> Any:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function(torch.ones(1), found if own else [])
        return str(result), [str(one.message) for one in found]


PROGRAMS = [filtered_later, block_that_ends, counted, recorded_over_a_break, shown_by_the_program]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_same(f: Any) -> None:
    compiled = stator.compile(f, backend="eager")
    for own in (False, True, False) if f is counted else (False, False):
        assert observed(compiled, own) == observed(f, own)


def test_filters_that_a_hit_changes_count_for_places_that_warned_before() -> None:
    def listen(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        warnings.simplefilter("always")
        return y * 2

    def heard(function: Any) -> list[int]:
        counts = []
        namespace: dict[str, Any] = {"warnings": warnings}
        exec("def give():\n    warnings.warn('again')", namespace)
        for _ in range(3):
            with warnings.catch_warnings(record=True) as kept:
                warnings.simplefilter("default")
                namespace["give"]()
                namespace["give"]()
                function(torch.ones(2))
                namespace["give"]()
                counts.append(len(kept))
        return counts

    assert heard(stator.compile(listen, backend="eager", fullgraph=True)) == heard(listen) == [2, 2, 2]


def test_filters_of_another_copy_of_the_module_are_changed_by_cpython() -> None:
    another = import_helper.import_fresh_module("warnings", fresh=["_warnings"])

    def f(x: torch.Tensor) -> torch.Tensor:
        another._filters_mutated()
        return x + 1

    assert stator.explain(f, backend="eager")(torch.ones(2)).breaks[0].id == "native-unknown"
