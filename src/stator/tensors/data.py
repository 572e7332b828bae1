"""`tensor.data = other`: a tensor keeps its identity and its place in autograd, and gets the memory of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stator.tensors.meta import Meta
from stator.tensors.plan import Group, New
from stator.tensors.signals import UnsupportedOp
from stator.tensors.targets import Target
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


class _WithData(torch.autograd.Function):
    """The values of one tensor, the gradient of another."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return data.data  # no view, and with a version of its own

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0], None


def with_data(tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """What `tensor` is after `tensor.data = data`, as a node of a graph."""
    result: torch.Tensor = _WithData.apply(tensor, data)
    return result


def set_data(tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """`tensor.data = data` itself, as a node of a graph that runs as it is."""
    tensor.data = data
    return tensor


_WITH_DATA = Target(with_data, "call_function", with_data, "with_data")
_DATA = Target(getattr, "call_function", getattr, "data")  # memory without its version


def replace_data(recorder: Recorder, traced: TracedTensor, value: Any) -> TracedTensor | None:
    """Performs `traced.data = value` inside the graph; for a graph input what it gives is still to be assigned outside.

    None: the tensor has this memory already, as after `traced.data *= 2`, and nothing changes.
    """
    if type(value) is not TracedTensor:
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if is_its_data(traced, value):
        return None
    old = traced._meta
    recorder.told_leaves = True
    if old.requires_grad and not old.leaf:
        raise UnsupportedOp("Tensor.data", "assignment to a tensor that an operation made", "tensor-metadata")
    if old.requires_grad and value._meta.dtype is not old.dtype:  # autograd remembers the dtype of its gradient
        raise UnsupportedOp("Tensor.data", "another dtype for a tensor that requires grad", "tensor-metadata")
    made = recorder.record(_DATA, (value, "data"), {})
    if recorder.real(traced) is not None:
        recorder.replaced.append(traced)
    if recorder.real(traced) is None and _stays(recorder, traced):
        traced._node = _set_data(recorder, traced, made)
    elif old.requires_grad:
        with torch.enable_grad():
            traced._node = recorder.record(_WITH_DATA, (traced, made), {})._node
    else:
        traced._node = made._node
    traced._meta = made._meta.with_autograd(old.requires_grad, old.leaf)
    traced._storage = value._storage
    traced._family = None
    return made


def is_its_data(traced: TracedTensor, value: Any) -> bool:
    """Whether a tensor has this memory already, so that `traced.data = value` changes nothing."""
    old = traced._meta
    if type(value) is not TracedTensor or value._storage is not traced._storage:
        return False
    return value._meta.with_autograd(old.requires_grad, old.leaf) is old


def is_in_history(recorder: Recorder, traced: TracedTensor) -> bool:
    """Whether autograd may still ask for an input whose `data` was set, because of what was made of it since.

    What it remembers is the input, with the data of the moment it asks; the graph has those of this moment.
    """
    meta = traced._meta
    if not (meta.requires_grad and meta.leaf and any(traced is one for one in recorder.replaced)):
        return False
    made = [user for user in traced._node.users if _has_history(getattr(user.meta, "value", None))]
    if made and recorder.replay is not None:
        recorder.replay.advance()
        return any(recorder.replay.remembers(node, traced._node) for node in made)
    return bool(made)


def _has_history(made: Any) -> bool:
    if type(made) is Group:
        return any(map(_has_history, made.items))
    meta = made.meta if type(made) is New else made
    return isinstance(meta, Meta) and meta.requires_grad and not meta.leaf


def views_replaced(recorder: Recorder, traced: TracedTensor) -> bool:
    """Whether it is a view of an input that got other memory: in the graph it is one of that memory alone."""
    if not recorder.replaced or not traced._family:
        return False
    base = traced._family[0]()
    return base is not traced and any(base is one for one in recorder.replaced)


def is_replaced(recorder: Recorder, traced: TracedTensor) -> bool:
    """Whether it is such an input or view: writes in the graph do not count as writes to that input."""
    return any(traced is one for one in recorder.replaced) or views_replaced(recorder, traced)


def is_empty_and_alone(recorder: Recorder, traced: TracedTensor) -> bool:
    """Whether a tensor that the graph makes has no elements, no history, and nobody else has its memory."""
    if recorder.real(traced) is not None or traced._meta.requires_grad or 0 not in traced._meta.size:
        return False
    return not any(other._storage is traced._storage for other in recorder.alive() if other is not traced)


def _stays(recorder: Recorder, traced: TracedTensor) -> bool:
    """Whether a tensor that the graph makes must be the same one afterwards: for its gradient, class or version."""
    plain = not traced._meta.requires_grad and traced._stands_for is torch.Tensor
    return not plain or not (recorder.traces or recorder.sub is not None)


def _set_data(recorder: Recorder, traced: TracedTensor, data: TracedTensor) -> Any:
    """A leaf that the graph makes stays this very tensor: what was computed from it before leads to it as well."""
    if recorder.traces or recorder.sub is not None:
        raise UnsupportedOp("Tensor.data", "assignment to a leaf that the graph makes", "tensor-metadata")
    node = recorder.nodes.add("call_function", set_data, (traced._node, data._node), {}, "set_data")
    node.meta.value = New(data._meta.with_autograd(traced._meta.requires_grad, True))
    recorder.kept.add(node)
    recorder.readings.homes[node] = data._storage
    return node
