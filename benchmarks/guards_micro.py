"""Cost of guards on a hit: a one-tensor function, and a model of several hundred modules; prints, asserts nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from stator._entry import Compiled
from stator.guards import GuardSet, Path, TensorSpec, arg, snapshot
from stator.guards.check import EQ, IS, LEN, NO_HOOKS, TENSOR, TYPE_IS


def timed(function: Callable[[], Any], number: int) -> float:
    """Microseconds per call, the best of many short rounds, so that other work on the machine disturbs only some."""
    rounds = []
    for _ in range(300):
        start = time.perf_counter()
        for _ in range(number):
            function()
        rounds.append((time.perf_counter() - start) / number * 1e6)
    return min(rounds)


class Block(torch.nn.Module):
    """A transformer-like block: 11 modules, 12 parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = torch.nn.Sequential(torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width))
        self.dropout = torch.nn.Dropout(0.0)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )
        self.scale = 0.5


def guard_module(guards: GuardSet, path: Path, module: torch.nn.Module, loads: list[Path]) -> None:
    """What capture would guard of a module: class, hooks, constants, parameters, submodules."""
    guards.add(path, TYPE_IS, type(module))
    guards.add(path, NO_HOOKS)
    guards.add(path.attr("training"), EQ, module.training)
    for name, value in module.__dict__.items():
        if not name.startswith("_") and name != "training" and isinstance(value, int | float | str | tuple):
            guards.add(path.attr(name), EQ, value)
    if module._parameters:
        guards.add(path.attr("_parameters"), TYPE_IS, dict)
    for name, parameter in module._parameters.items():
        here = path.attr("_parameters").entry(name)
        if parameter is None:
            guards.add(here, IS, None)
        else:
            guards.add(here, TENSOR, TensorSpec.of(parameter))
            loads.append(here)
    if module._modules:
        guards.add(path.attr("_modules"), TYPE_IS, dict)
        guards.add(path.attr("_modules"), LEN, len(module._modules))
    for name, child in module._modules.items():
        if child is not None:
            guard_module(guards, path.attr("_modules").entry(name), child, loads)


def one_tensor() -> None:
    """A hit on a function of one tensor, against a plain Python function of the same argument."""
    x = torch.zeros(3, 4)

    def entry(x: torch.Tensor) -> torch.Tensor:
        return x

    def nothing(x: torch.Tensor) -> torch.Tensor:
        return x

    for state in (False, True):
        guards = GuardSet()
        guards.call_shape(1)
        if state:
            guards.state(snapshot())
        guards.add(arg(0), TENSOR, TensorSpec.of(x))
        compiled = Compiled(entry, lambda args, kwargs: None)
        compiled.append(guards.compile([arg(0)]), entry)
        assert compiled(x) is x
        plain = timed(lambda: nothing(x), 2000)
        hit = timed(lambda: compiled(x), 2000)
        label = "with torch's state" if state else "without torch's state"
        print(f"one tensor, {label}: {1000 * (hit - plain):.0f} ns beyond a plain call of {1000 * plain:.0f} ns")


def model(blocks: int) -> None:
    """A hit on a model of many modules; the parts are told apart by leaving checks out."""
    net = torch.nn.Sequential(*(Block(16) for _ in range(blocks)))
    loads: list[Path] = []
    guards = GuardSet()
    guards.call_shape(2)
    guards.state(snapshot())
    guard_module(guards, arg(0), net, loads)
    guards.add(arg(1), TENSOR, TensorSpec.of(torch.zeros(2, 16)))
    guards.distinct([*loads, arg(1)])
    start = time.perf_counter()
    program = guards.compile([*loads, arg(1)])
    spent = time.perf_counter() - start
    x = torch.zeros(2, 16)

    def entry(*values: Any) -> None:
        return None

    compiled = Compiled(entry, lambda args, kwargs: 1)
    compiled.append(program, entry)
    assert compiled(net, x) is None
    values = [x] * (len(loads) + 1)
    plain = timed(lambda: entry(*values), 20)
    hit = timed(lambda: compiled(net, x), 20)
    victim = net[blocks // 2]

    def touched() -> None:
        victim.scale = 0.25
        victim.scale = 0.5
        compiled(net, x)

    print(
        f"{blocks} blocks: {sum(1 for _ in net.modules())} modules, {len(loads)} parameters, {len(guards)} checks, "
        f"{program.instructions} instructions, compiled in {spent * 1e3:.1f} ms"
    )
    print(f"  hit: {hit - plain:.1f} us beyond a plain call of {plain:.1f} us")
    print(f"  with one instance dict touched in between: {timed(touched, 20) - plain:.1f} us")
    tensors = GuardSet()
    held = list(net.parameters())
    for index, parameter in enumerate(held):
        tensors.add(arg(index), TENSOR, TensorSpec.of(parameter))
    flat = tensors.compile([])
    arguments = tuple(held)
    print(f"  the tensor checks alone: {timed(lambda: flat.run(arguments), 20):.1f} us")
    one = GuardSet()
    one.distinct([*loads, arg(1)])
    lone = one.compile([])
    print(f"  loading and telling apart alone: {timed(lambda: lone.run((net, x)), 20):.1f} us")


if __name__ == "__main__":
    print("machine noise:", f"{statistics.pstdev([timed(lambda: None, 2000) for _ in range(5)]) * 1000:.1f} ns")
    one_tensor()
    model(1)
    model(64)
