"""Attributes that a program sets on tensors it made, and attributes that tensors do not have."""

from __future__ import annotations

import pytest
import torch

import stator
from tests.harness import check


def adorn(x):
    y = x * 2
    y.note = {"k": 1}
    y.aux = x + 1
    y.aux.deep = [x.sin()]
    setattr(y, "a b", 3)
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_attributes_of_tensors_come_out(backend: str) -> None:
    check(adorn, torch.ones(2), backend=backend)


def test_attributes_of_tensors_live_across_breaks() -> None:
    def program(x, holder):
        y = holder["y"] = x * 2
        y.steps = 1
        stator.graph_break()
        y.steps += 1
        return vars(y), vars(y) is y.__dict__

    check(program, torch.ones(2), {}, fullgraph=False, expect_breaks=None, expect_graphs=None)


def test_attributes_of_the_class_of_tensors_only() -> None:
    names = ("__name__", "__qualname__", "mro", "__mro__", "__bases__", "__call__", "__flags__", "__doc__", "names")
    check(lambda x: [(name, hasattr(x, name), callable(x)) for name in names], torch.ones(2))
