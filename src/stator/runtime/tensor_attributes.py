"""Attributes of traced tensors: metadata, operations, and what lives on the real tensor outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from stator import _frames
from stator._frames import UNBOUND
from stator.errors import Again, Unsupported
from stator.frame import Frame, throw
from stator.guards import path as paths
from stator.guards.check import NO_ATTR
from stator.runtime.overriding import NOT_DISPATCHED, read_attribute, write_attribute
from stator.tensors.data import is_in_history, is_its_data
from stator.tensors.signals import OutsideAttribute
from stator.tensors.subclasses import PLAIN
from stator.tensors.traced import TracedTensor


def read_tensor(host: Any, f: Frame, traced: Any, name: str) -> Any:
    record = host.records.get(id(traced))
    if record is not None and record.extra and name in record.extra and name != "data":
        return read_outside(host, f, record, name)
    if traced._stands_for is not torch.Tensor or host.modes:
        found = read_attribute(host, f, traced, name)
        if found is not NOT_DISPATCHED:
            return found
    try:
        return host.recorder.attribute(traced, name)
    except OutsideAttribute:
        return read_outside(host, f, record, name)
    except AttributeError as error:
        if record is not None:
            know_attributes(host, record, name)
            host.guards.add(record.path, NO_ATTR, name, host.origin())
        return throw(f, error.with_traceback(None))
    except Unsupported as error:
        raise host.located(error) from None


def read_outside(host: Any, f: Frame, record: Any, name: str) -> Any:
    """`.grad` or an attribute somebody set on a tensor that exists outside."""
    known = record.extra = record.extra or {}
    if name not in known:
        with host.recorder.paused():
            real = record.obj.grad if name == "grad" else (_frames.instance_dict(record.obj) or {}).get(name, UNBOUND)
            know_attributes(host, record, name)
        path = record.path.get(name) if name == "grad" else record.path.attr(name)
        if real is UNBOUND:
            text = f"'{type(record.obj).__name__}' object has no attribute '{name}'"
            return throw(f, AttributeError(text, name=name, obj=record.inner))
        value = host.enter(real, path)
        known[name] = (value, value, None)
    value = known[name][1]
    if value is UNBOUND:
        return throw(f, AttributeError(name, name=name, obj=record.inner))
    return value


def write_tensor(host: Any, f: Frame, traced: Any, name: str, value: Any) -> None:
    if traced._stands_for not in PLAIN or host.modes:
        found = write_attribute(host, f, traced, name, value)
        if found is not NOT_DISPATCHED:
            return
    try:
        host.recorder.set_attribute(traced, name, value)
    except OutsideAttribute:
        record = host.records[id(traced)]
        if name == "data" and (value := replace_data(host, traced, value)) is None:
            return
        write_outside(host, record, name, value)
    except (AttributeError, TypeError, RuntimeError) as error:
        if isinstance(error, Unsupported):
            raise host.located(error) from None
        throw(f, error.with_traceback(None))


def replace_data(host: Any, traced: Any, value: Any) -> Any:
    """`traced.data = value` for an input; where autograd would notice that it happens again, it is a break."""
    if SWAPPING in host.whole_paths and traced._meta.requires_grad and not is_its_data(traced, value):
        raise host.refuse("autograd", "data that is set again before gradients are asked for", function="Tensor.data")
    if is_in_history(host.recorder, traced):
        raise Again(SWAPPING)
    return host.recorder.replace_data(traced, value)


def check(host: Any, outputs: Iterable[Any], at_break: bool) -> None:
    """What comes behind a break may give a leaf other data again, and so may the caller, while a result remembers it.

    Where a full graph is wanted, it is taken to keep its data until then.
    """
    remembered = at_break or (host.may_break and any(map(has_history, outputs)))
    if remembered and any(is_in_history(host.recorder, traced) for traced in host.recorder.replaced):
        raise Again(SWAPPING)


def has_history(output: Any) -> bool:
    return type(output) is TracedTensor and output._meta.requires_grad and not output._meta.leaf


def write_outside(host: Any, record: Any, name: str, value: Any) -> None:
    """The attribute of an outside tensor is this from now on."""
    known = record.extra = record.extra or {}
    before = known[name][0] if name in known else UNBOUND
    know_attributes(host, record, name)
    known[name] = (before, value, None)
    host.touch(record)


def know_attributes(host: Any, record: Any, name: str) -> None:
    """An attribute of an outside tensor is read or written: its `__dict__` must not be a shadow as well."""
    fields = _frames.instance_dict(record.obj)
    if fields is None or name in COMPUTED:
        return
    if id(fields) in host.records:
        raise host.refuse("tensor-metadata", "an attribute of a tensor next to its __dict__", function=f"Tensor.{name}")
    host.changed[id(fields)] = record.path.fields()


SWAPPING = paths.const("leaves that are given other data for a part of the program")
COMPUTED = frozenset({"grad", "data"})
