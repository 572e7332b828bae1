"""What numpy gives besides arrays: named tuples of arrays, in a graph and behind a break."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import stator
from tests.harness import check

X = torch.tensor([[2.0, 1.0], [1.0, 3.0]])


def decomposed(x: Any) -> Any:
    u, s, vh = np.linalg.svd(np.arange(6.0).reshape(2, 3))
    values = np.linalg.eigh(np.diag([2.0, 1.0]))
    q, r = np.linalg.qr(np.eye(2))
    sign, logarithm = np.linalg.slogdet(np.eye(2) * 2)
    return x + torch.from_numpy(s), values, values.eigenvalues, type(values).__name__, q @ r, sign, u.shape, vh.shape


def of_a_tensor(x: Any) -> Any:
    found = np.linalg.svd(x.numpy())
    return torch.from_numpy(found.S) + x, found.U.shape, len(found), found._fields


def carried(x: Any) -> Any:
    found = np.linalg.eigh(np.diag([2.0, 1.0]))
    stator.graph_break()
    return x + 1, found, found.eigenvectors, found._replace(eigenvalues=0)


def test_named_results() -> None:
    check(decomposed, X)
    check(of_a_tensor, X)


def test_named_results_behind_a_break() -> None:
    check(carried, X, fullgraph=False, expect_breaks=1, expect_recompiles=None)
