"""Branches on data that only choose between tensors: the graph chooses, and one of these very tensors comes out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.harness import check

A, B = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([2.0, 3.0, -1.0])
PAIRS = [(A, B), (B, A), (A, A.clone()), (A * float("nan"), A), (-A, -B)]
FREE: Any = {"fullgraph": False, "expect_breaks": None, "expect_recompiles": None}


def smallest_loss(a: Any, b: Any) -> Any:
    best = None
    for scale in (1, -2, 0.5):
        loss = (a * scale - b).pow(2).mean()
        if best is None or loss < best:
            best = loss
    return best, a / best


def with_its_place(a: Any, b: Any) -> Any:
    best, at = a.norm(), -1
    for i, part in enumerate((a + b, a - b, b * 2)):
        size = part.norm()
        if size > best:
            best, at = size, i
    return best, at, a * at


def expression(a: Any, b: Any) -> Any:
    best = a if a.sum() > b.sum() else b
    return best * 2, best


def number_and_row(a: Any, b: Any) -> Any:
    best, most = a, -1e9
    for row in torch.stack([a, b, a + b]).unbind():
        value = row.sum().item()
        if value > most:
            best, most = row, value
    return best * 2, most


def elements(a: Any, b: Any) -> Any:
    best = a[0]
    for element in b:
        if element > best:
            best = element
    return best, b - best


def exchanged(a: Any, b: Any) -> Any:
    x, y = a + 1, b + 1
    for scale in (1, -1, 2, -3, 4):
        if (x * scale).sum() > y.sum():
            x, y = y, x
    return x * 2 - y


def inner_branch(a: Any, b: Any) -> Any:
    x, y = a * 2, b * 2
    best, wide, high = x, y.sum() > x.sum(), y.max() > x.max()
    if wide:
        best = y if high else x
    return best + 1


def returned(a: Any, b: Any) -> Any:
    return a if a.sum() > b.sum() else b


def of_one_element(a: Any, b: Any) -> Any:
    x, y = a * 2, b * 2
    if (x[:1] > y[:1]).reshape(1, 1):
        x = y
    return x + 1


WHOLE = [
    smallest_loss, with_its_place, expression, number_and_row, elements, exchanged, inner_branch, returned,
    of_one_element,
]  # fmt: skip


@pytest.mark.parametrize("program", WHOLE)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_graph(program: Any, backend: str) -> None:
    check(program, vary=PAIRS, backend=backend)


def identity(a: Any, b: Any) -> Any:
    c = a if a.sum() > b.sum() else b
    return c is a, c is b, id(c) == id(a)


def written(a: Any, b: Any) -> Any:
    c = a if a.sum() > b.sum() else b
    c += 1
    return c * 2


def written_elsewhere(a: Any, b: Any) -> Any:
    c = a if a.sum() > b.sum() else b
    b[0] = 7
    return c * 2


def viewed(a: Any, b: Any) -> Any:
    c = a if a.sum() > b.sum() else b
    return c[1:], c.view(3, 1)


def place(a: Any, b: Any) -> Any:
    rows = torch.stack([a, b]).unbind()
    c = rows[0] if a.sum() > b.sum() else rows[1]
    return c.storage_offset(), c.as_strided((2,), (1,)), c._is_view()


def unlike(a: Any, b: Any) -> Any:
    c = a if a.sum() > b.sum() else b[:1]
    d = a if a.sum() > b.sum() else b.double()
    e = a if a.sum() > b.sum() else None
    return c * 2, d * 2, e


def growing(a: Any, b: Any) -> Any:
    for _ in range(40):
        if a.sum() > b.sum():
            a, b = b, a
        a = a * 1
    return a, b


@pytest.mark.parametrize("program", [identity, written, written_elsewhere, viewed, place, unlike, growing])
def test_what_would_tell_is_a_break(program: Any) -> None:
    check(program, vary=PAIRS[:3], **FREE)


def scaled(x: Any) -> Any:
    a, b = (x * x), x.exp()
    return (a if a.sum() > b.sum() else b) * 2


def stepped(x: Any) -> Any:
    a, b = (x * x).sum(), x.exp().sum()
    (a if a > b else b).backward()
    return x.grad


def leaves(x: Any) -> Any:
    y = x.detach().clone().requires_grad_()
    return (x if x.sum() > 0 else y) * 2


@pytest.mark.parametrize("program", [scaled, stepped, leaves])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_reach_the_chosen_one_only(program: Any, backend: str) -> None:
    for x in ([1.0, -2.0], [3.0, 2.0]):
        leaf = torch.tensor(x, requires_grad=True)
        check(program, leaf, backend=backend, backward=program is not stepped, **FREE)
