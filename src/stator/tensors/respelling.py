"""Operations that torch knows for constant ints only, as others that take symbols.

They are for tensors that lie in order, and for numbers that torch accepts; for others the call is made as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from stator.shapes import spacing
from stator.shapes.floats import TracedFloat, whole
from stator.shapes.scalar import TracedInt
from stator.tensors.rules.layout import is_row_major
from stator.tensors.traced import TracedTensor, current


def respelled(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of such a call with a symbolic int; None if it is to be made as it is."""
    if func is not torch.arange and (not args or type(args[0]) is not TracedTensor):
        return None
    try:
        return CALLS[func](*args, **kwargs)
    except TypeError:  # no such arguments
        return None


def _takes(x: Any, factor: Any) -> bool:
    """Whether pixels can be regrouped; by one there would be nothing to copy."""
    if type(factor) is not TracedInt or len(x.shape) < 3 or not is_row_major(x._meta):
        return False
    return bool(factor > 1) and all(bool(size > 0) for size in x.shape)


def _is_copied(height: Any, width: Any) -> bool:
    """Whether elements change places, so that the result has memory of its own."""
    return bool(height > 1) or bool(width > 1)


def _shuffled(input: Any, upscale_factor: Any) -> Any:
    """`pixel_shuffle`."""
    if not _takes(input, upscale_factor):
        return None
    *batch, channels, height, width = input.shape
    times, first = upscale_factor, len(batch)
    if channels % (times * times) != 0 or not _is_copied(height, width):
        return None
    kept = channels // (times * times)
    parts = input.reshape(*batch, kept, times, times, height, width)
    order = [*range(first + 1), first + 3, first + 1, first + 4, first + 2]
    return parts.permute(order).reshape(*batch, kept, height * times, width * times)


def _gathered(input: Any, downscale_factor: Any) -> Any:
    """`pixel_unshuffle`."""
    if not _takes(input, downscale_factor):
        return None
    *batch, channels, height, width = input.shape
    times, first = downscale_factor, len(batch)
    if height % times != 0 or width % times != 0 or not _is_copied(height // times, width // times):
        return None
    parts = input.reshape(*batch, channels, height // times, times, width // times, times)
    order = [*range(first + 1), first + 2, first + 4, first + 1, first + 3]
    return parts.permute(order).reshape(*batch, channels * times * times, height // times, width // times)


def _diagonal(input: Any, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
    """The first diagonal of what begins further to the right, or below."""
    rank = len(input.shape)
    if type(offset) is not TracedInt or not all(type(dim) is int and -rank <= dim < rank for dim in (dim1, dim2)):
        return None
    if dim1 % rank == dim2 % rank:
        return None
    along, start = (dim2, offset) if offset >= 0 else (dim1, -offset)
    if not start < input.shape[along]:
        return None
    return input.narrow(along, start, input.shape[along] - start).diagonal(0, dim1, dim2)


def _filled_diagonal(input: Any, fill_value: Any, wrap: Any = False) -> Any:
    """`fill_diagonal_` of a matrix: its diagonal is a view."""
    if len(input.shape) != 2 or wrap is not False or type(fill_value) not in (bool, int, float):
        return None
    if TracedInt not in map(type, input.shape):
        return None
    input.diagonal().fill_(fill_value)
    return input


def _are_in_order(*tensors: Any) -> bool:
    """Whether these are tensors of symbolic sizes that lie in order, none of them empty."""
    if any(type(x) is not TracedTensor or not is_row_major(x._meta) for x in tensors):
        return False
    sizes = [size for x in tensors for size in x.shape]
    return TracedInt in map(type, sizes) and all(bool(size > 0) for size in sizes)


def _kron(input: Any, other: Any) -> Any:
    """All products: each size of one next to that of the other."""
    if not _are_in_order(input, other):
        return None
    rank = max(len(input.shape), len(other.shape), 1)
    left, right = ([*[1] * (rank - len(x.shape)), *x.shape] for x in (input, other))
    first = input.reshape([part for size in left for part in (size, 1)])
    second = other.reshape([part for size in right for part in (1, size)])
    return (first * second).reshape([a * b for a, b in zip(left, right, strict=True)])


def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:  # torch calls it so
    """Products of one, two and more of the same number, behind a column of ones."""
    if len(x.shape) != 1 or not x.dtype.is_floating_point or not is_row_major(x._meta):
        return None
    rows, columns = x.shape[0], x.shape[0] if N is None else N
    if TracedInt not in (type(rows), type(columns)) or type(columns) not in (int, TracedInt) or not rows > 0:
        return None
    if not columns > 1:
        return None
    powers = x.unsqueeze(1).expand(rows, columns - 1).cumprod(1)
    made = torch.cat([torch.ones_like(powers[:, :1]), powers], 1)
    return made if increasing else made.flip(1)


def _in_parts(input: Any, indices_or_sections: Any, dim: Any = 0) -> Any:
    """`tensor_split` in a number of parts, the first of which may be one longer: sizes that no branch decides."""
    count, rank = indices_or_sections, len(input.shape)
    if type(count) is not int or count < 2 or type(dim) is not int or not -rank <= dim < rank:
        return None
    size = input.shape[dim]
    if type(size) is not TracedInt or size.symbols.is_unbacked(size) or not size >= count:
        return None
    parts, start = [], 0
    for place in range(count):
        length = (size + (count - 1 - place)) // count
        parts.append(input.narrow(dim, start, length))
        start = start + length
    return tuple(parts)


def _arange(*bounds: Any, **options: Any) -> Any:
    """`arange` with floats, of which torch makes constants."""
    given = spacing.told(*bounds, **options)
    return None if given is None or current.recorder is None else current.recorder.call(spacing.evenly_spaced, given)


# ---- images of other sizes ----------------------------------------------------------------------------------------


def _interpolated(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: Any = False,
) -> Any:
    """`interpolate` by a factor: torch is told the sizes, too, which it would ask for as constants otherwise."""
    space = input.shape[2:]
    factors = list(scale_factor) if type(scale_factor) in (list, tuple) else [scale_factor] * len(space)
    symbolic = TracedInt in map(type, space) or not {TracedInt, TracedFloat}.isdisjoint(map(type, factors))
    if size is not None or not symbolic or len(factors) != len(space):
        return None
    if not all(type(factor) in FACTORS and bool(factor > 0) for factor in factors):
        return None
    sizes = [_scaled(number, factor) for number, factor in zip(space, factors, strict=True)]
    if not all(bool(number > 0) for number in (*input.shape, *sizes)):
        return None
    if recompute_scale_factor or mode == "area":
        return F.interpolate(input, sizes, None, mode, align_corners, None, antialias)
    row = UPSAMPLING.get((mode, len(space), bool(antialias)))
    if row is None or (align_corners is not None and mode.startswith("nearest")):
        return None
    aligned = () if mode.startswith("nearest") else (bool(align_corners),)
    named = ("scales",) if len(space) == 1 else ("scales_d", "scales_h", "scales_w")[-len(space) :]
    scales = dict(zip(named, map(_as_float, factors), strict=True))
    return current.recorder and current.recorder.call(row, (input, sizes, *aligned), scales)


def _scaled(size: Any, factor: Any) -> Any:
    """As many elements as torch makes of so many: the product, rounded down."""
    made = size * factor
    return whole(int, made) if type(made) is TracedFloat else int(made) if type(made) is float else made


def _as_float(number: Any) -> Any:
    return number if type(number) is TracedFloat else number * 1.0


FACTORS = frozenset({int, float, TracedInt, TracedFloat})

# By mode, number of dimensions, and whether small images are smoothed.
UPSAMPLING: dict[tuple[str, int, bool], Any] = {
    **{("nearest", rank, False): getattr(torch._C._nn, f"upsample_nearest{rank}d") for rank in (1, 2, 3)},
    **{("nearest-exact", rank, False): getattr(torch._C._nn, f"_upsample_nearest_exact{rank}d") for rank in (1, 2, 3)},
    ("linear", 1, False): torch._C._nn.upsample_linear1d,
    ("bilinear", 2, False): torch._C._nn.upsample_bilinear2d,
    ("bilinear", 2, True): torch._C._nn._upsample_bilinear2d_aa,
    ("bicubic", 2, False): torch._C._nn.upsample_bicubic2d,
    ("bicubic", 2, True): torch._C._nn._upsample_bicubic2d_aa,
    ("trilinear", 3, False): torch._C._nn.upsample_trilinear3d,
}


CALLS: dict[Any, Callable[..., Any]] = {
    torch.pixel_shuffle: _shuffled,
    torch.pixel_unshuffle: _gathered,
    torch.diagonal: _diagonal,
    F.interpolate: _interpolated,
    torch.Tensor.diagonal: _diagonal,
    torch.Tensor.fill_diagonal_: _filled_diagonal,
    torch.kron: _kron,
    torch.Tensor.kron: _kron,
    torch.vander: _vander,
    torch.tensor_split: _in_parts,
    torch.Tensor.tensor_split: _in_parts,
    torch.arange: _arange,
}
