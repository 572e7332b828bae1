"""Tensors from outside: which ones can be stood in for, and the graph inputs they become."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from stator.tensors.meta import Meta, meta_of
from stator.tensors.signals import UnsupportedTensor
from stator.tensors.subclasses import check_class
from stator.tensors.traced import Family, Storage, TracedTensor, join


class Inputs:
    """The graph inputs of one capture by name, and both sides of each."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}  # a tensor, or a torch.SymInt for a number
        self.by_id: dict[int, tuple[TracedTensor, torch.Tensor]] = {}
        self.real: dict[int, torch.Tensor] = {}
        self.metas: dict[str, Meta] = {}
        self.storages: dict[int, Storage] = {}  # by address of the real storage
        self._by_name: dict[str, Storage] = {}
        self._families: dict[int, tuple[torch.Tensor, Family]] = {}  # by id of the base, which may be no input

    def add(self, name: str, traced: TracedTensor, tensor: torch.Tensor, base: torch.Tensor | None) -> None:
        """One more input; both objects stay alive, so that their ids stay theirs."""
        self.names[name] = tensor
        self.by_id[id(tensor)] = traced, tensor
        self.real[id(traced)] = tensor
        traced._address = id(tensor)
        self._by_name[name] = traced._storage
        root = tensor if base is None else base
        join(self._families.setdefault(id(root), (root, []))[1], traced)
        if base is not None and traced._meta.requires_grad and is_sealed(tensor):
            traced._sealed = 0

    def views_leaf(self, traced: TracedTensor) -> bool:
        """Whether it is, or is a view of, a view from outside of a leaf that needs a gradient."""
        if not traced._family or not traced._meta.requires_grad:
            return False
        roots = (root for root, family in self._families.values() if family is traced._family)
        root = next(roots, None)
        return root is not None and root is not self.real.get(id(traced)) and root.requires_grad and root.is_leaf

    def mutated(self) -> list[str]:
        """Names of the inputs whose storage was written to."""
        return [name for name in self.names if name in self._by_name and self._by_name[name].mutated]

    def within(self, storage: Storage) -> list[TracedTensor]:
        """The inputs that came in this memory."""
        names = [name for name, memory in self._by_name.items() if memory is storage and name in self.names]
        return [self.by_id[id(self.names[name])][0] for name in names]

    def writers(self) -> set[Node]:
        """The nodes that write to the memory of inputs."""
        return {node for storage in self._by_name.values() for node in storage.writes}

    def keep(self, used: set[str]) -> None:
        """Forgets the inputs the graph does not use."""
        self.names = {name: tensor for name, tensor in self.names.items() if name in used}

    def release(self) -> None:
        """Drops the traced side."""
        self.by_id.clear()
        self.real.clear()
        self._families.clear()


def place_of(tensor: torch.Tensor) -> tuple[int, torch.Tensor | None]:
    """Address of the memory of a tensor, and the tensor it is a differentiable view of."""
    return tensor.untyped_storage()._cdata, tensor._base if tensor._is_view() else None


def is_sealed(view: torch.Tensor) -> bool:
    """Whether autograd keeps a view as it is: one of several results of an operation, or made by a custom function."""
    history = type(view.grad_fn)
    return history.__name__ in SEVERAL_VIEWS or issubclass(history, torch.autograd.function.BackwardCFunction)


SEVERAL_VIEWS = frozenset({"SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0"})


def check_input(tensor: torch.Tensor) -> None:
    """Refuses tensors that cannot be stood in for; the caller turns torch functions off."""
    kind = type(tensor)
    check_class(kind)
    if isinstance(tensor, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise UnsupportedTensor(kind.__qualname__, "a tensor wrapped by a functional transform")
    if tensor.is_sparse or tensor.layout in COMPRESSED:
        raise UnsupportedTensor("A sparse tensor", f"layout {tensor.layout}, dtype {tensor.dtype}")
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise UnsupportedTensor(kind.__qualname__, f"layout {tensor.layout}, dtype {tensor.dtype}")


COMPRESSED = frozenset({torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})


def meta_of_input(tensor: torch.Tensor) -> Meta:
    """Metadata of a tensor from outside; the caller turns torch functions off."""
    check_input(tensor)
    return meta_of(tensor)
