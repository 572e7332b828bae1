"""Batches of two tensors that a view takes for one: the size that is left over is known, and asks for nothing more."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.harness import check

CALLS = [(2, 6, 5), (3, 5, 6), (2, 8, 4), (1, 7, 8), (4, 4, 6), (5, 9, 8)]


class CrossAttention(torch.nn.Module):
    """Heads are taken apart by the number of texts, for the image as well."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(8, 8)

    def forward(self, image, text):
        rows, pixels = len(text), image.flatten(2).transpose(1, 2)
        q, k = (self.project(x).view(rows, -1, 2, 4).transpose(1, 2) for x in (pixels, text))
        made = F.scaled_dot_product_attention(q, k, k).transpose(1, 2).reshape(rows, -1, 8) + pixels
        return made.permute(0, 2, 1).reshape(image.shape)


def test_cross_attention():
    calls = [(torch.randn(b, 8, n, n + 1), torch.randn(b, m, 8)) for b, n, m in CALLS]
    check(CrossAttention(), vary=calls, expect_recompiles=1, expect_graphs=2, tolerance=1e-6)


def test_flattened():
    def program(numbers, text):
        return torch.cat([text, (numbers.flatten()[:, None] * torch.arange(4.0)).reshape(len(text), -1)], -1)

    calls = [(torch.randn(b, 6), torch.randn(b, 8)) for b, *_ in CALLS]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)


def test_sizes_that_are_equal_by_accident():
    def program(x, y):
        return x.reshape(len(y), -1) * y[:, :1]

    sizes = [(2, 6), (4, 4), (4, 4), (6, 3), (2, 8), (8, 2)]
    check(
        program,
        vary=[(torch.randn(a, 12), torch.randn(b, 3)) for a, b in sizes],
        expect_recompiles=None,
        expect_graphs=None,
    )
