"""Idioms whose shapes or numbers depend on data: programs with the arguments of their calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass
class Idiom:
    """A program and its calls.

    Args:
        whole: it is captured in one graph; otherwise `breaks` are ids of which one at least is seen.
        traced: the test runs it with aot_eager too.
        reruns: calls for which an assumption of the graph does not hold, so that CPython runs them.
    """

    make: Callable[[], Any]
    calls: list[tuple[Any, ...]]
    breaks: tuple[str, ...] = ()
    traced: bool = False
    reruns: int = 0

    @property
    def whole(self) -> bool:
        return not self.breaks

    def program(self) -> Any:
        torch.manual_seed(0)
        return self.make()


BRANCH = ("data-dependent-branch",)
VALUE = ("data-dependent-value",)
IDIOMS: dict[str, Idiom] = {}


def idiom(*calls: tuple[Any, ...], **fields: Any) -> Callable[[Any], Any]:
    """Registers a function, or a class of modules that are made without arguments."""
    assert len(calls) >= 4, "one-element, empty and two ordinary results"

    def register(program: Any) -> Any:
        name = f"{program.__module__.rpartition('.')[2]}.{program.__name__}"
        assert name not in IDIOMS, name
        is_module = isinstance(program, type) and issubclass(program, nn.Module)
        IDIOMS[name] = Idiom(program if is_module else (lambda: program), list(calls), **fields)
        return program

    return register


_generator = torch.Generator().manual_seed(2)


def r(*sizes: int) -> torch.Tensor:
    """Random numbers, the same in every run."""
    return torch.randn(*sizes, generator=_generator)


def ints(high: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, high, sizes, generator=_generator)


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


def t(*values: Any) -> torch.Tensor:
    """A tensor of these values; of one value: without dimensions."""
    return torch.tensor(values if len(values) > 1 else values[0])
