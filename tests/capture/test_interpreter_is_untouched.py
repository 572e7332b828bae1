"""Having stator loaded must not change how CPython behaves outside of captures."""

from __future__ import annotations

import torch

import stator


class Plain(type):
    """A metaclass without a `__new__` of its own, made before any capture."""


def test_metaclasses_made_before() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        one = Plain("One", (), {"items": [1]})
        two = type.__new__(Plain, "Two", (), {"items": [2]})
        one.items.append(2)
        return x + len(one.items) + len(two.items)

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)) == 4
    assert type.__new__(Plain, "Three", (), {}).__name__ == "Three"
    assert compiled(torch.ones(1)) == 4
    assert stator.stats()["recompiles"] == 0


def test_metaclass_made_during_a_capture_and_kept() -> None:
    kept: list[type] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        class Meta(type):
            pass

        kept.append(Meta("Made", (), {}))
        return x + 1

    stator.compile(f, backend="eager")(torch.ones(1))
    meta = type(kept[0])
    assert type.__new__(meta, "Again", (), {}).__name__ == "Again"
