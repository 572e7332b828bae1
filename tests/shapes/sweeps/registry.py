"""Programs to be called with ten sizes or numbers each, and how many compilations that may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 13, 16)
LONGER = (5, 7, 4, 9, 12, 6, 8, 17, 11, 3)  # with SIZES: two sizes that change on each call


@dataclass
class Sweep:
    """A program, its arguments as a function of the call's number, and the number of calls."""

    make: Callable[[], Any]
    arguments: Callable[[int], tuple[Any, ...]]
    calls: int = len(SIZES)
    compiles: int = 2
    quick: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def program(self) -> Any:
        torch.manual_seed(0)
        return self.make()

    def all_arguments(self) -> list[tuple[Any, ...]]:
        torch.manual_seed(1)
        return [self.arguments(number) for number in range(self.calls)]


SWEEPS: dict[str, Sweep] = {}


def sweep(
    arguments: Callable[[int], tuple[Any, ...]], train: bool = True, factory: bool = False, **fields: Any
) -> Callable[[Any], Any]:
    """Registers a function, a class of modules that are made without arguments, or what makes the program."""

    def register(program: Any) -> Any:
        name = f"{program.__module__.rpartition('.')[2]}.{program.__name__}"
        assert name not in SWEEPS, name
        is_module = isinstance(program, type) and issubclass(program, nn.Module)
        make = (lambda: program().train(train)) if is_module else program if factory else (lambda: program)
        SWEEPS[name] = Sweep(make, arguments, **fields)
        return program

    return register


def sized(make: Callable[[int, int], Any], first: Sequence[int] = SIZES, second: Sequence[int] = LONGER) -> Any:
    """Arguments made from two sizes of a call's number."""

    def arguments(number: int) -> tuple[Any, ...]:
        made = make(first[number], second[number])
        return made if isinstance(made, tuple) else (made,)

    return arguments
