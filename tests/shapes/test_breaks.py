"""Symbolic numbers around a graph break."""

from __future__ import annotations

import torch

import stator


def test_sizes_and_numbers_live_across_a_break():
    def program(x, n, s):
        rows = x.shape[0]
        y = x * n + s
        if y.sum().item() > 1e9:
            return y
        return y.view(rows, -1) * rows + n * s, rows, n, s, x.shape

    compiled = stator.compile(program, backend="eager")
    for size, n, s in ((3, 2, 0.5), (4, 3, 0.25), (5, 7, 1.5), (9, 4, 8.0)):
        x = torch.ones(size, 2)
        got, want = compiled(x, n, s), program(x, n, s)
        torch.testing.assert_close(got[0], want[0])
        assert got[1:] == want[1:] and [type(v) for v in got[1:]] == [int, int, float, torch.Size]
    assert len(compiled.entries()) == 2
    assert stator.stats()["frames_skipped"] == 0


def test_strides_that_vary_before_a_break_vary_behind_it():
    def program(x):
        first = (x[:, None] * x[:, :, None])[:, 0]  # the stride of its rows is the square of their length
        if first.sum().item() > 1e9:
            return first
        return first.sin() + 1, first.stride()

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for rows, columns in ((2, 5), (3, 5), (4, 9), (5, 6)):
        x = torch.randn(rows, columns)
        got, want = compiled(x), program(x)
        torch.testing.assert_close(got[0], want[0])
        assert got[1] == want[1] == (columns * columns, 1)
    assert stator.stats()["frames_captured"] <= 4  # two of each of the two stretches
