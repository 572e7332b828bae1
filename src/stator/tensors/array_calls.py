"""NumPy calls as nodes of a graph: arrays are tensors there, numpy itself computes when the graph runs.

`array_call` is what a node calls. On real tensors numpy runs on their memory, so results are numpy's own, bit for bit.
Where a backend traces the graph there are no data, and `torch._numpy`, numpy's interface on tensors, takes its place.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from typing import Any

import torch

from stator.filters import Listening

np: Any = sys.modules.get("numpy")  # torch imports it where it is installed

# Functions whose result has sizes and a type that follow from those of the arrays: how many of the first parameters
# may be arrays of the graph. All others have to be constants.
PARAMETERS: dict[str, int] = {
    name: count
    for count, names in {
        1: "sum mean std var min max amin amax prod argmin argmax all any cumsum cumprod nansum nanmean nanstd nanvar "
        "nanmin nanmax nanprod nanargmin nanargmax median average percentile quantile ptp reshape ravel transpose "
        "swapaxes moveaxis rollaxis squeeze expand_dims permute_dims matrix_transpose stack concatenate concat vstack "
        "hstack dstack column_stack row_stack flip fliplr flipud roll rot90 tile repeat sort argsort partition "
        "argpartition diff ediff1d gradient diag diagonal diagflat tril triu trace round around fix nan_to_num copy "
        "ascontiguousarray asfortranarray asarray asanyarray array zeros_like ones_like atleast_1d atleast_2d "
        "atleast_3d split array_split hsplit vsplit dsplit pad real imag angle unwrap iscomplex isreal cov corrcoef "
        "linalg.norm linalg.inv linalg.pinv linalg.det linalg.svd linalg.eigh linalg.eigvalsh linalg.qr "
        "linalg.cholesky linalg.matrix_power linalg.slogdet linalg.trace linalg.diagonal fft.fft fft.ifft fft.rfft "
        "fft.irfft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft2 fft.irfft2 fft.rfftn fft.irfftn fft.fftshift "
        "fft.ifftshift fft.hfft fft.ihfft sinc i0 float16 float32 float64 int8 int16 int32 int64 uint8 bool "
        "complex64 complex128",
        2: "dot matmul inner outer tensordot cross kron vdot isclose searchsorted take take_along_axis append digitize "
        "convolve correlate polyval full_like isin linalg.solve linalg.matmul linalg.outer linalg.cross",
        3: "where clip interp",
        99: "einsum meshgrid block",
    }.items()
    for name in names.split()
}
# The same for methods, after the array itself.
METHODS: dict[str, int] = {
    name: count
    for count, names in {
        0: "sum mean std var min max prod argmin argmax all any cumsum cumprod reshape ravel flatten transpose "
        "swapaxes squeeze repeat argsort argpartition diagonal trace round copy astype conj conjugate view __copy__ "
        "__deepcopy__",
        1: "dot take searchsorted",
        2: "clip",
    }.items()
    for name in names.split()
}
WRITING_METHODS: dict[str, int] = {"fill": 1, "sort": 0, "partition": 0, "put": 2}
ATTRIBUTES = frozenset({"T", "mT", "real", "imag"})
FACTS = frozenset({"shape", "ndim", "size", "iscomplexobj", "isrealobj"})  # Python numbers that are no data
WRITING_OPERATORS = frozenset({
    operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
    operator.imod, operator.ipow, operator.imatmul, operator.iand, operator.ior, operator.ixor, operator.ilshift,
    operator.irshift,
})  # fmt: skip


def dtypes() -> dict[Any, Any]:
    """numpy's types that torch has."""
    pairs = {}
    for name in ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
                 "float32", "float64", "complex64", "complex128"):  # fmt: skip
        pairs[np.dtype(name)] = getattr(torch, name)
    return pairs


DTYPES: dict[Any, Any] = {} if np is None else dtypes()
NUMPY_DTYPES: dict[Any, Any] = {dtype: kind for kind, dtype in DTYPES.items()}


def function_of(name: str, numpy: Any) -> Any:
    """The function with this name in `numpy`, or in a module with its interface."""
    kind, _, rest = name.partition(":")
    if kind == "operator":
        return getattr(operator, rest)
    if kind == "method":
        return getattr(numpy.ndarray, rest) if numpy is not np else method_of(rest)
    if kind == "attribute":
        return operator.attrgetter(rest)
    found = numpy
    for part in rest.split("."):
        found = getattr(found, part)
    return found


def method_of(name: str) -> Any:
    """Arrays and scalars have methods of their own."""
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


def mapped(value: Any, leaf: Any) -> Any:
    """Arguments with tensors and dtypes replaced."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(mapped(item, leaf) for item in value)
    if kind is slice:
        return slice(mapped(value.start, leaf), mapped(value.stop, leaf), mapped(value.step, leaf))
    if isinstance(value, dict):
        return {key: mapped(item, leaf) for key, item in value.items()}
    if isinstance(value, (list, tuple)):  # as torch.fx keeps them
        return (tuple if isinstance(value, tuple) else list)(mapped(item, leaf) for item in value)
    return leaf(value) if isinstance(value, (torch.Tensor, torch.dtype)) else value


def way_of(is_scalar: bool, backwards: tuple[int, ...]) -> str:
    """How numpy sees a tensor: as a scalar, or as an array that runs backwards along some axes."""
    return "s" if is_scalar else "a" + "".join(f"{axis}," for axis in backwards)


def laid_out(strides: tuple[int, ...]) -> str:
    """What a call says of the strides of its result, where torch's numpy has others."""
    return ">" + ",".join(map(str, strides))


def in_order(axes: tuple[int, ...]) -> str:
    """The same for arrays of any size: the result lies in this order of its axes."""
    return IN_ORDER + ",".join(map(str, axes))


IN_ORDER = "o"


def laid_in_order(made: Any, axes: tuple[int, ...]) -> Any:
    """The tensor, or a copy that lies in this order of its axes."""
    if axes == tuple(range(len(axes))):
        return made.contiguous()
    back = sorted(range(len(axes)), key=axes.__getitem__)
    return made.permute(axes).contiguous().permute(back)


def with_strides(made: Any, strides: tuple[int, ...]) -> Any:
    """The tensor, or a copy that is laid out in this way."""
    if are_same_steps(made, strides):
        return made.as_strided(made.shape, strides)
    return made.new_empty_strided(made.shape, strides).copy_(made)


def are_same_steps(made: Any, strides: tuple[int, ...]) -> bool:
    """Whether all elements are where they should be; steps along one element, or none, lead nowhere."""
    steps = zip(made.stride(), strides, made.shape, strict=True)
    return made.numel() == 0 or all(step == wanted for step, wanted, size in steps if size != 1)


@functools.cache
def ways_of(kinds: str) -> list[tuple[bool, tuple[int, ...]]]:
    """The same for all tensors of a call."""
    found = re.findall(r"([as])((?:\d+,)*)", kinds.partition(">")[0])
    return [(kind == "s", tuple(map(int, axes.split(",")[:-1]))) for kind, axes in found]


class Warned(RuntimeError):
    """numpy would have warned: the program has to run by itself, to be warned in its own place."""


def array_call(name: str, kinds: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls numpy; `kinds` says how it sees the tensors among the arguments, and whether the result is a scalar."""
    if torch._C._len_torch_dispatch_stack():
        return traced_call(name, kinds, args, kwargs)
    warned: list[Any] = []
    asked = {key: "ignore" if way == "ignore" else "call" for key, way in np.geterr().items()}
    with (
        np.errstate(call=lambda *about: warned.append(about), **asked),
        Listening() as others,
    ):
        made = plain_call(name, kinds, args, kwargs)
    if warned or others:
        raise Warned(name)
    return made


def array_call_once(name: str, kinds: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As `array_call`, in a graph that cannot be run again: the warning is given here."""
    if torch._C._len_torch_dispatch_stack():
        return traced_call(name, kinds, args, kwargs)
    return plain_call(name, kinds, args, kwargs)


def plain_call(name: str, kinds: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ways = iter(ways_of(kinds))

    def leaf(value: Any) -> Any:
        if type(value) is torch.dtype:
            return NUMPY_DTYPES[value]
        is_scalar, axes = next(ways)
        array = np.flip(value.numpy(), axes) if axes else value.numpy()
        return array[()] if is_scalar else array

    made = as_tensors(function_of(name, np)(*mapped(args, leaf), **mapped(kwargs, leaf)))
    _, _, layout = kinds.partition(">")
    return laid_in_order(made, numbers_in(layout[1:])) if layout.startswith(IN_ORDER) else made


def as_tensors(made: Any) -> Any:
    if isinstance(made, (list, tuple)):
        return tuple(map(as_tensors, made))
    return None if made is None else torch.from_numpy(np.asarray(made))


def traced_call(name: str, kinds: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same by operations of torch."""
    import torch._numpy as tnp  # only where a backend traces

    ways = iter(ways_of(kinds))

    def leaf(value: Any) -> Any:
        if type(value) is torch.dtype:
            return NUMPY_DTYPES[value].name
        _, axes = next(ways)
        return tnp.ndarray(value.flip(axes) if axes else value)

    made = from_twins(function_of(name, tnp)(*mapped(args, leaf), **mapped(kwargs, leaf)), tnp)
    if kinds.endswith(SCALAR):  # which is a copy
        made = made.reshape(())
        return made.clone() if name == "operator:getitem" or name.partition(":")[2] in NUMPY_NAMES else made
    if name in COPIES and COPIES[name](args[0], made):  # torch's numpy has the memory of the array there
        made = made.clone()
    _, _, layout = kinds.partition(">")
    if layout.startswith(IN_ORDER):
        return laid_in_order(made, numbers_in(layout[1:]))
    return with_strides(made, numbers_in(layout)) if layout else made


def numbers_in(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


SCALAR = ">s"
COPIES: dict[str, Any] = {
    "method:astype": lambda array, made: array.dtype == made.dtype,
    "method:flatten": lambda array, made: array.is_contiguous(),
}
NUMPY_NAMES = frozenset(kind.name for kind in DTYPES)


def from_twins(made: Any, tnp: Any) -> Any:
    if isinstance(made, (list, tuple)):
        return tuple(from_twins(item, tnp) for item in made)
    return None if made is None else tnp.asarray(made).tensor


array_call.__module__ = array_call_once.__module__ = __name__
CALLS = frozenset({array_call, array_call_once})
