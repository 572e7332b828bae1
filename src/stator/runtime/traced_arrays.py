"""Arrays of the graph under the interpreter: attributes, methods, operators and functions of numpy."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch

from stator.emit.plan import Const, Heap, Plan, piece
from stator.emit.recipes import register_whole
from stator.errors import Unsupported
from stator.filters import Listening
from stator.frame import Frame, throw
from stator.guards import path as paths
from stator.native.attribute_rows import READERS, WRITERS
from stator.native.callers import CALLERS
from stator.native.ends import STANDINS
from stator.runtime import written_arrays
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedBool, TracedInt
from stator.shapes.texts import TracedText
from stator.tensors.array_calls import (
    ATTRIBUTES,
    FACTS,
    METHODS,
    NUMPY_DTYPES,
    PARAMETERS,
    WRITING_METHODS,
    WRITING_OPERATORS,
    np,
)
from stator.tensors.arrays import TracedArray, array_of, record_call, tensor_of
from stator.tensors.backwards import turned
from stator.tensors.traced import TracedTensor

UFUNC_METHODS = {"reduce": 1, "accumulate": 1, "outer": 2}
OF_TENSORS = frozenset({"asarray", "array", "ascontiguousarray", "asanyarray"})  # which ask a tensor for its memory


def holds(value: Any, kinds: tuple[type, ...] = (TracedArray,)) -> bool:
    """Whether arrays of the graph are among the arguments."""
    kind = type(value)
    if kind in (list, tuple):
        return any(holds(item, kinds) for item in value)
    if kind is slice:
        return any(holds(part, kinds) for part in (value.start, value.stop, value.step))
    return holds(list(value.values()), kinds) if kind is dict else kind in kinds


def record(host: Any, f: Frame, name: str, args: Any, kwargs: Any = None, written: tuple[Any, ...] = ()) -> Any:
    """Records a call of numpy."""

    def constant(array: Any) -> Any:
        with host.recorder.paused():
            tensor = torch.from_numpy(np.array(array))
        host.guards.keep(tensor)  # nobody else does
        return host.enter(tensor, paths.const(tensor))

    try:
        return record_call(host.recorder, name, tuple(args), kwargs or {}, written, constant)
    except Unsupported as error:
        raise host.located(error) from None
    except TypeError as error:
        return throw(f, error.with_traceback(None))


def call_function(host: Any, f: Frame, function: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of numpy with arrays of the graph among its arguments."""
    args, kwargs = settled(args), settled(kwargs)
    head, _, method = name.partition(".")
    base: Any = getattr(np, head, None)
    if isinstance(base, np.ufunc):
        count = UFUNC_METHODS.get(method, 0) if method else base.nin
    else:
        count = 99 if name in FACTS else PARAMETERS.get(name, 0)
    if name in MEASURES and len(args) == 1 and not kwargs and type(args[0]) is TracedArray:
        return MEASURES[name](args[0]._tensor._meta)
    if name == "where" and len(args) != 3:
        raise host.refuse("data-dependent-shape", "numpy.where of a condition alone", function="numpy.where")
    named = {key: value for key, value in kwargs.items() if key != "out"}
    if count == 0 or holds(list(args[count:])) or holds(named):
        raise host.refuse("tensor-numpy", f"numpy.{name} of arrays of the graph", function=f"numpy.{name}")
    out = kwargs.get("out")
    if out is not None and type(out) is not TracedArray:
        written_arrays.written(host, out)
        raise host.refuse("tensor-numpy", f"numpy.{name} into such an array", function=f"numpy.{name}")
    return record(host, f, f"numpy:{name}", args, kwargs, () if out is None else (out,))


def settled(value: Any) -> Any:
    """The arguments of a function of numpy, which may be ints that vary, but no other such numbers."""
    kind = type(value)
    if kind in (TracedFloat, TracedBool, TracedText):
        return value.decay()
    if kind is list or kind is tuple:
        return kind(map(settled, value))
    return {key: settled(item) for key, item in value.items()} if kind is dict else value


def of_tensor(host: Any, f: Frame, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`numpy.asarray(tensor)`."""
    meta = args[0]._meta
    with host.recorder.paused(), Listening() as warned:
        if not meta.requires_grad and meta.device.type == "cpu" and meta.dtype in NUMPY_DTYPES:
            getattr(np, name)(torch.zeros((), dtype=meta.dtype), *args[1:], **kwargs)
    if warned:
        raise host.refuse("native-effect", f"numpy.{name} would warn", function=f"numpy.{name}")
    try:
        array = array_of(host.recorder, args[0], f"numpy.{name}")
    except Unsupported as error:
        raise host.located(error) from None
    return record(host, f, f"numpy:{name}", [array, *args[1:]], kwargs)


def operate(host: Any, f: Frame, function: Any, args: tuple[Any, ...]) -> Any:
    """An operator with an array of the graph among its operands."""
    if function is operator.contains:
        raise host.refuse("data-dependent-branch", "a look into an array", function="ndarray.__contains__")
    if function is operator.getitem and type(args[0]) is not TracedArray:
        return use_as_index(host, f, args)
    if holds(list(args), (TracedTensor,)):
        if function in WITH_TENSORS and all(type(arg) is TracedTensor or is_number(arg) for arg in args):
            numbers = [
                host.record(f, torch.Tensor.item, (arg._tensor,), None) if is_number(arg) else arg for arg in args
            ]
            return host.record(f, function, numbers, None)
        raise host.refuse("tensor-numpy", "an array with a tensor", function=f"operator.{function.__name__}")
    written: tuple[Any, ...] = ()
    if function in WRITING_OPERATORS:
        target = args[0]
        if type(target) is not TracedArray or (target.is_scalar and function is operator.setitem):
            if function is operator.setitem:
                written_arrays.written(host, target)
                raise host.refuse("tensor-numpy", "a write to an array that is no tensor", function="setitem")
            function = PLAIN[function]
        elif target.is_scalar:
            function = PLAIN[function]
        else:
            written = (target,)
    if function is operator.setitem and len(args[0].sizes) == 0 and args[1] != () and args[1] is not Ellipsis:
        raise host.refuse("tensor-numpy", "a write to an array without dimensions", function="setitem")
    if function is operator.getitem and type(args[1]) is TracedInt and is_place(*args):
        return item_at(host, f, *args)
    return record(host, f, f"operator:{function.__name__.strip('_')}", args, None, written)


def is_place(array: TracedArray, number: TracedInt) -> bool:
    """Whether there is such an item, guarded."""
    size = array.sizes[0] if array.sizes else 0
    return not number.symbols.is_unbacked(number) and bool(number < size) and bool(number >= -size)


def item_at(host: Any, f: Frame, array: TracedArray, number: TracedInt) -> TracedArray:
    """`array[n]` with a number that varies: a view, or a scalar, which is a copy."""
    place = -1 - number if 0 in array._backwards else number
    made = host.record(f, torch.select, (array._tensor, 0, place), None)
    if len(array.sizes) > 1:
        return TracedArray(made, np.ndarray, tuple(axis - 1 for axis in array._backwards if axis))
    return TracedArray(host.record(f, torch.clone, (made,), None), np.dtype(NUMPY_DTYPES[made._meta.dtype]).type)


def use_as_index(host: Any, f: Frame, args: tuple[Any, ...]) -> Any:
    """`sequence[i]` with a number from data; an array of numpy takes any."""
    if isinstance(args[0], np.ndarray):
        return record(host, f, "operator:getitem", args)
    raise host.refuse("data-dependent-value", "an index from an array", function="ndarray.__index__")


def is_number(value: Any) -> bool:
    """Whether torch takes a value of numpy as a number."""
    return type(value) is TracedArray and value.is_scalar and value._tensor._meta.dtype in (torch.int64, torch.float64)


def number_of(host: Any, f: Frame, array: TracedArray) -> Any:
    return host.record(f, torch.Tensor.item, (array._tensor,), None)


WITH_TENSORS = frozenset({operator.add, operator.sub, operator.mul, operator.truediv})

PLAIN = {getattr(operator, f"i{name}"): getattr(operator, name) for name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "xor",
)} | {operator.iand: operator.and_, operator.ior: operator.or_}  # fmt: skip


# ---- attributes and methods ---------------------------------------------------------------------------


class ArrayMethod:
    """`array.sum`, yet to be called."""

    __slots__ = ("array", "name")

    def __init__(self, array: TracedArray, name: str) -> None:
        self.array = array
        self.name = name


def read_array(host: Any, f: Frame, array: TracedArray, name: str) -> Any:
    meta = array._tensor._meta
    fact = MEASURES.get(name)
    if fact is not None:
        return fact(meta)
    if name == "strides":
        steps = [step * _dtype(meta).itemsize for step in meta.stride]
        return tuple(-step if axis in array._backwards else step for axis, step in enumerate(steps))
    if name in ATTRIBUTES:
        return record(host, f, f"attribute:{name}", (array,))
    if name == "__class__":
        return host.enter_const(array._stands_for)
    if name in METHODS or name in WRITING_METHODS or name in VALUES:
        return ArrayMethod(array, name)
    owner = array._stands_for
    if hasattr(owner, name):
        raise host.refuse("tensor-numpy", f"{owner.__name__}.{name}", function=f"{owner.__name__}.{name}")
    text = f"'numpy.{owner.__name__}' object has no attribute '{name}'"
    return throw(f, AttributeError(text, name=name, obj=array))


def _dtype(meta: Any) -> Any:
    return np.dtype(str(meta.dtype).removeprefix("torch."))


MEASURES: dict[str, Any] = {
    "shape": lambda meta: tuple(meta.size),
    "ndim": lambda meta: len(meta.size),
    "size": lambda meta: math.prod(meta.size),
    "dtype": _dtype,
    "itemsize": lambda meta: _dtype(meta).itemsize,
    "nbytes": lambda meta: math.prod(meta.size) * _dtype(meta).itemsize,
}
VALUES = {"item": torch.Tensor.item, "tolist": torch.Tensor.tolist}


def write_array(host: Any, f: Frame, array: TracedArray, name: str, value: Any) -> None:
    raise host.refuse("tensor-numpy", f"a write to ndarray.{name}", function=f"ndarray.{name}")


def call_method(host: Any, f: Frame, method: ArrayMethod, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    array, name = method.array, method.name
    args, kwargs = settled(args), settled(kwargs)
    if name in VALUES:
        if args or kwargs:
            array = record(host, f, "operator:getitem", (array, args[0] if len(args) == 1 else tuple(args)))
        elif array._backwards:
            array = record(host, f, "method:copy", (array,))
        return host.record(f, VALUES[name], (array._tensor,), None)
    count = METHODS.get(name, WRITING_METHODS.get(name, 0))
    out = (kwargs or {}).get("out")
    named = {key: value for key, value in (kwargs or {}).items() if key != "out"}
    if holds(list(args[count:])) or holds(named) or (out is not None and type(out) is not TracedArray):
        raise host.refuse("tensor-numpy", f"ndarray.{name} of arrays of the graph", function=f"ndarray.{name}")
    written = [array] if name in WRITING_METHODS else []
    written += [] if out is None else [out]
    return record(host, f, f"method:{name}", (array, *args), kwargs, tuple(written))


# ---- tensors of arrays --------------------------------------------------------------------------------


def make_tensor(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`torch.from_numpy(array)` and the like, for an array of the graph."""
    array, call = args[0], host.recorder.call
    name = f"torch.{function.__name__}"
    if type(array) is not TracedArray or len(args) != 1 or not kwargs.keys() <= {"dtype", "device"}:
        raise host.refuse("tensor-numpy", f"{name} of arrays of the graph", function=name)
    if array.is_scalar and function is torch.from_numpy:
        return throw(f, TypeError(f"expected np.ndarray (got numpy.{array._stands_for.__name__})"))
    with host.recorder.paused():
        sample = np.zeros((), _dtype(array._tensor._meta))
        wanted = function(sample[()] if array.is_scalar else sample, **kwargs)
    if wanted.device.type != "cpu":
        raise host.refuse("tensor-numpy", f"{name} to another device", function=name)
    try:
        made = tensor_of(array)
    except Unsupported as error:
        raise host.located(error) from None
    if function is torch.tensor or array.is_scalar:
        made = call(torch.clone, (made,), {})
        if function is torch.tensor and len(array.sizes) > 0:
            made = call(torch.Tensor.contiguous, (made,), {})
    return made if wanted.dtype is made._meta.dtype else call(torch.Tensor.to, (made, wanted.dtype), {})


# ---- out again ----------------------------------------------------------------------------------------


def as_array(tensor: torch.Tensor) -> Any:
    return tensor.numpy()


def as_turned(tensor: torch.Tensor, axes: tuple[int, ...]) -> Any:
    return turned(tensor.numpy(), axes)


def as_scalar(tensor: torch.Tensor) -> Any:
    return tensor.numpy()[()]


def build(obj: Any, solid: Any, heap: Heap) -> Plan:
    """What the graph returns, as numpy has it."""
    if obj._backwards:
        return Plan(piece("{0}({1}, {2})", Const(as_turned), obj._tensor, Const(obj._backwards)))
    return Plan(piece("{0}({1})", Const(as_scalar if obj.is_scalar else as_array), obj._tensor))


def build_method(obj: Any, solid: Any, heap: Heap) -> Plan:
    return Plan(piece("{0}({1}, {2})", Const(getattr), obj.array, obj.name))


if np is not None:
    register_whole(ArrayMethod, build_method)
    READERS[id(TracedArray)] = read_array
    WRITERS[id(TracedArray)] = write_array
    STANDINS.add(TracedArray)
    CALLERS[id(ArrayMethod)] = call_method
    register_whole(TracedArray, build)
