"""Operations that Inductor would compile once per size: forward and backward they are compiled for all sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import stator

SIZES = [(2, 16, 12), (3, 20, 18), (2, 17, 21), (4, 12, 14)]


def images(x, w):
    x = F.conv2d(x, w, padding=1)
    x = F.interpolate(F.glu(x, 1), size=x.shape[2:])
    return F.adaptive_max_pool2d(x, 2) + F.adaptive_avg_pool2d(x, (2, 2))


def rows(x, w):
    x = F.conv1d(x.flatten(2), w.flatten(2)[..., :3], dilation=2)
    x = F.avg_pool1d(F.interpolate(x, scale_factor=2, mode="linear"), 2)
    return F.adaptive_avg_pool1d(F.glu(x, 2) if x.shape[2] % 2 == 0 else F.glu(x[..., 1:], 2), 5)


def volumes(x, w):
    x = F.interpolate(x[:, None], scale_factor=2, mode="trilinear")
    return F.adaptive_max_pool3d(x, 2).flatten() * w.sum()


def slopes(program, sizes, given):
    torch.manual_seed(0)
    x = torch.randn(sizes[0], 4, *sizes[1:], requires_grad=True)
    w = given.clone().requires_grad_()
    made = program(x, w)
    return made.detach(), *torch.autograd.grad(made, (x, w), torch.linspace(0, 1, made.numel()).view(made.shape))


@pytest.mark.parametrize(
    "backend, program",
    [
        ("aot_eager", rows),
        ("aot_eager", volumes),
        pytest.param("inductor", images, marks=pytest.mark.inductor),
        pytest.param("inductor", rows, marks=pytest.mark.inductor),
    ],
)
def test_two_compilations_for_all_sizes(backend, program):
    stator.reset()
    compiled = stator.compile(program, backend=backend)
    w = torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(1))
    even = [sizes for sizes in SIZES if program is not rows or sizes[1] * sizes[2] % 2 == 0]
    for sizes in even:
        torch.testing.assert_close(
            slopes(compiled, sizes, w), slopes(program, sizes, w), check_stride=False, rtol=1e-4, atol=1e-5
        )
    stats = stator.stats()
    assert (stats["frames_captured"], stats["graph_breaks"], stats["graphs"]) == (2, 0, 2)
