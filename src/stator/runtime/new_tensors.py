"""Parameters and copies of tensors that a program makes: `nn.Parameter(…)`, `copy.deepcopy` of tensors and modules."""

from __future__ import annotations

from typing import Any

import torch

from stator._frames import instance_dict
from stator.errors import Unsupported
from stator.frame import Frame
from stator.native.rows import standin
from stator.runtime.tensor_attributes import read_tensor
from stator.shapes.scalar import from_data
from stator.tensors.meta import SymbolicMeta
from stator.tensors.rules.layout import is_dense
from stator.tensors.targets import Target
from stator.tensors.traced import TracedTensor


def parameter(data: Any, requires_grad: bool) -> Any:
    """What a node calls."""
    return torch.nn.Parameter(data, requires_grad)


def deep_copy(tensor: torch.Tensor) -> torch.Tensor:
    """What a node calls: torch gives the copy its memory, which counts as a write."""
    made = tensor.clone()
    torch.autograd.graph.increment_version(made)
    return made


PARAMETER = Target(parameter, "call_function", parameter, "parameter")
COPY = Target(deep_copy, "call_function", deep_copy, "deepcopy")


@standin(torch.Tensor._make_subclass)
def stand_make(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The end of `nn.Parameter(data, requires_grad)`: a new leaf on the memory of the data."""
    names = dict(zip(("cls", "data", "require_grad"), args, strict=False)) | (kwargs or {})
    cls, data, wanted = names.get("cls"), names.get("data"), names.get("require_grad", False)
    recorder = host.recorder
    if cls is not torch.nn.Parameter or type(data) is not TracedTensor or type(wanted) is not bool or len(names) > 3:
        raise host.refuse("tensor-subclass", "an object of a subclass made of parts", type=getattr(cls, "__name__", ""))
    if recorder.no_leaves or (wanted and (recorder.sub is not None or data._meta.inference)):
        raise host.refuse("tensor-metadata", "a leaf that comes out of the graph", function="nn.Parameter")
    if wanted and not (data._meta.dtype.is_floating_point or data._meta.dtype.is_complex):
        raise host.refuse("tensor-metadata", "a parameter of integers", function="nn.Parameter")
    try:
        made = recorder.record(PARAMETER, (data, wanted), {})
    except Unsupported as error:
        raise host.located(error) from None
    made._stands_for = torch.nn.Parameter
    made._family = None  # no view: autograd starts here
    recorder.leaves.append(made)
    return made


@standin(torch.Tensor.__deepcopy__)
def stand_copy(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`copy.deepcopy` of a plain tensor with memory of its own."""
    if len(args) != 2 or kwargs or type(args[0]) is not TracedTensor or type(host.settled(args[1])) is not dict:
        raise host.refuse("cannot-rebuild", "a copy by other arguments", function="Tensor.__deepcopy__", type="Tensor")
    traced, memo = args[0], host.settled(args[1])
    key = host.call(f, id, [traced], None)
    if key in memo:
        return memo[key]
    check_copy(host, f, traced, memo)
    with_grad = traced._meta.requires_grad
    enabled = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    try:
        if host.recorder.traces or type(traced._meta) is SymbolicMeta:
            made = host.record(f, torch.Tensor.clone, (traced,), None)
        else:
            made = host.recorder.record(COPY, (traced,), {})
        if with_grad:
            made = host.record(f, torch.Tensor.requires_grad_, (made,), None)
    finally:
        torch._C._set_grad_enabled(enabled)
    memo[key] = made
    host.deep_copies.append((memo, traced._storage))
    return made


def check_copy(host: Any, f: Frame, traced: Any, memo: Any) -> None:
    """Refuses tensors that share memory, which copies made together would share as well, and those that have more than
    data."""
    meta, real = traced._meta, host.recorder.real(traced)
    sharing = any(copies is memo and storage is traced._storage for copies, storage in host.deep_copies)
    attributes = (instance_dict(real) if real is not None else vars(traced)) or {}
    if from_data(*meta.size) or not is_dense(meta):
        raise host.refuse(
            "cannot-rebuild", "a copy of a tensor that is not dense", function="Tensor.__deepcopy__", type="Tensor"
        )
    if sharing or attributes or not meta.leaf or traced._stands_for is not torch.Tensor or meta.offset:
        raise host.refuse(
            "cannot-rebuild",
            "a copy of a part of a tensor, together with another part, or of a tensor with attributes",
            function="Tensor.__deepcopy__",
            type="Tensor",
        )
    if meta.requires_grad and read_tensor(host, f, traced, "grad") is not None:
        raise host.refuse(
            "cannot-rebuild", "a copy of a tensor with a gradient", function="Tensor.__deepcopy__", type="Tensor"
        )
