"""Functions made in C that `map` and its like hand numbers and texts to which vary: they see the real ones."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

PROGRAMS: list[Any] = [
    lambda text, n: list(map(os.fspath, ("a", text))),
    lambda text, n: list(map(os.fspath, (part for part in ("a", text)))),
    lambda text, n: list(map((5).__eq__, (part for part in [n, 5]))),
    lambda text, n: [list(map(type, [n, text])), list(map(text.startswith, ["a", "e"]))],
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_items_for_functions_made_in_c(program: Any) -> None:
    def f(x: torch.Tensor, text: str, n: int) -> Any:
        try:
            return x + n, program(text, n)
        except TypeError as error:
            return x + n, str(error)

    calls = [(torch.ones(1), text, n) for text, n in (("ab", 1), ("cd", 2), ("ef", 3), ("gh", 5))]
    check(f, vary=calls, fullgraph=False, expect_recompiles=None, expect_graphs=None, expect_breaks=None)


def test_paths_in_a_loop_with_a_break() -> None:
    def f(x: torch.Tensor, names: list[str]) -> Any:
        paths = []
        for name in names:
            stator.graph_break()
            paths.append(os.path.join("/x", name, f"{name}.mo"))
        return x + 1, paths

    calls = [(torch.ones(1), [text, f"{text}x", "q", "r"]) for text in ("ab", "cd", "ef")]
    check(f, vary=calls, fullgraph=False, expect_recompiles=None, expect_graphs=None, expect_breaks=None)


class Named:
    def __init__(self, name: Any) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"<{self.name}>"

    def __repr__(self) -> str:
        return "Named(%s)" % self.name  # noqa: UP031


def test_texts_that_methods_answer_to_c() -> None:
    def f(x: torch.Tensor, o: Any) -> Any:
        try:
            return x + 1, str(o), repr(o), "%s" % o  # noqa: UP031
        except TypeError as error:
            return x + 1, str(error)

    calls = [(torch.ones(1), Named(name)) for name in ("a", "b", "c", 1, 2, 3)]
    check(f, vary=calls, fullgraph=False, expect_recompiles=None, expect_graphs=None, expect_breaks=None)
