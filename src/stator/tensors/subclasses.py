"""Subclasses of Tensor: which ones can be stood in for, and which of them see torch's functions."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import parameter

from stator.tensors.signals import UnsupportedTensor

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_UNINITIALIZED: Any = vars(parameter)["UninitializedTensorMixin"]
_DISABLED = torch._C._disabled_torch_function_impl
_NO_DISPATCH = torch.Tensor.__torch_dispatch__

# Special methods that a subclass may have: they run where they are called by name, or when an object is made or shown.
_MAY_DEFINE = frozenset({
    "__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__qualname__", "__orig_bases__",
    "__parameters__", "__slots__", "__new__", "__init__", "__init_subclass__", "__class_getitem__",
    "__torch_function__", "__repr__", "__str__", "__format__", "__reduce_ex__", "__reduce__", "__deepcopy__",
    "__copy__", "__setstate__", "__getstate__", "__abstractmethods__", "__static_attributes__", "__firstlineno__",
    "__classcell__", "__match_args__",
})  # fmt: skip


def why_not(cls: type) -> str | None:
    """Why objects of a subclass cannot be stood in for; None if they can."""
    if cls in PLAIN:
        return None
    if issubclass(cls, _UNINITIALIZED):
        return "a parameter without data yet"
    if getattr(cls, "__torch_dispatch__", _NO_DISPATCH) != _NO_DISPATCH:
        return "a subclass with __torch_dispatch__"
    for base in cls.__mro__:
        if base in (torch.Tensor, torch.nn.Parameter) or base is object or base is torch._C.TensorBase:
            continue
        odd = [name for name in vars(base) if name.startswith("__") and name not in _MAY_DEFINE]
        if odd:
            return f"a subclass with {odd[0]}"
        if vars(base).get("__slots__"):
            return "a subclass with slots"
    return None


def check_class(cls: type) -> None:
    if (reason := why_not(cls)) is not None:
        raise UnsupportedTensor(cls.__qualname__, reason)


def overrides(cls: type) -> bool:
    """Whether torch's functions ask this class what they mean for its objects."""
    if cls in PLAIN:
        return False
    found = getattr(cls, "__torch_function__", _DISABLED)
    return found is not _DISABLED and found != _DISABLED


def plain_copy(tensor: torch.Tensor) -> Any:
    """An ordinary tensor that looks the same; the caller turns torch functions off."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def without_functions(run: Any, undressed: list[bool]) -> Any:
    """A graph that is given such tensors: for it they are ordinary ones; a trace takes only those."""

    def call(*args: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if undressed:
                args = tuple(a.as_subclass(torch.Tensor) if yes else a for a, yes in zip(args, undressed, strict=True))
            return run(*args)

    return call


def dressed(tensor: torch.Tensor, cls: Any) -> Any:
    """A result of a graph as an object of a subclass."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(cls)
