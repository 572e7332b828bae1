"""Sizes of which something is one in the call that makes them symbols: one compilation for all, if it can be."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.harness import check

TAPS = torch.randn(4, 4, 3, 3)
ONE_AFTER_THE_OTHER = ((8, 8), (16, 8), (8, 16), (16, 24), (8, 8), (24, 8))
BATCHES = (2, 3, 2, 4, 1, 3)


def images(sizes=ONE_AFTER_THE_OTHER):
    return [(torch.randn(batch, 4, *size),) for batch, size in zip(BATCHES, sizes, strict=True)]


def pyramid(x):
    """The last image is one wide, high, or both."""
    for _ in range(3):
        x = F.relu(F.conv2d(x, TAPS, stride=2, padding=1))
    return x, F.adaptive_avg_pool2d(x, 1).flatten(1)


def clipped(x):
    """Torch is asked, of sizes that were found to be even."""
    for _ in range(3):
        x = F.pad(x, (0, 1, 0, 1)) if x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0 else x
        x = F.hardtanh(F.conv2d(x, TAPS, stride=2), 0.0, 6.0)
    return x


def channels_last(x):
    x = F.layer_norm(F.avg_pool2d(x, 8).permute(0, 2, 3, 1), (4,))
    return (x * 2).permute(0, 3, 1, 2) + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [pyramid, clipped, channels_last])
def test_one_compilation(program, backend):
    report = check(program, vary=images(), expect_recompiles=1, expect_graphs=None, backend=backend)
    assert report.gained("frames_captured") == 2


def windows(x):
    """Side by side they are a view, above each other a copy."""
    batch, channels, height, width = x.shape
    x = x.view(batch, channels, height // 8, 8, width // 8, 8).permute(0, 2, 4, 3, 5, 1).reshape(-1, 64, channels)
    return x.softmax(1).view(batch, height // 8, width // 8, 64, channels).mean(3)


def branches(x):
    x = F.max_pool2d(x, 8)
    return x.sum() if x.shape[3] == 1 else x * 2


def squeezes(x):
    return F.max_pool2d(x, 8).squeeze(3) + 1


def tells(x):
    x = F.avg_pool2d(x, 8).transpose(2, 3)
    return x * 2, x.is_contiguous(), (x + 1).stride()


def compares(x):
    """Larger sizes would go another way."""
    return x[:, :, :8] * 2 if x.shape[3] < 10 else F.avg_pool2d(x, 8) * x.shape[3]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [windows, branches, squeezes, tells, compares])
def test_where_it_matters(program, backend):
    report = check(program, vary=images(), expect_recompiles=None, expect_graphs=None, backend=backend)
    assert report.gained("frames_captured") <= 6


def test_sizes_of_several_tensors_go_together():
    def program(x, mask):
        pooled = F.avg_pool1d((x * mask[:, None]), 8)
        return pooled * 2, pooled.transpose(1, 2).reshape(x.shape[0], -1)

    calls = [(torch.randn(b, 4, n), torch.rand(b, n) > 0.5) for b, n in ((2, 16), (3, 8), (4, 24), (2, 9), (1, 40))]
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2
