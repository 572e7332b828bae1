"""Arrays of numpy whose memory is a tensor of the graph, and the recording of what numpy does to them.

What a call does to sizes, types, memory and identity is found by running numpy on example arrays of the same layout:
once on arrays that cannot be written to, once on others with other contents. Both must come to the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.scalar import TracedInt, from_data, number
from stator.tensors.applying import apply
from stator.tensors.array_arguments import Leaves, Place, hinted, itself, put_in, static
from stator.tensors.array_calls import (
    DTYPES,
    NUMPY_DTYPES,
    SCALAR,
    array_call,
    in_order,
    np,
    way_of,
)
from stator.tensors.array_sizes import PICKED, VIEWS, flat, is_number, picks, sizes_of, takes_element, turned_along
from stator.tensors.array_trials import RunsBackwards, agreed, example
from stator.tensors.array_twins import check_twin
from stator.tensors.backwards import Axes, find_view
from stator.tensors.lowering import lower
from stator.tensors.meta import Meta
from stator.tensors.modes import read_state
from stator.tensors.plan import Constant, Group, New, Plan, Same
from stator.tensors.rules.layout import row_major
from stator.tensors.rules.table import Decline, hint, interned
from stator.tensors.signals import DataDependent, OpFailed, UnsupportedOp
from stator.tensors.targets import Target, register
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


class TracedArray:
    """Stands for an array, or for a scalar of numpy, whose data are a tensor of the graph."""

    __slots__ = ("__weakref__", "_backwards", "_recorder", "_stands_for", "_tensor")

    def __init__(self, tensor: TracedTensor, stands_for: type, backwards: Axes = ()) -> None:
        self._tensor = tensor
        self._stands_for = stands_for
        self._backwards = backwards  # the axes along which the array runs down the memory of the tensor
        self._recorder = tensor._recorder
        self._recorder.has_arrays = True

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._stands_for

    @property
    def is_scalar(self) -> bool:
        return self._stands_for is not np.ndarray

    @property
    def sizes(self) -> tuple[Any, ...]:
        return tuple(self._tensor._meta.size)

    def __len__(self) -> int:
        if not self.sizes:
            kind = self._stands_for.__name__
            raise TypeError(f"object of type '{kind}' has no len()" if self.is_scalar else "len() of unsized object")
        return int(number(self.sizes[0]))

    def __iter__(self) -> Any:
        return iter(rows(self))

    def __hash__(self) -> int:
        if self.is_scalar:
            raise DataDependent("hash")
        raise TypeError("unhashable type: 'numpy.ndarray'")


TracedArray.__name__ = "numpy.ndarray"  # in messages of C code


def is_array(value: Any) -> bool:
    """Whether this is a real array."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def rows(array: TracedArray) -> list[Any]:
    """What a loop over an array gives."""
    if not array.sizes:
        raise TypeError("'numpy.float64' object is not iterable" if array.is_scalar else "iteration over a 0-d array")
    return [record_call(array._recorder, "operator:getitem", (array, i), {}) for i in range(len(array))]


def _by_operator(function: Any, reflected: bool) -> Callable[..., Any]:
    def operate(self: Any, *others: Any) -> Any:
        operands = (*others, self) if reflected else (self, *others)
        return record_call(self._recorder, f"operator:{function.__name__}", operands, {})

    return operate


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any) -> Any:
        raise DataDependent(f"ndarray.{name}", "", "data-dependent-branch" if name == "__bool__" else None)

    return refuse


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    _function = getattr(operator, f"__{_name}__")
    setattr(TracedArray, f"__{_name}__", _by_operator(_function, False))
    setattr(TracedArray, f"__r{_name}__", _by_operator(_function, True))
for _name in ("lt", "le", "eq", "ne", "ge", "gt", "neg", "pos", "abs", "invert", "getitem", "setitem"):
    setattr(TracedArray, f"__{_name}__", _by_operator(getattr(operator, f"__{_name}__"), False))
for _name in (
    "bool", "int", "float", "complex", "index", "contains", "repr", "str", "format", "bytes", "array", "reduce_ex",
    "round", "trunc", "floor", "ceil", "divmod",
):  # fmt: skip
    setattr(TracedArray, f"__{_name}__", _refuse(f"__{_name}__"))


# ---- into numpy and back ------------------------------------------------------------------------------


def array_of(recorder: Recorder, traced: TracedTensor, name: str = "Tensor.numpy") -> TracedArray:
    """`tensor.numpy()`: an array with the memory of the tensor."""
    meta = traced._meta
    odd = meta.requires_grad or meta.conj or meta.neg or meta.device.type != "cpu" or meta.dtype not in NUMPY_DTYPES
    if odd or recorder.sub is not None:
        raise UnsupportedOp(name, "a tensor that numpy cannot have as it is", "tensor-numpy")
    return TracedArray(recorder.call(torch.Tensor.detach, (traced,), {}), np.ndarray)


def tensor_of(array: TracedArray) -> TracedTensor:
    """`torch.from_numpy(array)`: a tensor with the memory of the array."""
    if array._backwards:
        raise UnsupportedOp("torch.from_numpy", "an array that runs backwards", "tensor-numpy")
    recorder, traced = array._recorder, array._tensor
    if traced._meta.key[2] != 0 and not recorder.traces:  # numpy's memory begins with the array
        plan = Plan(New(traced._meta.at_start(), alias=0), None, (), (), True, False)
        arguments: tuple[Any, ...] = ("operator:getitem", way_of(False, ()), (traced._node, ...), {})
        made = apply(recorder, _target("operator:getitem"), plan, read_state(), arguments, {}, [traced])
    else:
        made = recorder.call(torch.Tensor.detach, (traced,), {})
    return made


def _numpy(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs not in ({}, {"force": False}):
        raise UnsupportedOp("Tensor.numpy", "with arguments", "tensor-numpy")
    return array_of(recorder, args[0])


if np is not None:
    register(torch.Tensor.numpy, _numpy)


# ---- arguments -----------------------------------------------------------------------------------------


PLAIN = frozenset({int, float, complex, bool, str, type(None), type(...)})


def walk(value: Any, leaves: Leaves, constant: Callable[[Any], TracedTensor] | None) -> Any:
    """The arguments with places for arrays, and torch's dtypes for numpy's."""
    kind = type(value)
    if kind is TracedArray:
        return Place(leaves.add(value._tensor, value, value.is_scalar, value._backwards))
    if kind is TracedInt:
        leaves.has_numbers = True
        return value
    if kind in PLAIN:
        return value
    if kind is tuple or kind is list:
        return kind(walk(item, leaves, constant) for item in value)
    if kind is slice:
        return slice(*(walk(part, leaves, constant) for part in (value.start, value.stop, value.step)))
    if kind is dict:
        return {key: walk(item, leaves, constant) for key, item in value.items()}
    if kind is torch.Size:
        return tuple(value)
    dtype = _dtype(value)
    if dtype is not None:
        return dtype
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype in DTYPES and constant is not None:
        return Place(leaves.add(constant(value), value, isinstance(value, np.generic)))
    raise UnsupportedOp("numpy", f"an array with a {kind.__name__}", "tensor-numpy")


def _dtype(value: Any) -> Any:
    is_class = type(value) is type and (value in (int, float, complex, bool) or issubclass(value, np.generic))
    return DTYPES.get(np.dtype(value)) if is_class or isinstance(value, np.dtype) else None


# ---- recording ----------------------------------------------------------------------------------------


def record_call(
    recorder: Recorder,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    written: tuple[Any, ...] = (),
    constant: Callable[[Any], TracedTensor] | None = None,
) -> Any:
    """Records a call of numpy; `written` are the arrays it writes to."""
    leaves = Leaves()
    try:
        given, named = walk(tuple(args), leaves, constant), walk(kwargs, leaves, constant)
    except TypeError:
        raise UnsupportedOp(name, "an argument that numpy would look into", "tensor-numpy") from None
    if leaves.vary and not written and (view := _view_of_any_size(recorder, name, args, kwargs)) is not None:
        return view
    if any(leaves.backwards) and not written and (view := _view(recorder, name, args, kwargs, leaves)) is not None:
        return view
    places = frozenset(i for i, array in enumerate(leaves.arrays) if any(array is one for one in written))
    if len(places) != len({id(one) for one in written}):
        raise UnsupportedOp(name, "a write to an array that is no array of the graph", "tensor-numpy")
    with recorder.paused():
        try:
            found = _found(recorder, name, leaves, given, named, places)
        except RunsBackwards:
            view = None if written else _view(recorder, name, args, kwargs, leaves)
            if view is None:
                raise
            return view
    if found is None:
        return _of_constants(recorder, name, args, kwargs, written, constant)
    result, kinds = found
    for index in places:
        if type(leaves.arrays[index]) is not TracedArray:
            raise UnsupportedOp(name, "a write to an array that is a constant of the graph", "tensor-numpy")
    for alias in _aliases(result):
        if type(leaves.arrays[alias]) is not TracedArray:
            raise UnsupportedOp(name, "a view of an array that is a constant", "tensor-numpy")
    silent = not places and type(result) in (Same, Constant)
    plan = Plan(result, None, (), tuple(places), not places, silent)
    nodes = [tensor._node for tensor in leaves.tensors]
    arguments = (
        name,
        leaves.kinds,
        put_in(given, nodes.__getitem__, itself, _node_of),
        put_in(named, nodes.__getitem__, itself, _node_of),
    )
    made = apply(recorder, _target(name), plan, read_state(), arguments, {}, leaves.tensors)
    return _wrapped(made, result, kinds, leaves)


def _of_constants(
    recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], written: Any, constant: Any
) -> Any:
    """The call for the numbers that those that vary are in this call."""
    function = ARITHMETIC.get(name)
    arrays = [arg for arg in args if type(arg) is TracedArray]
    if function is not None and len(arrays) == 1 and not arrays[0]._backwards:
        tensor = arrays[0]._tensor
        if tensor._meta.dtype in (torch.float32, torch.float64):
            operands = tuple(tensor if arg is arrays[0] else arg for arg in args)
            return TracedArray(recorder.call(function, operands, {}), arrays[0]._stands_for)
    if name.startswith("operator:"):
        raise UnsupportedOp(name, "an array with a number that varies", "tensor-numpy")
    args, kwargs = put_in((tuple(args), kwargs), itself, itself, number)
    return record_call(recorder, name, args, kwargs, written, constant)


ARITHMETIC = {f"operator:{function.__name__}": function for function in (
    operator.add, operator.sub, operator.mul, operator.truediv,
)}  # fmt: skip  # torch makes of an array of floats and an int what numpy does


def _target(name: str) -> Target:
    return Target(array_call, "call_function", array_call, name.partition(":")[2])


def _node_of(value: TracedInt) -> Any:
    return lower(value, [])[1]


def _found(recorder: Recorder, name: str, leaves: Leaves, given: Any, named: Any, places: frozenset[int]) -> Any:
    """What the call does, to arrays of any size if that is known; None if it can only be given constants."""
    size = _size(recorder, name, leaves, given, named) if leaves.vary and places <= {0} else None
    if size is not None:
        leaves.try_out()
        found = agreed(name, leaves, hint(given), hint(named), places)
        result = _of_any_size(recorder, found[0], size)
        if result is not None:
            return _for_backend(recorder, name, leaves, hint(given), hint(named), places, found, result)
    if leaves.has_numbers:
        return None
    leaves.settle()
    found = agreed(name, leaves, given, named, places)
    return _for_backend(recorder, name, leaves, given, named, places, found, found[0])


def _for_backend(
    recorder: Recorder,
    name: str,
    leaves: Leaves,
    given: Any,
    named: Any,
    places: frozenset[int],
    found: Any,
    result: Any,
) -> Any:
    made, kinds = found
    if type(made) is New and kinds is not np.ndarray:
        leaves.kinds += SCALAR
    if recorder.traces:
        check_twin(name, leaves, given, named, places, made)
    if result is not made:  # the strides are not those of this call
        leaves.kinds = leaves.kinds.partition(">")[0] + ">" + in_order(order_of(made.meta))
    return result, kinds


def _size(recorder: Recorder, name: str, leaves: Leaves, given: Any, named: Any) -> Any:
    """The size of the result, or of what is written to, if there is a rule."""
    if leaves.has_numbers and recorder.traces and (name != "operator:setitem" or type(given[2]) is TracedInt):
        return None  # torch's numpy takes such numbers as bounds alone

    def meta(place: int) -> Meta:
        return leaves.tensors[place]._meta

    arguments = put_in(given, meta, itself), put_in(named, meta, itself)
    if name == "operator:setitem":
        return _size_of_part(recorder, leaves, given, *arguments[0])
    return sizes_of(name, *arguments)


def _size_of_part(recorder: Recorder, leaves: Leaves, given: Any, array: Meta, index: Any, value: Any) -> Any:
    """The size of a part of an array, if a value may be written to it."""
    if is_number(value) and picks(index):
        return sizes_of(PICKED, (array, index), {})
    try:
        part = VIEWS["operator:getitem"](recorder.call, leaves.tensors[given[0]], index)._meta.size
    except Exception:
        return None
    size = sizes_of("operator:add", (interned(part, part, 0, array.key[3:], recorder.symbols), value), {})
    return size if size is not None and tuple(size) == tuple(part) else None


def _of_any_size(recorder: Recorder, result: Any, size: Any) -> Any:
    """A result for other sizes than those of this call; None where that is not sure."""
    if type(result) is Same or (type(result) is Constant and result.value is None):
        return result
    if type(result) is not New or result.alias is not None or hint(tuple(size)) != tuple(result.meta.size):
        return None
    if not size:
        return result
    axes = order_of(result.meta)
    if 0 in result.meta.size or ordered(result.meta.size, axes) != result.meta.stride:
        return None
    return New(interned(size, ordered(size, axes), 0, result.meta.key[3:], recorder.symbols))


def order_of(meta: Meta) -> Axes:
    """The axes from the longest to the shortest step; where a size is one, any order would do."""
    if 1 in meta.size:
        return tuple(range(len(meta.size)))
    return tuple(sorted(range(len(meta.size)), key=meta.stride.__getitem__, reverse=True))


def ordered(size: Any, axes: Axes) -> tuple[Any, ...]:
    """Strides of a tensor that lies in this order of its axes."""
    strides = dict(zip(axes, row_major([size[axis] for axis in axes]), strict=True))
    return tuple(strides[axis] for axis in range(len(size)))


def _view_of_any_size(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A view that torch makes as numpy does."""
    array = args[0] if args else None
    if type(array) is not TracedArray or array.is_scalar or kwargs or name not in VIEWS:
        return None
    if name == "operator:getitem" and (axes := turned_along(args[1], len(array.sizes))):
        return TracedArray(recorder.call(torch.Tensor.detach, (array._tensor,), {}), np.ndarray, toggled(array, axes))
    if array._backwards:
        return None
    if any(type(value) is TracedArray for value in flat(args[1:])):
        return None
    try:
        made = VIEWS[name](recorder.call, array._tensor, *args[1:])
    except (Decline, UnsupportedOp, OpFailed, TypeError, ValueError):  # numpy says in its own words what is wrong
        return None
    if name == "operator:getitem" and takes_element(args[1], len(array.sizes)):
        return TracedArray(recorder.call(torch.clone, (made,), {}), NUMPY_DTYPES[made._meta.dtype].type)
    return TracedArray(made, np.ndarray)


def toggled(array: TracedArray, axes: Axes) -> Axes:
    """The axes along which an array runs backwards that is turned along some."""
    return tuple(sorted({*array._backwards} ^ {*axes}))


def _view(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Leaves) -> Any:
    """A view of the one array of a call that runs backwards there or behind it, if the result is one."""
    array = args[0] if args else None
    if type(array) is not TracedArray or array.is_scalar or len(leaves.tensors) != 1:
        return None
    with recorder.paused():
        meta, view = array._tensor._meta, None
        for layout in (static,) if from_data(*meta.size) else (hinted, static):
            base = example(layout(meta), False, 0)
            if (view := find_view(base, array._backwards, name, args[1:], kwargs)) is None:
                return None
            if (view.name, view.args) == (name, args[1:]) and name != "operator:getitem":
                break  # so it is for all sizes
    assert view is not None
    ahead = TracedArray(array._tensor, np.ndarray)
    made = record_call(recorder, view.name, (ahead, *view.args), view.kwargs)
    return TracedArray(made._tensor, np.ndarray, view.axes)


def _aliases(result: Any) -> list[int]:
    if type(result) is New:
        return [] if result.alias is None else [result.alias]
    if type(result) is Same:
        return [result.index]
    return [alias for item in result.items for alias in _aliases(item)] if type(result) is Group else []


def _wrapped(made: Any, result: Any, kinds: Any, leaves: Leaves) -> Any:
    """The results as numpy gives them."""
    if type(result) is Same:
        return leaves.arrays[result.index]
    if type(result) is New:
        return TracedArray(made, kinds)
    if type(result) is Group:
        cls, parts = kinds
        items = [_wrapped(*row, leaves) for row in zip(made, result.items, parts, strict=True)]
        return cls(*items) if hasattr(cls, "_fields") else cls(items)
    return made
