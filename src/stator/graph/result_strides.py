"""Results of Inductor have the strides that eager gives them also where these are calculated from data.

Inductor lays out such results as it likes, so that `x[mask].t().contiguous()` would be one that `view` refuses. It asks
whether strides depend on data before it requires them; with stator's environment they are required like any others.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from stator.shapes.env import env_class


@cache
def install() -> None:
    """Answers the question in Inductor's lowering of graphs, once."""
    from torch._inductor import graph  # heavy

    asked = graph.free_unbacked_symbols

    def free_unbacked_symbols(numbers: Any) -> Any:
        return set() if _are_strides(numbers) else asked(numbers)

    graph.free_unbacked_symbols = free_unbacked_symbols


def _are_strides(numbers: Any) -> bool:
    """Whether these are strides of a tensor of stator's."""
    if not isinstance(numbers, (tuple, list)):
        return False
    symbolic = [number for number in numbers if isinstance(number, torch.SymInt)]
    return bool(symbolic) and all(isinstance(number.node.shape_env, env_class()) for number in symbolic)
