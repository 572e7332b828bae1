"""Sizes that the program has made constants in the meantime, as it keeps something by them."""

from __future__ import annotations

from typing import Any

import torch

import stator
from stator.shapes.scalar import TracedInt
from stator.tensors import meta
from tests.harness import check

kept: dict[tuple[int, int], Any] = {}


def masked(x: Any) -> Any:
    h, w = x.shape
    if (h, w) in kept:
        return kept[h, w]
    y = torch.zeros((1, h, w))
    y[:, :-1] = 3
    kept[h, w] = y
    return kept[h, w] + x


def test_they_are_indexed() -> None:
    kept.clear()
    vary = [(torch.ones(n, n),) for n in (26, 27)]
    check(masked, vary=vary, expect_graphs=2, expect_recompiles=1, globals=["kept"])


def test_other_captures_do_not_see_symbols_of_this_one() -> None:
    kept.clear()
    compiled = stator.compile(masked)
    for size in (36, 37, 38):
        compiled(torch.ones(size, size))
    assert [key for key in meta._interned if TracedInt in map(type, (*key[0], *key[1], key[2]))] == []
