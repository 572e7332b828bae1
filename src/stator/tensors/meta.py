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

    def plain(self) -> tuple[Any, Any, Any]:
        """Size, stride and offset as torch may see them."""
        return self.size, self.stride, self.offset

    def with_autograd(self, requires_grad: bool, leaf: bool) -> Meta:
        """The same metadata with another place in autograd."""
        return intern((*self.key[:5], requires_grad, leaf, *self.key[7:]))

    def with_inference(self, inference: bool) -> Meta:
        """The same metadata of a tensor that was or was not made in inference mode."""
        return self if self.inference == inference else intern((*self.key[:9], inference))

    def at_start(self) -> Meta:
        """The same metadata of a tensor that begins where its memory does."""
        return self if self.key[2] == 0 else intern((*self.key[:2], 0, *self.key[3:]))

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


class SymbolicMeta(Meta):
    """Metadata with symbolic numbers, interned per capture."""

    __slots__ = ("symbols",)

    def __init__(self, key: tuple[Any, ...], symbols: Any) -> None:
        super().__init__(((), (), 0, *key[3:]))
        sizes, strides, offset = key[:3]
        self.key = key
        self.size = torch.Size(list(map(symbols.traced, sizes)))
        self.stride = tuple(map(symbols.traced, strides))
        self.offset = symbols.traced(offset)
        values = symbols.values(sizes, strides, offset)
        rank = len(sizes)
        self.wrap = (values[:rank], values[rank:-1], values[-1], *self.wrap[3:])
        self.symbols = symbols

    def plain(self) -> tuple[Any, Any, Any]:
        sizes, strides, offset = self.key[:3]
        plain = self.symbols.plain
        return tuple(map(plain, sizes)), tuple(map(plain, strides)), plain(offset)

    def with_autograd(self, requires_grad: bool, leaf: bool) -> Meta:
        return intern_symbolic((*self.key[:5], requires_grad, leaf, *self.key[7:]), self.symbols)

    def with_inference(self, inference: bool) -> Meta:
        return self if self.inference == inference else intern_symbolic((*self.key[:9], inference), self.symbols)

    def at_start(self) -> Meta:
        return self if self.key[2] == 0 else intern_symbolic((*self.key[:2], 0, *self.key[3:]), self.symbols)


def intern_symbolic(key: tuple[Any, ...], symbols: Any) -> Meta:
    """The one `Meta` of a capture with these values."""
    found: Meta | None = symbols.metas.get(key)
    if found is None:
        made = SymbolicMeta(key, symbols)
        found = symbols.metas[key] = made
    return found


def with_dims(meta: Meta, sizes: tuple[Any, ...], strides: tuple[Any, ...], symbols: Any) -> Meta:
    """The same metadata with symbolic sizes and strides."""
    return intern_symbolic((sizes, strides, *meta.key[2:]), symbols)


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
    made = [_number(number) for number in numbers]
    rank = tensor.dim()
    key = (tuple(made[:rank]), tuple(made[rank:-1]), made[-1], *_facts(tensor))
    return intern(key) if symbolic is None else intern_symbolic(key, symbolic.node.shape_env.symbols)


def _number(value: Any) -> Any:
    """A symbolic number as it was made, so that metadata stays the same when more becomes known."""
    return value if type(value) is int else value.node.shape_env.symbols.unknowns.of(value.node._expr)


def _is_leaf(tensor: torch.Tensor) -> bool:
    try:
        return tensor.is_leaf
    except RuntimeError:  # autograd refuses to rebuild the history of some views made under no_grad
        return False
