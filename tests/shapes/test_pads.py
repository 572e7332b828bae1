"""Branches that pad: one compilation for sizes with and without padding, unless somebody sees which it was."""

from __future__ import annotations

import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.harness import check

LENGTHS = (7, 9, 8, 12, 5, 16, 4, 3)


def chunked(x):
    """Three columns, chunks of four rows."""
    return x.reshape(len(x), -1, 4, x.shape[2]).cumsum(2).flatten(1, 2)


def compared(x):
    pad = -x.shape[1] % 4
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad))
    return chunked(x)


def cut_again(x):
    length = x.shape[1]
    pad = (4 - length % 4) % 4
    if pad:
        x = nn.functional.pad(x, (0, 0, 0, pad), "constant", 1.5)
    x = chunked(x)
    if pad:
        x = x[:, :length]
    return x * 2


def remainder(x):
    length = x.shape[1]
    if length % 4 != 0:
        more = 4 - length % 4
        x = F.pad(x, pad=[0, 0, 0, more], value=0)
    return chunked(x)


def at_once(x):
    if x.shape[1] % 4:
        x = F.pad(x, (0, 0, 0, 4 - x.shape[1] % 4))
    return chunked(x)


def two_sides(x):
    pad, length = -x.shape[1] % 4, x.shape[1]
    if 0 < pad:
        left = pad // 2
        x = F.pad(x, (0, 0, left, pad - left))
        length += pad
    return chunked(x)[:, : length - 1]


def joined(x):
    pad = -x.shape[1] % 4
    if pad:
        x = torch.cat([x, x.new_zeros(x.shape[0], pad, x.shape[2])], dim=1)
    return chunked(x)


def joined_with_ones(x):
    rows, length, width = x.shape
    pad = (4 - length % 4) % 4
    if pad > 0:
        more = torch.full((rows, pad, width), 2.5, dtype=x.dtype, device=x.device)
        x = torch.cat((x, more), 1)
    return chunked(x), x.shape[1] // 4


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.width, self.linear = 4, nn.Linear(3, 3)

    def forward(self, x):
        x, length = self.linear(x), x.shape[1]
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        pad = (self.width - length % self.width) % self.width
        if pad != 0:
            x = F.pad(x, (0, 0, 0, pad))
            mask = F.pad(mask, (0, pad), value=False)
            length = length + pad
        return chunked(x) * mask[..., None], length // self.width


@pytest.mark.parametrize(
    "program", [compared, cut_again, remainder, at_once, two_sides, joined, joined_with_ones, Masked]
)
@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[2:]])
def test_one_compilation_with_and_without_padding(program, lengths):
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate(lengths)]
    program = program() if isinstance(program, type) else program
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


def windows(x):
    rows, height, width, channels = x.shape
    below, right = -height % 4, -width % 4
    if below > 0 or right > 0:
        x = F.pad(x, (0, 0, 0, right, 0, below))
    x = x.view(rows, -1, 4, width + right, channels).cumsum(2)
    x = x.view(rows, height + below, -1, 4, channels).cumsum(3).flatten(2, 3)
    if below > 0 or right > 0:
        x = x[:, :height, :width].contiguous()
    return x


def test_several_conditions():
    sizes = ((7, 9), (8, 9), (9, 8), (12, 16), (5, 6), (4, 8), (13, 4))
    calls = [(torch.randn(2 + i, height, width, 3),) for i, (height, width) in enumerate(sizes)]
    check(windows, vary=calls, expect_recompiles=1, expect_graphs=None)


def even(x, height, width):
    """Whether there is a row or column too many is a variable, and so are the amounts."""
    should_pad = (height % 2 == 1) or (width % 2 == 1)
    if should_pad:
        amounts = (0, 0, 0, width % 2, 0, height % 2)
        x = F.pad(x, amounts)
    return x


def even_at_once(x, height, width):
    if (height % 2 == 1) or (width % 2 == 1):
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    return x


class Patches(nn.Module):
    """Two branches use the same variable for amounts; behind the first patches, channels lie next to each other."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Conv2d(3, 4, 2, 2), nn.Conv2d(4, 4, 2, 2), nn.LayerNorm(4)

    def padded(self, x, height, width):
        if width % 2 != 0:
            amounts = (0, 2 - width % 2)
            x = F.pad(x, amounts)
        if height % 2 != 0:
            amounts = (0, 0, 0, 2 - height % 2)
            x = F.pad(x, amounts)
        return x

    def forward(self, x):
        x = self.first(self.padded(x * 2, *x.shape[2:]))
        rows, _, height, width = x.shape
        x = self.norm(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(rows, 4, height, width)
        return self.second(self.padded(x, height, width)) + 1


@pytest.mark.parametrize("start", [0, 3])
def test_amounts_of_two_branches_in_one_variable(start):
    sizes = [(2, 16, 12), (3, 20, 18), (4, 13, 17), (1, 15, 10), (2, 10, 15), (1, 1, 1), (3, 2, 2), (2, 1, 7)]
    calls = [(torch.randn(rows, 3, height, width),) for rows, height, width in sizes[start:] + sizes[:start]]
    report = check(Patches(), vary=calls, expect_recompiles=None, expect_graphs=None, tolerance=1e-6)
    assert report.gained("frames_captured") == 2


def merged(x, pad=even):
    """Patches are merged in pairs."""
    x = pad(x, *x.shape[1:3])
    return torch.cat([x[:, row::2, col::2] for row in range(2) for col in range(2)], -1)


def merged_at_once(x):
    return merged(x, even_at_once)


def odd(x):
    is_odd = x.shape[1] % 2 == 1
    if is_odd:
        amounts = [0, 0, 0, 0, 0, x.shape[1] % 2]
        x = F.pad(x, amounts)
    return x.unflatten(1, (-1, 2)).cumsum(2)


@pytest.mark.parametrize("program", [merged, merged_at_once, odd])
def test_conditions_and_amounts_in_variables(program):
    sizes = ((7, 9), (8, 9), (9, 8), (12, 16), (5, 6), (4, 8), (13, 4))
    calls = [(torch.randn(2 + i, height, width, 3),) for i, (height, width) in enumerate(sizes)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=None)


def test_gradients():
    calls = [(torch.randn(2 + i, n, 3, requires_grad=True),) for i, n in enumerate(LENGTHS)]
    check(cut_again, vary=calls, expect_recompiles=1, expect_graphs=None, backward=True)


# ---- where somebody sees it -------------------------------------------------------------------------------------


def padded(x):
    pad = -x.shape[1] % 4
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad))
    return x


def written(x):
    y = padded(x)
    y += 1
    return x.sum(), y * 2


def view_written(x):
    y = padded(x)
    y[0].zero_()
    return chunked(y)


def source_written(x):
    y = padded(x)
    x.mul_(2)
    return chunked(y)


def same(x):
    y = padded(x)
    return chunked(y) if y is x else chunked(y) * 2


def kept(x):
    twice = x * 2
    return padded(twice), twice


def noted(x):
    x.note = 3
    return getattr(padded(x), "note", 2) + x


def transposed(x):
    y = x.transpose(0, 2)
    pad = -y.shape[1] % 4
    if pad > 0:
        y = F.pad(y, (0, 0, 0, pad))
    return y * 2, y.stride()


def unbound(x):
    pad = -x.shape[1] % 4
    if pad > 0:
        more = pad + 1
        x = F.pad(x, (0, 0, 0, pad))
    try:
        return chunked(x) + more
    except UnboundLocalError:
        return chunked(x)


class Counting:
    def __init__(self):
        self.asked = 0

    @property
    def value(self):
        self.asked += 1
        return 1.0


COUNTING = Counting()


def asks(x):
    pad = -x.shape[1] % 4
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad), value=COUNTING.value)
    return chunked(x), COUNTING.asked


def other_amount(x):
    pad = -x.shape[1] % 4
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad + 4))
    return chunked(x)


def read_later(x):
    is_odd = x.shape[1] % 2 == 1
    if is_odd:
        x = F.pad(x, (0, 0, 0, x.shape[1] % 2))
    return x * 2, is_odd


def amounts_read_later(x):
    amounts = "none"
    odd = x.shape[1] % 2
    if odd == 1:
        amounts = (0, 0, 0, odd)
        x = F.pad(x, amounts)
    return x * 2, amounts


def amounts_read_in_the_next_round(x):
    amounts, known = "none", []
    for _ in range(2):
        known.append(amounts)
        odd = x.shape[1] % 2
        if odd == 1:
            amounts = (0, 0, 0, odd)
            x = F.pad(x, amounts)
    return x * 2, known


def amounts_in_a_closure(x):
    amounts = (1,)
    odd = x.shape[1] % 2
    if odd == 1:
        amounts = (0, 0, 0, odd)
        x = F.pad(x, amounts)
    return x * 2, (lambda: amounts)()


def more_than_two(x):
    if x.shape[1] % 4 == 1:
        x = F.pad(x, (0, 0, 0, x.shape[1] % 4))
    return x * 2


def as_key(x):
    known = {x: 1}
    y = padded(x)
    return chunked(y), y in known, len({x, y})


def weakly(x):
    y = padded(x)
    return chunked(y), weakref.ref(x) is weakref.ref(y), id(x) == id(y)


SEEN = [
    written,
    view_written,
    source_written,
    same,
    as_key,
    weakly,
    padded,
    kept,
    noted,
    transposed,
    unbound,
    asks,
    other_amount,
    read_later,
    amounts_read_later,
    amounts_read_in_the_next_round,
    amounts_in_a_closure,
    more_than_two,
]


@pytest.mark.parametrize("program", SEEN)
@pytest.mark.parametrize("lengths", [LENGTHS[:5], LENGTHS[2:6]])
def test_both_ways_are_told_apart(program, lengths):
    COUNTING.asked = 0
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate(lengths)]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None, globals=("COUNTING",))


def hooked(x):
    y = padded(x)
    y.register_hook(lambda grad: grad * 2)
    return chunked(y).sum() + x.sum() * 3


def inner_gradient(x):
    y = padded(x * 2)
    (grad,) = torch.autograd.grad(chunked(y).sum() + (y * y).sum(), y)
    return grad


def leaf(x):
    y = padded(x)
    return chunked(y) * (2 if y.is_leaf else 3)


@pytest.mark.parametrize("program", [hooked, inner_gradient, leaf])
def test_histories(program):
    calls = [(torch.randn(2 + i, n, 3, requires_grad=True),) for i, n in enumerate(LENGTHS[:5])]
    counts = {"expect_recompiles": None, "expect_graphs": None, "expect_breaks": None}
    check(program, vary=calls, fullgraph=False, backward=True, **counts)
