"""numpy on arrays whose sizes vary: one more compilation for all sizes, and numpy's own results."""

import numpy as np
import pytest
import torch

from tests.harness import check

WEIGHT = np.arange(16, dtype=np.float32).reshape(8, 2)
SIZES = (4, 4, 6, 9, 3, 12)


def in_place(a):
    b = a.copy()
    b += 1
    b -= b.mean(axis=0)
    b *= b[0]
    b.sort(axis=0)
    return b


def parts_written(a):
    b = a.copy()
    b[1:] = b[:-1]
    b[: b.shape[0] // 2] = b[0]
    b[..., 0] = b.mean(axis=1)
    b[0, 1] = 3
    b[b > 1] = 0
    b[np.arange(2)] = 1
    return b


def centred(a):
    a = a - a.mean(axis=0)
    return a / (a.std(axis=1, keepdims=True) + 1), (a - a.min()) / (a.max() - a.min())


def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def image(a):
    return np.stack([a, a, a], axis=-1)[..., ::-1].transpose(2, 0, 1) / 255


def lengths(a):
    return a / len(a), a * a.shape[0], a.sum() / a.size, np.shape(a), np.size(a), a.nbytes


def with_new_arrays(a):
    n = len(a)
    return (
        a + np.zeros(a.shape),
        a * np.arange(n)[:, None],
        np.eye(n) @ a,
        np.full((n, 1), 2.0) - a[:, :1],
        a[np.arange(n)],
    )


def framed(a):
    made = np.zeros((a.shape[0] + 2, a.shape[1]), dtype=a.dtype) if len(a) != 4 else np.zeros((6, 8), dtype=a.dtype)
    return made[1:-1] + a, np.pad(a, 1), np.pad(a, ((0, 16 - len(a)), (0, 0))), np.tile(a, (2, 1))


PROGRAMS = {
    "arithmetic": lambda a: (a * a - a / 2, -a % 2, a > 0.5, 1 - a, a - a[0], a + a[:, :1]),
    "functions": lambda a: (np.sqrt(np.abs(a)), np.maximum(a, 0), np.where(a > 0, a, 0), np.clip(a, -1, 1), a.clip(0)),
    "centred": centred,
    "softmax": softmax,
    "reductions": lambda a: (a.sum(), a.max(axis=1), a.argmax(axis=-1), np.any(a > 1, axis=0), np.median(a, axis=0)),
    "norms": lambda a: (a / np.linalg.norm(a, axis=1, keepdims=True), np.percentile(a, 50, axis=0), a.var(axis=0)),
    "along": lambda a: (np.cumsum(a, axis=0), a.cumsum(), np.sort(a, axis=0), a.argsort(axis=0), np.diff(a, axis=0)),
    "products": lambda a: (a.T @ a, np.dot(a, WEIGHT), np.einsum("ij,kj->ik", a, a), np.outer(a[0], a[:, 0])),
    "joined": lambda a: (np.concatenate([a, a * 2]), np.stack([a, a], 1), np.vstack([a, a[:1]]), np.hstack([a, a])),
    "views": lambda a: (a.T, a.reshape(-1), a.reshape(a.shape[0], 2, 4), a[None, :, 0], a[1:] - a[:-1], a[::2, 1:5]),
    "more views": lambda a: (a[: len(a) // 2], a[-1], a[..., -1], np.swapaxes(a, 0, 1), np.expand_dims(a, 0), a[0, 1]),
    "other orders": lambda a: (a.T * 2, (a.T - a.mean(axis=1)).mean(axis=0), a.T.reshape(-1), a.transpose(1, 0).copy()),
    "backwards": lambda a: (a[::-1].copy(), a[::-1] + a, a[:, ::-1] @ WEIGHT, np.where(a[::-1] > 0, a, 1)),
    "image": image,
    "copies": lambda a: (a.copy(), a.astype(np.float64), a.astype(int), np.asarray(a), np.zeros_like(a), a.flatten()),
    "picked": lambda a: (a[a[:, 0].argsort()], a.repeat(2, axis=0), np.repeat(a, 3)),
    "in place": in_place,
    "parts written": parts_written,
    "lengths": lengths,
    "new arrays": with_new_arrays,
    "framed": framed,
}  # fmt: skip


def sweep(program, sizes=SIZES, **expected):
    torch.manual_seed(0)
    calls = [(torch.randn(n, 8),) for n in sizes]
    check(program, vary=calls, expect_graphs=2, expect_recompiles=1, **expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_of_tensors(name):
    operation = PROGRAMS[name]
    sweep(lambda x: (operation((x * 1).numpy()), x + 1))


@pytest.mark.parametrize("name", ["arithmetic", "reductions", "joined", "views", "backwards", "in place", "new arrays"])
def test_arguments(name):
    operation = PROGRAMS[name]
    calls = [(np.random.RandomState(n).randn(n, 8).astype(np.float32),) for n in SIZES]
    check(lambda a: operation(a), vary=calls, expect_graphs=2, expect_recompiles=1)


TRACED = [
    "arithmetic",
    "functions",
    "centred",
    "softmax",
    "norms",
    "products",
    "joined",
    "other orders",
    "image",
]


@pytest.mark.parametrize("name", TRACED)
def test_traced_by_the_backend(name):
    operation = PROGRAMS[name]

    def program(x):
        made = operation((x * 1).numpy())
        return [torch.as_tensor(array) for array in (made if isinstance(made, tuple) else [made])]

    sweep(program, (4, 6, 9), backend="aot_eager", tolerance=1e-4, strides=False)  # last bits are torch's


def test_round_trip():
    def program(x):
        a = np.sqrt(np.abs((x * 2).numpy())) + 1
        part = torch.from_numpy(a[1:, 2:])
        return torch.from_numpy(a) * x, part, part.storage_offset(), torch.as_tensor(a[1:]).add_(1), a

    sweep(program)


def test_a_size_of_one_and_errors():
    def program(x):
        a = (x * 1).numpy()
        return a - a.mean(axis=0), a[1], a.reshape(2, -1)

    torch.manual_seed(0)
    calls = [(torch.randn(n, 8),) for n in (4, 6, 1, 2, 9, 3, 1)]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None, expect_graphs=None)


def test_operands_that_must_fit():
    def program(x, y):
        a, b = (x * 1).numpy(), (y * 1).numpy()
        return a + b, np.concatenate([a, b], axis=1)

    pairs = [(4, 4), (6, 6), (9, 9), (9, 1), (5, 5), (1, 1), (6, 5)]
    calls = [(torch.ones(n, 3), torch.ones(m, 3)) for n, m in pairs]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None, expect_graphs=None)


def test_sizes_that_are_told_by_data():
    def program(x):
        a = x[x > 0].numpy()
        return np.where(a > 0.5, a, 0) / max(len(a), 1), np.concatenate([a, a]), np.sort(a), a.shape

    torch.manual_seed(0)
    calls = [(torch.randn(n),) for n in (8, 8, 9, 10, 7)] + [(-torch.ones(4),)]
    check(program, vary=calls, expect_graphs=2, expect_recompiles=1)


def test_classes_weighted_by_how_often_they_occur():
    def program(x, y):
        counts = torch.bincount(y, minlength=5).float()
        weight = np.where(counts.numpy() > 0, 1.0 / np.maximum(counts.numpy(), 1), 0.0)
        return x * torch.tensor(weight, dtype=torch.float32)[y]

    torch.manual_seed(0)
    calls = [(torch.randn(n), torch.randint(0, 5, (n,))) for n in (4, 4, 6, 9, 5)]
    check(program, vary=calls, expect_graphs=2, expect_recompiles=1)


def test_floats_and_texts_that_vary_are_constants():
    def program(x, limit, kind, n):
        a = x.numpy()
        return np.clip(a, -limit, limit), a.astype(kind), a.round(n), np.full_like(a, limit), np.pad(a, n)

    torch.manual_seed(0)
    values = [(4, 0.5, "float32", 2), (6, 0.7, "int64", 3), (9, 0.9, "float64", 4), (5, 1.5, "float32", 2)]
    calls = [(torch.randn(n, 8), limit, kind, count) for n, limit, kind, count in values]
    check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)
    check(program, vary=calls, expect_graphs=None, expect_recompiles=None)


def test_numbers_from_data_as_arguments():
    def program(x):
        a, n = x.numpy(), int(x.argmax()) % 3 + 1
        return a[:n], np.repeat(a, n), a.reshape(-1)[n], np.zeros(n), a * n, np.arange(n)

    torch.manual_seed(0)
    calls = [(torch.randn(n),) for n in (4, 6, 9, 5, 7)]
    check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)
