"""With Inductor a graph on the CPU draws the numbers that eager draws, and leaves the generator as eager does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.graph.devices import is_on_cpu
from tests.harness import check
from tests.tensors.capturing import record


@pytest.mark.inductor
def test_numbers_of_eager() -> None:
    def program(x: torch.Tensor) -> Any:
        return F.dropout(x, 0.3) + torch.randn_like(x), torch.randint(9, (4,))

    check(program, torch.ones(3, 4, requires_grad=True), backend="inductor", tolerance=1e-5, strides=False)


@pytest.mark.parametrize(("options", "expected"), [(None, True), ({"fallback_random": False}, False)])
def test_the_user_decides(monkeypatch: pytest.MonkeyPatch, options: Any, expected: bool) -> None:
    from torch._inductor import compile_fx

    seen = []

    def spy(graph: Any, inputs: Any, config_patches: dict[str, Any], **rest: Any) -> Any:
        seen.append(config_patches["fallback_random"])
        return graph

    monkeypatch.setattr(compile_fx, "compile_fx", spy)
    stator.compile(lambda x: F.dropout(x, 0.5) + 1, options=options)(torch.ones(2))
    assert seen == [expected]


def test_other_devices() -> None:
    captured = record(lambda x: torch.empty(2, device="meta"), {"x": torch.ones(2)})
    assert not is_on_cpu(captured.module, [torch.ones(2)])
    captured = record(lambda x: x.split(1), {"x": torch.ones(2)})
    assert is_on_cpu(captured.module, [torch.ones(2)])
    assert not is_on_cpu(captured.module, [torch.ones(2, device="meta")])
