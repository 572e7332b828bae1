"""Sizes that are one in some calls: one compilation does for them and for others, unless the program needs to know."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.report import events
from tests.harness import check

LATE, SECOND, DECODING = (5, 7, 1, 3, 1), (5, 1, 7, 3, 1), (3, 1, 1, 1, 2)
ORDERS = [LATE, SECOND, DECODING]


def elementwise(x, y):
    return x * 2 + y, x - y.mean(1, keepdim=True), torch.where(x > 0, x, y), F.layer_norm(x, (8,))


def attention(x, y):
    rows, length, _ = x.shape
    q, k, v = (part.view(rows, length, 2, 4).transpose(1, 2) for part in (x, y, x + y))
    made = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows, length, 8)
    return made * 2, (q @ k.transpose(-1, -2)).softmax(-1).transpose(1, 2).contiguous().flatten(2) + 1


def joined(x, y):
    return torch.cat([x, y], 1), torch.stack([x, y]), x.flatten(1) + 1, x.sum(1), (x[:, -1:] + y).max(1).values


def repeated(x, y):
    frames, heads = x.repeat_interleave(y.shape[1], 0), x.repeat_interleave(3, dim=1)
    return frames * 2, heads + 1, torch.repeat_interleave(y, x.shape[1]), y.repeat_interleave(2, -1)


def reduced(x, y):
    rows = torch.arange(x.shape[1])[:, None] * x[0]
    return rows.cumsum(0), torch.einsum("bid,bjd->bij", x, y), torch.cdist(x[0], y[0]), x.sort(1).values


@pytest.mark.parametrize("lengths", ORDERS)
@pytest.mark.parametrize("program", [elementwise, attention, joined, repeated, reduced])
def test_one_compilation_for_one_and_more(program, lengths):
    calls = [(torch.randn(2, n, 8), torch.randn(2, n, 8)) for n in lengths]
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=2, tolerance=1e-6)
    assert report.gained("frames_captured") == 2


def one_head(x):
    rows, length = x.shape[:2]
    return x.view(rows, length, 1, 8).transpose(1, 2).reshape(rows, 1, length, 8) * 2


def repeated(x):
    rows = len(x)
    return x[:1, :1].expand(rows, 1, 8).reshape(rows, 1, 2, 4) + x.mean()


def cut_off(x):
    rows, length = x.shape[:2]
    y = (F.pad(x, (0, 0, 0, -length % 4)) * 2)[:, :length]
    return y.view(rows, length, 2, 4).reshape(rows, length, -1) + 1


def first_of_chunks(x):
    chunks = F.pad(x, (0, 0, 0, -x.shape[1] % 4)).reshape(len(x), -1, 4, 8)
    return torch.cat([torch.zeros_like(chunks[:, :1]), chunks.exp()], 1).cumsum(1)


def like_another(x):
    rows, length = x.shape[:2]
    other = x.view(rows, length, 2, 4).transpose(1, 2).contiguous().transpose(1, 2)
    return x.view_as(other) + other, other.reshape_as(x), x[:, :1].expand_as(x) + 1


BATCHES = ((2, 8), (3, 8), (5, 11), (1, 9), (4, 16), (2, 3), (1, 7))
PROGRAMS = [one_head, repeated, cut_off, first_of_chunks, like_another]


@pytest.mark.parametrize("program", PROGRAMS)
def test_strides_next_to_ones(program):
    """Views and copies whose dimensions of one may have any stride: batches of one need no compilation of their own."""
    calls = [(torch.randn(rows, n, 8),) for rows, n in BATCHES]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2, tolerance=1e-6)


@pytest.mark.parametrize("program", PROGRAMS)
def test_strides_next_to_ones_traced(program):
    calls = [(torch.randn(rows, n, 8),) for rows, n in BATCHES]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None, tolerance=1e-6, backend="aot_eager")


@pytest.mark.parametrize("lengths", ORDERS)
def test_batches_of_one(lengths):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5))
    check(model, vary=[(torch.randn(n, 3, 6, 6),) for n in lengths], expect_recompiles=1, expect_graphs=2)


class PooledHead(torch.nn.Module):
    """The strides of the pooled image's height and width are arbitrary, and gone in what is flattened."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x):
        pooled = F.adaptive_avg_pool2d(x, 1).permute(0, 2, 3, 1)
        return self.norm(pooled).permute(0, 3, 1, 2).flatten(1), self.norm(pooled).mT.reshape(-1, 2, 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("lengths", ORDERS)
def test_pooled_batches_of_one(lengths, backend):
    calls = [(torch.randn(n, 4, 6, 6),) for n in lengths]
    check(PooledHead(), vary=calls, expect_recompiles=1, expect_graphs=2, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("lengths", ORDERS)
def test_shuffled_batches_of_one(lengths, backend):
    def program(x):
        parts = F.pixel_unshuffle(x, 2)
        return parts.unflatten(1, (-1, 2)).mean(2), F.pixel_shuffle(parts * 2, 4) + 1

    calls = [(torch.randn(n, 4, 8 + 4 * i, 12),) for i, n in enumerate(lengths)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2, backend=backend)


@pytest.mark.parametrize("program", [elementwise, repeated, reduced])
def test_traced(program):
    calls = [(torch.randn(2, n, 8), torch.randn(2, n, 8)) for n in SECOND]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None, tolerance=1e-6, backend="aot_eager")


def branching(x):
    if x.shape[1] == 1:
        return x[:, 0] * 2
    return x.sum(1)


def squeezed(x):
    return x.sum(-1).squeeze(), x.clone().squeeze_(1), x.sum(-1, keepdim=True).squeeze(1)


def written(x):
    """The flat one is a view of a transposed tensor only if that has a size of one."""
    y = x.transpose(1, 2)
    flat = y.reshape(2, -1)
    flat.add_(1)
    return flat


def written_later(x):
    y = (x * 2).transpose(1, 2)
    z = y.contiguous()
    y.add_(1)
    return z


def returned(x):
    y = x.transpose(1, 2)
    return y.contiguous(), y.reshape(2, -1)


def the_same(x):
    y = (x * 2).transpose(1, 2)
    return y.contiguous() is y, y


def laid_out(x):
    """A view of a size of one has other strides than a copy."""
    y = torch.cat([x, x]).permute(2, 1, 0)
    return (torch.arange(8)[:, None] * y.reshape(8, -1)).stride(), x.stride(), y.is_contiguous()


def without_history(x):
    with torch.no_grad():
        return x.transpose(1, 2).reshape(2, -1).requires_grad


@pytest.mark.parametrize(("backend", "lengths"), [("eager", LATE), ("eager", SECOND), ("aot_eager", SECOND)])
@pytest.mark.parametrize(
    "program", [branching, squeezed, written, written_later, returned, the_same, laid_out, without_history]
)
def test_where_it_matters(program, backend, lengths):
    calls = [(torch.randn(2, n, 8, requires_grad=program is without_history),) for n in lengths]
    options = {"fullgraph": False, "expect_breaks": None, "expect_recompiles": None, "expect_graphs": None}
    check(program, vary=calls, backend=backend, strides=backend == "eager", **options)


def test_the_sizes_that_count_are_told():
    """A guard on one size only, if that is enough."""

    def program(x):
        return F.batch_norm(x, None, None, training=True)

    check(program, vary=[(torch.randn(n, 2, 4, 4),) for n in SECOND], expect_recompiles=1, expect_graphs=2)


def test_views_of_what_was_written_over_lie_as_it_does():
    def program(x):
        x.mul_(2)
        return x.chunk(2, -1)[0], x.view(x.shape)

    compiled = stator.compile(program, backend="aot_eager")
    for rows, length in ((5, 3), (7, 2), (3, 4)):
        ours, theirs = (torch.arange(rows * 24.0).view(rows, 6, 4)[:, :length] for _ in range(2))
        for got, want in zip(compiled(ours), program(theirs), strict=True):
            assert torch.equal(got, want) and got.stride() == want.stride()
        assert torch.equal(ours, theirs)


def test_numbers_that_the_backend_finds_to_be_others():
    """A stride that turns out to be a size is what the entry function reads then."""

    def program(x):
        half = x.chunk(2, -1)[0]
        return half - half.mean(1, keepdim=True), x.shape, half.shape

    compiled = stator.compile(program, backend="aot_eager")
    for rows, length in ((1, 1), (7, 1), (1, 4), (3, 1), (2, 4)):
        x = torch.randn(rows, length, length).expand(rows, length, 4)
        got, want = compiled(x), program(x)
        assert torch.allclose(got[0], want[0]) and got[1:] == want[1:]


def test_norms_of_a_single_number():
    """Torch refuses them, so that it matters whether a size is one."""
    calls = [(torch.randn(size),) for size in ((1, 4, 1), (1, 5, 1), (1, 1, 1), (1, 6, 1))]
    check(
        lambda x: F.group_norm(x, 1) * 2,
        vary=calls,
        backend="aot_eager",
        fullgraph=False,
        tolerance=1e-5,
        expect_recompiles=None,
        expect_breaks=None,
    )


@pytest.mark.parametrize("widths", [(9, 5, 7, 5, 12), (5, 9, 5, 7), (6, 6, 5)])
def test_torch_asks_until_what_it_was_told_is_so(widths):
    """A backend's questions whether a size is 1 have the answer that a guard gave: torch's `im2col` had no end."""
    calls = [(torch.randn(2, 3 + i, 7, width),) for i, width in enumerate(widths)]
    check(lambda x: F.unfold(x, 3, (1, 2), (2, 0), 2), vary=calls, backend="aot_eager", expect_recompiles=None)


def squeezes(x):
    doubled = x * 2
    return doubled.squeeze(0).sum(0)  # this line


@pytest.mark.parametrize("lengths", [(4, 1, 3), (4, 3, 1)])
def test_the_line_that_needs_to_know_is_told(lengths):
    """Of a size that is one in the call that is captured, and of one that was found to be more."""
    seen = []
    note = seen.append
    events.subscribe(note, "recompile")
    try:
        compiled = stator.compile(squeezes, backend="eager")
        for n in lengths:
            compiled(torch.randn(n, 5 + n))
    finally:
        events.unsubscribe(note, "recompile")
    line = squeezes.__code__.co_firstlineno + 2
    assert len(seen) == 2
    assert any(f"test_sizes_of_one.py:{line} in squeezes" in reason for reason in seen[1].reasons), seen[1].reasons


ATTENTION = torch.nn.MultiheadAttention(8, 2, batch_first=True)
SEQUENCES = torch.nn.MultiheadAttention(8, 2)
ENCODER = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
NORM = torch.nn.BatchNorm1d(8)
LATENTS = torch.ones(5, 8)


def attends(x):
    return ATTENTION(x, x, x)[0]


def attends_in_sequences(x):
    return SEQUENCES(x, x, x, need_weights=False)[0]


def attends_from_latents(x):
    return ATTENTION(LATENTS.expand(x.shape[0], -1, -1), x, x)[0]


def encodes(x):
    return ENCODER(x)


def normalizes(x):
    return NORM(x.transpose(1, 2))


@pytest.mark.parametrize("program", [attends, attends_in_sequences, attends_from_latents, encodes, normalizes])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_layers_need_not_know(program, train, backend):
    for layer in (ATTENTION, SEQUENCES, ENCODER, NORM):
        layer.train(train)
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for batch, length in ((4, 6), (2, 9), (1, 8), (3, 5), (5, 1), (6, 7)):
        x = torch.randn(batch, length, 8)
        with torch.set_grad_enabled(train):
            torch.testing.assert_close(compiled(x), program(x))
    assert stator.stats()["frames_captured"] == 2


SLOPES = torch.rand(8)
ROWS = {
    "longest": lambda x: F.max_pool1d(x, 2),
    "means": lambda x: F.adaptive_avg_pool1d(x, 1),
    "extremes": lambda x: F.adaptive_max_pool1d(x, 3),
    "slopes": lambda x: F.prelu(x, SLOPES),
    "instances": lambda x: F.instance_norm(x),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("layer", ROWS)
def test_rows_whose_channels_lie_next_to_each_other(layer, train):
    def program(x):
        return ROWS[layer](x.transpose(1, 2))

    calls = [(torch.randn(size, requires_grad=train),) for size in ((4, 6, 8), (2, 9, 8), (3, 7, 8), (1, 8, 8))]
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


def test_a_mean_of_one_value_is_refused_as_in_eager():
    NORM.train()
    compiled = stator.compile(NORM, backend="eager")
    for size in ((4, 8, 6), (2, 8, 9), (1, 8, 8), (7, 8, 1)):
        compiled(torch.randn(size))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        compiled(torch.randn(1, 8, 1))
    assert stator.stats()["recompiles"] <= 2


def normalised(x):
    """Groups of several channels, and of one: then a single value is refused."""
    return F.group_norm(x, 4) + 1, F.group_norm(x.to(memory_format=torch.channels_last), 2) * 2


def alone(x):
    return F.group_norm(x, 8) + 1


@pytest.mark.parametrize("program", [normalised, alone])
def test_groups_of_images_of_one_pixel(program):
    sizes = [(2, 8, 4, 4), (3, 8, 5, 6), (2, 8, 1, 1), (1, 8, 1, 3), (1, 8, 2, 2), (4, 8, 1, 1)]
    calls = [(torch.randn(size),) for size in sizes]
    report = check(program, vary=calls, expect_recompiles=None, expect_graphs=None, tolerance=1e-6)
    assert report.gained("frames_captured") == 2


@pytest.mark.parametrize("stride", [1, 2])
def test_groups_behind_a_convolution(stride):
    """How long a row is then is calculated; each batch will do that leaves more than a single value."""
    weight = torch.randn(8, 3, 5)
    calls = [(torch.randn(size), weight) for size in [(2, 3, 20), (3, 3, 24), (1, 3, 20), (1, 3, 13), (4, 3, 5)]]
    report = check(
        lambda x, weight: F.group_norm(F.conv1d(x, weight, stride=stride), 8) * 2,
        vary=calls,
        expect_recompiles=None,
        expect_graphs=None,
        tolerance=1e-6,
    )
    assert report.gained("frames_captured") == 2


def affine(x, scale):
    """As image models scale patches, where the batch is not the first that lies in memory."""
    patches = torch.addcmul(scale * 0.5, scale, x.flatten(2).transpose(1, 2))
    return torch.addcmul(patches, scale, patches.transpose(1, 2).relu().transpose(1, 2), value=2)


def test_a_batch_of_one_is_scaled():
    calls = [(torch.randn(size), torch.randn(1, 1, 8)) for size in [(2, 8, 2, 2), (3, 8, 2, 3), (1, 8, 2, 2)]]
    report = check(affine, vary=calls, expect_recompiles=None, expect_graphs=None)
    assert report.gained("frames_captured") == 2


def test_a_group_of_one_value_is_refused():
    sizes = [(2, 8, 4, 4), (3, 8, 5, 6), (1, 8, 1, 1), (1, 8, 2, 1)]
    calls = [(torch.randn(size),) for size in sizes]
    loose = dict.fromkeys(("expect_recompiles", "expect_graphs", "expect_breaks"))
    check(alone, vary=calls, fullgraph=False, tolerance=1e-6, **loose)


def table(x):
    """Another branch of the program for one size of images, whatever the batch is."""
    return x.sum((2, 3)) if x.shape[2] == 4 else x.flatten(1).mean(1)


def test_a_batch_of_one_in_another_branch():
    sizes = [(2, 3, 4, 4), (3, 3, 5, 5), (1, 3, 4, 4), (4, 3, 4, 4), (1, 3, 6, 6), (5, 3, 4, 4)]
    report = check(table, vary=[(torch.randn(size),) for size in sizes], expect_recompiles=None, expect_graphs=None)
    assert report.gained("frames_captured") == 3


def masks(x):
    near = (torch.arange(6) % 2 == 0)[None, None, None]
    far = x[:, None, :, None] > 0
    return torch.logical_and(far, near), far.logical_or(near), torch.logical_xor(x, x[:1])


def test_masks_for_a_batch_of_one():
    calls = [(torch.randn(size),) for size in [(2, 5), (3, 7), (1, 5), (4, 1), (1, 1), (2, 8)]]
    report = check(masks, vary=calls, expect_recompiles=1, expect_graphs=2)
    assert report.gained("frames_captured") == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_expanded_batch_is_copied_unless_it_is_one(backend):
    """The rows of one example, twice, are a view of it."""

    def program(x):
        return x.unsqueeze(0).expand(2, -1, -1, -1).reshape(-1, 6, x.shape[2])

    compiled = stator.compile(program, backend=backend)
    for sizes in [(3, 6, 5), (2, 6, 7), (1, 6, 4), (4, 6, 1), (1, 6, 1), (5, 6, 3)]:
        x = torch.randn(sizes)
        given, made = program(x), compiled(x)
        assert made.stride() == given.stride() and made.shape == given.shape
        assert (made.data_ptr() == x.data_ptr()) == (given.data_ptr() == x.data_ptr())
