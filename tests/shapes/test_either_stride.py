"""Reshapes that give a view with other strides than a copy if a size is one: one compilation for both."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.harness import check

ORDERS = [(1, 4, 3, 2, 6), (4, 1, 3, 2, 6), (4, 3, 2, 1, 6)]
LENGTHS = (12, 7, 9, 11, 16)
WEIGHT = torch.randn(8, 8)


def calls_of(batches):
    return [(torch.randn(batch, length, 8),) for batch, length in zip(batches, LENGTHS, strict=True)]


def heads_of(x):
    batch, length, _ = x.shape
    return (x @ WEIGHT).view(batch, length, 4, 2).transpose(1, 2)


def scaled(x):
    """The result lies as the view does."""
    return heads_of(x).reshape(4 * x.shape[0], x.shape[1], 2) * 2


def attention(x):
    q = heads_of(x).flatten(0, 1)
    scores = torch.bmm(q, q.transpose(1, 2)).softmax(-1)
    return torch.bmm(scores, q).view(x.shape[0], 4, x.shape[1], 2).transpose(1, 2).reshape(x.shape)


def interleaved(x):
    """With gaps in memory, so that it is a view for a length of one, too."""
    batch, length, _ = x.shape
    fused = (x @ WEIGHT.repeat(1, 3)).view(batch, length, 4, 3, 2)
    q, k = (fused[..., i, :].transpose(1, 2).reshape(batch * 4, -1, 2) for i in (0, 1))
    return torch.bmm(q, k.transpose(1, 2)).view(batch, 4, length, -1)


def masked(x):
    """Operands that lie in different orders."""
    q = heads_of(x).reshape(4 * x.shape[0], x.shape[1], 2)
    other = torch.where(q > 0, q, torch.zeros_like(q)) + q.contiguous() + torch.ones(x.shape[1], 2)
    return F.layer_norm(other, (2,)), other.sum(0), torch.cat([q, other], 1)


def regrouped_again(x):
    """A view of a copy for several, a copy of a view for one."""
    q = heads_of(x).reshape(4 * x.shape[0], x.shape[1], 2)
    return q.reshape(-1, 2) @ torch.ones(2, 3), q.mean(0)


PROGRAMS = [scaled, attention, interleaved, masked, regrouped_again]
LAID_OUT = {scaled, masked}  # results lie as they do, which compilers have to be asked for


@pytest.mark.parametrize("batches", ORDERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_compilation_for_views_and_copies(program, batches):
    report = check(program, vary=calls_of(batches), expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


@pytest.mark.parametrize("batches", ORDERS[1:])
@pytest.mark.parametrize("program", PROGRAMS)
def test_traced(program, batches):
    most = 3 if program in LAID_OUT else 2
    report = check(program, vary=calls_of(batches), expect_recompiles=None, expect_graphs=None, backend="aot_eager")
    assert report.gained("frames_captured") <= most


def writes(x):
    y = x @ WEIGHT
    q = y.view(x.shape[0], x.shape[1], 4, 2).transpose(1, 2).reshape(4 * x.shape[0], x.shape[1], 2)
    q += 1
    return y * 1, q * 1


def gives_both(x):
    return x.view(x.shape[0], x.shape[1], 4, 2).transpose(1, 2).reshape(4 * x.shape[0], x.shape[1], 2)


def asks(x):
    q = heads_of(x).reshape(4 * x.shape[0], x.shape[1], 2)
    return q * (2 if q.is_contiguous() else 3)


def told(x):
    q = heads_of(x).reshape(4 * x.shape[0], x.shape[1], 2) + 1
    return q.sum(), q.stride(), q.transpose(0, 1).stride(-1)


def fails_for_one(x):
    q = heads_of(x).reshape(4 * x.shape[0], x.shape[1], 2)
    try:
        return q.view(-1) + 1
    except RuntimeError:
        return q.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("batches", ORDERS)
@pytest.mark.parametrize("program", [writes, gives_both, asks, told, fails_for_one])
def test_where_it_matters(program, batches, backend):
    """Which one it is can be seen, so it is asked."""
    whole = program is not fails_for_one
    check(
        program,
        vary=calls_of(batches),
        expect_recompiles=None,
        expect_graphs=None,
        backend=backend,
        fullgraph=whole,
        expect_breaks=0 if whole else None,
    )


def writes_to_a_part(x):
    """Into new memory, of which only a part is written to: whether elements share memory depends on no size."""
    heads = heads_of(x)
    made = heads.new_empty(*heads.shape[:-1], 5)
    made[..., :2].copy_(heads)
    made[..., 2:] = 1
    return made.sum(1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("batches", ORDERS)
def test_writes_with_gaps(batches, backend):
    report = check(writes_to_a_part, vary=calls_of(batches), expect_recompiles=1, expect_graphs=None, backend=backend)
    assert report.gained("frames_captured") == 2


@pytest.mark.parametrize("batches", ORDERS[1:])
def test_gradients(batches):
    weight = torch.randn(8, 8, requires_grad=True)

    def program(x):
        q = (x @ weight).view(*x.shape[:2], 4, 2).transpose(1, 2).flatten(0, 1)
        return torch.bmm(q, q.transpose(1, 2)).softmax(-1).sum(0)

    for backend in ("eager", "aot_eager"):
        report = check(program, vary=calls_of(batches), expect_recompiles=1, expect_graphs=None, backend=backend)
        assert report.gained("frames_captured") == 2


# ---- videos: frames become examples, and patches images ----------------------------------------------------------


def videos(batches, channels=4):
    sizes = ((4, 8, 8), (5, 6, 10), (3, 8, 14), (6, 12, 8), (2, 10, 6))
    return [(torch.randn(batch, channels, *size),) for batch, size in zip(batches, sizes, strict=True)]


def frames(x):
    batch, channels, count, height, width = x.shape
    y = x.permute(0, 2, 1, 3, 4).reshape(batch * count, channels, height, width)
    return (y * 2).reshape(batch, count, channels, height, width).permute(0, 2, 1, 3, 4) + 1


def embedded(x):
    """As patches of frames, in one sequence."""
    y = x.permute(0, 2, 1, 3, 4).flatten(0, 1)
    y = F.conv2d(y, torch.ones(3, 4, 2, 2), stride=2).flatten(2).transpose(1, 2)
    return y.unflatten(0, (x.shape[0], -1)).flatten(1, 2) * 2


def unpatched(x):
    """Patches of 2 x 2, whose elements are the channels, are put back; how many channels are left is calculated."""
    batch, _, count, height, width = x.shape
    y = x.permute(0, 2, 3, 4, 1).reshape(batch, count, height, width, 1, 2, 2, -1).permute(0, 7, 1, 4, 2, 5, 3, 6)
    return y.reshape(batch, -1, count, 2 * height, 2 * width) * 2


def put_together(x):
    batch, _, count, height, width = x.shape
    y = x.permute(0, 2, 3, 4, 1).reshape(batch, count, height // 2, 2, width // 2, 2, 4)
    y = y.permute(0, 1, 2, 4, 6, 3, 5).flatten(5, 6).flatten(2, 3)
    return y.transpose(1, 2).flatten(2, 3) + 1


@pytest.mark.parametrize("batches", [(2, 3, 1, 4, 2), (3, 1, 2, 4, 1)])
@pytest.mark.parametrize("program", [frames, embedded, unpatched, put_together])
def test_videos(program, batches):
    report = check(program, vary=videos(batches), expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


@pytest.mark.parametrize("program", [frames, embedded, unpatched, put_together])
def test_videos_of_one_thing(program):
    """What was taken not to be one is."""
    sizes = ((2, 4, 8, 8), (3, 5, 6, 10), (2, 1, 6, 8), (3, 4, 2, 8), (2, 3, 8, 2), (1, 1, 4, 2), (1, 3, 2, 2))
    calls = [(torch.randn(batch, 4, *size),) for batch, *size in sizes]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None)
    check(program, vary=calls[1:], expect_recompiles=None, expect_graphs=None, backend="aot_eager")


# ---- sizes that turn out to be constants -----------------------------------------------------------------------------

TAPS = torch.randn(4, 1, 3, 3)
BANDS = torch.randn(5, 16)


def spectrum(x):
    """How many bands are left is a constant behind the product, so it is not one."""
    x = F.conv2d(x.unsqueeze(1), TAPS, stride=2, padding=1).relu()
    return F.linear(x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1), BANDS)


def test_constant_behind_a_layer():
    sizes = [(2, 12, 8), (3, 17, 8), (4, 9, 8), (1, 15, 8), (1, 2, 8)]
    report = check(spectrum, vary=[(torch.randn(size),) for size in sizes], expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2
