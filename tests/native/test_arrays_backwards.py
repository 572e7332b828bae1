"""Arrays that run backwards, or have axes of one element: one graph, numpy's own layout and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.harness import check

X = torch.arange(12.0).reshape(3, 4)
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def largest_first(x: Any) -> Any:
    scores = x.numpy().sum(1)
    order = np.argsort(scores)[::-1]
    return torch.from_numpy(np.sort(scores)[::-1].copy()), order[:2], order[-1]


def channels_first(x: Any) -> Any:
    """As images are prepared for a detector."""
    image = x.view(2, 2, 3).numpy()
    image = image[:, :, ::-1].transpose(2, 0, 1)
    batch = np.ascontiguousarray(image)[None].astype(np.float32) / 255
    return torch.from_numpy(batch), image


def flips(x: Any) -> Any:
    a = x.numpy()
    return np.flip(a), np.fliplr(a).strides, np.rot90(a), a[::-2], a[-2::-1, 1:], a[::-1][:2, None], np.flipud(a)[1]


def back_and_forth(x: Any) -> Any:
    a = x.numpy()[::-1]
    return a[::-1], a[0], a[1, -1], [row.copy() for row in a], a.tolist(), a[1:][::-1], a.T[..., ::-1]


def calculates(x: Any) -> Any:
    a = x.numpy()[:, ::-1]
    return a + 1, a @ a.T, a[:, 0].argmax(), np.stack([a, a]), np.where(a > 3, a, 0), a[[2, 0]], np.asarray(a) is a


def memory_is_shared(x: Any) -> Any:
    a = x.numpy()
    back = a[::-1]
    a[0] = 7
    x.mul_(2)
    return back, back.copy(), x


def new_axes(x: Any) -> Any:
    a = x.numpy()
    b = a.transpose(1, 0)[None]
    return b, b.strides, ((b - b.mean()) / b.std()).astype("f4"), np.atleast_3d(a[0]), a.T.copy()


PROGRAMS = [largest_first, channels_first, flips, back_and_forth, calculates, memory_is_shared, new_axes]


@BACKENDS
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph(program: Any, backend: str) -> None:
    check(program, X, backend=backend, tolerance=1e-6)


@pytest.mark.parametrize("size", [(1, 3), (3, 1), (1, 1)])
def test_axes_of_one_element(size: tuple[int, int]) -> None:
    def program(x: Any) -> Any:
        a = x.numpy()
        return np.swapaxes(a, 0, 1)[::-1].copy(), a[..., ::-1], np.sort(a.T)[:, ::-1].copy(), a[None, :, ::-1]

    check(program, torch.randn(size), backend="aot_eager")


def writes_backwards(x: Any) -> Any:
    a = x.numpy()[::-1]
    a[0] = 5
    a += 1
    return a, x.sum()


def no_tensor(x: Any) -> Any:
    return torch.from_numpy(x.numpy()[::-1])


@BACKENDS
@pytest.mark.parametrize("program", [writes_backwards, no_tensor])
def test_what_tensors_cannot_do_is_left_to_numpy(program: Any, backend: str) -> None:
    check(program, X, backend=backend, fullgraph=False, expect_breaks=None, expect_graphs=None)


def test_places_that_vary() -> None:
    def program(x: Any, n: int) -> Any:
        return x.numpy()[::-1, ::-1][n]

    check(program, vary=[(X, n) for n in (1, 2, 0)], expect_graphs=2, expect_recompiles=1)
