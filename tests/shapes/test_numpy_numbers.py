"""Scalars of numpy that vary: next to a tensor they are numbers, elsewhere constants."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.harness import check
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


def rounded_up(x, n, s):
    return F.pad(x, (0, int(np.ceil(x.shape[0] / 4) * 4) - x.shape[0])), round(np.sqrt(n)), math.floor(np.log2(s + 4))


def in_place(x, n, s):
    scale = np.sqrt(n)
    scale += 1
    scale *= np.float64(s)
    return x * scale / (1 / np.exp(-s)), float(scale)


def as_sizes(x, n, s):
    return (
        x.reshape(np.prod(x.shape)),
        torch.zeros(np.int64(n)),
        torch.full((2,), np.cos(s)),
        x[: int(np.clip(n, 1, 6))],
    )


def of_lists(x, n, s):
    return x * np.max([n, 3]) - np.sum((n, x.shape[0])) + int(np.maximum(n, 5))


@pytest.mark.parametrize("program", [rounded_up, in_place, as_sizes, of_lists])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_numpy_makes_of_numbers(program, backend):
    calls = [(torch.arange(3.0 + i), 3 + i, 0.4 + 0.37 * i) for i in range(8)]
    assert compilations(lambda: program, calls, backend=backend)[0] <= 3


def seen(x, n, s):
    made = np.ceil(s)
    return (
        type(np.sqrt(n)),
        made.dtype,
        f"{made:.1f}",
        [np.log(n)],
        made == 1,
        bool(np.isnan(np.sqrt(-n))),
        torch.tensor(made),
        x,
    )


def test_seen_as_scalars_of_numpy():
    with np.errstate(invalid="ignore"):
        compilations(lambda: seen, [(torch.ones(2), 3 + i, 0.4 + 0.37 * i) for i in range(5)])


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[:, : int(np.ceil(np.log(x.shape[1])))],
        lambda x: x[:, : np.ceil(np.log(x.shape[1])).astype("int").item()],
        lambda x: x[:, : 2 * np.floor(np.log2(x.shape[1] - 2) / 2).astype(np.int64).item()] * 2,
        lambda x: x * np.ceil(np.sqrt(x.shape[1])).item(),
    ],
)
def test_rounded_functions_of_a_size(program):
    check(program, vary=[(torch.randn(2, n),) for n in (12, 15, 18, 40, 300)], expect_recompiles=1)


def test_rounded_functions_end_where_they_were_not_tried():
    def program(x):
        return x[: int(np.ceil(np.log(x.shape[0])))]

    check(program, vary=[(torch.arange(n),) for n in (12, 15, 1024, 1, 1025, 2000)], expect_recompiles=None)


def rounded_up(x):
    multiple = np.lcm(2, 4)
    if x.size(0) % multiple != 0 and x.size(0) > np.int64(2):
        x = torch.cat([x, x.new_zeros(multiple - x.size(0) % multiple)])
    return x * (x.size(0) // multiple)


def test_sizes_next_to_numpy_ints():
    assert compilations(lambda: rounded_up, [(torch.ones(n),) for n in (9, 10, 13, 14, 17)])[0] == 2


def with_constants(x):
    n, four = x.size(0), np.int64(4)
    odd = n % four
    if odd:
        x = x[:-1]
    odd += 5
    odd //= 2
    facts = n // four > 3, four <= n, odd == 4, np.float64(2.5) > n, n % np.int64(-3), np.int64(-7) // n
    return x * odd, facts, n - np.float64(2.5), n / four, n // np.float64(3), n // np.int32(3), n % np.int64(n)


def test_operators_of_sizes_and_numpy_constants():
    compilations(lambda: with_constants, [(torch.ones(n),) for n in (8, 9, 12, 13, 18, 21)])


def test_ints_that_numpy_has_no_room_for():
    def program(x):
        return x + 1, (np.int64(3) + x.size(0)) - 2**63

    check(program, vary=[(torch.ones(n),) for n in (8, 9, 12)], fullgraph=False, expect_recompiles=None,
          expect_graphs=None, expect_breaks=None)  # fmt: skip


RATES, STEPS = np.linspace(0.1, 0.9, 20), np.arange(20)[::-1].copy()
LONG = np.linspace(0.0, 1.0, 1000)  # an input of the graph


@pytest.mark.parametrize(
    "program",
    [
        lambda x, t: x * np.sqrt(RATES[t]) + torch.ones(3) * np.sqrt(1 - RATES[t]),
        lambda x, t: (x * RATES[-t], RATES[t] * 2 + RATES[t - 1]),
        lambda x, t: x * RATES.astype(np.float32)[t],
        lambda x, t: (x * int(STEPS[t]), x.repeat(int(STEPS[t]))),
        lambda x, t: (x * LONG[t], x / np.sqrt(1 - LONG[-t - 2])),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_items_of_arrays(program, backend):
    calls = [(torch.arange(3.0), t) for t in range(10)]
    assert compilations(lambda: program, calls, backend=backend)[0] <= 2


def test_a_place_that_is_not_there():
    def program(x, t):
        try:
            return x * RATES[t], x * LONG[50 * t]
        except IndexError as error:
            return str(error)

    compilations(lambda: program, [(torch.ones(2), t) for t in (3, 5, 19, 20, 25, -20, -21)])


def test_functions_of_scalars_from_outside():
    def program(x, s):
        return x * np.sqrt(s), x * (1 - s), x / np.exp(s), x + np.float64(2) * s

    calls = [(torch.ones(2), np.float64(0.1 * i)) for i in range(3, 10)]
    assert compilations(lambda: program, calls)[0] == 2


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_the_index_of_a_tensor(kind):
    """The capture with a symbol failed inside of stator, so there was one compilation per value."""

    def program(x, i):
        return x[i] * 2, x[i].sum()

    calls = [(torch.arange(24.0).view(8, 3), kind(i)) for i in (2, 3, 4, 5, 7)]
    assert compilations(lambda: program, calls)[0] == 2


def test_a_float_as_the_index_of_a_tensor():
    def program(x, i):
        try:
            return x[i]
        except IndexError as error:
            return str(error)

    calls = [(torch.ones(8), np.float64(i)) for i in (2, 3, 4)]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)


def as_bounds(x, n):
    return x[:, :n] * 2, x[1:n, n - 1 :], torch.arange(n), x.narrow(1, 0, int(n))


def as_negative_bounds(x, n):
    k = n // 2 + 1
    return x[:, -k:] * -n, x * abs(-n), math.sqrt(n)


def as_shapes(x, n):
    image = x[None, None]
    return F.interpolate(image, size=(n, n + 1)), torch.zeros((n, 2)), x.new_zeros([n, 3]), F.pad(image, (0, n, 0, n))


def written(x, n):
    x[:, :n] = 1
    x[:2, 3 : n + 3] = n
    return x


@pytest.mark.parametrize("program", [as_bounds, as_negative_bounds, as_shapes, written])
def test_ints_of_numpy_as_bounds_and_sizes(program):
    calls = [(torch.arange(120.0).view(6, 20), np.int64(n)) for n in (2, 3, 4, 5, 7, 9, 13)]
    assert compilations(lambda: program, calls)[0] == 2


def refused(function):
    try:
        return function()
    except TypeError as error:
        return str(error)


def test_floats_of_numpy_are_no_bounds():
    def program(x, n):
        return x * n, refused(lambda: x[:n]), refused(lambda: range(n)), refused(lambda: torch.zeros((n, 2)))

    compilations(lambda: program, [(torch.ones(3), np.float64(n)) for n in (2, 3, 4.5)])


def test_kept_in_slices_and_tuples():
    def program(x, n):
        part = slice(n)
        return x[part], type(part.stop), (n, 2), [n]

    compilations(lambda: program, [(torch.ones(9), np.int64(n)) for n in (2, 3, 4)])
