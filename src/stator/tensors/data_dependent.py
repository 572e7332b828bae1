"""The one table of calls whose result is the data of a tensor, or depends on it in shape."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import one_hot

from stator.shapes.questions import NotKnown
from stator.shapes.scalar import TracedInt
from stator.tensors import comparing
from stator.tensors.from_data import assembled, constants, is_symbolic
from stator.tensors.rules.layout import is_row_major
from stator.tensors.signals import DataDependent, UnsupportedOp
from stator.tensors.targets import Handler, register, target_of
from stator.tensors.traceable import traceable
from stator.tensors.traced import UNTOLD, TracedTensor
from stator.tensors.values import list_of, number_of

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

VALUE = "data-dependent-value"
BRANCH = "data-dependent-branch"
SHAPE = "data-dependent-shape"

# Methods of Tensor that need data at once; what C code calls must give a real number.
METHODS: dict[str, str] = {
    "__bool__": BRANCH,
    "__nonzero__": BRANCH,
    "__int__": VALUE,
    "__long__": VALUE,
    "__float__": VALUE,
    "__complex__": VALUE,
    "__index__": VALUE,
    "__contains__": BRANCH,
    "__repr__": VALUE,
    "__format__": VALUE,
    "is_nonzero": BRANCH,
}

FUNCTIONS: dict[Any, str] = {
    torch.is_nonzero: BRANCH,
    torch._pack_padded_sequence: SHAPE,  # fake tensors give it sizes that do not depend on the lengths
}


def _row(func: Any, name: str, kind: str) -> None:
    def refuse(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise DataDependent(name, "", kind)

    register(func, refuse)


def _holds_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_traced(item) for item in value)
    return type(value) is TracedTensor


def _from_data(func: Any) -> Handler:
    """Factories that read Python data: a tensor among the data would be read too."""
    target = target_of(func)
    assert target is not None

    def make(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        holds_traced = bool(args) and isinstance(args[0], (list, tuple)) and _holds_traced(args[0])
        if kwargs.get("requires_grad") is False:
            kwargs = {name: value for name, value in kwargs.items() if name != "requires_grad"}
        if len(args) == 1 and (holds_traced or is_symbolic(args[0])):
            made = assembled(recorder, args[0], kwargs)
            if made is not NotImplemented:
                return made
        if holds_traced:
            raise DataDependent(f"torch.{func.__name__}")
        return recorder.record(target, tuple(map(constants, args)), kwargs)

    return make


def _new_tensor(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and is_symbolic(args[1]):
        meta = args[0]._meta
        made = assembled(recorder, args[1], {"dtype": meta.dtype, "device": meta.device, **kwargs})
        if made is not NotImplemented:
            return made
    target = target_of(torch.Tensor.new_tensor)
    assert target is not None
    return recorder.record(target, tuple(map(constants, args)), kwargs)


def _item(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`item()`: read before the graph runs if that can be, else a number that the graph gives."""
    read = recorder.read_number(args[0])
    return number_of(recorder, *args, **kwargs) if read is None else read


def _parts(func: Any) -> Handler:
    """`chunk` of a size that only data tells: as many parts as asked for, which is assumed to be possible."""
    target = target_of(func)
    assert target is not None

    def make(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(("input", "chunks", "dim"), args, strict=False)) | kwargs
        tensor, count, dim = given.get("input"), given.get("chunks"), given.get("dim", 0)
        if type(count) is TracedInt and count.symbols.is_unbacked(count):
            raise DataDependent("torch.chunk", PARTS)
        if type(tensor) is TracedTensor and type(count) is int and count > 0 and type(dim) is int:
            sizes = tensor._meta.size
            size = sizes[dim] if -len(sizes) <= dim < len(sizes) else None
            if type(size) is TracedInt and size.symbols.is_unbacked(size):
                length = (size + (count - 1)) // count
                last = size - length * (count - 1)
                size.symbols.assume(last >= 1)
                return recorder.call(torch.Tensor.split, (tensor, [*[length] * (count - 1), last], dim))
        return recorder.record(target, args, kwargs)

    return make


def _sections(func: Any, dim: int | None, least: int) -> Handler:
    """`tensor_split` and its kin: places that only data tells, but not how many parts there are."""
    target = target_of(func)
    assert target is not None

    def make(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(("input", "where", "dim"), args, strict=False)) | kwargs
        tensor = given.get("input")
        where = given.get("where", given.get("indices", given.get("sections", given.get("indices_or_sections"))))
        if type(where) is TracedInt and where.symbols.is_unbacked(where):
            raise DataDependent(f"torch.{func.__name__}", PARTS)
        rank = len(tensor._meta.size) if type(tensor) is TracedTensor else 0
        if dim is None or type(where) not in (list, tuple) or rank < least or not is_symbolic(where):
            return recorder.record(target, args, kwargs)
        return recorder.call(torch.tensor_split, (tensor, where, min(dim, rank - 1)))

    return make


PARTS = "how many parts there are only data tells; give a list of sizes or places"


def _split(func: Any) -> Handler:
    """`split` into parts of one size: how many there are must be known, as of three times `n` in parts of `n`."""
    target = target_of(func)
    assert target is not None

    def make(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(("input", "size", "dim"), args, strict=False)) | kwargs
        size = given.get("size", given.get("split_size_or_sections", given.get("split_size")))
        tensor, dim = given.get("input", given.get("tensor")), given.get("dim", 0)
        if type(tensor) is TracedTensor and type(size) in (int, TracedInt) and type(dim) is int:
            sizes = tensor._meta.size
            whole = sizes[dim] if -len(sizes) <= dim < len(sizes) else 0
            if any(type(n) is TracedInt and n.symbols.is_unbacked(n) for n in (size, whole)):
                count = _multiple(whole, size)
                if count is None or type(size) is not TracedInt:
                    raise DataDependent(f"torch.{func.__name__}", PARTS)
                size.symbols.suppose(operator.ge, size, 1)
                return recorder.call(torch.Tensor.split, (tensor, [size] * count, dim))
        return recorder.record(target, args, kwargs)

    return make


def _other_than(number: int, func: Any, place: int = 1, default: int | None = None) -> Handler:
    """Calls that need sizes of the dimensions they name, all without a name, to be others than 0 or 1, if data tells.

    How many dimensions `squeeze` leaves must be known; there is no greatest element of nothing.
    """
    target = target_of(func)
    assert target is not None

    def make(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0] if args else kwargs.get("input", kwargs.get("self"))
        dims = args[place] if len(args) > place else kwargs.get("dim", default)
        sizes = tensor._meta.size if type(tensor) is TracedTensor else ()
        if dims is not None and not (type(dims) in (list, tuple) and not dims):
            named = dims if type(dims) in (list, tuple) else (dims,)  # a tensor: `max` of two
            sizes = [sizes[i] for i in named if type(i) is int and -len(sizes) <= i < len(sizes)]
        for size in sizes:
            if type(size) is TracedInt and size.symbols.is_unbacked(size):
                size.symbols.suppose(operator.ne, size, number)
        return recorder.record(target, args, kwargs)

    return make


MOST_PARTS = 64


def _multiple(whole: Any, part: Any) -> int | None:
    """How many parts a size consists of, whatever the number is that data tells."""
    if type(whole) is not TracedInt or type(part) is not TracedInt:
        return None
    sizes = itertools.accumulate(itertools.repeat(part, MOST_PARTS))
    return next((n for n, size in enumerate(sizes, 1) if type(size) is TracedInt and size.number == whole.number), None)


def _one_hot(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`one_hot`; where the number of classes is not given, it is one more than the largest."""
    given = dict(zip(("tensor", "num_classes"), args, strict=False)) | kwargs
    tensor, count = given.get("tensor", given.get("input")), given.get("num_classes", -1)
    whole = type(tensor) is TracedTensor and tensor._meta.dtype is torch.int64
    if whole and type(count) is int and count == -1 and recorder.follow() is not None:
        count = number_of(recorder, recorder.call(torch.max, (tensor,))) + 1
        args, kwargs = (tensor, count), {}
    other = traceable(one_hot, args, kwargs) if recorder.traces else None
    target = target_of(one_hot if other is None else other)
    assert target is not None
    return recorder.record(target, args, kwargs)


def _layout(func: Any) -> Handler:
    """Strides of a tensor with sizes that only data tells: those of dimensions that are 0 or 1 follow other rules.
    Whether one that was calculated is 1 may not have been asked so far (`layout.is_one`)."""
    target = target_of(func)
    assert target is not None

    def ask(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sizes = args[0]._meta.size if args and type(args[0]) is TracedTensor else ()
        symbolic = [size for size in sizes if type(size) is TracedInt]
        unknown = [size for size in symbolic if size.symbols.is_unbacked(size)]
        if func is torch.Tensor.stride:
            for size in symbolic:
                if size not in unknown:
                    size.symbols.compare(operator.eq, size, 1)
        if unknown:
            ordinary = _is_row_major(args[0]._meta, unknown[0].symbols)
            for size in unknown:
                if func is torch.Tensor.stride or not ordinary:
                    size.symbols.suppose(operator.ge, size, 1 if ordinary else 2)
        return recorder.record(target, args, kwargs)

    return ask


def _offset(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Where a tensor begins follows from where those begin that share its memory; one that may be one of several
    depends on which one it is."""
    if args and type(args[0]) is TracedTensor:
        if id(args[0]) in recorder.choices:
            raise UnsupportedOp("Tensor.storage_offset", UNTOLD, "data-dependent-branch")
        for given in recorder.inputs_within(args[0]._storage):
            recorder.looked_at(given, "storage_offset", torch.Tensor.storage_offset)
    target = target_of(torch.Tensor.storage_offset)
    assert target is not None
    return recorder.record(target, args, kwargs)


def _is_row_major(meta: Any, symbols: Any) -> bool:
    with symbols.known_only():
        try:
            return is_row_major(meta)
        except NotKnown:
            return False


for _func in (torch.Tensor.stride, torch.Tensor.is_contiguous):
    register(_func, _layout(_func))
register(torch.Tensor.storage_offset, _offset)
register(torch.Tensor.new_tensor, _new_tensor)
for _func in (torch.chunk, torch.Tensor.chunk):
    register(_func, _parts(_func))
for _owner in (torch, torch.Tensor):
    for _name, _dim, _least in (("tensor_split", None, 0), ("hsplit", 1, 1), ("vsplit", 0, 2), ("dsplit", 2, 3)):
        register(getattr(_owner, _name), _sections(getattr(_owner, _name), _dim, _least))
for _func in (torch.split, torch.Tensor.split, torch.functional.split):
    register(_func, _split(_func))
for _func in (torch.squeeze, torch.Tensor.squeeze, torch.Tensor.squeeze_):
    register(_func, _other_than(1, _func))
for _owner in (torch, torch.Tensor):
    for _name in ("max", "min", "argmax", "argmin", "amax", "amin", "aminmax", "median", "nanmedian"):
        register(getattr(_owner, _name), _other_than(0, getattr(_owner, _name)))
    register(_owner.mode, _other_than(0, _owner.mode, 1, -1))
    register(_owner.kthvalue, _other_than(0, _owner.kthvalue, 2, -1))
register(one_hot, _one_hot)
register(torch.Tensor.item, _item)
for _owner in (torch, torch.Tensor):
    register(_owner.equal, comparing.equal)
    register(_owner.allclose, comparing.allclose)
register(torch.Tensor.tolist, lambda recorder, args, kwargs: list_of(recorder, *args, **kwargs))
for _func in (torch.tensor, torch.as_tensor, torch.asarray):
    register(_func, _from_data(_func))
for _name, _kind in METHODS.items():
    _row(getattr(torch.Tensor, _name), f"Tensor.{_name}", _kind)
for _func, _kind in FUNCTIONS.items():
    _row(_func, f"torch.{_func.__name__}", _kind)
