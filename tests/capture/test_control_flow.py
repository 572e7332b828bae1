"""`torch.cond`, `while_loop` and their kin inside a captured program."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import stator
from stator.errors import Unsupported
from tests.harness import check

weight = torch.randn(4, 4, requires_grad=True)
layer = nn.Linear(4, 4)
PROGRAMS: list[Callable[..., Any]] = []


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(function)
    return function


@program
def closures(x: Any) -> Any:
    twice, total = x * 2, x.sum()
    return torch.cond(total > 0, lambda: (twice @ weight).relu() + total, lambda: (x @ weight) - 1)


@program
def nested(x: Any) -> Any:
    def yes(a: Any) -> Any:
        return torch.cond(a.mean() > 0.1, torch.sin, torch.cos, (a,))

    return torch.cond(pred=x.sum() > 0, true_fn=yes, false_fn=lambda a: a - 1, operands=[x])


@program
def structures(x: Any) -> Any:
    found = torch.cond(x.sum(), lambda a: {"k": (a + 1, a * 2)}, lambda a: {"k": (a - 1, a * 3)}, (x * 2,))
    return found["k"][0] * 2


@program
def after_each_other(x: Any) -> Any:
    y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    return torch.cond(y.sum() > 0, torch.exp, torch.neg, (y,))


@program
def known_condition(x: Any) -> Any:
    return torch.cond(x.shape[0] > 2, lambda a: a + 1, lambda a: a, (x,))


@program
def random_numbers(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a + torch.rand(3, 4), lambda a: a - torch.randn(3, 4), (x,))


@program
def loop(x: Any) -> Any:
    with torch.no_grad():
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, layer(a) + a * 2), (torch.tensor(0), x))


@program
def loop_that_reads_what_it_started_with(x: Any) -> Any:
    with torch.no_grad():
        return while_loop(lambda a, b: a.abs().sum() < 50, lambda a, b: (a + x + weight.sum(), b * 2), (x, x))


@program
def loop_that_python_counts(x: Any) -> Any:
    with torch.no_grad():
        done, never = (while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2), (0, x)) for n in (3, 0))
    return *done, *never


@program
def scans(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return {"s": carry["s"] @ weight.detach() + row}, (carry["s"] * row, row + 1)

    return scan(step, {"s": torch.zeros(4)}, x.detach(), reverse=True)


@program
def associative(x: Any) -> Any:
    return associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x * 2), 0, combine_mode="generic")


@program
def maps(x: Any) -> Any:
    total = x.detach().sum()
    return mapped(lambda row, more: (row + more + total).sin(), x.detach().clone(), weight[0].detach().clone()) + x


def both_ways() -> list[tuple[Any, ...]]:
    """Inputs for which the conditions hold, and do not."""
    return [((sign * torch.rand(3, 4)).requires_grad_(),) for sign in (1, -1)]


@pytest.mark.parametrize("function", PROGRAMS)
def test_program(function: Any) -> None:
    check(function, vary=both_ways(), backward=True, tolerance=1e-5, expect_graphs=1)


class Choice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, self.first, self.second, (x,)) * 2


def test_modules() -> None:
    check(
        Choice(), vary=both_ways(), backward=True, tolerance=1e-5, backend="aot_eager", strides=False, expect_graphs=1
    )


def one_size_or_another(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a[:2] * 2, lambda a: a * 3, (x,)).sum()


def several_sizes(x: Any) -> Any:
    y, z = torch.cond(x.sum() > 0, lambda a: (a[:2, :1] + 1, a * 1), lambda a: (a[:, :3] + 2, a * 2), (x,))
    return y @ torch.ones(4, 2)[: y.shape[1]], z, y.shape[1], y.long()


@pytest.mark.parametrize("function", [one_size_or_another, several_sizes])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_branches_of_different_sizes(function: Any, backend: str) -> None:
    compiled = stator.compile(function, backend=backend, fullgraph=True)
    expected = {one_size_or_another: (4.0, -18.0)}
    for sign, total in zip((1.0, -1.0), expected.get(function, (None, None)), strict=True):
        x = torch.ones(2, 4) * sign if function is several_sizes else torch.ones(6) * sign
        if total is not None:
            assert compiled(x).item() == total
            continue
        part = x[:2, :1] + 1 if sign > 0 else x[:, :3] + 2
        wanted = part @ torch.ones(part.shape[1], 2), x * (1 if sign > 0 else 2), part.shape[1], part.long()
        assert str(compiled(x)) == str(wanted)


def test_sizes_that_change() -> None:
    def function(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a * a.shape[0], lambda a: a - 1, (x,))

    sizes = [(torch.rand(size, 4),) for size in (3, 5)]
    check(function, vary=sizes, dynamic=True, backend="aot_eager", expect_graphs=1)


REFUSED: dict[str, Callable[..., Any]] = {
    "true branch is float32[4]": lambda x: torch.cond(x.sum() > 0, lambda a: a.sum(0), lambda a: a + 1, (x,)),
    "returns an argument": lambda x: torch.cond(x.sum() > 0, lambda a: a, lambda a: a + 1, (x,)),
    "return different things": lambda x: torch.cond(x.sum() > 0, lambda a: (a + 1,), lambda a: [a + 1], (x,)),
    "did not make": lambda x: torch.cond(x.sum() > 0, lambda a: a.add_(1) + 1, lambda a: a + 1, (x,)),
    "what the body gives": lambda x: while_loop(lambda a: a.sum() < 3, lambda a: (a.double(),), (x,)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words: str) -> None:
    compiled = stator.compile(REFUSED[words], backend="eager", fullgraph=True)
    with pytest.raises(Unsupported) as error:
        compiled(torch.rand(3, 4))
    assert error.value.break_id == "higher-order" or "did not make" in words
    assert words in str(error.value)


bias = torch.randn(2)
causal = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 16, 16, device="cpu")


@pytest.mark.parametrize("masked", [False, True])
def test_flex_attention(masked: bool) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        if masked:
            return flex_attention(q, k, v, block_mask=causal) * 2
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1 + bias[h]) * 2

    args = [torch.randn(1, 2, 16, 8) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eager says once that it is slow
        flex_attention(*args)
    check(attention, *args, tolerance=1e-5, expect_graphs=1)


def test_a_scan_of_varying_length_is_left_to_cpython():
    """It halves the elements until one is left: there would be a graph for each length."""

    def program(x):
        scanned = associative_scan(lambda a, b: a + b, x * 2, 0, combine_mode="generic")
        return scanned.sin() + 1

    calls = [(torch.arange(n).double(),) for n in (2, 3, 5, 6, 9, 13)]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=1)
    assert report.gained("frames_captured") <= 4


def test_a_scan_whose_length_nobody_has_seen_change_is_no_break():
    """Both sizes of ids are guessed to vary once one does; the scan needs its length."""
    table = torch.randn(50, 4)

    def program(ids):
        return associative_scan(lambda a, b: a + b, table[ids], 1, combine_mode="generic") + 1

    calls = [(torch.arange(16 * n).reshape(n, 16) % 50,) for n in (2, 3, 5, 4)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)
