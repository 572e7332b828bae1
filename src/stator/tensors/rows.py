"""Torch functions that are answered, refused or treated in a way of their own instead of being recorded as they are."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from stator.filters import Listening
from stator.shapes.scalar import TracedInt
from stator.tensors import attributes, data
from stator.tensors.modes import STATE_FUNCTIONS, InferenceGuard, devices_inside, read_state
from stator.tensors.settings import FUNCTIONS, WRITING, watched
from stator.tensors.signals import NotLeaf, OpFailed, UnsupportedOp, UnsupportedState, describe
from stator.tensors.targets import Handler, register, target_of
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def _answer(answer: Callable[..., Any]) -> Handler:
    """A handler for a method that is a function of metadata."""

    def handle(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
        try:
            return answer(*args, **kwargs)
        except TypeError as error:
            if answer is _length:
                raise
            raise OpFailed(error) from None

    return handle


def _size(traced: TracedTensor, dim: int | None = None) -> Any:
    if type(dim) is bool:
        raise TypeError("dim must be int")
    return torch.Size(traced._meta.size) if dim is None else traced._meta.size[dim]


def _length(traced: TracedTensor) -> int:
    if not traced._meta.size:
        raise TypeError("len() of a 0-d tensor")
    return traced._meta.size[0]


_METHOD_ANSWERS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "dim": lambda t: len(t._meta.size),
    "ndimension": lambda t: len(t._meta.size),
    "numel": lambda t: math.prod(t._meta.size),
    "nelement": lambda t: math.prod(t._meta.size),
    "is_floating_point": lambda t: t._meta.dtype.is_floating_point,
    "is_complex": lambda t: t._meta.dtype.is_complex,
    "is_inference": lambda t: t._meta.inference,
    "is_conj": lambda t: t._meta.conj,
    "is_neg": lambda t: t._meta.neg,
    "__len__": _length,
    "__hash__": hash,
}


def _refuse(break_id: str) -> Callable[[Any], Handler]:
    def make(func: Any) -> Handler:
        def refuse(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
            raise UnsupportedOp(describe(func), "", break_id)

        return refuse

    return make


# Methods that hand out memory, identity or autograd state, by the break they are.
_REFUSED_METHODS: dict[str, str] = {
    "tensor-numpy": "__array__ __array_wrap__ __dlpack__ __dlpack_device__ data_ptr const_data_ptr"
    " storage storage_type untyped_storage",
    "autograd": "backward register_hook register_post_accumulate_grad_hook",
    "tensor-metadata": "set_ share_memory_ is_shared is_set_to _is_view resize_as_sparse_ detach_ pin_memory is_pinned",
    "native-callback": "apply_ map_ map2_",
    "cannot-rebuild": "__deepcopy__ __reduce_ex__ __setstate__",
}

_REFUSED_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "tensor-operation": (  # fake tensors take the results for ordinary ones
        torch.quantize_per_tensor,
        torch.quantize_per_channel,
        torch.quantize_per_tensor_dynamic,
    ),
    "autograd": (torch.autograd.grad, torch.autograd.backward),
    "tensor-mode": (torch.set_default_device, torch.set_default_tensor_type),
    "tensor-numpy": (torch.from_numpy, torch.frombuffer, torch.from_file, torch.to_dlpack, torch.from_dlpack),
}


def _iterate(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
    """Rows of a tensor, as eager unbinds them."""
    (traced,) = args
    if not traced._meta.size:
        raise TypeError("iteration over a 0-d tensor")
    return iter(recorder.call(torch.Tensor.unbind, (traced, 0), {}))


def _new(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
    """`x.new(2, 3)` and `x.new(y.size())` are made of sizes; a graph has tuples for both, and a tuple means data."""
    traced, *given = args
    if not kwargs and len(given) == 1 and type(given[0]) is torch.Size:
        return recorder.call(torch.Tensor.new_empty, (traced, tuple(given[0])))
    if not kwargs and given and all(type(size) in (int, TracedInt) for size in given):
        return recorder.call(torch.Tensor.new_empty, (traced, tuple(given)))
    target = target_of(torch.Tensor.new)
    assert target is not None
    return recorder.record(target, args, kwargs)


def _resize(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
    """`x.new().resize_(n, 1)`: for compilers another tensor, because they cannot take views of one that was resized."""
    traced, *given = args
    if recorder.traces and not kwargs and data.is_empty_and_alone(recorder, traced):
        size = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
        data.replace_data(recorder, traced, recorder.call(torch.Tensor.new_empty, (traced, tuple(size))))
        return traced
    target = target_of(torch.Tensor.resize_)
    assert target is not None
    return recorder.record(target, args, kwargs)


def _between(func: Any) -> Handler:
    """`x.random_(low, high)` and `x.uniform_(low, high)`: the name of the lower bound is a keyword of Python.

    No source can say it, neither a graph's nor what a trace makes of `random_`, which is an overload of that name.
    """

    def draw(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
        if "from" in kwargs and len(args) == 1:
            args, kwargs = (*args, kwargs["from"]), {name: value for name, value in kwargs.items() if name != "from"}
        if "to" in kwargs and len(args) == 2:
            args, kwargs = (*args, kwargs["to"]), {name: value for name, value in kwargs.items() if name != "to"}
        is_pair = len(args) == 3 and not kwargs and type(args[0]) is TracedTensor
        if func is torch.Tensor.random_ and is_pair and recorder.traces:
            if args[2] is None:
                raise UnsupportedOp("Tensor.random_", "a lower bound alone", "random-state")
            return recorder.call(torch.Tensor.copy_, (args[0], recorder.call(torch.randint_like, args)))
        target = target_of(func)
        assert target is not None
        return recorder.record(target, args, kwargs)

    return draw


def _run_for_real(func: Any) -> Handler:
    def run(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
        with torch._C.DisableTorchFunction(), Listening() as warned:
            result = func(*args, **kwargs)
        for one in warned:
            recorder.told(one)
        return result

    return run


def _setting(func: Any) -> Handler:
    """A setting is read or changed for real; from now on all are part of the state."""

    def run(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
        watched.watch(func)
        with torch._C.DisableTorchFunction(), Listening() as warned:
            result = func(*args, **kwargs)
        if func in WRITING:
            watched.changed()
        if warned:
            raise UnsupportedOp(describe(func), "it warns", "native-effect")
        return result

    return run


def _set_grad_enabled(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
    recorder.switches += 1
    return torch._C._set_grad_enabled(*args, **kwargs)


def _get_default_device(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
    if devices_inside()[1]:
        raise UnsupportedState("torch.get_default_device", "the program has left a default device")
    device = read_state().device
    if device is None or device.type not in ("cpu", "meta"):
        raise NotLeaf(torch.get_default_device, "the program set none")
    return device


def _inference_mode(recorder: Recorder, args: Args, kwargs: Kwargs) -> Any:
    return InferenceGuard(recorder.scope, *args, **kwargs)


def _attribute_rows() -> None:
    for name in dir(torch.Tensor):
        found = getattr(torch.Tensor, name, None)
        if isinstance(found, (types.GetSetDescriptorType, property)):
            register(found.__get__, _read_row(name))
            _METADATA.add(found.__get__)
            register(found.__set__, _write_row(name))


def _read_row(name: str) -> Handler:
    return lambda recorder, args, kwargs: attributes.read(recorder, args[0], name)


def _write_row(name: str) -> Handler:
    return lambda recorder, args, kwargs: attributes.write(recorder, args[0], name, args[1])


def is_metadata(func: Any) -> bool:
    """Whether `func` only reads what a tensor looks like."""
    return func in _METADATA


_METADATA: set[Any] = set()


def _register() -> None:
    for name, answer in _METHOD_ANSWERS.items():
        register(getattr(torch.Tensor, name), _answer(answer))
        _METADATA.add(getattr(torch.Tensor, name))
    register(torch.is_inference, _answer(_METHOD_ANSWERS["is_inference"]))
    for break_id, names in _REFUSED_METHODS.items():
        for name in names.split():
            method = getattr(torch.Tensor, name)
            register(method, _refuse(break_id)(method))
    for break_id, functions in _REFUSED_FUNCTIONS.items():
        for function in functions:
            register(function, _refuse(break_id)(function))
    for function in STATE_FUNCTIONS:
        register(function, _run_for_real(function))
    register(torch._C._set_grad_enabled, _set_grad_enabled)
    register(torch.set_default_dtype, _run_for_real(torch.set_default_dtype))
    for function in FUNCTIONS:
        register(function, _setting(function))
    register(torch.Tensor.__iter__, _iterate)
    register(torch.Tensor.new, _new)
    register(torch.Tensor.resize_, _resize)
    for func in (torch.Tensor.random_, torch.Tensor.uniform_):
        register(func, _between(func))
    register(torch._C._InferenceMode, _inference_mode)
    register(torch.get_default_device, _get_default_device)
    _attribute_rows()


_register()
