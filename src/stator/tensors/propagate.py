"""What a torch call does to metadata, asked of FakeTensor: runs only on a miss of the memo."""

from __future__ import annotations

import functools
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from stator.tensors.hidden import hidden_writes
from stator.tensors.lowering import substitute
from stator.tensors.meta import Meta, meta_of
from stator.tensors.signals import DataDependent, NotLeaf, OpFailed, UnsupportedOp, describe
from stator.tensors.traced import TracedTensor

_log = logging.getLogger("torch._subclasses.fake_tensor")


@dataclass(frozen=True, slots=True)
class Same:
    """This result is the very object that came in as the i-th tensor."""

    index: int


@dataclass(frozen=True, slots=True)
class New:
    """This result is a new tensor object."""

    meta: Meta
    alias: int | None = None  # tensor whose storage it shares
    view: int | None = None  # tensor it is a differentiable view of
    twin: int | None = None  # earlier new result whose storage it shares


@dataclass(frozen=True, slots=True)
class Again:
    """This result is the very object of an earlier new result."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """This result is no tensor."""

    value: Any


@dataclass(frozen=True, slots=True)
class Group:
    """Several results in a container."""

    build: Callable[[list[Any]], Any]
    items: tuple[Any, ...]
    names: tuple[Any, ...] | None = None  # keys of a dict


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a call does, in terms of its tensor arguments by position."""

    result: Any  # Same | New | Again | Constant | Group
    single: Meta | None  # set when all there is to do is one new tensor with storage of its own
    updates: tuple[tuple[int, Meta], ...]  # arguments whose metadata changed
    mutated: tuple[int, ...]  # arguments whose data changed
    pure: bool  # may be dropped when nobody uses the result
    silent: bool  # nothing to record at all


class WatchingMode(FakeTensorMode):
    """A fake mode that notes what the operations below a call do besides computing."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=False)
        self.watch()

    def watch(self) -> None:
        """Starts to watch one call."""
        self.pure = True
        self.written: set[int] = set()  # storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        pure, writes = _nature(func)
        if not pure:
            self.pure = False
        for index, name in writes:
            value = args[index] if index < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, torch.Tensor):
                    self.written.add(_storage(tensor))
        return super().__torch_dispatch__(func, types, args, kwargs)


@functools.cache
def _nature(func: Any) -> tuple[bool, tuple[tuple[int, str], ...]]:
    """Whether an operation has no effect that its schema does not tell, and the arguments it writes to."""
    schema = func._schema
    name = schema.name
    known = name.startswith(("aten::", "prims::", "prim::")) and "_assert" not in name and "print" not in name
    pure = known and torch.Tag.nondeterministic_seeded not in func.tags
    if not schema.is_mutable:
        return pure, ()
    writes = [(i, arg.name) for i, arg in enumerate(schema.arguments) if arg.alias_info and arg.alias_info.is_write]
    return pure, tuple(writes)


class _Local(threading.local):
    mode: WatchingMode | None = None


_local = _Local()


def own_mode() -> WatchingMode:
    """The fake mode of this thread."""
    if _local.mode is None:
        _local.mode = WatchingMode()
    return _local.mode


def propagate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[TracedTensor]) -> Plan:
    """Runs `func` on fake tensors in the current torch state and describes what happened."""
    mode = own_mode()
    with torch._C.DisableTorchFunction():
        fakes: dict[int, FakeTensor] = {}
        for traced in tensors:
            if id(traced) not in fakes:
                fakes[id(traced)] = make_fake(mode, traced._meta)
        ordered = [fakes[id(traced)] for traced in tensors]
        before = [meta_of(fake) for fake in ordered]
        versions = [_version(fake) for fake in ordered]
        storages = [_storage(fake) for fake in ordered]
        mode.watch()
        with quiet(func), mode:
            fake_args = substitute(args, lambda traced: fakes[id(traced)])
            fake_kwargs = substitute(kwargs, lambda traced: fakes[id(traced)])
            result = func(*fake_args, **fake_kwargs)
        hidden = hidden_writes(func, fake_args, fake_kwargs)
        mutated = tuple(
            i
            for i, fake in enumerate(ordered)
            if storages[i] in mode.written or id(fake) in hidden or _version(fake) != versions[i]
        )
        return _describe(mode.pure, func, result, ordered, before, mutated)


def _describe(
    pure: bool,
    func: Any,
    result: Any,
    fakes: list[FakeTensor],
    before: list[Meta],
    mutated: tuple[int, ...],
) -> Plan:
    after = [meta_of(fake) for fake in fakes]
    updates = tuple((i, meta) for i, meta in enumerate(after) if meta is not before[i])
    reader = _Reader(func, fakes)
    shape = reader.read(result)
    pure = pure and not mutated and not updates
    alone = type(shape) is New and shape.alias is None and not updates and not mutated
    return Plan(
        result=shape,
        single=shape.meta if alone else None,
        updates=updates,
        mutated=mutated,
        pure=pure,
        silent=pure and not reader.made,
    )


class _Reader:
    """Turns the results of one call into their description."""

    def __init__(self, func: Any, fakes: list[FakeTensor]) -> None:
        self.func = func
        self.inputs = {id(fake): i for i, fake in reversed(list(enumerate(fakes)))}
        self.storages = {_storage(fake): i for i, fake in reversed(list(enumerate(fakes)))}
        self.made: list[Any] = []
        self.own_storages: dict[int, int] = {}

    def read(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)) and type(value) is not torch.Size:
            items = tuple(self.read(item) for item in value)
            return Group(_builder(type(value)), items)
        if isinstance(value, dict):
            names = tuple(value)
            items = tuple(map(self.read, value.values()))
            return Group(lambda made: dict(zip(names, made, strict=True)), items, names)
        if isinstance(value, _CONSTANTS):
            return Constant(value)
        raise UnsupportedOp(describe(self.func), f"its result is of type {type(value).__qualname__}")

    def _tensor(self, value: torch.Tensor) -> Any:
        if (index := self.inputs.get(id(value))) is not None:
            return Same(index)
        for i, made in enumerate(self.made):
            if made is value:
                return Again(i)
        if value.layout is not torch.strided or not isinstance(value, FakeTensor):
            raise UnsupportedOp(describe(self.func), f"its result has layout {value.layout}")
        storage = _storage(value)
        alias = self.storages.get(storage)
        base = value._base if value._is_view() else None
        view = self.inputs.get(id(base)) if base is not None else None
        twin = None
        if alias is None:
            twin = self.own_storages.setdefault(storage, len(self.made))
            twin = None if twin == len(self.made) else twin
        self.made.append(value)
        meta = meta_of(value)
        if meta.requires_grad and meta.leaf and alias is None:
            raise UnsupportedOp(describe(self.func), "a new leaf that requires grad", "autograd")
        return New(meta, alias, view, twin)


_CONSTANTS = (
    int,
    float,
    complex,
    str,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    type(None),
    type(NotImplemented),
)


def _builder(kind: type) -> Callable[[list[Any]], Any]:
    if kind in (list, tuple):
        return kind
    if hasattr(kind, "_fields"):
        return lambda items: kind(*items)
    return kind  # torch.return_types take a sequence


def _storage(tensor: torch.Tensor) -> int:
    return cast(int, tensor.untyped_storage()._cdata)


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


class _Interior(torch.autograd.Function):
    """Gives a tensor that looks like the result of an operation, with any strides."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        return make()


def make_fake(mode: FakeTensorMode, meta: Meta) -> FakeTensor:
    """A fresh fake tensor with this metadata."""
    with mode, torch.inference_mode(meta.inference):
        if meta.requires_grad and not meta.leaf:
            with torch.enable_grad():
                leaf = torch.empty(0, requires_grad=True)
                fake = _Interior.apply(leaf, lambda: _allocate(meta))
        else:
            with torch.no_grad():
                fake = _allocate(meta)
            if meta.requires_grad:
                fake.requires_grad_()
        return cast(FakeTensor, fake)


def _allocate(meta: Meta) -> torch.Tensor:
    if meta.offset:
        room = 1 + sum((size - 1) * stride for size, stride in zip(meta.size, meta.stride, strict=True) if size)
        storage = torch.empty(meta.offset + room, dtype=meta.dtype, device=meta.device).untyped_storage()
        fake = torch.empty(0, dtype=meta.dtype, device=meta.device).set_(storage, meta.offset, meta.size, meta.stride)
    else:
        fake = torch.empty_strided(meta.size, meta.stride, dtype=meta.dtype, device=meta.device)
    if meta.conj:
        fake = torch._conj(fake).detach()
    if meta.neg:
        fake = torch._neg_view(fake).detach()
    return fake


@contextmanager
def quiet(func: Any) -> Iterator[None]:
    """Propagation has no effects: no log lines, no warnings, no autocast cache; errors get their type."""
    disabled, cache = _log.disabled, torch.is_autocast_cache_enabled()
    _log.disabled = True
    torch.set_autocast_cache_enabled(False)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
        if warned and isinstance(func, FunctionType):
            raise NotLeaf(func)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        dynamic = isinstance(error, DynamicOutputShapeException)
        raise DataDependent(
            describe(func), str(error.func), "data-dependent-shape" if dynamic else "data-dependent-value"
        ) from None
    except (UnsupportedOperatorException, UnsupportedFakeTensorException, NotImplementedError) as error:
        raise UnsupportedOp(describe(func), str(error)) from None
    except (UnsupportedOp, NotLeaf):
        raise
    except Exception as error:
        raise OpFailed(error, describe(func)) from error
    finally:
        _log.disabled = disabled
        torch.set_autocast_cache_enabled(cache)
