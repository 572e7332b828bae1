"""Torch state after an error in the middle of a graph: as it was before the graph ran, like leaving a `with` block."""

from __future__ import annotations

from typing import Any

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
