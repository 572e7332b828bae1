"""Warnings that name the caller of what is compiled."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator


def warns(x: Any, level: int) -> Any:
    warnings.warn("plain", stacklevel=1)
    warnings.warn("caller", stacklevel=level)
    return inner(x, level) * 2


def inner(x: Any, level: int) -> Any:
    warnings.warn("before", stacklevel=level + 1)
    os.getpid()
    warnings.warn("after", stacklevel=level + 1)
    return x


def here(program: Callable[..., Any], level: int) -> Any:
    return program(torch.ones(1), level)


def there(program: Callable[..., Any], level: int) -> Any:
    return program(torch.ones(1), level)


@pytest.mark.parametrize("level", [2, 3, 99])
def test_order_and_places(level: int) -> None:
    compiled = stator.compile(warns, backend="eager")
    for caller in (here, there, here):
        seen = []
        for program in (warns, compiled):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                caller(program, level)
            seen.append([(str(row.message), row.filename, row.lineno) for row in caught])
        assert seen[1] == seen[0] and len(seen[0]) == 4


def test_filters() -> None:
    """An error is raised where the program warns; what is ignored at any place is no effect."""

    def program(x: Any) -> Any:
        try:
            warnings.warn("deprecated", DeprecationWarning, stacklevel=2)
        except DeprecationWarning as error:
            return str(error)
        return x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(torch.ones(1)) == 2
        assert stator.stats()["graph_breaks"] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stator.compile(program, backend="eager")(torch.ones(1)) == "deprecated"


@pytest.mark.parametrize("module", [__name__, "elsewhere"])
@pytest.mark.parametrize("message", [None, "deprecated", "deprecate"])
def test_filters_of_a_new_interpreter(module: str, message: str | None) -> None:
    """Those hold plain strings, which C compares as a whole."""

    def program(x: Any) -> Any:
        warnings.warn("deprecated", DeprecationWarning)
        return x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    seen = []
    for run in (program, compiled, compiled):
        with warnings.catch_warnings(record=True) as caught:
            warnings.filters[:] = [
                ("always", message, DeprecationWarning, module, 0),
                ("ignore", None, DeprecationWarning, None, 0),
            ]
            warnings._filters_mutated()  # type: ignore[attr-defined]
            run(torch.ones(1))
        seen.append([(str(row.message), row.lineno) for row in caught])
    assert seen[1] == seen[2] == seen[0]
    assert len(seen[0]) == (module == __name__ and message != "deprecate")
