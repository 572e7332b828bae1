"""Programs with breaks, written for both engines: `aside` is a function that either of them leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


@torch.compiler.disable  # type: ignore[untyped-decorator]
def aside(x: Any) -> Any:
    """Something that cannot be captured."""
    return x


def requested(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def excluded_call(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    z = aside(y)
    return z * 2


def branch(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y * 3


def item(x: torch.Tensor) -> torch.Tensor:
    n = int(x.sum().item())
    return x * n


def two_levels_down(x: torch.Tensor) -> torch.Tensor:
    return _middle(x * 2) + 4


def _middle(x: torch.Tensor) -> torch.Tensor:
    return _innermost(x + 1) * 2


def _innermost(x: torch.Tensor) -> torch.Tensor:
    y = x * 3
    aside(y)
    return y + 1


def loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = x + 1
        aside(x)
    return x


def branch_in_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = x + 1
        if x.sum() < 0:
            x = x - 1
    return x


def three_breaks(x: torch.Tensor) -> torch.Tensor:
    y = aside(x + 1)
    z = aside(y * 2)
    return aside(z - 3) / 4


def in_a_with_block(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x + 1
        aside(y)
        return y * 2


def in_a_try_block(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    try:
        aside(y)
        z = y * 2
    except ValueError:
        z = y
    finally:
        y = y - 1
    return y + z


def containers(x: torch.Tensor) -> dict[str, Any]:
    parts = [x + 1, x * 2]
    table = {"parts": parts, "sum": parts[0] + parts[1]}
    aside(table["sum"])
    parts.append(x - 1)
    table["last"] = parts[-1] * 2
    return table


def nothing_behind(x: torch.Tensor) -> torch.Tensor:
    y = (x + 1) * 2
    return aside(y)


def nothing_before(x: torch.Tensor) -> torch.Tensor:
    aside(x)
    return (x + 1) * 2


def closure(x: torch.Tensor) -> torch.Tensor:
    scale = 2

    def inner(y: torch.Tensor) -> torch.Tensor:
        aside(y)
        return y * scale

    return inner(x + 1) + inner(x - 1)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        aside(y)
        return y.relu()


def module(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    return layer(x) + 1


def stacked(layers: torch.nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        x = layer(x)
    return x


def vector() -> tuple[Any, ...]:
    return (torch.ones(3),)


def _layer() -> tuple[Any, ...]:
    return Layer().eval(), torch.ones(3)


def _layers() -> tuple[Any, ...]:
    return torch.nn.Sequential(*(Layer() for _ in range(4))).eval(), torch.ones(3)


# Name → function, its arguments.
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "graph_break()": (requested, vector),
    "call of an excluded function": (excluded_call, vector),
    "data-dependent if": (branch, vector),
    ".item()": (item, vector),
    "break two calls down": (two_levels_down, vector),
    "loop, 10 breaks": (loop, vector),
    "loop, 10 data-dependent ifs": (branch_in_loop, vector),
    "three breaks": (three_breaks, vector),
    "in a with block": (in_a_with_block, vector),
    "in a try block": (in_a_try_block, vector),
    "containers alive": (containers, vector),
    "nothing behind": (nothing_behind, vector),
    "nothing before": (nothing_before, vector),
    "closure called twice": (closure, vector),
    "module": (module, _layer),
    "four modules": (stacked, _layers),
}
