"""Calls with tensors whose strides are others if a size is one: what they do in either case, as one plan.

A reshape that copies may give a view if a size is one, with other strides (`shapes/indicators.py`). What a call makes
of such tensors is asked twice, for strides as they are otherwise and for the size being one. Results have strides that
hold for both; where one is a view or the very tensor in one case only, that is a doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from stator.shapes.scalar import TracedInt
from stator.shapes.symbols import Symbols
from stator.tensors.doubts import ask
from stator.tensors.meta import Meta, SymbolicMeta
from stator.tensors.plan import Constant, Group, New, Plan, Same
from stator.tensors.rules.table import interned
from stator.tensors.traced import TracedTensor

MOST = 3  # indicators in the strides of the tensors of one call: it is asked for all combinations
Asked = Callable[[tuple[Any, ...], dict[str, Any]], Plan]
Change = Callable[[Any], Any]  # of a number


def indicators_of(metas: Sequence[Meta], symbols: Symbols) -> set[int]:
    """What tells whether strides of these tensors are others because a size is one."""
    strides = (number for meta in metas if type(meta) is SymbolicMeta for number in meta.key[1])
    return symbols.unknowns.indicators.among(strides)


def plan_by_cases(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[TracedTensor], symbols: Symbols, asked: Asked
) -> Plan | None:
    """The plan of a call in either case; None if nothing depends on one. `asked`: gives the plan for arguments."""
    told = symbols.unknowns.indicators
    if not told.subjects:
        return None
    metas = [traced._meta for traced in tensors]
    found = indicators_of(metas, symbols)
    if not found:
        return None
    if len(found) > MOST:
        ask()
    return _Cases(symbols, min(found), metas).plan(args, kwargs, tensors, asked)


class _Cases:
    """Two cases of one call: something is one, or it is not."""

    def __init__(self, symbols: Symbols, indicator: int, metas: list[Meta]) -> None:
        self.symbols = symbols
        self.indicator = indicator
        self.told = symbols.unknowns.indicators
        self.metas = metas

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[TracedTensor], asked: Asked) -> Plan:
        try:
            with self._shown(tensors, lambda number: self.told.if_several(number, self.indicator)):
                several = asked(args, kwargs)
            if self.indicator not in indicators_of(self.metas, self.symbols):  # that asked whether it is one
                return several
            with self._shown(tensors, self._if_one):
                one = asked(*self._arguments((args, kwargs)))
        except Exception:  # in one case only, as far as is known: it matters which one this is
            ask()
        return self._joined(several, one)

    def _if_one(self, number: Any) -> Any:
        return self.told.if_one(number, self.indicator)

    @contextmanager
    def _shown(self, tensors: list[TracedTensor], change: Change) -> Iterator[None]:
        """A context in which tensors look as they do in one case."""
        for traced in tensors:
            traced._meta = self._changed(traced._meta, change)
        try:
            yield
        finally:
            for traced, meta in zip(tensors, self.metas, strict=True):
                traced._meta = meta

    def _changed(self, meta: Meta, change: Change) -> Meta:
        if type(meta) is not SymbolicMeta:
            return meta
        size, stride, offset = meta.key[:3]
        return interned(
            tuple(map(change, size)), tuple(map(change, stride)), change(offset), meta.key[3:], self.symbols
        )

    def _arguments(self, value: Any) -> Any:
        """Arguments if it is one."""
        kind = type(value)
        if kind is TracedInt:
            return self.symbols.traced(self._if_one(value.number))
        if kind in (tuple, list, torch.Size):
            return (list if kind is list else tuple)(map(self._arguments, value))
        if kind is dict:
            return {name: self._arguments(item) for name, item in value.items()}
        if kind is slice:
            return slice(*map(self._arguments, (value.start, value.stop, value.step)))
        return value

    def _joined(self, several: Plan, one: Plan) -> Plan:
        if several.updates or one.updates or several.bindings or one.bindings or several.mutated != one.mutated:
            ask()
        result = self._result(several.result, one.result)
        alone = type(result) is New and result.alias is None and result.near is None and not several.mutated
        return replace(
            several,
            result=result,
            single=result.meta if alone else None,
            pure=several.pure and one.pure,
            silent=several.silent and one.silent,
            warns=several.warns or one.warns,
            in_kernel=several.in_kernel or one.in_kernel,
        )

    def _result(self, several: Any, one: Any) -> Any:
        kinds = type(several), type(one)
        if kinds == (New, New):
            return self._new(several, one)
        if kinds == (Group, Group) and len(several.items) == len(one.items) and several.names == one.names:
            return replace(several, items=tuple(map(self._result, several.items, one.items)))
        if kinds == (Same, New) and one.alias is None:
            return replace(one, meta=self._meta(self.metas[several.index], one.meta), near=several.index, itself=True)
        if kinds == (New, Same) and several.alias is None:
            return replace(
                several,
                meta=self._meta(several.meta, self._changed(self.metas[one.index], self._if_one)),
                near=one.index,
                itself=True,
            )
        if several != one or (kinds == (Constant, Constant) and type(several.value) is TracedInt):
            ask()
        return several

    def _new(self, several: New, one: New) -> New:
        meta = self._meta(several.meta, one.meta)
        near = one.near if several.near is None else several.near
        if (several.alias, several.view, several.twin) == (one.alias, one.view, one.twin):
            if several.near is not None and one.near not in (None, near):
                ask()
            return replace(several, meta=meta, near=near, itself=several.itself or one.itself)
        shared = {alias for alias in (several.alias, one.alias, near) if alias is not None}
        if several.twin is not None or one.twin is not None or len(shared) > 1:
            ask()
        return New(meta, near=shared.pop(), itself=several.itself or one.itself)

    def _meta(self, several: Meta, one: Meta) -> Meta:
        """Metadata for both cases."""
        sizes, strides, offset = several.key[:3]
        own_sizes, own_strides, own_offset = one.key[:3]
        alike = len(sizes) == len(own_sizes) and all(map(self._are_same, sizes, own_sizes))
        if not alike or several.key[3:] != one.key[3:]:
            ask()
        stride = tuple(map(self._stride, strides, own_strides, own_sizes))
        start = offset if self._are_same(offset, own_offset) else self.told.either(offset, own_offset, self.indicator)
        return interned(sizes, stride, start, several.key[3:], self.symbols)

    def _are_same(self, several: Any, one: Any) -> bool:
        return self.told.same(several, one, self.indicator)

    def _stride(self, several: Any, one: Any, size: Any) -> Any:
        """A stride for both cases; that of a dimension of one is arbitrary."""
        if (type(size) is int and size == 1) or self._are_same(several, one):
            return several
        return self.told.either(several, one, self.indicator)
