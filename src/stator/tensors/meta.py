"""Tensor metadata as interned values: two tensors with equal metadata share one `Meta` object."""

from __future__ import annotations

from typing import Any

import torch

_LIMIT = 50_000


class Meta:
    """What is known about a tensor without its data; compare with `is`."""

    __slots__ = (
        "conj",
        "device",
        "dtype",
        "inference",
        "key",
        "leaf",
        "neg",
        "offset",
        "requires_grad",
        "size",
        "stride",
        "wrap",
    )

    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    leaf: bool  # no autograd node made it
    conj: bool
    neg: bool
    inference: bool
    key: tuple[Any, ...]
    wrap: tuple[Any, ...]  # positional arguments of _make_wrapper_subclass after the class

    def __init__(self, key: tuple[Any, ...]) -> None:
        size, stride, offset, dtype, device, requires_grad, leaf, conj, neg, inference = key
        self.size = torch.Size(size)
        self.stride = stride
        self.offset = offset
        self.dtype = dtype
        self.device = device
        self.requires_grad = requires_grad
        self.leaf = leaf
        self.conj = conj
        self.neg = neg
        self.inference = inference
        self.key = key
        self.wrap = (size, stride, offset, None, dtype, torch.strided, device)

    def with_autograd(self, requires_grad: bool, leaf: bool) -> Meta:
        """The same metadata with another place in autograd."""
        return intern((*self.key[:5], requires_grad, leaf, *self.key[7:]))

    def with_inference(self, inference: bool) -> Meta:
        """The same metadata of a tensor that was or was not made in inference mode."""
        return self if self.inference == inference else intern((*self.key[:9], inference))

    def __repr__(self) -> str:
        flags = [name for name in ("requires_grad", "leaf", "conj", "neg", "inference") if getattr(self, name)]
        return f"<Meta {self.dtype}{list(self.size)} stride={self.stride} {self.device} {' '.join(flags)}>"


_interned: dict[tuple[Any, ...], Meta] = {}


def intern(key: tuple[Any, ...]) -> Meta:
    """The one `Meta` of these values; forgetting old ones only costs later propagations."""
    meta = _interned.get(key)
    if meta is None:
        if len(_interned) >= _LIMIT:
            _interned.clear()
        meta = _interned[key] = Meta(key)
    return meta


def meta_of(tensor: torch.Tensor) -> Meta:
    """Metadata of a real or fake tensor; the caller turns torch functions off."""
    requires_grad = tensor.requires_grad
    return intern(
        (
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.dtype,
            tensor.device,
            requires_grad,
            not requires_grad or _is_leaf(tensor),
            tensor.is_conj(),
            tensor.is_neg(),
            tensor.is_inference(),
        )
    )


def _is_leaf(tensor: torch.Tensor) -> bool:
    try:
        return tensor.is_leaf
    except RuntimeError:  # autograd refuses to rebuild the history of some views made under no_grad
        return False
