"""Operations whose own metadata functions ask for the numbers behind symbols: forms of them that do not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from stator.shapes.spacing import evenly_spaced
from stator.tensors.slopes import gradient


def _recurrent(func: Any, gates: int) -> Callable[..., Any]:
    """A recurrent layer: torch unrolls it in time, though only its sizes matter."""

    def run(input: Any, hx: Any, params: Any, *rest: Any) -> Any:
        if isinstance(params, torch.Tensor) and len(rest) == 6:
            return _packed(input, params, *rest)
        if not isinstance(params, (list, tuple)) or len(rest) != 6 or input.dim() != 3 or hx.dim() != 3:
            return func(input, hx, params, *rest)
        _, layers, dropout, train, bidirectional, batch_first = rest
        directions = 2 if bidirectional else 1
        hidden = hx.shape[2]
        time, batch = (1, 0) if batch_first else (0, 1)
        fits = hx.shape[0] == layers * directions and hx.shape[1] == input.shape[batch]
        if not fits or tuple(params[0].shape) != (gates * hidden, input.shape[2]):
            return func(input, hx, params, *rest)
        link = _link(input, (hx, *params), dropout if train and layers > 1 else 0)
        output = input.new_empty(input.shape[time], input.shape[batch], hidden * directions) + link
        return output.transpose_(0, 1) if batch_first else output, torch.empty_like(hx) + link

    return run


def _link(input: Any, others: Any, dropout: float) -> Any:
    """A number that depends on all of these: what autograd sees, and whether random numbers are drawn."""
    link = sum((tensor.sum() for tensor in (input, *others)), input.new_zeros(()))
    return torch.dropout(link, dropout, True) if dropout else link


def _packed(
    input: Any, hx: Any, params: Any, biases: bool, layers: int, dropout: float, train: bool, bidirectional: bool
) -> Any:
    """A recurrent layer on packed sequences: as many rows as there were."""
    link = _link(input, (hx, *params), dropout if train and layers > 1 else 0)
    width = hx.shape[2] * (2 if bidirectional else 1)
    return input.new_empty(input.shape[0], width) + link, torch.empty_like(hx) + link


def _lstm(input: Any, hx: Any, params: Any, *rest: Any) -> Any:
    """The same with two states."""
    if not isinstance(params, (list, tuple)) or isinstance(params[0], bool):
        return torch.lstm(input, hx, params, *rest)
    if not isinstance(rest[0], (list, tuple)):
        return _unpacked_lstm(input, hx, params, *rest)
    (h, c), (weights, biases, layers, dropout, train, bidirectional) = params, rest
    output, hidden = _packed(input, h, (c, *weights), biases, layers, dropout, train, bidirectional)
    return output, hidden, torch.empty_like(c) + _link(input, (h, c, *weights), 0)


def _unpacked_lstm(input: Any, hx: Any, weights: Any, *rest: Any) -> Any:
    """What it gives is as wide as the first state: a projection, or the second one."""
    (h, c), (_, layers, dropout, train, bidirectional, batch_first) = hx, rest
    directions = 2 if bidirectional else 1
    time, batch = (1, 0) if batch_first else (0, 1)
    fits = input.dim() == h.dim() == c.dim() == 3 and h.shape[:2] == c.shape[:2]
    fits = fits and h.shape[0] == layers * directions and h.shape[1] == input.shape[batch]
    if not fits or tuple(weights[0].shape) != (4 * c.shape[2], input.shape[2]):
        return torch.lstm(input, hx, weights, *rest)
    link = _link(input, (h, c, *weights), dropout if train and layers > 1 else 0)
    output = input.new_empty(input.shape[time], input.shape[batch], h.shape[2] * directions) + link
    return (output.transpose_(0, 1) if batch_first else output), torch.empty_like(h) + link, torch.empty_like(c) + link


def _pad_packed(data: Any, sizes: Any, batch_first: bool, value: Any, total: int) -> Any:
    """Packed sequences next to each other: as many as the first step has, which only data tells."""
    env = data.fake_mode.shape_env
    if not env.allow_dynamic_output_shape_ops or total > 0 or not isinstance(value, (int, float)):
        return torch._pad_packed_sequence(data, sizes, batch_first, value, total)
    batch = env.create_unbacked_symint()
    torch._check(batch >= 1)
    padded = data.new_empty((sizes.shape[0], batch, *data.shape[1:])) + data.sum()
    return padded.transpose_(0, 1) if batch_first else padded, sizes.new_empty(batch)


def _pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Sequences next to each other, as long as the longest."""
    first = sequences[0]
    for sequence in sequences[1:]:
        if sequence.shape[1:] != first.shape[1:] or sequence.dtype != first.dtype:
            return torch._C._nn.pad_sequence(sequences, batch_first, padding_value, padding_side)
    longest = _longest([sequence.shape[0] for sequence in sequences], first.fake_mode.shape_env)
    shape = (len(sequences), longest) if batch_first else (longest, len(sequences))
    link = sum((sequence.sum() for sequence in sequences if sequence.requires_grad), first.new_zeros(()))
    return first.new_empty((*shape, *first.shape[1:])) + link.to(first.dtype)


def _longest(lengths: list[Any], env: Any) -> Any:
    """The largest of some lengths; of many that only data tells a number of its own, which is in the result."""
    if not env.symbols.are_many(torch.sym_max, lengths):
        return functools.reduce(torch.sym_max, lengths)
    longest = env.create_unbacked_symint()
    env._constrain_range_for_size(longest.node.expr, 0)
    env.symbols.choose(torch.sym_max, longest, lengths)
    return longest


def _spaced(func: Any) -> Callable[..., Any]:
    return lambda start, end, steps, *base, **options: _linspace(func, start, end, steps, *base, **options)


def _linspace(func: Any, start: Any, end: Any, steps: Any, *base: Any, **options: Any) -> Any:
    if isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor) or "out" in options:
        return func(start, end, steps, *base, **options)
    options.pop("base", None)
    kind = options.pop("dtype", None) or torch.linspace(start, end, 0).dtype
    torch._check(steps >= 0)
    return torch.empty(steps, dtype=kind, **options)


def _window(func: Any) -> Callable[..., Any]:
    def run(length: Any, *args: Any, **options: Any) -> Any:
        torch._check(length >= 2)
        return func(2, *args, **options).new_empty(length)

    return run


def _one_hot(tensor: Any, num_classes: Any = -1) -> Any:
    if type(num_classes) is int:
        return F.one_hot(tensor, num_classes)
    torch._check(num_classes > 0)
    return tensor.new_empty((*tensor.shape, num_classes))


def _group_norm(input: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Alike for all numbers of groups that divide the channels, unless a group has one element."""
    if type(num_groups) is int or input.dim() < 2 or num_groups <= 0 or input.shape[1] % num_groups != 0:
        return F.group_norm(input, num_groups, weight, bias, eps)
    if input.numel() // num_groups <= 1:
        return F.group_norm(input, num_groups, weight, bias, eps)
    return F.group_norm(input, 1, weight, bias, eps)


def along(tensor: Any, indices: Any, dim: int) -> tuple[Any, Any]:
    """A tensor and indices along one of its dimensions, with the same sizes elsewhere."""
    shapes = [(*each.shape[:dim], 1, *each.shape[dim + 1 :]) for each in (tensor, indices)]
    common = torch.broadcast_shapes(*shapes)
    first, second = ((*common[:dim], each.shape[dim], *common[dim + 1 :]) for each in (tensor, indices))
    return tensor.expand(first), indices.expand(second)


def is_along(tensor: Any, indices: Any, dim: Any) -> bool:
    """Whether these are arguments of `take_along_dim` that fit."""
    rank = tensor.dim()
    fits = type(dim) is int and -rank <= dim < rank and indices.dim() == rank
    return bool(fits and indices.dtype is torch.int64)


def _take_along_dim(input: Any, indices: Any, dim: Any = None, **options: Any) -> Any:
    if options or not is_along(input, indices, dim):
        return torch.take_along_dim(input, indices, dim, **options)
    tensor, places = along(input, indices, dim % input.dim())
    return tensor.gather(dim, places)


def is_grid(theta: Any, size: Any, align_corners: Any = None) -> bool:
    """Whether these are arguments of `affine_grid` that fit, with more than one point in each direction."""
    batch, _, *space = size if len(size) in (4, 5) else (0, 0)
    rank = len(space)
    if type(align_corners) is not bool or not rank or theta.dim() != 3 or not theta.dtype.is_floating_point:
        return False
    return tuple(theta.shape) == (batch, rank, rank + 1) and size[1] > 0 and all(number > 1 for number in space)


def _affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Any:
    """A grid of coordinates: torch makes them of floats that depend on the sizes."""
    if not is_grid(theta, size, align_corners):
        return F.affine_grid(theta, size, align_corners)
    batch, _, *space = size
    return theta.new_empty((batch, *space, len(space))) + theta.sum()


def are_blocks(tensors: Any) -> bool:
    """Whether these are matrices of one type."""
    return bool(tensors) and all(each.dim() == 2 and each.dtype is tensors[0].dtype for each in tensors)


def _block_diag(*tensors: Any) -> Any:
    """As many rows and columns as all matrices have."""
    if not are_blocks(tensors):
        return torch.block_diag(*tensors)
    rows, columns = (sum(each.shape[dim] for each in tensors) for dim in (0, 1))
    link = sum((each.sum() for each in tensors[1:]), tensors[0].sum())
    return tensors[0].new_empty((rows, columns)) + link.to(tensors[0].dtype)


def _repeat_interleave(input: Any, repeats: Any = None, dim: Any = None, *, output_size: Any = None) -> Any:
    """Elements that are repeated as often as a number says: as many times as many."""
    plain = isinstance(repeats, (int, torch.SymInt)) and (dim is None or -input.dim() <= dim < input.dim())
    if not plain or repeats < 0:
        given = () if repeats is None else (repeats, dim)
        return torch.repeat_interleave(input, *given, output_size=output_size)
    sizes = [input.numel()] if dim is None else list(input.shape)
    sizes[dim or 0] = sizes[dim or 0] * repeats
    made = input.new_empty(sizes)
    return made + input.sum() if input.requires_grad else made


FORMS: dict[Any, Callable[..., Any]] = {
    torch.gru: _recurrent(torch.gru, 3),
    torch.rnn_tanh: _recurrent(torch.rnn_tanh, 1),
    torch.rnn_relu: _recurrent(torch.rnn_relu, 1),
    torch.lstm: _lstm,
    torch._pad_packed_sequence: _pad_packed,
    torch._C._nn.pad_sequence: _pad_sequence,
    evenly_spaced: lambda start, end, step, count, dtype, device: torch.empty(count, dtype=dtype, device=device),
    torch.linspace: _spaced(torch.linspace),
    torch.logspace: _spaced(torch.logspace),
    F.one_hot: _one_hot,
    F.group_norm: _group_norm,
    F.affine_grid: _affine_grid,
    torch.block_diag: _block_diag,
    torch.repeat_interleave: _repeat_interleave,
    torch.Tensor.repeat_interleave: _repeat_interleave,
    torch.gradient: gradient,
    gradient: gradient,
    torch.take_along_dim: _take_along_dim,
    torch.Tensor.take_along_dim: _take_along_dim,
    **{
        func: _window(func)
        for func in (torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window)
    },
}
