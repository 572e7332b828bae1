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


def test_messages_speak_of_tensors_and_numbers() -> None:
    def program(x):
        seen = []
        for what in (
            lambda: x + "a", lambda: "a" + x, lambda: x(), lambda: ",".join([x]), lambda: x.size("a"),
            lambda: x.size(True), lambda: x.size(1, 2), lambda: x.shape[0] + "a", lambda: x.shape[0](),
        ):  # fmt: skip
            try:
                seen.append(what())
            except TypeError as error:
                seen.append(str(error))
        return seen

    check(program, vary=[torch.ones(2), torch.ones(3)], fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Counted:
    def __init__(self) -> None:
        self.calls = 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_kernels_that_a_type_lacks(backend: str) -> None:
    """Fake tensors know nothing about it, and the program handles the error."""

    def program(x, counted):
        counted.calls += 1
        try:
            return x & 1.5
        except NotImplementedError:
            return x.softmax(0)

    check(program, torch.ones(2), Counted(), backend=backend, expect_graphs=None)


def test_sizes_and_devices_are_new_objects_each_time() -> None:
    def program(x):
        y, size = x + 1, x.shape
        asked = size is x.shape, y.shape is size, x.size() is x.size(), x.device is y.device
        return asked, [size, size, x.shape, y.size()], [x.device, y.device]

    check(program, vary=[torch.ones(2, 3), torch.ones(3, 3), torch.ones(4, 3)], expect_recompiles=1)
