"""Calls of torch that are no tensor operations: contexts, constructors, sizes, devices, groups, profiler blocks."""

import numpy as np
import pytest
import torch
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as grouped

import stator
from tests.harness import check


@torch.inference_mode()
def decorated(x):
    return x * 2


def inferred(x):
    with torch.inference_mode():
        y = x + 1
        inside = torch.is_inference_mode_enabled(), y.is_inference()
    with torch.inference_mode(False):
        z = x * 2
    return y, z, inside, decorated(x).is_inference()


def blocks(x):
    with torch.profiler.record_function("first"):
        y = x + 1
    with torch.autograd.profiler.record_function("second") as block:
        y = y * 2
    return y, block.name


def broken_block(x):
    with torch.profiler.record_function("first"):
        y = x + 1
        stator.graph_break()
        y = y * 2
    return y


WHOLE = {
    "data": lambda x: x + torch.FloatTensor([1, 2, 3]) + torch.Tensor([0.5, 1, 2]) + torch.LongTensor([1, 2, 3]),
    "nested data": lambda x: x + torch.DoubleTensor([[1, 2, 3], (4, 5, 6)]) + torch.BoolTensor([True, False, True]),
    "arrays": lambda x: x + torch.Tensor(np.arange(3)) + torch.FloatTensor(x.detach().numpy() * 2),
    "lists with numbers of numpy": lambda x: x + torch.LongTensor([np.int32(1), 2, 3]) + torch.Tensor(range(3)),
    "sizes": lambda x: torch.Tensor(2, 3).zero_() + torch.FloatTensor(x.size()).fill_(1) + x,
    "torch.Size": lambda x: (torch.Size([1, 2]) + x.shape, x.expand(torch.Size((2,)) + x.shape)),
    "device": lambda x: x.to(torch.device("cpu")) + torch.ones(3, device=torch.device("cpu")),
    "groups": lambda x: grouped([[x, x * 2], [x + 1, None]], with_indices=True),
    "blocks": blocks,
    "inference": inferred,
}


@pytest.mark.parametrize("name", WHOLE)
def test_is_captured_whole(name):
    check(WHOLE[name], torch.ones(3))


class Table:
    def __init__(self):
        self.rows = np.arange(3, dtype=np.float32)

    def __call__(self, x):
        found = torch.Tensor(self.rows)
        self.rows += 1
        return found + x


def shared(x):
    array = np.zeros(3, np.float32)
    tensor = torch.Tensor(array)
    tensor += x
    return tensor, array


@pytest.mark.parametrize("program", [Table().__call__, shared])
def test_tensors_have_the_memory_of_arrays(program):
    check(program, torch.ones(3), calls=3, fullgraph=False, expect_breaks=1, expect_recompiles=None)


def test_groups_of_many_kinds():
    def program(x, y):
        found = grouped([[x, y, x * 2]])
        return list(found), [tensors for (tensors,), _ in found.values()]

    check(program, torch.ones(3), torch.ones(3, dtype=torch.float64))


def test_a_break_inside_a_profiler_block():
    check(broken_block, torch.ones(3), fullgraph=False, expect_breaks=1, expect_graphs=2)


def test_blocks_are_seen_by_a_profiler():
    compiled = stator.compile(blocks, backend="eager")
    compiled(torch.ones(3))
    with torch.profiler.profile() as profile:
        compiled(torch.ones(3))
    assert {"first", "second"} <= {event.name for event in profile.events()}
