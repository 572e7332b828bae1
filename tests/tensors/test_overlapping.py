"""Operations that write to memory which they read: with a backend that traces, too, eager decides what happens."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import stator
from stator.tensors.overlapping import _is_distinct, _meet
from tests.harness import check

X = torch.arange(16.0).reshape(4, 4)


def shifted_right(x: Any) -> Any:
    y = x * 2
    y[:, 1:] += y[:, :-1]
    return y.sin()


def assigned(x: Any) -> Any:
    y = x * 2
    y[:, 1:] = y[:, :-1]
    return y.sin()


def test_looking_at_memory_is_no_part_of_the_graph() -> None:
    targets: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        targets.extend(str(node.target) for node in graph.graph.nodes if node.op.startswith("call"))
        return graph.forward

    def program(x: Any) -> Any:
        y = x * 2
        y[0] = 1
        return y

    stator.compile(program, backend=backend)(torch.ones(3))
    assert len(targets) == 2, targets


def refused(x: Any) -> Any:
    y = x * 2
    try:
        y[1:] += y[:-1]
    except RuntimeError as error:
        return y, str(error)
    return y


def transposed(x: Any) -> Any:
    y = x * 2
    y += y.t()
    return y


def expanded(x: Any) -> Any:
    y = x * 2
    y.expand(3, 4, 4).add_(1)
    return y


def expanded_in_try(x: Any) -> Any:
    y = x * 2
    try:
        y[:1].expand(3, 4).add_(1)
    except RuntimeError as error:
        return y.sin(), str(error)
    return y


def windows(x: Any) -> Any:
    y = x * 2
    y.view(-1).unfold(0, 3, 1).add_(1)
    return y + 1


def listed_twice(x: Any) -> Any:
    torch._foreach_add_([x, x], 1)
    return x * 2


def listed_with_a_view(x: Any) -> Any:
    y = x * 2
    torch._foreach_mul_([y[1:], y[1:]], 3)
    return y.sin()


def unsafe_parts(x: Any) -> Any:
    x.unsafe_chunk(2)[0].add_(1)
    torch.unsafe_split(x, 1)[2].add_(5)
    return x * 2


PROGRAMS = [
    shifted_right, assigned, refused, transposed, expanded, expanded_in_try, windows,
    listed_twice, listed_with_a_view, unsafe_parts,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: Any, backend: str) -> None:
    check(program, X, backend=backend, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def apart(x: Any) -> Any:
    y = x * 2
    y[:, ::2] += y[:, 1::2]
    y[0] = y[1]
    y[..., :2].copy_(y[..., 2:])
    y[:, :-1] = y[:, 1:]  # in the order of memory: taken before it is overwritten
    y[0].copy_(y[1:, 0].sum())
    y.mul_(y)
    return y


def test_views_apart_are_captured() -> None:
    check(apart, X, backend="aot_eager", fullgraph=True)


def test_meeting() -> None:
    draw = random.Random(0)

    def geometry() -> Any:
        rank = draw.randint(1, 3)
        strides = tuple(draw.choice([0, 1, 2, 3, 4, 6, 12]) for _ in range(rank))
        return tuple(draw.randint(0, 4) for _ in range(rank)), strides, draw.randint(0, 20)

    def places(sizes: Any, strides: Any, offset: int) -> list[int]:
        found = [offset]
        for size, stride in zip(sizes, strides, strict=True):
            found = [place + stride * i for place in found for i in range(size)]
        return found

    for _ in range(500):
        one, other = geometry(), geometry()
        assert _meet(one, other) == (not set(places(*one)).isdisjoint(places(*other)))
        assert not _is_distinct(one) or len(set(places(*one))) == len(places(*one))


def by_size(x: Any) -> Any:
    y = x * 2
    y[: y.shape[0] - 4].add_(y[4:])
    y[4:].mul_(y[:-4])
    return y


def by_batch(x: Any) -> Any:
    y = x * 2
    y[:, :2].add_(y[:, 2:])
    return y


def test_views_that_lie_apart_for_some_sizes() -> None:
    sizes = [(torch.arange(2.0 * n).view(n, 2),) for n in (7, 8, 6, 9, 10)]
    check(by_size, vary=sizes, backend="aot_eager", fullgraph=False, expect_breaks=None, expect_recompiles=None)
    batches = [(torch.arange(4.0 * n).view(n, 4),) for n in (7, 8, 6, 9, 10)]
    check(by_batch, vary=batches, backend="aot_eager", expect_recompiles=1)


def part(x: Any) -> Any:
    try:
        (x * 2).chunk(2)[0].add_(1)
    except RuntimeError as error:
        return str(error)
    return x


def rows(x: Any) -> Any:
    y = x * 2
    try:
        for row in y:
            row[1:].mul_(2)
    except RuntimeError as error:
        return str(error)
    return y


def gradient_written(x: Any) -> Any:
    first, _ = torch.zeros(4, 4).split(2)
    try:
        first.add_(x[:2])
    except RuntimeError as error:
        return str(error)
    return first


def base_written(x: Any) -> Any:
    y = x * 2
    first, _ = y.chunk(2)
    y.add_(1)
    try:
        return first + 1
    except RuntimeError as error:
        return str(error)


def without_gradients(x: Any) -> Any:
    y = x * 2
    with torch.no_grad():
        row = y[0]
        row.mul_(2)
    try:
        row.mul_(2)
    except RuntimeError as error:
        return y.sum(), str(error)
    return y


@pytest.mark.parametrize("program", [part, rows, gradient_written, base_written, without_gradients])
def test_views_that_autograd_keeps_as_they_are(program: Any) -> None:
    check(program, X.clone().requires_grad_(), fullgraph=False, expect_breaks=1, expect_graphs=None)


def windows(x: Any, w: int) -> Any:
    total = torch.zeros_like(x)
    for i in range(0, x.shape[-1] - w + 1, 2):
        part = x[..., i : i + w].sin()
        stator.graph_break()
        total[..., i : i + w] += part
    return total


def shifted_windows(x: Any, w: int) -> Any:
    total = x * 1
    for i in range(0, x.shape[-1] - w, 2):
        stator.graph_break()
        total[..., i : i + w] += total[..., i + 1 : i + w + 1]
    return total


@pytest.mark.parametrize("program", [windows, shifted_windows])
def test_windows_that_move(program: Any) -> None:
    calls = [(torch.arange(2.0 * n).reshape(2, n), w) for n, w in ((12, 4), (15, 6), (11, 4))]
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None, backend="aot_eager")
    check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_a_window_that_moves_is_one_graph() -> None:
    stator.reset()
    compiled, made = stator.compile(windows, backend=lambda graph, inputs: made.append(graph) or graph.forward), []
    for n in (12, 30):
        torch.testing.assert_close(compiled(torch.ones(2, n), 4), windows(torch.ones(2, n), 4))
    assert len(made) <= 4
