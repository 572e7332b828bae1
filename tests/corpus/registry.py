"""Programs in the styles of many projects, each with the arguments of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass
class Case:
    """A program and the calls to make of it; `options` go to `check`."""

    make: Callable[[], Any]
    calls: list[tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)

    def program(self) -> Any:
        torch.manual_seed(0)
        return self.make()


CASES: dict[str, Case] = {}


def case(*calls: tuple[Any, ...], train: bool = True, **options: Any) -> Callable[[Any], Any]:
    """Registers a function, or a class of modules that are made without arguments."""

    def register(program: Any) -> Any:
        name = f"{program.__module__.rpartition('.')[2]}.{program.__name__}"
        assert name not in CASES, name
        is_module = isinstance(program, type) and issubclass(program, nn.Module)
        make = (lambda: program().train(train)) if is_module else (lambda: program)
        CASES[name] = Case(make, list(calls), options)
        return program

    return register


def built(*calls: tuple[Any, ...], **options: Any) -> Callable[[Any], Any]:
    """Registers a function that makes the program."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        name = f"{make.__module__.rpartition('.')[2]}.{make.__name__}"
        assert name not in CASES, name
        CASES[name] = Case(make, list(calls), options)
        return make

    return register


_generator = torch.Generator().manual_seed(1)


def r(*sizes: int, grad: bool = False) -> torch.Tensor:
    """Random numbers, the same in every run."""
    return torch.randn(*sizes, generator=_generator).requires_grad_(grad)


def ints(high: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, high, sizes, generator=_generator)
