"""What kernels refuse and fake tensors do not: types that some lack, and dimensions that there are not.

Such a call is tried for real on zeros. Where there would be many, it is tried on fewer first, and on all of them only
if those were refused, as kernels ask for types before they calculate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from stator.filters import Listening
from stator.shapes.unbacked import guessed

MOST = 2**16  # elements of all tensors of a call that is tried
MOST_REFUSED = 2**26  # the same of one that was refused with fewer
USUAL = (frozenset({torch.float32}), frozenset({torch.float64}))  # kernels have these, if nothing else comes along
# What is not about types follows from the zeros, or fake tensors say it themselves.
_OF_TYPES = re.compile(
    r"not implemented for|type|integral|floating|complex|bool|\blong\b|kernel|integer powers", re.IGNORECASE
)
_aten = torch.ops.aten
# What fake tensors take whatever the arguments are: the errors that zeros tell, and how many of them there are in each
# dimension. Nothing is drawn for none.
UNCHECKED: dict[Any, tuple[type[Exception], int]] = {
    _aten._softmax.default: (IndexError, 1),
    _aten.sort.default: (IndexError, 1),
    _aten.sort.stable: (IndexError, 1),
    _aten.slice_scatter.default: (IndexError, 1),
    _aten.bucketize.Tensor: (RuntimeError, 1),
    _aten.masked_select.default: (RuntimeError, 1),
    _aten.uniform_.default: (RuntimeError, 0),
    getattr(_aten.random_, "from"): (RuntimeError, 0),
    _aten.random_.to: (RuntimeError, 0),
    _aten.randint_like.low_dtype: (RuntimeError, 0),
}


def try_arguments(func: Any, args: Any, kwargs: Any) -> None:
    """Raises what the CPU says of arguments that fake tensors do not look at."""
    kind, size = UNCHECKED[func]
    tensors = [*_tensors(args), *_tensors(kwargs.values())]
    sizes = [(1,) * tensor.dim() if size else (0,) for tensor in tensors]
    real = {id(one): torch.zeros(shape, dtype=one.dtype) for one, shape in zip(tensors, sizes, strict=True)}
    with torch._C._DisablePythonDispatcher():
        try:
            func(*_with(real, tuple(args), {}), **{name: _with(real, value, {}) for name, value in kwargs.items()})
        except kind:
            raise
        except Exception:
            return  # of sizes and types, which such zeros say nothing about


def try_kernel(func: Any, args: Any, kwargs: Any, made: Any) -> None:
    """Raises what the CPU says of the types of the arguments, if it can be known cheaply."""
    if "backward" in func._schema.name:  # types are forward's; what it has kept may be opaque memory, where zeros crash
        return
    tensors = [*_tensors(args), *_tensors(kwargs.values())]
    if torch._C._functorch.peek_interpreter_stack() is not None:  # a transform dispatches calls in a way of its own
        return
    is_empty = bool(tensors) and all(map(_is_empty, tensors))
    if not tensors or (not is_empty and frozenset(tensor.dtype for tensor in tensors) in USUAL):
        return
    sizes = [[guessed(size) for size in tensor.shape] for tensor in (*tensors, *_tensors((made,)))]
    plain = all(tensor.device.type == "cpu" and tensor.layout is torch.strided for tensor in tensors)
    if not plain or any(number < 0 for size in sizes for number in size):  # guesses need not go together
        return
    elements = sum(torch.Size(size).numel() for size in sizes)
    if is_empty and elements <= MOST:
        _try_empty(func, args, kwargs, tensors, sizes)
        return
    ranks = {} if elements <= MOST else _ranks(sizes)
    if ranks and (elements > MOST_REFUSED or not _refuses(func, args, kwargs, tensors, sizes, ranks)):
        return
    if error := _refuses(func, args, kwargs, tensors, sizes, {}):
        raise error


def _is_empty(tensor: torch.Tensor) -> bool:
    return any(type(size) is int and size == 0 for size in tensor.shape)


def _try_empty(func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], sizes: list[list[int]]) -> None:
    """Raises whatever the CPU says of tensors without elements: there is no data that it could depend on."""
    real = {id(tensor): torch.zeros(size, dtype=tensor.dtype) for tensor, size in zip(tensors, sizes, strict=False)}
    with torch._C._DisablePythonDispatcher(), Listening():
        func(*_with(real, tuple(args), {}), **{name: _with(real, value, {}) for name, value in kwargs.items()})


def _ranks(sizes: list[list[int]]) -> dict[int, int]:
    """Small numbers in the same order for the sizes of a call; those up to two stay, as they broadcast or are pairs."""
    return {
        number: rank for rank, number in enumerate(sorted({number for size in sizes for number in size} - {0, 1, 2}), 3)
    }


def _refuses(
    func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], sizes: list[list[int]], ranks: dict[int, int]
) -> Exception | None:
    """What the CPU says of the types of zeros, with `ranks` in the place of sizes, also where arguments tell them."""
    shapes = [[ranks.get(number, number) for number in size] for size in sizes]
    if ranks and sum(torch.Size(shape).numel() for shape in shapes) > MOST:
        return None
    real = {id(tensor): torch.zeros(shape, dtype=tensor.dtype) for tensor, shape in zip(tensors, shapes, strict=False)}
    with torch._C._DisablePythonDispatcher():
        try:
            func(
                *_with(real, tuple(args), ranks),
                **{name: _with(real, value, ranks) for name, value in kwargs.items()},
            )
        except (RuntimeError, TypeError, IndexError) as error:
            return error if _OF_TYPES.search(str(error)) else None
    return None


def _tensors(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _with(real: dict[int, torch.Tensor], value: Any, ranks: dict[int, int]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_with(real, part, ranks) for part in value) if type(value) in (list, tuple) else value
    if isinstance(value, torch.SymInt):
        value = guessed(value)
    if type(value) is int:
        return ranks.get(value, value)
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        return value.node.hint
    return real.get(id(value), value)
