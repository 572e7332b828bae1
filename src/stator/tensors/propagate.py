"""What a torch call does to metadata, asked of FakeTensor: runs only on a miss of the memo."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from stator.errors import Unsupported
from stator.filters import Listening
from stator.interruptions import is_interruption
from stator.shapes.assumptions import is_long
from stator.shapes.scalar import wrapped
from stator.tensors import bindings
from stator.tensors.arbitrary import laid_out
from stator.tensors.fakes import WatchingMode, looking, make_fake, own_mode, storage_of
from stator.tensors.hidden import hidden_writes
from stator.tensors.lowering import substitute
from stator.tensors.meta import Meta, SymbolicMeta, meta_of
from stator.tensors.plan import Again, Constant, Group, New, Plan, Same
from stator.tensors.signals import DataDependent, NotLeaf, NumberFromData, OpFailed, UnsupportedOp, describe
from stator.tensors.symbolic_forms import FORMS
from stator.tensors.traced import TracedTensor

_log = logging.getLogger("torch._subclasses.fake_tensor")


def propagate(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TracedTensor],
    mode: WatchingMode | None = None,
) -> Plan:
    """Runs `func` on fake tensors in the current torch state and describes what happened."""
    mode = own_mode() if mode is None else mode
    if any(begins_far(traced._meta) for traced in tensors):  # sympy would take its time
        plan = _propagated(func, args, kwargs, tensors, mode, True)
        if plan.single is not None or plan.bindings:  # no view
            return plan
    return _propagated(func, args, kwargs, tensors, mode, func in FORMS and mode.shape_env is not None)


def begins_far(meta: Meta) -> bool:
    """Whether a tensor begins in its memory behind many parts whose sizes only data tells."""
    return type(meta) is SymbolicMeta and is_long(meta.key[2])


def _propagated(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TracedTensor],
    mode: WatchingMode,
    anywhere: bool,  # where arguments lie in memory is all the same, as what comes out is new
) -> Plan:
    inference = torch.is_inference_mode_enabled()
    with torch._C.DisableTorchFunction(), _normal_tensors(inference):
        fakes: dict[int, FakeTensor] = {}
        run = func if mode.shape_env is None else FORMS.get(func, func)
        with laid_out(make_fake, mode.shape_env):
            for traced in tensors:
                if id(traced) not in fakes:
                    fakes[id(traced)] = make_fake(mode, traced._meta.at_start() if anywhere else traced._meta)
        ordered = [fakes[id(traced)] for traced in tensors]
        before = [meta_of(fake) for fake in ordered]
        places = [(storage_of(fake), fake._version) for fake in ordered]
        mode.watch()
        with quiet(func) as warned, laid_out(func, mode.shape_env), mode.dispatcher(), mode:
            fake_args = substitute(args, lambda traced: fakes[id(traced)])
            fake_kwargs = substitute(kwargs, lambda traced: fakes[id(traced)])
            result = run(*fake_args, **fake_kwargs)
            made = bindings.fresh(mode.shape_env, func, result)
        hidden = hidden_writes(func, fake_args, fake_kwargs)
        mutated = tuple(
            i
            for i, (fake, (storage, version)) in enumerate(zip(ordered, places, strict=True))
            if storage in mode.written or id(fake) in hidden or fake._version != version
        )
        reader = _Reader(func, ordered, [traced._meta.inference for traced in tensors], inference)
        plan = _plan(mode.pure and not warned, reader, reader.read(result), before, mutated)
        return replace(plan, bindings=made, warns=bool(warned)) if made or warned else plan


@contextmanager
def _normal_tensors(inference: bool) -> Iterator[None]:
    """Fake tensors lose views in inference mode, so calls run under no_grad and the results are marked afterwards."""
    if inference:
        with torch.inference_mode(False), torch.no_grad():
            yield
    else:
        yield


def _plan(pure: bool, reader: _Reader, result: Any, before: list[Meta], mutated: tuple[int, ...]) -> Plan:
    after = enumerate(meta_of(fake) for fake in reader.fakes)
    updates = tuple((i, meta.with_inference(reader.marks[i])) for i, meta in after if meta is not before[i])
    pure = pure and not mutated and not updates
    alone = type(result) is New and result.alias is None and not updates and not mutated
    return Plan(
        result=result,
        single=result.meta if alone else None,
        updates=updates,
        mutated=mutated,
        pure=pure,
        silent=pure and not reader.made,
    )


class _Reader:
    """Turns the results of one call into their description."""

    def __init__(self, func: Any, fakes: list[FakeTensor], marks: list[bool], inference: bool) -> None:
        self.func = func
        self.fakes = fakes
        self.marks = marks  # which arguments are inference tensors
        self.inference = inference
        self.inputs = {id(fake): i for i, fake in reversed(list(enumerate(fakes)))}
        self.storages = {storage_of(fake): i for i, fake in reversed(list(enumerate(fakes)))}
        self.made: dict[int, tuple[int, torch.Tensor]] = {}  # new results by id; kept so that ids stay theirs
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
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return Constant(wrapped(value))
        if type(value) is torch.Size and any(type(size) is torch.SymInt for size in value):
            return Constant(torch.Size(map(wrapped, value)))
        if isinstance(value, _CONSTANTS):
            return Constant(value)
        raise UnsupportedOp(describe(self.func), f"its result is of type {type(value).__qualname__}")

    def _tensor(self, value: torch.Tensor) -> Any:
        if (index := self.inputs.get(id(value))) is not None:
            return Same(index)
        if id(value) in self.made:
            return Again(self.made[id(value)][0])
        if value.layout is not torch.strided or not isinstance(value, FakeTensor):
            raise UnsupportedOp(describe(self.func), f"its result has layout {value.layout}")
        storage = storage_of(value)
        alias = self.storages.get(storage)
        base = value._base if value._is_view() else None
        view = self.inputs.get(id(base)) if base is not None else None
        twin = None
        if alias is None:
            twin = self.own_storages.setdefault(storage, len(self.made))
            twin = None if twin == len(self.made) else twin
        self.made[id(value)] = len(self.made), value
        meta = meta_of(value)
        if meta.requires_grad and meta.leaf and alias is None:
            raise UnsupportedOp(describe(self.func), "a new leaf that requires grad", "autograd")
        mark = self.inference if alias is None else self.marks[alias]
        return New(meta.with_inference(mark), alias, view, twin)


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


@contextmanager
def quiet(func: Any) -> Iterator[list[warnings.WarningMessage]]:
    """Propagation has no effects: no log lines, no autocast cache; warnings are given, and errors get their type."""
    disabled, cache, always = _log.disabled, torch.is_autocast_cache_enabled(), torch._C._get_warnAlways()
    _log.disabled = True
    torch.set_autocast_cache_enabled(False)
    torch._C._set_warnAlways(True)  # or what torch says only once would be used up here
    try:
        with looking(), Listening() as warned:
            yield warned
        if warned and isinstance(func, FunctionType):
            raise NotLeaf(func, str(warned[0].message))
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        dynamic = isinstance(error, DynamicOutputShapeException)
        raise DataDependent(
            describe(func), str(error.func), "data-dependent-shape" if dynamic else "data-dependent-value"
        ) from None
    except (UnsupportedOperatorException, UnsupportedFakeTensorException, NotImplementedError) as error:
        raise UnsupportedOp(describe(func), str(error)) from None
    except Unsupported:
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        if type(error).__name__ == "GuardOnDataDependentSymNode":
            raise DataDependent(describe(func), "it needs to know a size that only data tells") from None
        if "data is not allocated yet" in str(error):  # a C++ function that reads the data itself
            raise DataDependent(describe(func)) from None
        if isinstance(error, TypeError) and "got FakeTensor" in str(error):
            raise DataDependent(describe(func), "a tensor where a number is taken") from None
        if "on tensor with symbolic sizes/strides" in str(error):
            raise DataDependent(describe(func), "it needs to know a size", "data-dependent-shape") from None
        failed = NumberFromData if "not Sym" in str(error) else OpFailed  # "must be bool, not SymBool"
        raise failed(error, describe(func)) from error
    finally:
        _log.disabled = disabled
        torch.set_autocast_cache_enabled(cache)
        torch._C._set_warnAlways(always)
