"""Functions that compilers cannot trace for symbolic sizes, or for those that only data tells: others that they can.

So is dropout that drops all: a trace draws random numbers for it, and forgets which elements are not finite.

On real tensors each is torch's own function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from stator.shapes.scalar import TracedInt
from stator.shapes.scalar_ops import is_read
from stator.tensors import slopes
from stator.tensors.products import cumprod
from stator.tensors.rules.layout import is_row_major
from stator.tensors.symbolic_forms import FORMS, along, are_blocks, is_along, is_grid
from stator.tensors.traced import TracedTensor


def one_hot(tensor: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    """A scatter, which fails for classes that there are not, too."""
    if is_read(tensor):
        return F.one_hot(tensor, num_classes)
    made = tensor.new_zeros((*tensor.shape, num_classes))
    return made.scatter(-1, tensor.unsqueeze(-1), 1)


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> torch.Tensor:
    """Each sequence with as much behind it, or in front of it, as the longest has more."""
    if is_read(sequences):
        return torch._C._nn.pad_sequence(sequences, batch_first, padding_value, padding_side)
    longest = sequences[0].shape[0]
    for sequence in sequences[1:]:
        longest = torch.sym_max(longest, sequence.shape[0])
    rows = []
    for sequence in sequences:
        filling = sequence.new_full((longest - sequence.shape[0], *sequence.shape[1:]), padding_value)
        rows.append(torch.cat([filling, sequence] if padding_side == "left" else [sequence, filling]))
    return torch.stack(rows, 0 if batch_first else 1)


def linspace(start: float, end: float, steps: Any, **options: Any) -> torch.Tensor:
    """Torch takes a constant number of steps only. Counted from both ends, as torch does."""
    if type(steps) is int:
        return torch.linspace(start, end, steps, **options)
    dtype = options.get("dtype") or torch.get_default_dtype()
    place = torch.arange(steps, dtype=dtype, device=options.get("device"))
    step = torch.scalar_tensor((end - start) / torch.sym_max(steps - 1, 1), dtype=dtype, device=place.device)
    first = torch.sym_max(steps // 2, 1)  # one step is the start
    return torch.where(place < first, start + place * step, end - (steps - 1 - place) * step)


def repeat_interleave(tensor: torch.Tensor, repeats: int, dim: int) -> torch.Tensor:
    """Of one head, for instance: Inductor cannot choose a layout for what torch makes of it."""
    return torch.repeat_interleave(tensor, repeats, dim) if is_read(tensor) else torch.cat([tensor] * repeats, dim)


def take_along_dim(input: torch.Tensor, indices: torch.Tensor, dim: int) -> torch.Tensor:
    """What torch makes of it has the length of the dimension in it, as a number."""
    if is_read(input):
        return torch.take_along_dim(input, indices, dim)
    tensor, places = along(input, indices, dim % input.dim())
    return tensor.gather(dim, torch.where(places < 0, places + tensor.shape[dim], places))


def affine_grid(theta: torch.Tensor, size: Any, align_corners: bool) -> torch.Tensor:
    """The coordinates of the pixels, times the matrices."""
    if is_read(theta):
        return F.affine_grid(theta, size, align_corners)
    space = size[2:]
    options: dict[str, Any] = {"dtype": theta.dtype, "device": theta.device}
    lines = [linspace(-1.0, 1.0, steps, **options) for steps in space]
    if not align_corners:
        lines = [line * (steps - 1) / steps for line, steps in zip(lines, space, strict=True)]
    points = torch.meshgrid(*lines, indexing="ij")
    base = torch.stack([*reversed(points), torch.ones_like(points[0])], -1).flatten(0, -2)
    return torch.matmul(base, theta.transpose(1, 2)).unflatten(1, space)


def block_diag(*tensors: torch.Tensor) -> torch.Tensor:
    """The matrices below each other, each with zeros on both sides."""
    if is_read(list(tensors)):
        return torch.block_diag(*tensors)
    width = sum(each.shape[1] for each in tensors)
    rows, left = [], 0
    for each in tensors:
        rows.append(F.pad(each, (left, width - left - each.shape[1])))
        left = left + each.shape[1]
    return torch.cat(rows)


def cdist(
    x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> torch.Tensor:
    """Torch asks for more than 25 rows before it multiplies matrices instead of taking differences."""
    if not is_read((x1, x2)) and compute_mode == "use_mm_for_euclid_dist_if_necessary":
        compute_mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(x1, x2, p, compute_mode)


def max_pool1d(
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Torch asks for the length before it pools an image of one row."""
    rows: Any = F.max_pool1d  # as torch tells it, the last argument is a constant
    images: Any = F.max_pool2d
    if is_read(input):
        return rows(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    window, step, edge, gap = (
        _of_row(number, default)
        for number, default in ((kernel_size, 1), (stride or kernel_size, 1), (padding, 0), (dilation, 1))
    )
    made = images(input.unsqueeze(-2), window, step, edge, gap, ceil_mode, return_indices)
    return tuple(each.squeeze(-2) for each in made) if return_indices else made.squeeze(-2)


def max_pool1d_with_indices(*args: Any, **named: Any) -> Any:
    named["return_indices"] = True
    return max_pool1d(*args[:6], **named)


def _of_row(number: Any, default: int) -> tuple[int, int]:
    """The number for an image of one row that is one for a row."""
    return default, number[0] if isinstance(number, (list, tuple)) else number


def nothing_left(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, **named: bool
) -> torch.Tensor:
    """Dropout with a probability of one: torch multiplies with zero."""
    if is_read(input):
        return F.dropout(input, p, training, inplace)
    zero = input.new_zeros(())
    return input.mul_(zero) if inplace else input * zero


def _drops_all(input: Any = None, p: Any = 0.5, training: Any = True, *rest: Any, **named: Any) -> bool:
    has_elements = type(input) is TracedTensor and 0 not in input._meta.size  # torch gives back what has none
    return has_elements and type(p) in (int, float) and p == 1 and named.get("train", training) is True


def _repeats_one(tensor: Any = None, repeats: Any = None, dim: Any = None, **rest: Any) -> bool:
    """Whether the one element of a dimension is repeated."""
    if type(tensor) is not TracedTensor or type(repeats) is not int or type(dim) is not int or rest or repeats < 1:
        return False
    sizes = tensor._meta.size
    return -len(sizes) <= dim < len(sizes) and type(sizes[dim]) is int and sizes[dim] == 1


def _holds_data(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_holds_data, value))
    if type(value) is TracedTensor:
        return any(map(_holds_data, value._meta.size))
    return type(value) is TracedInt and value.symbols.is_unbacked(value)


def _is_symbolic_along(input: Any = None, indices: Any = None, dim: Any = None, **rest: Any) -> bool:
    """Whether a dimension is symbolic along which something is taken."""
    if type(input) is not TracedTensor or type(indices) is not TracedTensor or rest:
        return False
    return is_along(input, indices, dim) and type(input._meta.size[dim]) is TracedInt


def _is_symbolic_row(input: Any = None, *rest: Any, **named: Any) -> bool:
    """Whether a tensor in order has a length that varies, and the numbers are those of a row."""
    if type(input) is not TracedTensor or len(input._meta.size) not in (2, 3):
        return False
    if any(isinstance(number, (list, tuple)) and len(number) > 1 for number in (*rest, *named.values())):
        return False
    varies = type(input._meta.size[-1]) is TracedInt and input._meta.dtype.is_floating_point
    return varies and is_row_major(input._meta)


def _has_products(input: Any = None, dim: Any = None, **named: Any) -> bool:
    """Whether gradients go through products along a dimension whose length varies."""
    if type(input) is not TracedTensor or type(dim) is not int or not input._meta.requires_grad:
        return False
    sizes = input._meta.size
    is_plain = named.keys() <= {"dtype"} and (named.get("dtype") or input._meta.dtype).is_floating_point
    return is_plain and -len(sizes) <= dim < len(sizes) and type(sizes[dim]) is TracedInt


def _is_symbolic_line(start: Any = None, end: Any = None, steps: Any = None, dtype: Any = None, **rest: Any) -> bool:
    plain = {type(start), type(end)} <= {int, float} and rest.keys() <= {"device"}
    return plain and type(steps) is TracedInt and (dtype is None or dtype.is_floating_point)


def _is_symbolic_grid(theta: Any = None, size: Any = (), align_corners: Any = None, **rest: Any) -> bool:
    """Whether a grid has sizes that vary."""
    if type(theta) is not TracedTensor or not isinstance(size, (list, tuple)) or rest:
        return False
    return TracedInt in map(type, size) and is_grid(theta, size, align_corners)


def _are_symbolic_blocks(*tensors: Any, **rest: Any) -> bool:
    """Whether there are matrices whose sizes vary."""
    if rest or {TracedTensor} != set(map(type, tensors)):
        return False
    return are_blocks(tensors) and any(TracedInt in map(type, each._meta.size) for each in tensors)


_CONDITIONS: dict[Any, Callable[..., bool]] = {
    one_hot: lambda *args, **kwargs: TracedInt in map(type, (*args, *kwargs.values())) or _hold_data(args, kwargs),
    linspace: _is_symbolic_line,
    affine_grid: _is_symbolic_grid,
    block_diag: _are_symbolic_blocks,
    max_pool1d: _is_symbolic_row,
    max_pool1d_with_indices: _is_symbolic_row,
    slopes.gradient: slopes.vary,
    cumprod: _has_products,
    take_along_dim: _is_symbolic_along,
    nothing_left: _drops_all,
    repeat_interleave: lambda *args, **kwargs: _hold_data(args, kwargs) and _repeats_one(*args, **kwargs),
}


def _hold_data(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(map(_holds_data, args)) or any(map(_holds_data, kwargs.values()))


def traceable(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a graph that is traced calls instead of a function; None: the function itself."""
    found = TRACEABLE.get(func)
    if found is None:
        return None
    condition = _CONDITIONS.get(found)
    return found if (condition(*args, **kwargs) if condition else _hold_data(args, kwargs)) else None


TRACEABLE: dict[Any, Any] = {
    F.one_hot: one_hot, torch._C._nn.pad_sequence: pad_sequence, torch.linspace: linspace,
    F.affine_grid: affine_grid, torch.block_diag: block_diag,
}  # fmt: skip
for _func, _form in TRACEABLE.items():
    FORMS[_form] = FORMS[_func]
TRACEABLE |= dict.fromkeys((torch.repeat_interleave, torch.Tensor.repeat_interleave), repeat_interleave)
TRACEABLE |= dict.fromkeys((torch.take_along_dim, torch.Tensor.take_along_dim), take_along_dim)
TRACEABLE |= dict.fromkeys((F.dropout, torch.dropout), nothing_left)
TRACEABLE |= dict.fromkeys((F.max_pool1d, torch.max_pool1d), max_pool1d)
TRACEABLE[F.max_pool1d_with_indices] = max_pool1d_with_indices
TRACEABLE |= dict.fromkeys((torch.cumprod, torch.Tensor.cumprod), cumprod)
TRACEABLE[torch.gradient] = slopes.gradient
TRACEABLE[torch.cdist] = cdist
FORMS[take_along_dim] = FORMS[torch.take_along_dim]
