"""Sizes calculated from others that may be one: a count of windows or chunks is no reason for another compilation."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from stator.tensors.rules.regrouping import Shape, aligned
from tests.harness import check
from tests.shapes.test_numbers import guards, sizes


def chunks(x):
    rows, length = x.shape
    count = -(-length // 4)
    parts = F.pad(x, (0, 4 * count - length)).reshape(rows, count, 4)
    doubled = parts.unsqueeze(1) * parts.unsqueeze(1) + parts.sum(-1, keepdim=True).unsqueeze(1)
    return parts.view(rows, count, 2, 2).transpose(1, 2), torch.cumsum(parts * 2, -1), doubled.flatten(1, 2)


@pytest.mark.parametrize("lengths", [(9, 8, 4, 3, 17, 2, 12), (8, 4, 12, 3, 5, 2, 9)])
def test_counts_of_chunks(lengths):
    """Also when the count is one in the call that is captured."""
    calls = [(torch.randn(2 + i, length),) for i, length in enumerate(lengths)]
    report = check(chunks, vary=calls, expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


def windows(x, weight):
    rows, length, width = x.shape
    pad = -length % 4
    q, k, v = (F.pad(x, (0, 0, 0, pad)) @ weight).view(rows, (length + pad) // 4, 4, 3, 2, 3).permute(3, 0, 1, 4, 2, 5)
    heads = (q @ k.transpose(-1, -2)).softmax(-1) @ v
    return heads.transpose(2, 3).reshape(rows, length + pad, width)[:, :length]


def segments(x, weight):
    rows, length, width = x.shape
    parts = F.pad(x @ weight[:, :width], (0, 0, 0, -length % 4)).view(rows, -1, 4, width).permute(0, 3, 1, 2)
    spread = parts[..., None].expand(*parts.size(), 4)
    mask = torch.tril(torch.ones(4, 4, dtype=torch.bool), diagonal=-1)
    sums = torch.cumsum(spread.masked_fill(~mask, 0), dim=-2)
    return torch.einsum("bhcls,bhcs->bclh", sums.exp(), parts), torch.zeros_like(sums[..., :1]), sums * parts[..., None]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [windows, segments])
def test_layouts_of_counts(program, backend):
    """How results of operations lie in memory, where only the stride of a count depends on its being one."""
    weight = torch.randn(6, 18, requires_grad=True)
    calls = [(torch.randn(2 + i, length, 6, requires_grad=True), weight) for i, length in enumerate((9, 7, 3, 2, 8))]
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=None, backend=backend)
    assert report.gained("frames_captured") == 2


def scaled_windows(x):
    count = -(-x.shape[1] // 4)
    parts = F.pad(x, (0, 4 * count - x.shape[1])).view(-1, count, 4).transpose(0, 1)
    return parts * 2, parts.reshape(count, -1)


def looks_at_strides(x):
    doubled, flat = scaled_windows(x)
    return doubled.stride()[1:], flat.stride()[1:], doubled.is_contiguous()


def writes_to_what_may_be_a_view(x):
    doubled, flat = scaled_windows(x)
    other = doubled.reshape(doubled.shape[0], -1)
    other += 1
    flat *= 2
    return doubled.sum(), other.sum(1), flat.sum(1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [looks_at_strides, writes_to_what_may_be_a_view])
def test_who_looks_sees_ones(program, backend):
    calls = [(torch.randn(3, length),) for length in (9, 12, 3, 4, 2, 7)]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None, backend=backend)


def test_regrouping_asks_nothing():
    """Strides of views without a question are those that torch has, whether the size is one or not."""
    symbols, (s, b) = sizes(7, 5)
    n = (s + 3) // 4
    cases = [
        (Shape((b, 4 * n), (4 * n, 1)), (b, n, 4)),
        (Shape((b, n, 4), (4 * n, 4, 1)), (b, n, 2, 2)),
        (Shape((b, n, 4), (4 * n, 4, 1)), (b * n, 1, 4)),
        (Shape((b, n, 4), (4 * n, 4, 1)), (1, b, 4 * n, 1)),
        (Shape((4, b, n), (1, 4 * n, 4)), (2, 2, b, n)),
        (Shape((n, b, 6), (6 * b, 6, 1)), (n * b * 3, 2)),
    ]
    made = [aligned(base, wanted) for base, wanted in cases]
    assert None not in made
    assert guards(symbols) == 0
    names = list(symbols.sources)
    for length, rows in itertools.product((2, 4, 5, 9, 40), (2, 3, 8)):
        values = dict(zip(names, (length, rows), strict=True))

        def now(numbers, values=values):
            return [n if type(n) is int else symbols.unknowns.at(n.number, values) for n in numbers]

        for (base, wanted), strides in zip(cases, made, strict=True):
            real = torch.empty_strided(now(base.size), now(base.stride), device="meta").view(now(wanted))
            assert now(strides) == list(real.stride())


def test_regrouping_does_not_guess():
    """A size that may be one next to others that do not go on in memory: its stride would depend on it."""
    symbols, (s, b) = sizes(7, 5)
    n = s // 4
    assert aligned(Shape((n, b), (b, 1)), (n, b)) == (b, 1)
    assert aligned(Shape((b, n), (100, 7)), (n, b)) is None
    assert aligned(Shape((b, n, 3), (999, 5, 1)), (b, n, 3)) is None
    assert guards(symbols) == 0


def test_copies_keep_strides_of_ones():
    """A size of one may have any stride, which a copy keeps."""
    for size, stride in (((1,), (2,)), ((1, 4), (100, 1)), ((3, 1, 2), (9, 5, 1))):
        check(lambda x: x.long().stride() + x.clone().stride(), torch.empty_strided(size, stride).zero_(), calls=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "squeeze",
    [
        torch.Tensor.squeeze,
        torch.Tensor.squeeze_,
        torch.squeeze,
        lambda t: t.squeeze(0),
        lambda t: torch.squeeze(input=t, dim=(0, 1)),
        torch.inference_mode()(lambda t: t.squeeze(0)),
    ],
)
def test_squeezed_counts(squeeze, backend):
    """A count that is one takes a dimension away."""

    def program(x):
        found = squeeze((x == 0).nonzero())
        return found.dim(), found

    calls = [(torch.tensor(row),) for row in ([0, 1, 0], [1, 0, 1], [0, 0, 0])]
    check(program, vary=calls, expect_recompiles=None, expect_breaks=None, backend=backend, fullgraph=False)


def test_squeezed_counts_in_python():
    def program(masks):
        ends = (masks[1:] == 0).nonzero().squeeze()
        ends = [ends.item() + 1] if ends.dim() == 0 else (ends + 1).numpy().tolist()
        return [masks[start:end].sum() for start, end in itertools.pairwise([0, *ends, len(masks)])]

    calls = [(torch.tensor(row),) for row in ([1.0, 0, 2, 0, 3], [1.0, 2, 0, 3, 4], [1.0, 2, 3, 4, 5])]
    check(program, vary=calls, expect_recompiles=None, expect_breaks=None, fullgraph=False)
