"""Attributes of traced tensors: answered from metadata, recorded, or refused, by one table each."""

from __future__ import annotations

import math
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from stator import _frames
from stator._frames import UNBOUND
from stator.tensors.data import replace_data
from stator.tensors.signals import OutsideAttribute, UnsupportedOp
from stator.tensors.targets import Target
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

# Attributes that are a function of the metadata; sizes and devices are new objects each time, as torch's are.
ANSWERS: dict[str, Callable[[TracedTensor], Any]] = {
    "shape": lambda t: torch.Size(t._meta.size),
    "dtype": lambda t: t._meta.dtype,
    "device": lambda t: torch.device(t._meta.device),
    "layout": lambda t: torch.strided,
    "ndim": lambda t: len(t._meta.size),
    "requires_grad": lambda t: t._meta.requires_grad,
    "itemsize": lambda t: t._meta.dtype.itemsize,
    "nbytes": lambda t: math.prod(t._meta.size) * t._meta.dtype.itemsize,
    "is_cpu": lambda t: t._meta.device.type == "cpu",
    "is_cuda": lambda t: t._meta.device.type == "cuda",
    "is_meta": lambda t: t._meta.device.type == "meta",
    "is_xpu": lambda t: t._meta.device.type == "xpu",
    "is_mps": lambda t: t._meta.device.type == "mps",
    "is_xla": lambda t: t._meta.device.type == "xla",
    "is_ipu": lambda t: t._meta.device.type == "ipu",
    "is_hpu": lambda t: t._meta.device.type == "hpu",
    "is_mtia": lambda t: t._meta.device.type == "mtia",
    "is_maia": lambda t: t._meta.device.type == "maia",
    "is_vulkan": lambda t: t._meta.device.type == "vulkan",
    "is_quantized": lambda t: False,
    "is_sparse": lambda t: False,
    "is_sparse_csr": lambda t: False,
    "is_mkldnn": lambda t: False,
    "is_nested": lambda t: False,
}

# Attributes that give a new tensor and are recorded as reading the attribute.
RECORDED: dict[str, Target] = {
    name: Target(getattr, "call_function", getattr, name) for name in ("T", "mT", "H", "mH", "real", "imag", "data")
}


def read(recorder: Recorder, traced: TracedTensor, name: str) -> Any:
    """Value of the attribute `name`; bound methods for methods."""
    answer = ANSWERS.get(name)
    if answer is not None:
        return answer(traced)
    recorded = RECORDED.get(name)
    if recorded is not None:
        return recorder.record(recorded, (traced, name), {})
    special = _SPECIAL.get(name)
    if special is not None:
        recorder.doubts.look(traced)
        recorder.told_leaves = True
        return special(recorder, traced)
    if name == "__class__":
        return traced._stands_for
    return _from_class(recorder, traced, name)


def _from_class(recorder: Recorder, traced: TracedTensor, name: str) -> Any:
    of_metaclass = _frames.type_lookup(traced._stands_for, name) is UNBOUND  # `__name__`, `mro`: not of instances
    found = None if of_metaclass else getattr(torch.Tensor, name, None)
    cls = traced._stands_for
    if isinstance(found, types.FunctionType) and getattr(cls, name, found) is not found:
        raise UnsupportedOp(f"{cls.__name__}.{name}", "a method that differs from that of Tensor", "tensor-subclass")
    if isinstance(found, (types.MethodDescriptorType, types.WrapperDescriptorType, types.FunctionType)):
        return found.__get__(traced, traced._stands_for)
    if isinstance(found, (types.GetSetDescriptorType, property)):
        raise UnsupportedOp(f"Tensor.{name}", "this attribute is not known while capturing")
    recorder.doubts.look(traced)
    if name in traced.__dict__:
        return traced.__dict__[name]
    real = recorder.real(traced)
    if real is not None and hasattr(real, "__dict__") and name in real.__dict__:
        raise OutsideAttribute(real, name)
    if not of_metaclass:
        return found if hasattr(torch.Tensor, name) else getattr(cls, name)
    raise AttributeError(f"{traced._stands_for.__name__!r} object has no attribute {name!r}", name=name, obj=traced)


def _grad(recorder: Recorder, traced: TracedTensor) -> Any:
    real = recorder.real(traced)
    if real is not None and real.is_leaf:  # others warn whenever somebody looks, guards too
        raise OutsideAttribute(real, "grad")
    if real is None and (traced._meta.leaf or id(traced) in recorder.inner_grads):
        return recorder.inner_grad(traced)
    raise UnsupportedOp("Tensor.grad", "the gradient of a tensor that is no leaf", "autograd")


def _grad_fn(recorder: Recorder, traced: TracedTensor) -> Any:
    if traced._meta.leaf:
        return None
    raise UnsupportedOp("Tensor.grad_fn", "", "autograd")


def _namespace(recorder: Recorder, traced: TracedTensor) -> Any:
    raise UnsupportedOp("Tensor.__dict__", "attributes that somebody set, all at once", "tensor-metadata")


_SPECIAL: dict[str, Callable[[Recorder, TracedTensor], Any]] = {
    "is_leaf": lambda recorder, traced: traced._meta.leaf,
    "grad": _grad,
    "grad_fn": _grad_fn,
    "__dict__": _namespace,
}


def write(recorder: Recorder, traced: TracedTensor, name: str, value: Any) -> None:
    """Performs `traced.name = value`."""
    recorder.doubts.look(traced)
    rule = _WRITES.get(name)
    if rule is not None:
        rule(recorder, traced, value)
    elif isinstance(getattr(torch.Tensor, name, None), (types.GetSetDescriptorType, property)):
        raise UnsupportedOp(f"Tensor.{name}", "assignment to this attribute is not recorded", "tensor-metadata")
    elif recorder.real(traced) is not None:
        raise OutsideAttribute(recorder.real(traced), name)
    else:
        if not traced.__dict__:
            recorder.adorned.append(weakref.ref(traced))
        traced.__dict__[name] = value


def _write_requires_grad(recorder: Recorder, traced: TracedTensor, value: Any) -> None:
    recorder.call(torch.Tensor.requires_grad_, (traced, value), {})


def _write_grad(recorder: Recorder, traced: TracedTensor, value: Any) -> None:
    real = recorder.real(traced)
    if real is not None:
        raise OutsideAttribute(real, "grad")
    if value is None:
        recorder.inner_grads.pop(id(traced), None)
    else:
        raise UnsupportedOp("Tensor.grad", "setting the gradient of a tensor made while capturing", "autograd")


def _write_data(recorder: Recorder, traced: TracedTensor, value: Any) -> None:
    real = recorder.real(traced)
    if real is not None:
        raise OutsideAttribute(real, "data")
    replace_data(recorder, traced, value)


_WRITES: dict[str, Callable[[Recorder, TracedTensor, Any], None]] = {
    "requires_grad": _write_requires_grad,
    "grad": _write_grad,
    "data": _write_data,
}
