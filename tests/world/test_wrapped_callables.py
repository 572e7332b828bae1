"""Static methods, class methods and properties over objects with state: what they do is an effect of the call."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import stator


class Counting:
    """Keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def __call__(self, *args: Any) -> Any:
        self.given.append(args[-1] if isinstance(args[-1], torch.Tensor) else None)
        return torch.ones(3) * len(self.given)


class Meta(type):
    whole = property(Counting())


def make() -> Any:
    class Program(metaclass=Meta):
        static = staticmethod(Counting())
        of_class = classmethod(Counting())
        read = property(Counting())
        bound = staticmethod(Counting().__call__)
        rest = staticmethod(functools.partial(Counting(), 1))

        @staticmethod
        @functools.cache
        def table(n: int) -> Any:
            return torch.arange(n), torch.ones(n)

        @classmethod
        @functools.lru_cache(4)
        def made(cls, n: int) -> Any:
            return torch.arange(n) * 2

        @property
        @functools.cache
        def once(self) -> Any:
            return torch.arange(3) * 3

    return Program


PROGRAMS = {
    "static": lambda owner, x: owner.static(x),
    "static of an instance": lambda owner, x: owner().static(x),
    "of a class": lambda owner, x: owner.of_class(x),
    "property": lambda owner, x: x + owner().read,
    "property of a class": lambda owner, x: x + owner.whole,
    "bound": lambda owner, x: owner.bound(x),
    "partial": lambda owner, x: owner.rest(x),
    "cached": lambda owner, x: x + owner.table(3)[0] * owner.table(3)[1],
    "cached for an instance": lambda owner, x: x + owner().table(3)[0],
    "cached of a class": lambda owner, x: x + owner.made(3),
    "cached property": lambda owner, x: x + owner().once,
    "cached, called by C": lambda owner, x: x + next(map(owner.table, [3]))[0],
    "cached, sorted by": lambda owner, x: x + sorted([3, 2], key=lambda n: owner.made(n).numel())[0],
    "cached, in a partial": lambda owner, x: x + functools.partial(owner.table, 3)()[1],
}


def told(owner: Any) -> Any:
    """What the objects behind a class have kept, and what its caches know."""
    own = vars(owner)
    kept = [own[name].__func__ for name in ("static", "of_class")] + [own["read"].fget, owner.rest.func]
    caches = [own["table"].__func__, own["made"].__func__, own["once"].fget]
    return [[*map(str, one.given)] for one in kept], [one.cache_info() for one in caches], str(owner.table(3))


@pytest.mark.parametrize("name", PROGRAMS)
def test_called(name: str) -> None:
    program = PROGRAMS[name]
    mine, other = make(), make()
    compiled = stator.compile(program, backend="eager")
    for step in range(3):
        Meta.__dict__["whole"].fget.given[:] = []
        result = compiled(mine, torch.full((3,), step))
        Meta.__dict__["whole"].fget.given[:] = []
        assert str(result) == str(program(other, torch.full((3,), step)))
    assert told(mine) == told(other)


def test_another_state_is_another_entry() -> None:
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    scaled = Scaled(2.0)

    class Holder:
        scale = staticmethod(scaled)

    compiled = stator.compile(lambda x: Holder.scale(x), backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    scaled.factor = 3.0
    assert compiled(torch.ones(2)).tolist() == [3, 3]
