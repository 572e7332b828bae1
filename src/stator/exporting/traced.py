"""The sizes of the arguments as torch knows them once it has traced the program."""

from __future__ import annotations

from typing import Any

import torch

from stator.exporting.dims import Shapes, Wanted


class TracedSizes:
    """Symbols of torch for the sizes that vary, for `Facts`; those that are derived from others are left out."""

    def __init__(self, shapes: Shapes, traced: dict[int, torch.Tensor]) -> None:
        self.shapes = shapes
        self.env: Any = None
        self.seen: list[tuple[Wanted, Any]] = []
        self.roots: dict[str, Any] = {}
        self.waiting: list[Any] = []
        self.declared: set[Any] = set()
        self.sources: dict[Any, Any] = {}
        for leaf in shapes.leaves:
            tensor = traced.get(id(leaf.value))
            for dim, wanted in leaf.dims.items() if tensor is not None else ():
                self._see(wanted, tensor.size(dim))  # type: ignore[union-attr]

    def _see(self, wanted: Wanted, size: Any) -> None:
        if not isinstance(size, torch.SymInt):
            return
        self.env = size.node.shape_env
        symbol = size.node._expr  # what it was made as: `expr` has what was found out since
        if symbol.is_Symbol:
            self.seen.append((wanted, symbol))
            if wanted.name is not None and wanted.name.is_plain:
                self.roots[wanted.name.root] = symbol
