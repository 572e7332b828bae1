"""What a backend cannot compile runs as it is, and the entry that says so fits the call it was made for."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from stator.report import events
from tests.harness import check


class Decoder(nn.Module):
    """Nobody differentiates what it gives: the places that the backward pass would need are overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def best(self, x: Any) -> Any:
        return (x * self.weight).max(1)

    def forward(self, x: Any) -> Any:
        score, place = self.best(x)
        place.masked_fill_(x[:, 0] > 0, 0)
        return score, place


def test_a_graph_that_has_no_backward_pass() -> None:
    with events.recording("error") as seen:
        check(Decoder(), torch.randn(3, 4), backend="aot_eager", fullgraph=False, expect_breaks=None)
    assert not seen
