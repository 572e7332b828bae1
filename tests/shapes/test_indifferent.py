"""Comparisons of sizes whose answer makes no difference: what follows decides, and nothing is guarded."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.harness import check


def with_mask(x, mask):
    causal = x.shape[1] > 1 and mask is None
    return x * 2 if causal else x + mask.sum(), causal


def by_flag(x, flag):
    wide = x.shape[1] > 6 and flag and x.shape[0] == 2
    return x + 1, wide


def one_or_equal(x, mask):
    rows, length = x.shape
    keys = (x + mask.sum()).shape[1]
    if (length == 1 or keys == length) and not (length > 4 and mask is None):
        return x.cumsum(1)
    return x - rows


def nested(x, mask):
    length = x.shape[1]
    return x.sum(1) if length > 5 and (mask is None or length < 1) else x.mean(1)


@pytest.mark.parametrize("lengths", [(5, 7, 1, 3), (5, 1, 9, 4), (3, 6, 8, 1)])
@pytest.mark.parametrize("program", [with_mask, one_or_equal, nested])
def test_not_asked(program, lengths):
    calls = [(torch.randn(2, n), torch.ones(3)) for n in lengths]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=2)


def test_flags():
    check(by_flag, vary=[(torch.randn(2, n), False) for n in (5, 7, 6, 8)], expect_recompiles=1, expect_graphs=2)
    check(by_flag, vary=[(torch.randn(2, n), True) for n in (5, 7, 6, 8)], expect_recompiles=2, expect_graphs=None)


def test_asked_where_it_matters():
    """The same programs without a mask."""
    for program, lengths in ((nested, (4, 5, 7, 3)), (by_flag, (4, 5, 7, 3))):
        check(program, vary=[(torch.randn(2, n), None) for n in lengths], expect_recompiles=None, expect_graphs=None)


def test_what_decides_is_guarded():
    """In a call that the other condition would decide otherwise, the answer counts."""
    mask = torch.ones(3)
    calls = [(torch.randn(2, n), given) for n, given in ((4, mask), (7, mask), (3, mask), (7, None), (3, None))]
    check(nested, vary=calls, expect_recompiles=None, expect_graphs=None)


def behind_a_break(x, mask):
    total = x.sum().item()
    print("total")
    causal = x.shape[1] > 1 and mask is None
    if total > 1e9:
        return None
    return (x @ x.T + 1, causal) if causal else (x.T @ x + 1).sum() + mask.sum()


def test_behind_a_break():
    mask = torch.ones(3)
    calls = [(torch.randn(4, n), given) for n, given in ((4, mask), (7, mask), (1, mask), (7, None), (1, None))]
    expected = dict.fromkeys(("expect_recompiles", "expect_graphs", "expect_breaks"))
    check(behind_a_break, vary=calls, fullgraph=False, tolerance=1e-5, **expected)


def attention(q, k, v, mask):
    length = q.shape[1]
    causal = length > 1 and mask is None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


def test_attention_with_a_mask():
    calls = []
    for rows, n in ((2, 5), (3, 5), (3, 8), (1, 8), (4, 1), (1, 1)):
        q, k, v = (torch.randn(rows, n, 8) for _ in range(3))
        calls.append((q, k, v, torch.ones(rows, n, n, dtype=torch.bool).tril()))
    check(attention, vary=calls, expect_recompiles=1, expect_graphs=2, tolerance=1e-6)
