"""numpy on numbers and on arrays made of them is computed while capturing; memory shared with tensors stays shared."""

import warnings

import numpy as np
import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

MEAN = np.array([0.4, 0.5, 0.6], dtype=np.float32)
HALF, COUNT, DOUBLE = np.float32(2.5), np.int64(3), np.float64(0.1)

WHOLE = {
    "square root": lambda x: x / np.sqrt(64),
    "a numpy scalar comes out": lambda x: (np.sqrt(64), np.float32(3), x),
    "scalar on the left": lambda x: np.float32(3) * x + np.log(10000.0) * x,
    "product of sizes": lambda x: x.view(int(np.prod(x.shape))),
    "numpy sizes": lambda x: x.view(np.prod([1, 3])).repeat(COUNT),
    "global array": lambda x: (x - torch.from_numpy(MEAN)) / torch.tensor(MEAN) + torch.as_tensor(MEAN).double(),
    "global scalars": lambda x: x * HALF + DOUBLE * x,
    "linspace": lambda x: x + torch.from_numpy(np.linspace(0, 1, 3)).float(),
    "dtype of a scalar": lambda x: (torch.tensor(np.float64(3)), torch.tensor([np.float64(1), np.float64(2)]), x),
    "scalar arguments": lambda x: (torch.full((2,), np.float64(3)), torch.where(x > 0, x, DOUBLE), x**DOUBLE),
    "index": lambda x: x[np.int64(1)] + x[np.argmax([1, 3, 2])],
    "grid": lambda x: [torch.tensor(a) * x.sum() for a in np.meshgrid(np.arange(3), np.arange(2))],
    "window": lambda x: x + torch.from_numpy(np.hanning(5)[1:4].astype(np.float32)),
    "schedule": lambda x: x * torch.tensor(np.cumprod(1 - np.linspace(1e-4, 2e-2, 3)), dtype=torch.float32),
    "arrays come out": lambda x: (np.ones((2, 2)) * 3, np.arange(4, dtype=np.int32), x),
    "limits": lambda x: x * float(np.finfo(np.float32).eps) + int(np.iinfo(np.int16).max),
    "branch": lambda x: x + 1 if np.isclose(0.1 + 0.2, 0.3) and not np.isnan(3.0) else x,
    "linear algebra": lambda x: x * float(np.linalg.norm(np.ones(3))) + np.linalg.inv(np.eye(3))[0, 0],
    "formatting": lambda x: (f"{np.float32(1.5):.2f} {np.int64(3)}", x),
    "in place": lambda x: x + torch.tensor(filled(np.zeros(3))),
}


def filled(array):
    array[0] = 5
    array += 1
    array.fill(array.sum())
    return array


@pytest.mark.parametrize("name", WHOLE)
def test_is_captured_whole(name):
    check(WHOLE[name], torch.tensor([1.0, 2.0, 3.0]))


def test_views_of_new_arrays():
    def program(x):
        array = np.arange(4)
        view = array.reshape(2, 2)
        return array, view, view.T, x + 1

    compiled = stator.compile(program, fullgraph=True, backend="eager")
    for _ in range(2):
        array, view, turned, _ = compiled(torch.ones(2))
        array[1] = 7
        assert view.tolist() == [[0, 7], [2, 3]] and turned.tolist() == [[0, 2], [7, 3]]


def test_a_write_to_an_outside_array():
    kept = np.zeros(3)

    def program(x):
        kept[0] += 1
        return x + float(kept.sum())

    compiled = stator.compile(program, backend="eager")
    for number in range(1, 5):
        assert compiled(torch.zeros(1)).item() == number == kept[0]


def test_other_contents_of_an_outside_array():
    kept = np.zeros(3)
    compiled = stator.compile(lambda x: x + torch.from_numpy(kept).sum(), fullgraph=True, backend="eager")
    assert compiled(torch.zeros(1)).item() == 0
    kept[1] = 2
    assert compiled(torch.zeros(1)).item() == 2


def written(x):
    array = np.ones(3)
    tensor = torch.from_numpy(array)
    array.fill(3)
    return tensor + x


def written_tensor(x):
    array = np.ones(3)
    torch.from_numpy(array).add_(1)
    return x + array.sum()


def both_live(x):
    array = np.ones(3)
    return torch.from_numpy(array), array, x + 1


def outside_lives(x):
    return torch.from_numpy(MEAN), x + 1


@pytest.mark.parametrize("program", [written, written_tensor, both_live, outside_lives])
def test_shared_memory_is_never_two_copies(program):
    check(program, torch.ones(3), fullgraph=False, expect_breaks=None, expect_graphs=None)


def test_a_tensor_of_an_outside_array_shares_it():
    kept = np.zeros(3)
    compiled = stator.compile(lambda x: (torch.from_numpy(kept), x + 1), backend="eager")
    tensor, _ = compiled(torch.ones(3))
    kept[0] = 4
    assert tensor[0] == 4


def test_what_would_warn_warns():
    def program(x):
        return x * np.divide(1.0, 0.0)

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert compiled(torch.ones(1)).item() == float("inf")
        assert [str(one.message) for one in caught] == ["divide by zero encountered in divide"]


def test_errors_are_the_programs():
    def program(x):
        try:
            return x + np.linalg.inv(np.zeros((2, 2))).sum()
        except np.linalg.LinAlgError as error:
            return x, str(error)

    check(program, torch.ones(2))


def test_random_numbers_of_numpy_are_drawn_each_time():
    def program(x):
        return x + np.random.rand()

    np.random.seed(0)
    expected = [np.random.rand() for _ in range(3)]
    np.random.seed(0)
    compiled = stator.compile(program, backend="eager")
    assert [compiled(torch.zeros(1, dtype=torch.float64)).item() for _ in range(3)] == expected


LARGE = np.arange(30000, dtype=np.float32).reshape(3, 10000)[:, ::2]
OF_ARRAYS = {
    "shared": lambda x, a: x + torch.from_numpy(a)[:, :3] * 2,
    "copied": lambda x, a: x + torch.tensor(a)[:, :3] + torch.as_tensor(a)[:, :3],
    "returned": lambda x, a: (torch.from_numpy(a), torch.tensor(a).add_(1), x + 1),
    "written": lambda x, a: (torch.from_numpy(a).mul_(2)[0, :2], x + 1),
    "passed on": lambda x, a: (made_of(a), x + 1),
}


def made_of(array):
    return torch.from_numpy(array).float()


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_tensors_of_arrays_that_nobody_looks_into(name):
    program = OF_ARRAYS[name]
    compiled = stator.compile(program, fullgraph=True, backend="eager")
    for number in range(3):
        mine, theirs = LARGE + number, LARGE + number
        found, expected = compiled(torch.ones(3), mine), program(torch.ones(3), theirs)
        assert str(found) == str(expected) and np.array_equal(mine, theirs)
    assert stator.stats()["recompiles"] <= 1


def test_arrays_of_other_sizes():
    stator.reset()
    compiled = stator.compile(lambda x, a: x + torch.from_numpy(a).sum(), fullgraph=True, backend="eager")
    for size in range(3, 8):
        assert compiled(torch.zeros(1), np.full(size, 0.5)).item() == size / 2
    assert stator.stats()["graphs"] == 2


def written_and_restored(x, array):
    tensor = torch.from_numpy(array)
    array += 1
    y = tensor * 2
    array -= 1
    return y + x


def view_written(x, array):
    tensor = torch.from_numpy(array)
    view = array[1:]
    view += 1
    return tensor * 2 + x


def read_after_a_write(x, array):
    tensor = torch.from_numpy(array)
    tensor.add_(1)
    return x + float(array.sum())


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("program", [written_and_restored, view_written, read_after_a_write])
def test_memory_is_one(program, inside):
    def run(x, array):
        return program(x, np.ones(3) if inside else array)

    compiled = stator.compile(run, backend="eager")
    for _ in range(2):
        mine, theirs = np.arange(3.0), np.arange(3.0)
        assert torch.equal(compiled(torch.ones(3), mine), run(torch.ones(3), theirs)) and np.array_equal(mine, theirs)


def test_arrays_as_indices_of_tensors() -> None:
    def program(x, places, mask):
        y = x + 1
        y[mask] = 0
        y[:, places] = y[:, places] * 2
        return y[places] - 1

    rows = [(torch.arange(9.0).reshape(3, 3) + i, np.roll(np.array([0, 2, 1], dtype=kind), i), np.arange(3) != i)
            for i, kind in enumerate((np.int64, np.int64, np.int64))]  # fmt: skip
    check(program, vary=rows, fullgraph=True)
    check(lambda x, i: x[i] + 1, torch.arange(9.0).reshape(3, 3), np.array([1, 0], dtype=np.int32), fullgraph=True)


INDICES = np.tril_indices(3, k=-1)


def test_outside_arrays_as_indices_of_tensors() -> None:
    """Those that own their memory too."""

    def program(x):
        y = torch.zeros(3, 3)
        y[INDICES[0], INDICES[1]] = x
        return y, x[np.arange(2)], x[np.array([True, False, True])], y[INDICES]

    check(program, torch.arange(3.0))
    check(lambda x: x[INDICES[1].astype(np.int16)], torch.arange(3.0))
    check(lambda x: x[INDICES[0].astype(np.float32)], torch.arange(3.0), fullgraph=False, expect_breaks=None)


def test_an_argument_is_written_next_to_an_array_and_a_rate_that_varies() -> None:
    def program(weight, slope, rate):
        weight.sub_(torch.from_numpy(slope) * rate)
        return weight * 2

    rows = [(torch.ones(3), np.arange(3.0, dtype=np.float32), rate) for rate in (0.1, 0.2, 0.3)]
    with events.recording("error") as seen:
        check(program, vary=rows, expect_recompiles=1, expect_graphs=2, fullgraph=False)
    assert not seen
