"""Arrays that the program makes of constants, and writes parts of the graph to."""

import numpy as np
import pytest
import torch

from tests.harness import check

SIZES = (4, 4, 6, 9, 5)


def one_hot(x):
    labels = x.argmax(1).numpy()
    made = np.zeros((labels.shape[0], 8), dtype=np.float32)
    made[np.arange(labels.shape[0]), labels] = 1.0
    return torch.from_numpy(made) * x


def padded(x):
    a = (x + 1).numpy()
    out = np.zeros((16, a.shape[1]), dtype=a.dtype)
    out[: a.shape[0]] = a
    return torch.from_numpy(out).sum(0), out


def advantages(x):
    values, rewards = x[:, 0].numpy(), np.ones(3, dtype=np.float32)
    made, last = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        made[t] = last = rewards[t] + 0.9 * values[t + 1] - values[t] + 0.8 * last
    return (made - made.mean()) / (made.std() + 1e-8)


def with_out(x):
    a, made = x.numpy(), np.ones((2, 8), dtype=np.float32)
    same = np.add(a[:2], a[1:3], out=made)
    return same is made, made * 2


def part_of_one(x):
    made = np.full((3, 8), 2.0, dtype=np.float32)
    row = made[1]
    row[:] = x.numpy()[0]
    return made, row


def several_of_one_place(x):
    rows = [np.zeros(8, dtype=np.float32) for _ in range(3)]
    rows[0][:] = x.numpy()[0]
    rows[2] += 1
    return rows, torch.from_numpy(rows[1]) + x


@pytest.mark.parametrize("program", [one_hot, padded, advantages, with_out, part_of_one, several_of_one_place])
def test_one_graph(program):
    torch.manual_seed(0)
    calls = [(torch.randn(n, 8),) for n in SIZES]
    check(program, vary=calls, expect_graphs=2, expect_recompiles=1)


@pytest.mark.parametrize("program", [one_hot, padded])
def test_traced_by_the_backend(program):
    torch.manual_seed(0)
    calls = [(torch.randn(n, 8),) for n in SIZES]
    check(program, vary=calls, expect_graphs=2, expect_recompiles=1, backend="aot_eager", tolerance=1e-5)


def test_arrays_that_nothing_is_written_to_are_constants():
    def program(x):
        table = np.arange(8, dtype=np.float32)
        table[2] = table.sum()
        return x + torch.from_numpy(table), table.tolist()

    check(program, torch.ones(8), expect_graphs=1)


def test_an_array_from_outside_is_python_s():
    buffer = np.zeros((16, 8), dtype=np.float32)

    def program(x):
        buffer[: x.shape[0]] = x.numpy()
        return x + 1, buffer.sum()

    torch.manual_seed(0)
    calls = [(torch.randn(n, 8),) for n in SIZES]
    check(program, vary=calls, fullgraph=False, expect_graphs=None, expect_recompiles=None, expect_breaks=None)
