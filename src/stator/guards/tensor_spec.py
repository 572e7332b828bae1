"""What a guard remembers of a tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from stator import _entry

Dims = tuple[int | None, ...]

_PLAIN_KEYS = ("Dense", "Conjugate", "Negative", "ZeroTensor", "ADInplaceOrView", "AutogradFunctionality")
_BACKENDS = 0x7FFF  # the low bits of a key set name backends; the highest one is Meta, whose sizes may be symbolic


def _bits_of(name: str) -> int:
    key = getattr(torch._C.DispatchKey, name, None)
    return 0 if key is None else torch._C.DispatchKeySet(key).raw_repr()


def _plain_mask() -> int:
    names = [*_PLAIN_KEYS, *(name for name in dir(torch._C.DispatchKey) if name.startswith("Autocast"))]
    mask = _BACKENDS
    for name in names:
        mask |= _bits_of(name)
    return mask


_PLAIN = _plain_mask()
_PYTHON = _bits_of("Python")


def keys_of(tensor: torch.Tensor) -> int:
    """The dispatch keys as one number: backend, conjugate and negative bits, wrappers, inference tensors."""
    return torch._C._dispatch_keys(tensor).raw_repr()


def _ints(dims: Any) -> Dims | None:
    return tuple(dims) if all(type(size) is int for size in dims) else None


def _dims(tensor: torch.Tensor, keys: int) -> tuple[Dims | None, Dims | None]:
    """Sizes and strides, None where torch has none or Python code would answer."""
    if keys & _PYTHON:
        return None, None
    try:
        sizes = _ints(tensor.size())
    except RuntimeError:
        return None, None
    strides = _ints(tensor.stride()) if sizes is not None and tensor.layout is torch.strided else None
    return sizes, strides


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Class and metadata of a tensor; None in sizes or strides means not checked."""

    cls: type
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    sizes: Dims | None
    strides: Dims | None
    requires_grad: bool
    leaf: bool | None
    keys: int  # dispatch keys
    plain: bool  # an ordinary dense tensor; others need a reason to be captured at all
    raw: tuple[int, int, int, int]  # dtype, device type, device index, layout as torch numbers them

    @staticmethod
    def of(tensor: torch.Tensor, *, leaf: bool = False) -> TensorSpec:
        """The spec this tensor fulfils; `leaf` asks to check is_leaf too."""
        with torch._C.DisableTorchFunction():
            keys = keys_of(tensor)
            sizes, strides = _dims(tensor, keys)
            return TensorSpec(
                cls=type(tensor),
                dtype=tensor.dtype,
                device=tensor.device,
                layout=tensor.layout,
                sizes=sizes,
                strides=strides,
                requires_grad=tensor.requires_grad,
                leaf=tensor.is_leaf if leaf else None,
                keys=keys,
                plain=not keys & ~_PLAIN and sizes is not None,
                raw=_entry.tensor_raw(tensor),
            )

    def with_dims(self, sizes: Dims | None, strides: Dims | None) -> TensorSpec:
        """The same spec with other sizes and strides, e.g. None for dynamic dimensions."""
        return replace(self, sizes=sizes, strides=strides)

    def differences(self, tensor: Any) -> list[str]:
        """What differs now, as 'size is (2, 3), now (4, 3)'; empty if the tensor fits."""
        if type(tensor) is not self.cls:
            return [f"type is {self.cls.__qualname__}, now {type(tensor).__qualname__}"]
        now = TensorSpec.of(tensor, leaf=self.leaf is not None)
        told = [
            f"{name} is {getattr(self, name)}, now {getattr(now, name)}"
            for name in ("dtype", "device", "layout", "requires_grad", "leaf")
            if getattr(self, name) != getattr(now, name)
        ]
        if now.keys != self.keys and not told:
            told.append(f"dispatch keys are {self.keys:#x}, now {now.keys:#x}")
        for name, dims in (("sizes", now.sizes), ("strides", now.strides)):
            wanted = getattr(self, name)
            if wanted is not None and not _dims_fit(wanted, dims):
                told.append(f"{name} are {_show(wanted)}, now {_show(dims)}")
        return told

    def __str__(self) -> str:
        return f"{self.cls.__qualname__}({self.dtype}, {self.device}, {_show(self.sizes)})"


def _dims_fit(wanted: Dims, dims: Dims | None) -> bool:
    return (
        dims is not None
        and len(dims) == len(wanted)
        and all(want is None or want == have for want, have in zip(wanted, dims, strict=True))
    )


def _show(dims: Dims | None) -> str:
    return "?" if dims is None else "(" + ", ".join("?" if size is None else str(size) for size in dims) + ")"


def fits(spec: TensorSpec, tensor: Any) -> bool:
    """The Python twin of the TENSOR check."""
    return not spec.differences(tensor)


def _probe(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor, tensor._cdata, keys_of(tensor), tuple(tensor.size()), tuple(tensor.stride())


def _learn() -> bool:
    """Shows C tensors of many kinds, from which it finds out where tensors keep their metadata."""
    with torch._C.DisableTorchFunction(), torch.inference_mode():
        inference = torch.zeros(9, device="cpu")
    with torch._C.DisableTorchFunction(), torch.inference_mode(False):
        probes = [
            inference,
            torch.zeros(2, 3, device="cpu", dtype=torch.float32).t(),
            torch.zeros(5, device="cpu", dtype=torch.bfloat16, requires_grad=True),
            torch.zeros(7, device="cpu", dtype=torch.complex64).conj(),
            torch.zeros(2, 3, 4, 5, 6, 7, device="cpu", dtype=torch.int64).permute(3, 1, 0, 5, 4, 2),
            torch.zeros(4, 3, 2, 7, 5, device="cpu", dtype=torch.uint8).permute(4, 0, 2, 1, 3),
            torch.zeros(11, 13, device="meta", dtype=torch.float64),
            torch.zeros((), device="cpu", dtype=torch.bool),
        ]
        leaf = torch.zeros(2, device="cpu", requires_grad=True)
        return _entry.tensor_learn([_probe(tensor) for tensor in probes]) and _entry.tensor_learn_grad(
            torch.zeros(2, device="cpu"), leaf, leaf.requires_grad_
        )


_entry.set_tensor_twin(fits)
LAYOUT_KNOWN = _learn()
