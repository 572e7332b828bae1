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


class Dim:
    """A symbolic number in a key: equal if the expressions are."""

    __slots__ = ("expr", "value")

    def __init__(self, value: torch.SymInt) -> None:
        self.value = value
        self.expr = value.node._expr  # as it was made, so that metadata stays the same when more becomes known

    def __hash__(self) -> int:
        return hash(self.expr)

    def __eq__(self, other: object) -> bool:
        return type(other) is Dim and other.expr == self.expr

    def __repr__(self) -> str:
        return str(self.expr)


class SymbolicMeta(Meta):
    """Metadata with symbolic numbers, interned per capture."""

    __slots__ = ("symbols",)

    def __init__(self, key: tuple[Any, ...], symbols: Any) -> None:
        size, stride, offset = key[:3]
        plain = tuple(map(_number, size)), tuple(map(_number, stride)), _number(offset)
        super().__init__((*plain, *key[3:]))
        self.key = key
        self.size = torch.Size([symbols.wrap(number) for number in plain[0]])
        self.symbols = symbols

    def with_autograd(self, requires_grad: bool, leaf: bool) -> Meta:
        return intern_symbolic((*self.key[:5], requires_grad, leaf, *self.key[7:]), self.symbols)

    def with_inference(self, inference: bool) -> Meta:
        return self if self.inference == inference else intern_symbolic((*self.key[:9], inference), self.symbols)


def _number(part: Any) -> Any:
    return part.value if type(part) is Dim else part


def _dim(number: Any) -> Any:
    return number if type(number) is int else Dim(number)


def intern_symbolic(key: tuple[Any, ...], symbols: Any) -> Meta:
    """The one `Meta` of a capture with these values."""
    found: Meta | None = symbols.metas.get(key)
    if found is None:
        made = SymbolicMeta(key, symbols)
        found = symbols.metas[key] = made
    return found


def with_dims(meta: Meta, sizes: tuple[Any, ...], strides: tuple[Any, ...], symbols: Any) -> Meta:
    """The same metadata with symbolic sizes and strides."""
    return intern_symbolic((tuple(map(_dim, sizes)), tuple(map(_dim, strides)), *meta.key[2:]), symbols)


def meta_of(tensor: torch.Tensor) -> Meta:
    """Metadata of a real or fake tensor; the caller turns torch functions off."""
    if tensor._has_symbolic_sizes_strides:
        return _symbolic_meta_of(tensor)
    return intern((tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), *_facts(tensor)))


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a key holds besides numbers that may be symbolic."""
    requires_grad = tensor.requires_grad
    return (
        tensor.dtype,
        tensor.device,
        requires_grad,
        not requires_grad or _is_leaf(tensor),
        tensor.is_conj(),
        tensor.is_neg(),
        tensor.is_inference(),
    )


def _symbolic_meta_of(tensor: torch.Tensor) -> Meta:
    numbers = [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
    symbolic = next((number for number in numbers if type(number) is torch.SymInt), None)  # None: constants by now
    sizes, strides = tuple(map(_dim, tensor.shape)), tuple(map(_dim, tensor.stride()))
    key = (sizes, strides, _dim(tensor.storage_offset()), *_facts(tensor))
    return intern(key) if symbolic is None else intern_symbolic(key, symbolic.node.shape_env.symbols)


def _is_leaf(tensor: torch.Tensor) -> bool:
    try:
        return tensor.is_leaf
    except RuntimeError:  # autograd refuses to rebuild the history of some views made under no_grad
        return False
