"""Scalars of numpy that vary: next to a tensor they are numbers, elsewhere constants."""

import numpy as np
import pytest
import torch

from tests.shapes.test_state import compilations


def either_side(x, value):
    x = x * value - value
    x += value
    return value * x, value - x, x / value, x**value, float(value) * 2, value.item()


def looked_at(x, value):
    return x * value, int(value) + 1, value + 1, type(value), value > 2, [value], np.sqrt(value)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_two_compilations(kind, dtype):
    calls = [(torch.tensor([1, 2, 3], dtype=dtype), kind(value)) for value in (2.5, 3.5, 4.5, 5)]
    if dtype is torch.int64 and kind in (np.float32, np.float64):
        assert compilations(lambda: lambda x, value: (x * value, value - x), calls)[0] == 2
    else:
        assert compilations(lambda: either_side, calls)[0] == 2


def test_looked_at():
    calls = [(torch.ones(3), kind(value)) for kind in (np.float64, np.int32) for value in (2, 3, 2, 4)]
    compilations(lambda: looked_at, calls)


def test_another_kind():
    def program(x, value):
        return x * value

    kinds = [np.float64, np.float64, np.float32, np.int64, float, np.float16, np.float64]
    compilations(lambda: program, [(torch.ones(3), kind(number)) for number, kind in enumerate(kinds, 2)])
