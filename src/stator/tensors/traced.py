"""The stand-in for a tensor while capturing."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch

from stator.errors import InternalError
from stator.tensors.meta import Meta
from stator.tensors.signals import UnsupportedOp

if TYPE_CHECKING:
    from torch.fx import Node

    from stator.tensors.recorder import Recorder

UNTOLD = "which one of several tensors this is depends on data"
_make_wrapper = torch.Tensor._make_wrapper_subclass


class Current(threading.local):
    """The recorder that operations of this thread go to."""

    recorder: Recorder | None = None


current = Current()


class Storage:
    """One piece of memory, shared by all views of it."""

    __slots__ = ("fixed", "mutated", "shared", "writes")

    def __init__(self) -> None:
        self.mutated = False
        self.shared = False  # a gradient that others have, too
        self.writes: list[Node] = []  # what wrote to it so far
        self.fixed: str | None = None  # why the graph must not write to it any more


Family = list["weakref.ref[TracedTensor]"]


class TracedTensor(torch.Tensor):
    """A tensor without data: an FX node, metadata, and its place among views and storages."""

    __slots__ = ("_address", "_family", "_meta", "_node", "_recorder", "_sealed", "_stands_for", "_storage")

    _address: int  # of the tensor from outside that it stands for, or its own
    _meta: Meta
    _node: Node
    _recorder: Recorder
    _stands_for: type
    _storage: Storage
    _family: Family | None  # the differentiable views of one base, and the base
    _sealed: int | None  # how often its memory had been written to when it became a view that autograd keeps as it is

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        recorder = current.recorder
        if recorder is None:
            raise InternalError(f"a traced tensor met {func} outside of its capture")
        return recorder.call(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise UnsupportedOp(str(func), "it reached a traced tensor past the level that is recorded")

    def __hash__(self) -> int:
        if id(self) in self._recorder.choices:
            raise UnsupportedOp("hash", UNTOLD, "data-dependent-branch")
        self._recorder.doubts.look(self)
        return self._address

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._stands_for

    @property
    def _is_param(self) -> bool:
        """What `isinstance(x, torch.nn.Parameter)` asks."""
        if issubclass(self._stands_for, torch.nn.Parameter):
            return True
        raise AttributeError("_is_param")


TracedTensor.__name__ = "Tensor"  # in messages of C code


def make(recorder: Recorder, meta: Meta, node: Node, storage: Storage, stands_for: type = torch.Tensor) -> TracedTensor:
    """A new traced tensor that is no view of another one."""
    traced: TracedTensor = _make_wrapper(TracedTensor, *meta.wrap)
    traced._meta = meta
    traced._node = node
    traced._recorder = recorder
    traced._storage = storage
    traced._stands_for = stands_for
    traced._family = None
    traced._sealed = None
    traced._address = id(traced)
    return traced


def make_view(traced: TracedTensor, base: TracedTensor) -> None:
    """Notes that `traced` is a differentiable view of `base`, or of what that is a view of."""
    if base._family is None:
        join([], base)
    assert base._family is not None
    join(base._family, traced)


def join(family: Family, traced: TracedTensor) -> None:
    """Makes `traced` a member of a family."""
    family.append(weakref.ref(traced))
    traced._family = family


def views_leaf(traced: TracedTensor) -> bool:
    """Whether a tensor is a differentiable view of a leaf that needs a gradient: autograd lets nobody write to it."""
    if not traced._family or not traced._meta.requires_grad:
        return False
    base = traced._family[0]()
    return base is not None and base is not traced and base._meta.requires_grad and base._meta.leaf


LEAF_VIEW = "a view of a leaf Variable that requires grad is being used in an in-place operation."
SEALED = "a view of which autograd does not know how to write to it, or whose base was written to."


def stands_for(traced: TracedTensor) -> type:
    """The class of the tensor that `traced` stands for: what `type(x)` answers."""
    return traced._stands_for


def is_traced(value: object) -> bool:
    """Whether `value` is a traced tensor, whatever its `__class__` claims."""
    return type(value) is TracedTensor
