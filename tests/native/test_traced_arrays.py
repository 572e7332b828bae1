"""numpy on the memory of tensors: one graph, numpy's own results, memory that stays shared."""

import warnings
import zlib

import numpy as np
import pytest
import torch

import stator
from stator.report.events import recording
from tests.harness import check

TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)


def write_through(x):
    view = x.numpy()
    view[0] = 7
    view *= 2
    return x.sum(), torch.as_tensor(view).mean()


def write_into_tensor(x):
    array = x.numpy()
    before = array.copy()
    x.add_(1)
    return before, array, array - before


def sort_rows(x):
    a = x.numpy().copy()
    a.sort(axis=1)
    return a, np.argsort(-a.sum(axis=1), kind="stable")


def normalise(x):
    a = x.numpy()
    mean, std = a.mean(axis=0, keepdims=True), a.std(axis=0)
    return torch.from_numpy((a - mean) / (std + 1e-6))


def two_views(x):
    a = x.numpy()
    flat = a.reshape(-1)
    flat[1] = 5
    return a, flat, x


def copies(x):
    a = (x * 2).numpy()
    same, turned, flat = a.astype(np.float32), a.T.astype("float32"), a.flatten()
    a += 1
    flat *= 2
    return same, turned, flat, a.T.flatten(), torch.from_numpy(same) + 1


def with_out(x):
    a = x.numpy()
    made = np.zeros_like(a)
    result = np.add(a, 1, out=made)
    return result is made, made


def several(x):
    a = x.numpy()
    first, second = np.split(a, 2, axis=1)
    return first.sum(), [part * 2 for part in np.meshgrid(first[0], second[1])], np.stack([first, second])


def loop(x):
    total = np.float32(0)
    for row in x.numpy():
        total += row.max()
    return total, len(x.numpy()), [v for v in zip(x.numpy(), range(2), strict=True)]


WHOLE = {
    "scalars and dtypes": lambda x: (x.numpy().sum(), x.numpy().mean(dtype=np.float64), x.numpy().astype(int)),
    "write through": write_through,
    "write into the tensor": write_into_tensor,
    "sort": sort_rows,
    "normalise": normalise,
    "two views": two_views,
    "copies": copies,
    "out": with_out,
    "several results": several,
    "loop": loop,
    "constants of numpy": lambda x: x.numpy() @ TABLE[:3, :2] + np.float64(1.5) + np.arange(2),
    "mask": lambda x: np.where(x.numpy() > 2, x.numpy(), 0),
    "masked write": lambda x: masked(x.numpy().copy()),
    "picked rows": lambda x: x.numpy()[np.array([1, 0])][:, None, ..., 1:],
    "picked by data": lambda x: x.numpy()[np.argsort(x.numpy()[:, 0])],
    "attributes": lambda x: (x.numpy().shape, x.numpy().T, x.numpy().ndim, x.numpy().dtype, x.numpy().strides),
    "classes": lambda x: (type(x.numpy()), isinstance(x.numpy(), np.ndarray), type(x.numpy()[0, 0]).__name__),
    "of a tensor": lambda x: np.asarray(x) + 1,
    "reductions": lambda x: (np.add.reduce(x.numpy()), np.linalg.norm(x.numpy()), np.percentile(x.numpy(), 30)),
    "tensor of a scalar": lambda x: (torch.tensor(x.numpy().mean()), torch.tensor(np.float64(1) + x.numpy().sum())),
    "number": lambda x: x * float(x.numpy().max()),
    "facts": lambda x: x.reshape(np.size(x.numpy()), *np.shape(x.numpy()[:1, :1])),
    "missing attribute": lambda x: hasattr(x.numpy(), "nothing"),
    "same object": lambda x: (lambda a: (a, a, np.asarray(a) is a))(x.numpy() + 1),
}


def masked(array):
    array[array > 2] = -1
    array[0, 1:] += array[1, 1:]
    return array


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name):
    check(
        WHOLE[name], torch.arange(6.0).reshape(2, 3) if name != "several results" else torch.arange(8.0).reshape(2, 4)
    )


def caught(function, x):
    try:
        return function(x)
    except TypeError:
        return "no"


BROKEN = {
    "memory": lambda x: caught(lambda a: bytes(memoryview(a)), x.numpy()),
    "checksum": lambda x: caught(zlib.crc32, x.numpy()),
    "reversed": lambda x: x.numpy()[:, ::-1] + 1,
    "picked by a mask": lambda x: x.numpy()[x.numpy() > 2],
    "branch": lambda x: x + 1 if x.numpy().sum() > 3 else x - 1,
    "strings": lambda x: str(x.numpy().sum()),
    "objects": lambda x: x.numpy().astype(object),
    "buffer": lambda x: bytes(memoryview(x.numpy())),
    "unique": lambda x: np.unique(x.numpy()),
    "a copy of a tensor": lambda x: np.array(x, dtype=np.float64),
    "grad": lambda x: (x.clone().requires_grad_() * 2).numpy(),
    "wrong sizes": lambda x: x.numpy() + np.ones(7),
    "with a tensor": lambda x: x.numpy() * x,
    "read only": lambda x: np.broadcast_to(x.numpy(), (2, 2, 3)),
    "index out of range": lambda x: x.numpy()[5],
    "counts from data": lambda x: np.repeat(x.numpy(), x.numpy()[0].astype(int), axis=1),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_in_a_graph_runs_in_python(name):
    check(BROKEN[name], torch.arange(6.0).reshape(2, 3), fullgraph=False, expect_breaks=None, expect_graphs=None)


def of_arguments(a, b):
    a += b.sum()
    return np.concatenate([a, b]), torch.from_numpy(b) * 2, a


def test_arguments_are_inputs():
    stator.reset()
    compiled = stator.compile(of_arguments, fullgraph=True, backend="eager")
    for number in range(3):
        mine, theirs = np.ones((2, 3)) * number, np.ones((2, 3)) * number
        other = np.arange(6.0).reshape(2, 3) + number
        found, expected = compiled(mine, other), of_arguments(theirs, other.copy())
        assert found[2] is mine and str(found) == str(expected) and np.array_equal(mine, theirs)
    assert stator.stats()["graphs"] == 1
    compiled = stator.compile(of_arguments, backend="eager")
    strange = np.arange(12.0).reshape(4, 3)
    same = strange.copy()
    assert str(compiled(strange[:2], strange[1:3])) == str(of_arguments(same[:2], same[1:3]))
    same = np.ones((2, 3))
    assert str(compiled(same, same)) == str(of_arguments(*[np.ones((2, 3))] * 2))


def test_an_array_and_the_tensor_with_its_memory():
    def program(a, t):
        a += 1
        t *= 2
        return t.sum()

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(np.ones(3), torch.ones(3)).item() == 6
        shared = np.ones(3)
        assert compiled(shared, torch.from_numpy(shared)).item() == 12


def test_warnings_come_from_the_program():
    def program(x):
        return np.log(x.numpy())

    compiled = stator.compile(program, fullgraph=True, backend="eager")
    compiled(torch.ones(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert np.isinf(compiled(torch.zeros(2))).all()
    assert [(str(one.message), one.filename) for one in caught] == [("divide by zero encountered in log", __file__)]


def test_changed_global_arrays_are_inputs():
    kept = np.zeros(3)
    stator.reset()
    compiled = stator.compile(lambda x: x + torch.from_numpy(kept * 2), backend="eager")
    for number in range(4):
        kept[1] = number
        assert compiled(torch.zeros(3, dtype=torch.float64))[1].item() == 2 * number
    assert stator.stats()["graphs"] == 2


TRACED = {
    "arithmetic": lambda x: (x.numpy() * 2 + 1, np.sqrt(np.abs(x.numpy())).sum(axis=0)),
    "write through": write_through,
    "two views": two_views,
    "copies": copies,
    "normalise": normalise,
    "mask": lambda x: np.where(x.numpy() > 2, x.numpy(), np.float32(0)),
}


@pytest.mark.parametrize("name", TRACED)
def test_backends_that_trace(name):
    check(TRACED[name], torch.arange(6.0).reshape(2, 3), backend="aot_eager", tolerance=1e-6)


def test_what_was_written_before_a_failure_is_put_back():
    def program(array, index):
        array += 1
        try:
            return array[index].sum()
        except IndexError:
            return "no"

    compiled = stator.compile(program, backend="eager")
    for index in (1, 7, 1):
        mine, theirs = np.ones(3), np.ones(3)
        assert compiled(mine, np.array([index])) == program(theirs, np.array([index])) and np.array_equal(mine, theirs)


def powers(x):
    try:
        return 2 ** x.numpy()
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "program",
    [
        powers,
        lambda x: np.cbrt(x.numpy().astype("f4")),
        lambda x: np.sign(x.numpy() * np.float32("nan")),
        lambda x: x.numpy().astype("u1") > -1,
    ],
)
def test_what_tracing_would_get_wrong(program):
    inputs = [(torch.tensor([1, 2]),), (torch.tensor([-1, 2]),)]
    check(program, vary=inputs, backend="aot_eager", fullgraph=False, expect_breaks=None, expect_graphs=None)


def test_scalars_of_numpy_with_symbolic_sizes():
    half, three = np.float64(0.5), np.int64(3)

    def program(x):
        n = x.shape[0]
        return half * n, n * half, three * n, n // three, np.float32(0.1) * n, n < three, x * (n / half)

    sizes = [torch.ones(size) for size in (2, 3, 4)]  # numpy calculates from the second one on
    check(program, vary=sizes, fullgraph=False, expect_recompiles=None, expect_breaks=None)


TRIPLE = np.array((0, 3, 5))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [
        lambda x, array: x + x.new_tensor(TRIPLE),
        lambda x, array: x.new_tensor(array)[0] + x,
        lambda x, array: x.new_tensor(x.numpy() * 2, dtype=torch.float64) + x.new_tensor(np.arange(1.5, 4)),
        lambda x, array: torch.zeros(2, dtype=torch.int64).new_tensor(x.numpy() * 1.5),
    ],
)
def test_new_tensors_of_arrays(program, backend):
    check(program, vary=[(torch.ones(3), np.array([k, k + 1])) for k in (2, 4)], backend=backend)


def columns(x, array):
    y = x.clone()
    y[:, array[0]] = 1
    y[array[1], 0] = 2
    return x[array[0]], x[:, array[1]].sum(), x[array[1] :, : array[0]], x[..., array[0], None], y


def rows_one_by_one(x, array):
    for i in np.arange(x.size(1)):
        x = x + x[:, (i), :].unsqueeze(1)
    return x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_items_of_arrays_as_indices(backend):
    calls = [(torch.arange(36.0).view(6, 6), np.array([k, k - 1])) for k in (3, 4, 5)]
    check(columns, vary=calls, backend=backend)


def test_numbers_of_numpy_that_vary_as_indices():
    calls = [(torch.randn(3, n, 2), None) for n in (3, 4, 5)]
    with recording("break", here=True) as seen:
        check(rows_one_by_one, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert {event.break_id for event in seen} <= {"varying-number", "varying-loop"}
