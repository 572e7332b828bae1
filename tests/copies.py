"""Equal, independent copies of programs' inputs, so that two runs cannot see each other."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any

import torch

_FILLED = -1  # key in a memo, where ids are positive: the cells whose contents were copied


def _copy_function(fn: FunctionType, memo: dict[int, Any]) -> FunctionType:
    """Functions are copied when they carry state: closure cells, defaults, attributes."""
    if not (fn.__closure__ or fn.__dict__ or fn.__defaults__ or fn.__kwdefaults__) or _is_torchs(fn):
        return fn
    cells = tuple(_copy_cell(cell, memo, fill=False) for cell in fn.__closure__ or ())
    made = FunctionType(fn.__code__, fn.__globals__, fn.__name__, None, cells or None)
    memo[id(fn)] = made  # before the contents: closures refer to themselves
    for cell in fn.__closure__ or ():
        _copy_cell(cell, memo, fill=True)
    made.__defaults__ = copy.deepcopy(fn.__defaults__, memo)
    made.__kwdefaults__ = copy.deepcopy(fn.__kwdefaults__, memo)
    made.__dict__.update(copy.deepcopy(fn.__dict__, memo))
    for name in ("__qualname__", "__module__", "__doc__", "__annotations__"):
        setattr(made, name, getattr(fn, name))
    return made


def _is_torchs(fn: FunctionType) -> bool:
    """Whether torch itself knows the function by its name."""
    home = str(fn.__module__)
    return home.startswith("torch.") and getattr(sys.modules.get(home), fn.__name__, None) is fn


def _copy_cell(cell: CellType, memo: dict[int, Any], fill: bool = True) -> CellType:
    made = memo.setdefault(id(cell), CellType())
    memo.setdefault(id(memo), []).append(cell)  # ids in the memo stay valid while it lives
    filled = memo.setdefault(_FILLED, set())
    if fill and id(cell) not in filled:
        filled.add(id(cell))
        try:
            contents = cell.cell_contents
        except ValueError:
            return made
        made.cell_contents = copy.deepcopy(contents, memo)
    return made


def _copy_tensor(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """Strides, gradients and shared storage stay as they are; the history of a non-leaf does not."""
    if tensor.is_leaf:
        return tensor.__deepcopy__(memo)
    data = tensor.detach()
    memo.setdefault(id(memo), []).append(data)  # ids in the memo stay valid while it lives
    made = data.__deepcopy__(memo).requires_grad_(tensor.requires_grad)
    memo[id(tensor)] = made
    return made


_RULES = {FunctionType: _copy_function, CellType: _copy_cell, torch.Tensor: _copy_tensor}


@contextmanager
def _rules() -> Iterator[None]:
    dispatch = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    before = {kind: dispatch.get(kind) for kind in _RULES}
    dispatch.update(_RULES)
    try:
        yield
    finally:
        for kind, rule in before.items():
            if rule is None:
                del dispatch[kind]
            else:
                dispatch[kind] = rule


class World:
    """Copies of a program and its inputs; functions, methods and modules are copied once and kept."""

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}

    def program(self, fn: Any) -> Any:
        """The world's copy of the program: the same object every time."""
        with _rules():
            if isinstance(fn, MethodType):
                return MethodType(fn.__func__, copy.deepcopy(fn.__self__, self._kept))
            return copy.deepcopy(fn, self._kept)

    def inputs(self, inputs: Any) -> Any:
        """Fresh copies of data; the modules and functions in them are the world's."""
        memo = dict(self._kept)
        memo.pop(id(self._kept), None)
        memo[_FILLED] = set(memo.get(_FILLED, ()))
        with _rules():
            for module in _modules(inputs):
                memo[id(module)] = copy.deepcopy(module, self._kept)
            return copy.deepcopy(inputs, memo)


def _modules(value: Any) -> Iterator[torch.nn.Module]:
    """The nn.Modules directly in arguments and their builtin containers."""
    if isinstance(value, torch.nn.Module):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _modules(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _modules(item)
