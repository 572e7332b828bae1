"""Torch state after an error in the middle of a graph: as it was before the graph ran, like leaving a `with` block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from stator.tensors.modes import ENTER, LEAVE, SETTERS


class Restore:
    """Undoes the state changes that a graph had made when it failed."""

    def __init__(self) -> None:
        self._contexts: list[tuple[str, Any]] = []  # names of handles, in the order they are entered
        self._settings: dict[Any, Any] = {}  # setter and its last argument, which is the value from the start

    @property
    def used(self) -> bool:
        """Whether the graph changes any state."""
        return bool(self._contexts or self._settings)

    def note(self, node: fx.Node) -> None:
        """Takes note of a node that changes state."""
        kind = ENTER.get(node.target)
        if kind is not None:
            self._contexts.append((node.name, LEAVE[kind]))
        elif node.target in SETTERS:
            self._settings[node.target] = node.args[0]

    def __call__(self, variables: dict[str, Any]) -> None:
        for name, leave in reversed(self._contexts):
            if variables.get(name) is not None:
                leave(variables[name])
        for setter, value in self._settings.items():
            setter(value)


def keeping_grad_mode(function: Callable[..., Any], graph: fx.Graph) -> Callable[..., Any]:
    """What a backend made of a graph; where that fails in the middle, the grad mode is what it was."""
    if not graph.find_nodes(op="call_function", target=torch._C._set_grad_enabled):
        return function

    def run(*args: Any) -> Any:
        before = torch.is_grad_enabled()
        try:
            return function(*args)
        except BaseException:
            torch._C._set_grad_enabled(before)
            raise

    return run
