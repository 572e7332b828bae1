"""Products, convolutions, normalisations, pooling and attention."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from stator.shapes.scalar import TracedInt
from stator.tensors.meta import Meta
from stator.tensors.rules.layout import (
    broadcast,
    channels_last,
    copied,
    has_one,
    is_definite,
    is_dense,
    is_one,
    is_row_major,
    is_several,
    is_surely_row_major,
    suggests_channels_last,
)
from stator.tensors.rules.regrouping import Shape
from stator.tensors.rules.table import FLOATS, INTEGERS, Fresh, Rule, need, register


def _floats(*metas: Any) -> torch.dtype:
    """The one floating type of these tensors; None stands for an argument that is not given."""
    kinds = {meta.dtype for meta in metas if meta is not None}
    need(len(kinds) == 1 and kinds <= FLOATS)
    return kinds.pop()


def _linear(input: Meta, weight: Meta, bias: Meta | None = None) -> Fresh:
    dtype = _floats(input, weight, bias)
    need(len(input.size) > 1 and len(weight.size) == 2 and input.size[-1] == weight.size[1])
    need(bias is None or tuple(bias.size) == (weight.size[0],))
    need(len(input.size) == 2 or is_row_major(input) or (is_definite(input) and weight.size[0] != 1))
    return Fresh((*input.size[:-1], weight.size[0]), dtype)


def _matmul(a: Meta, b: Meta) -> Fresh:
    dtype = _floats(a, b)
    need(len(a.size) > 1 and len(b.size) > 1 and a.size[-1] == b.size[-2])
    need(len(a.size) == len(b.size) == 2 or len(a.size) > 2)
    need(len(b.size) > 2 or is_row_major(a) or len(a.size) == 2)
    need(len(a.size) == 2 or not has_one((a.size[-2], b.size[-1])))  # strides of one row depend on the operands'
    batch = broadcast([a.size[:-2], b.size[:-2]])
    need(batch is not None)
    assert batch is not None
    return Fresh((*batch, a.size[-2], b.size[-1]), dtype)


def _mm(a: Meta, b: Meta) -> Fresh:
    need(len(a.size) == len(b.size) == 2)
    return _matmul(a, b)


def _bmm(a: Meta, b: Meta) -> Fresh:
    need(len(a.size) == len(b.size) == 3 and a.size[0] == b.size[0])
    return _matmul(a, b)


def _addmm(bias: Meta, a: Meta, b: Meta) -> Fresh:
    _floats(bias, a, b)
    made = _mm(a, b)
    need(broadcast([bias.size, made.size]) == made.size)
    return made


_INTS = (int, TracedInt)


def _each(value: Any, count: int, least: int) -> tuple[int, ...]:
    """One number per dimension of space, given as one or as many."""
    values = (value,) * count if type(value) in _INTS else tuple(value)
    if len(values) == 1:
        values *= count
    need(len(values) == count and all(type(number) in _INTS and number >= least for number in values))
    return values


def _convolution(rank: int) -> Rule:
    def rule(
        input: Meta,
        weight: Meta,
        bias: Meta | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Fresh:
        dtype = _floats(input, weight, bias)
        need(len(input.size) == len(weight.size) == rank + 2)
        last = not (is_row_major(input) and is_row_major(weight))
        need(not last or (rank == 2 and dtype is torch.float32))
        last = last and (_channels_last(input) or _channels_last(weight))
        need(not last or _each(dilation, rank, 1) == (1,) * rank)
        out, inside = weight.size[:2]
        need(type(groups) is int and groups > 0 and inside * groups == input.size[1] and out % groups == 0)
        need(bias is None or tuple(bias.size) == (out,))
        space = _windows(
            input.size[2:],
            weight.size[2:],
            _each(stride, rank, 1),
            _each(padding, rank, 0),
            _each(dilation, rank, 1),
        )
        return _image((input.size[0], out, *space), dtype, last)

    return rule


def _channels_last(image: Meta) -> bool:
    """Whether results are laid out with the channels next to each other; declines where one channel leaves it open."""
    need(is_row_major(image) or image.size[1] != 1)
    return suggests_channels_last(image)


def _image(size: tuple[int, ...], dtype: torch.dtype, last: bool) -> Fresh:
    return Fresh(size, dtype, channels_last(size) if last else None)


def _images(input: Meta, space: tuple[int, ...]) -> Fresh:
    """What a pool makes of images."""
    return _image((*input.size[:2], *space), _floats(input), _channels_last(input))


def _rows(input: Meta, space: tuple[int, ...]) -> Fresh:
    """What a pool makes of rows, which torch takes for images of one row."""
    size = (*input.size[:2], *space)
    if is_row_major(input):
        return Fresh(size, _floats(input))
    *steps, step = input.stride
    image: Any = Shape((*input.size[:2], 1, input.size[2]), (*steps, input.size[2] * step, step))
    return Fresh(size, _floats(input), (size[1] * size[2], 1, size[1]) if _channels_last(image) else None)


def _windows(sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    """How many places a window has in each dimension."""
    places = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        need(room >= 0)
        places.append(room // s + 1)
    return tuple(places)


def _cdist(x1: Meta, x2: Meta, p: float = 2.0, compute_mode: str = "") -> Fresh:
    """Between more than 25 rows it is calculated in another way, which does not show here."""
    need(len(x1.size) == len(x2.size) == 2 and x1.size[1] == x2.size[1] and type(p) is float)
    return Fresh((x1.size[0], x2.size[0]), _floats(x1, x2))


def _pool(rank: int) -> Rule:
    def rule(
        input: Meta, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Fresh:
        need(ceil_mode is False and len(input.size) == rank + 2)
        kernel = _each(kernel_size, rank, 1)
        pads = _each(padding, rank, 0)
        need(all(pad <= k // 2 for pad, k in zip(pads, kernel, strict=True)))
        steps = kernel if stride is None or stride in ([], ()) else _each(stride, rank, 1)
        space = _windows(input.size[2:], kernel, steps, pads, _each(dilation, rank, 1))
        return (_rows if rank == 1 else _images)(input, space)

    return rule


def _chosen_pool(run: Rule) -> Rule:
    """The function of Python that chooses between results with and without indices."""

    def rule(input: Meta, *args: Any, return_indices: bool = False, **kwargs: Any) -> Fresh:
        need(return_indices is False and len(args) < 6)
        return run(input, *args, **kwargs)

    return rule


def _max_pool1d(input: Meta, *args: Any, **kwargs: Any) -> Fresh:
    """Without a gradient torch has a kernel of its own for rows."""
    made: Fresh = _pool(1)(input, *args, **kwargs)
    return made if input.requires_grad and torch.is_grad_enabled() else replace(made, stride=None)


def _avg_pool(rank: int) -> Rule:
    run = _pool(rank)
    return lambda input, kernel_size, stride=None, padding=0: run(input, kernel_size, stride, padding)


def _interpolate(
    input: Meta,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Fresh:
    need((size is None) != (scale_factor is None) and type(antialias) is bool)
    need(len(input.size) in _RANKS.get(mode, ()) and (align_corners is None or not mode.startswith("nearest")))
    need(not antialias or mode in ("bilinear", "bicubic"))
    space = input.size[2:]
    if scale_factor is None:
        sizes = tuple(size) if type(size) in (tuple, list, torch.Size) else (size,) * len(space)
        need(not recompute_scale_factor)
    else:
        factors = tuple(scale_factor) if type(scale_factor) in (tuple, list) else (scale_factor,) * len(space)
        sizes = tuple(map(_scaled, space, factors))
    need(len(sizes) == len(space) and all(number > 0 for number in (*input.size, *sizes)))
    need(len(input.size) == 4 or is_row_major(input))
    return _image((*input.size[:2], *sizes), _floats(input), _channels_last(input))


def _scaled(size: int, factor: float) -> int:
    """A size times a power of two: the product of floats is exact."""
    need(type(factor) in (int, float) and factor > 0)
    if factor == int(factor):
        return size * int(factor)
    parts = 1 / factor
    need(parts == int(parts) and int(parts) & (int(parts) - 1) == 0)
    return size // int(parts)


def _pixel_shuffle(input: Meta, upscale_factor: int) -> Fresh:
    *batch, channels, height, width = _pixels(input, upscale_factor)
    area = upscale_factor * upscale_factor
    need(channels % area == 0 and (is_several(height) or is_several(width)))
    return Fresh((*batch, channels // area, height * upscale_factor, width * upscale_factor), input.dtype)


def _pixel_unshuffle(input: Meta, downscale_factor: int) -> Fresh:
    *batch, channels, height, width = _pixels(input, downscale_factor)
    need(height % downscale_factor == 0 and width % downscale_factor == 0)
    height, width = height // downscale_factor, width // downscale_factor
    need(is_several(height) or is_several(width))
    return Fresh((*batch, channels * downscale_factor * downscale_factor, height, width), input.dtype)


def _pixels(input: Meta, factor: int) -> tuple[int, ...]:
    """Sizes of images whose pixels change places; where none does, torch's formula gives a view, its code a copy."""
    need(type(factor) is int and factor > 1 and len(input.size) >= 3 and is_surely_row_major(input))
    return input.size


_RANKS: dict[str, tuple[int, ...]] = {
    "nearest": (3, 4, 5),
    "nearest-exact": (3, 4, 5),
    "linear": (3,),
    "bilinear": (4,),
    "bicubic": (4,),
    "trilinear": (5,),
}  # by mode


def _adaptive_avg_pool2d(input: Meta, output_size: Any) -> Fresh:
    need(len(input.size) == 4)
    return _image((*input.size[:2], *_each(output_size, 2, 1)), _floats(input), _channels_last(input))


def _adaptive_avg_pool1d(input: Meta, output_size: Any) -> Fresh:
    need(len(input.size) == 3)
    return _rows(input, _each(output_size, 1, 1))


def _adaptive_max_pool(rank: int) -> Rule:
    def rule(input: Meta, output_size: Any, return_indices: bool = False) -> Fresh:
        need(return_indices is False and len(input.size) == rank + 2 and (rank == 1 or is_row_major(input)))
        need(all(size > 0 for size in input.size))
        return (_rows if rank == 1 else _images)(input, _each(output_size, rank, 1))

    return rule


def _unfold(input: Meta, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Fresh:
    need(len(input.size) == 4 and is_row_major(input) and all(size > 0 for size in input.size))
    kernel = _each(kernel_size, 2, 1)
    space = _windows(input.size[2:], kernel, _each(stride, 2, 1), _each(padding, 2, 0), _each(dilation, 2, 1))
    return Fresh((input.size[0], input.size[1] * math.prod(kernel), math.prod(space)), _floats(input))


def _batch_norm(
    input: Meta,
    running_mean: Meta | None,
    running_var: Meta | None,
    weight: Meta | None = None,
    bias: Meta | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Fresh:
    need(type(training) is bool and type(momentum) is float and type(eps) is float and eps > 0)
    dtype = _floats(input, running_mean, running_var, weight, bias)
    rank = len(input.size)
    need(1 < rank < 6 and (rank < 4 or is_row_major(input) or (rank == 4 and is_definite(input))))
    need((running_mean is None) == (running_var is None) and (training or running_mean is not None))
    need(all(m is None or tuple(m.size) == (input.size[1],) for m in (running_mean, running_var, weight, bias)))
    need(all(m is None or not m.requires_grad for m in (running_mean, running_var)))
    values = math.prod((input.size[0], *input.size[2:]))  # of each channel: a mean of one is refused
    need(not training or (values != 0 and values != 1))
    last = _channels_last(input)
    need(not last or not all(map(is_one, input.size[2:])))
    stride = channels_last(input.size) if last else None
    return Fresh(tuple(input.size), dtype, stride, mutated=(1, 2) if training and running_mean is not None else ())


def _instance_norm(
    input: Meta,
    running_mean: None = None,
    running_var: None = None,
    weight: Meta | None = None,
    bias: Meta | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Fresh:
    need(running_mean is None and running_var is None and use_input_stats is True)
    need(type(momentum) is float and type(eps) is float and 2 < len(input.size) < 6)
    need(all(m is None or tuple(m.size) == (input.size[1],) for m in (weight, bias)))
    need(math.prod(input.size[2:]) != 1)  # a mean of one is refused
    return Fresh(tuple(input.size), _floats(input, weight, bias))


def _layer_norm(
    input: Meta, normalized_shape: Any, weight: Meta | None = None, bias: Meta | None = None, eps: float = 1e-5
) -> Fresh:
    need(type(eps) is float)
    inner = tuple(normalized_shape)
    need(inner and tuple(input.size[-len(inner) :]) == inner)
    need(all(m is None or (tuple(m.size) == inner and is_row_major(m)) for m in (weight, bias)))
    return Fresh(tuple(input.size), _floats(input, weight, bias))


def _group_norm(
    input: Meta, num_groups: int, weight: Meta | None = None, bias: Meta | None = None, eps: float = 1e-5
) -> Fresh:
    need(type(eps) is float and type(num_groups) is int and num_groups > 0)
    need(len(input.size) > 2 and input.size[1] % num_groups == 0)
    need(is_row_major(input) or len(input.size) < 5)
    values = math.prod((input.size[0], input.size[1] // num_groups, *input.size[2:]))
    need(values != 0 and values != 1)  # a mean of one is refused
    need(all(m is None or tuple(m.size) == (input.size[1],) for m in (weight, bias)))
    return _image(tuple(input.size), _floats(input, weight, bias), _channels_last(input))


def _softmax(input: Meta, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Fresh:
    need(type(dim) is int)
    assert dim is not None
    need(-len(input.size) <= dim < len(input.size) and input.dtype in FLOATS)
    need(dtype is None or dtype in FLOATS)
    return Fresh(tuple(input.size), dtype or input.dtype)


def _softmax_method(input: Meta, dim: int | None = None, dtype: torch.dtype | None = None) -> Fresh:
    return _softmax(input, dim, dtype=dtype)


def _embedding(
    input: Meta,
    weight: Meta,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Fresh:
    need(max_norm is None and scale_grad_by_freq is False and sparse is False)
    need(input.dtype in INTEGERS and len(weight.size) == 2)
    need(padding_idx is None or (type(padding_idx) is int and -weight.size[0] <= padding_idx < weight.size[0]))
    return Fresh((*input.size, weight.size[1]), _floats(weight))


def _cross_entropy(
    input: Meta,
    target: Meta,
    weight: Meta | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Fresh:
    need(weight is None and size_average is None and reduce is None and label_smoothing == 0.0)
    need(type(ignore_index) is int and reduction in ("mean", "sum") and target.dtype is torch.int64)
    need(len(input.size) == 2 and tuple(target.size) == (input.size[0],) and is_row_major(input))
    return Fresh((), _floats(input))


def _attention(
    query: Meta,
    key: Meta,
    value: Meta,
    attn_mask: Meta | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Fresh:
    """The fused kernel of the CPU, whose result lies in memory as the query does; or products of matrices where that
    cannot be: random numbers, and a mask that has a gradient."""
    dtype = _floats(query, key, value)
    need(torch._C._get_flash_sdp_enabled() and type(dropout_p) is float and 0.0 <= dropout_p < 1.0)
    need(type(is_causal) is bool and (scale is None or type(scale) is float) and type(enable_gqa) is bool)
    need(len(query.size) == len(key.size) == len(value.size) == 4 and key.size == value.size)
    batch, heads, length, width = query.size
    need(key.size[0] == batch and key.size[3] == width)
    need(
        (key.size[1] == heads or (enable_gqa and heads % key.size[1] == 0)) and (is_definite(query) or is_dense(query))
    )
    need(all(meta.stride[3] == 1 for meta in (query, key, value)))
    if attn_mask is not None:
        need(not is_causal and len(attn_mask.size) == 4)
        need(attn_mask.dtype is torch.bool or attn_mask.dtype is dtype)
        full = (batch, heads, length, key.size[2])
        need(broadcast([attn_mask.size, full]) == full and attn_mask.size[2:] == full[2:])
    if dropout_p > 0.0 or (attn_mask is not None and attn_mask.requires_grad):
        need(not has_one((length, width)))  # see _matmul
        return Fresh((batch, heads, length, width), dtype, pure=dropout_p == 0.0)
    return Fresh((batch, heads, length, width), dtype, copied(query), pure=False)


_T = torch.Tensor

register(_linear, [F.linear])
register(_matmul, [operator.matmul, torch.matmul, _T.matmul])
register(_mm, [torch.mm, _T.mm])
register(_bmm, [torch.bmm, _T.bmm])
register(_addmm, [torch.addmm])
register(_convolution(1), [torch.conv1d])
register(_convolution(2), [torch.conv2d])
register(_chosen_pool(_max_pool1d), [F.max_pool1d])
register(_chosen_pool(_pool(2)), [F.max_pool2d])
register(_max_pool1d, [torch.max_pool1d])
register(_pool(2), [torch.max_pool2d])
register(_avg_pool(1), [torch.avg_pool1d])
register(_avg_pool(2), [torch._C._nn.avg_pool2d])
register(_adaptive_avg_pool2d, [F.adaptive_avg_pool2d])
register(_adaptive_avg_pool1d, [F.adaptive_avg_pool1d])
register(_adaptive_max_pool(1), [F.adaptive_max_pool1d])
register(_adaptive_max_pool(2), [F.adaptive_max_pool2d])
register(_unfold, [F.unfold])
register(_cdist, [torch.cdist])
register(_interpolate, [F.interpolate])
register(_pixel_shuffle, [torch.pixel_shuffle])
register(_pixel_unshuffle, [torch.pixel_unshuffle])
register(_batch_norm, [F.batch_norm])
register(_instance_norm, [F.instance_norm])
register(_layer_norm, [F.layer_norm])
register(_group_norm, [F.group_norm])
register(_softmax, [F.softmax, F.log_softmax])
register(_softmax_method, [torch.softmax, _T.softmax, torch.log_softmax, _T.log_softmax])
register(_embedding, [F.embedding])
register(_cross_entropy, [F.cross_entropy])
register(_attention, [F.scaled_dot_product_attention])
