"""Arguments of calls of numpy in which places stand for the arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stator.shapes.scalar import TracedInt, number
from stator.tensors.array_calls import way_of
from stator.tensors.backwards import Axes
from stator.tensors.meta import Meta, SymbolicMeta, intern
from stator.tensors.rules.table import hint
from stator.tensors.traced import TracedTensor


def static(meta: Meta) -> Meta:
    """Numpy's sizes are numbers: symbolic ones become constants, with a guard."""
    return _with(number, meta) if type(meta) is SymbolicMeta else meta


def hinted(meta: Meta) -> Meta:
    """The layout of this call, with no guard."""
    return _with(hint, meta) if type(meta) is SymbolicMeta else meta


def _with(number: Callable[[Any], Any], meta: Meta) -> Meta:
    size, stride = tuple(map(number, meta.size)), tuple(map(number, meta.stride))
    return intern((size, stride, number(meta.offset), *meta.key[3:5], False, True, False, False, meta.inference))


class Leaves:
    """The tensors among the arguments of a call, in order, and how numpy sees each."""

    layouts: list[Meta]  # of the tensors, in numbers

    def __init__(self) -> None:
        self.tensors: list[TracedTensor] = []
        self.arrays: list[Any] = []  # the TracedArray, or a constant array
        self.backwards: list[Axes] = []
        self.kinds = ""
        self.has_numbers = False  # some of the arguments are numbers that vary

    @property
    def vary(self) -> bool:
        return self.has_numbers or any(type(tensor._meta) is SymbolicMeta for tensor in self.tensors)

    def settle(self) -> None:
        """Sizes that vary become constants, with a guard."""
        self.layouts = [static(tensor._meta) for tensor in self.tensors]

    def try_out(self) -> None:
        """Numpy is tried on arrays of the sizes of this call."""
        self.layouts = [hinted(tensor._meta) for tensor in self.tensors]

    def add(self, tensor: TracedTensor, array: Any, is_scalar: bool, backwards: Axes = ()) -> int:
        self.tensors.append(tensor)
        self.arrays.append(array)
        self.backwards.append(backwards)
        self.kinds += way_of(is_scalar, backwards)
        return len(self.tensors) - 1


class Place(int):
    """Stands for the i-th tensor among arguments."""


def itself(value: Any) -> Any:
    return value


def put_in(
    value: Any, leaf: Callable[[int], Any], dtype: Callable[[Any], Any], number: Callable[[TracedInt], Any] = itself
) -> Any:
    """The arguments with something at each place, and for each dtype and each number that varies."""
    kind = type(value)
    if kind is Place:
        return leaf(int(value))
    if kind is TracedInt:
        return number(value)
    if kind is torch.dtype:
        return dtype(value)
    if kind is tuple or kind is list:
        return kind(put_in(item, leaf, dtype, number) for item in value)
    if kind is slice:
        return slice(*(put_in(part, leaf, dtype, number) for part in (value.start, value.stop, value.step)))
    if kind is dict:
        return {key: put_in(item, leaf, dtype, number) for key, item in value.items()}
    return value
