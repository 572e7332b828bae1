"""C code that catches what a stand-in raises, and raises an exception of its own or goes on without."""

from __future__ import annotations

import operator
import struct

import pytest
import torch

from tests.harness import check

MASK = torch.tensor([True, True, False])
FUNCTIONS = (lambda n: struct.pack("i", n), lambda n: operator.length_hint([], n), lambda n: "x".center(n))


def test_sizes_of_numbers_in_tensors() -> None:
    def program(mask):
        try:
            size = torch.Size([mask.sum(), 2])
        except TypeError as error:
            return str(error)
        return torch.zeros(size) + 1, size

    check(program, MASK, expect_breaks=0)


def test_a_size_read_from_an_iterator() -> None:
    """C asks each item for an index, and says something else where that fails."""

    def program(mask):
        try:
            return torch.Size(iter([mask.sum(), 2]))
        except TypeError as error:
            return str(error)

    check(program, MASK, expect_breaks=1, fullgraph=False)


@pytest.mark.parametrize("made", [torch.tensor(2.0), torch.tensor([1, 2]), torch.tensor([3]), torch.tensor(True)])
@pytest.mark.parametrize("function", [operator.index, torch.Size, lambda number: [1, 2, 3, 4][number]])
def test_what_is_no_index(function, made) -> None:
    def program(x):
        try:
            return function([x * 1]) if function is torch.Size else function(x * 1)
        except TypeError as error:
            return str(error)

    check(program, made, expect_breaks=None, fullgraph=False)


def test_arguments_of_other_functions() -> None:
    def program(mask):
        made = []
        for function in FUNCTIONS:
            try:
                made.append(function(mask.sum()))
            except (TypeError, struct.error) as error:
                made.append(repr(error))
        return made

    check(program, MASK, expect_breaks=None, fullgraph=False)
