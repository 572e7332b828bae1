"""Programs that random tests or CPython's own found to differ, made small."""

from __future__ import annotations

import sys
from typing import Any

import torch

from tests.harness import check


def test_frames_with_empty_cells_are_shown() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        name = sys._getframe().f_code.co_name
        value = 3

        def late() -> int:
            return value

        return y * late(), name

    check(f, torch.ones(2))
