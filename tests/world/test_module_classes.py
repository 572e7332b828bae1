"""Modules whose class is the program's: attributes of the class, properties, and bound slot methods."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

import stator

X = torch.ones(2)


class Settings(types.ModuleType):
    level = 1

    @property
    def doubled(self) -> int:
        return self.level * 2

    @doubled.setter
    def doubled(self, value: int) -> None:
        self.level = value // 2


def both(program: Any, change: Any = None) -> None:
    """Compares results and names of the module; capturing must not change it."""
    seen, during = [], []
    for compiled in (False, True):
        module = Settings("settings")

        def backend(graph: Any, inputs: Any, module: Any = module) -> Any:
            during.append({name for name in vars(module) if not name.startswith("__")})
            return graph.forward

        function = stator.compile(program, backend=backend) if compiled else program
        results = [function(module, X)[0]]
        if change is not None:
            change(module)
        results.append(function(module, X)[0])
        seen.append((results, {name: value for name, value in vars(module).items() if not name.startswith("__")}))
    assert seen[0] == seen[1]
    assert not during[0]


def raise_level(module: Any) -> None:
    module.level = 8


@pytest.mark.parametrize(
    "program",
    [
        lambda module, x: (module.level, x * 2),
        lambda module, x: (module.doubled, x * 2),
        lambda module, x: (module.__getattribute__("level"), x * 2),
    ],
)
def test_reads(program: Any) -> None:
    both(program, raise_level)


def by_property(module: Any, x: Any) -> Any:
    module.doubled = 10
    return module.level, x * 2


def by_slot(module: Any, x: Any) -> Any:
    module.__setattr__("level", 3)
    return module.doubled, x * 2


def taken_away(module: Any, x: Any) -> Any:
    module.level = 5
    module.__delattr__("level")
    return module.doubled, x * 2


def in_try(module: Any, x: Any) -> Any:
    try:
        found = module.__getattribute__("__name__")
    except TypeError as error:
        found = str(error)
    return found, x * 2


def by_class(module: Any, x: Any) -> Any:
    before = module.level
    Settings.level = 7
    after = module.level
    Settings.level = 1
    return (before, after), x * 2


@pytest.mark.parametrize("program", [by_class, by_property, by_slot, taken_away, in_try])
def test_writes(program: Any) -> None:
    both(program)
