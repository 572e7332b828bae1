"""numpy in captured code: functions of numbers and of arrays made of them run while capturing.

Arrays that the program makes are real ones. A call whose arguments hold nothing but numbers, strings, dtypes and such
arrays gives the same result each time, so numpy itself computes it, once; what would warn is left to the program.
A tensor made of an array is a constant of the graph. Arrays from outside: `entered_arrays.py`.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from stator._frames import FAILED
from stator._frames import native as run_native
from stator.emit import effects
from stator.emit.recipes import ROWS as RECIPES
from stator.errors import Again
from stator.eval.settling import SERVED
from stator.filters import Listening
from stator.frame import RAISED, Frame, throw
from stator.guards import path as paths
from stator.guards.check import EQ, IS, TYPE_IS
from stator.native.callers import CALLERS, call_builtin, call_python
from stator.native.rows import STANDINS, standin
from stator.runtime import numpy_made as numpy_made  # these register their rows
from stator.runtime import numpy_numbers as numpy_numbers
from stator.runtime import sized_arrays, traced_arrays, written_arrays
from stator.runtime.entered_arrays import (
    LENT,
    build_array,
    change_array,
    contents,
    enter_array,
    hollow_array,
    is_argument,
    serve_copied,
    serve_shared,
)
from stator.runtime.symbolic_host import SEEING, decayed
from stator.runtime.tensor_host import TensorHost
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedBool, TracedInt
from stator.tensors.arrays import TracedArray
from stator.tensors.traced import TracedTensor
from stator.world.door import IMPORTERS
from stator.world.hollow import DECLINED
from stator.world.hollow import ROWS as HOLLOW
from stator.world.iterators import refuse_sequence

np: Any = sys.modules.get("numpy")  # torch imports it where it is installed

# Functions of numpy that read or change the world, draw numbers, call functions of the user or work on files.
EXCLUDED = frozenset([
    "save", "savez", "savez_compressed", "load", "loadtxt", "savetxt", "genfromtxt", "fromfile", "fromregex",
    "memmap", "open_memmap", "seterr", "geterr", "seterrcall", "geterrcall", "errstate", "setbufsize", "getbufsize",
    "set_printoptions", "get_printoptions", "printoptions", "info", "show_config", "show_runtime", "test",
    "vectorize", "frompyfunc", "fromfunction", "apply_along_axis", "apply_over_axes", "piecewise", "array2string",
    "array_repr", "array_str", "ndarray", "matrix", "asmatrix", "bmat", "recarray", "record", "chararray", "nditer",
    "ndenumerate", "ndindex", "broadcast", "flatiter", "poly1d", "from_dlpack", "frombuffer", "fromiter",
    "einsum_path", "get_include", "object_", "void", "busday_count", "busdaycalendar", "generic", "nested_iters",
    "DataSource", "iterable", "empty", "empty_like",
])  # fmt: skip
FUNCTION_KINDS = (types.FunctionType, types.BuiltinFunctionType, type)
ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(...), slice, range, torch.Size})
BUILTIN_DTYPES = frozenset({int, float, complex, bool})


def is_named_result(kind: type) -> bool:
    """Tuples with named fields that numpy makes, such as the result of `linalg.svd`."""
    return issubclass(kind, tuple) and str(MODULE.__get__(kind)).startswith("numpy.")


MODULE: Any = type.__dict__["__module__"]


def is_plain(value: Any) -> bool:
    """Whether numpy can be given this: numbers, arrays of numbers, dtypes, and containers of them."""
    kind = type(value)
    if kind in ATOMS or kind in ARRAY_TYPES:
        return kind is not np.ndarray or not value.dtype.hasobject
    if kind is list or kind is tuple or is_named_result(kind):
        return all(map(is_plain, tuple.__iter__(value) if issubclass(kind, tuple) else value))
    if kind is dict:
        return all(map(is_plain, value.values()))
    if kind is type:
        return value in BUILTIN_DTYPES or issubclass(value, np.generic)
    return isinstance(value, np.dtype)


def run(host: Any, f: Frame, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result, computed now; where numpy would warn the call is a break, so that the program is warned."""
    name = f"numpy.{getattr(function, '__name__', 'function')}"
    try:
        with (
            host.recorder.paused(),
            np.errstate(all="raise", under="ignore"),
            Listening() as warned,
        ):
            result = function(*args, **kwargs)
    except FloatingPointError:
        raise host.refuse("native-effect", f"{name} would warn or raise", function=name) from None
    except Exception as error:
        return throw(f, error.with_traceback(None))
    if warned:
        raise host.refuse("native-effect", f"{name} would warn", function=name)
    if host.lent or host.arrays:
        notice_writes(host)
    if not is_plain(result):
        raise host.refuse("native-unknown", f"a {type(result).__name__} made by {name}", function=name)
    return result


def notice_writes(host: Any) -> None:
    """After each operation: a write that is taken back later is one too."""
    for lent in host.lent:
        if lent.array.tobytes() != lent.before:
            raise Again(lent.path)
    host.dirty.update(record.path for record in host.arrays if contents(record.inner) != record.before)


def call_numpy(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A function, ufunc or scalar class of numpy."""
    known = NAMES.get(id(function)) or name_of_method(function)
    if known is not None and traced_arrays.holds([*args, kwargs or {}]):
        return traced_arrays.call_function(host, f, function, known, list(args), kwargs or {})
    if known is not None and host.has_symbols():
        made = sized_arrays.make(host, f, known, args, kwargs or {})
        if made is not None:
            return made
    seen: dict[int, Any] = {}
    given = [decayed(host, arg, seen) for arg in args] if host.has_symbols() else args
    named = {name: decayed(host, arg, seen) for name, arg in (kwargs or {}).items()}
    if is_plain(list(given)) and is_plain(named):
        return written_arrays.made(host, f, run(host, f, function, given, named))
    if known in traced_arrays.OF_TENSORS and type(given[0]) is TracedTensor:
        return traced_arrays.of_tensor(host, f, known, list(given), named)
    name = f"numpy.{getattr(function, '__name__', 'function')}"
    traced = any(type(arg) is TracedTensor for arg in (*given, *named.values()))
    break_id, what = ("tensor-numpy", "a tensor") if traced else ("native-unknown", "something else than numbers")
    raise host.refuse(break_id, f"{name} of {what}", function=name)


def name_of_method(function: Any) -> str | None:
    """`add.reduce`: a method of a ufunc."""
    owner = getattr(function, "__self__", None)
    return f"{owner.__name__}.{function.__name__}" if isinstance(owner, np.ufunc) else None


def call_finfo(host: Any, f: Frame, cls: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`numpy.finfo(dtype)`: numpy keeps one object for each dtype, and makes it when it is first asked."""
    if kwargs or len(args) != 1 or not is_plain(args[0]):
        return call_python(host, f, cls, args, kwargs)
    try:
        made = cls(args[0])
    except Exception as error:
        return throw(f, error.with_traceback(None))
    return host.enter_const(made)


def call_ufunc(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """numpy's own ufuncs; those made of a Python function are called as any C object."""
    if id(function) not in KNOWN:
        raise host.refuse("native-unknown", "call of a ufunc that is not numpy's", function="ufunc")
    return call_numpy(host, f, function, args, kwargs)


def call_method(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`array.sum()`: methods of arrays and numpy scalars, and any other C function."""
    owner = function.__self__
    if type(owner) in ARRAY_TYPES and is_plain(owner) and function.__name__ not in EXCLUDED_METHODS:
        return call_numpy(host, f, function, args, kwargs)
    if type(owner) is np.ufunc:
        return call_ufunc_method(host, f, function, args, kwargs)
    return call_builtin(host, f, function, args, kwargs)


def call_ufunc_method(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    if id(function.__self__) not in KNOWN:
        return call_builtin(host, f, function, args, kwargs)
    return call_numpy(host, f, function, args, kwargs)


EXCLUDED_METHODS = frozenset({"tofile", "dump", "dumps", "__reduce__", "__reduce_ex__", "__setstate__", "setflags"})


SYMBOLIC = frozenset({TracedInt, TracedFloat, TracedBool})


def operate(host: Any, f: Frame, function: Any, args: tuple[Any, ...]) -> Any:
    """An operator with an array or a numpy scalar among its operands."""
    if all(map(is_plain, args)):
        return run(host, f, function, args, {})
    if traced_arrays.holds(list(args)):
        return traced_arrays.operate(host, f, function, args)
    made = numpy_made.combined(host, function, *args) if len(args) == 2 else DECLINED
    if function is operator.getitem and type(args[0]) is np.ndarray and type(args[1]) is TracedInt:
        made = numpy_made.number_in(host, *args)
    if made is not DECLINED:
        return made
    args = tuple(arg.decay() if type(arg) in SYMBOLIC else arg for arg in args)  # numpy would make plain ones of both
    result = run_native(function, *args)
    if result is FAILED:
        raise RAISED
    return result


def enter_scalar(world: Any, obj: Any, path: Any) -> Any:
    """A numpy scalar: by class and value."""
    if type(obj) not in ARRAY_TYPES:
        return refuse_sequence(world, obj, path)
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    world.guards.add(path.part("bytes", np.generic.tobytes), EQ, obj.tobytes(), world.origin())
    world.register(obj, path)
    return obj


# ---- tensors ----------------------------------------------------------------------------------------

COPYING = (torch.tensor,)
SHARING = (torch.as_tensor, torch.asarray, torch.from_numpy)


def holds_arrays(value: Any) -> bool:
    kind = type(value)
    return kind in ARRAY_TYPES or (kind in (list, tuple) and any(map(holds_arrays, value)))


def make_tensor(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A tensor of an array made during capture is a constant of the graph, copied in each run."""
    if args and traced_arrays.holds(args[:1]):
        return traced_arrays.make_tensor(host, f, function, args, kwargs or {})
    if not args or not holds_arrays(args[0]) or not is_plain(args[0]):
        return host.record(f, function, args, kwargs)
    name = f"torch.{function.__name__}"
    if any(type(arg) is TracedTensor for arg in args) or (kwargs or {}).get("requires_grad"):
        raise host.refuse("tensor-numpy", f"{name} of an array", function=name)
    try:
        with host.recorder.paused(), Listening() as warned:
            real = function(*args, **(kwargs or {}))
            shared = type(args[0]) is np.ndarray and function in SHARING
            constant = real.clone()
    except Exception as error:
        return throw(f, error.with_traceback(None))
    if warned:
        raise host.refuse("native-effect", f"{name} would warn", function=name)
    host.guards.keep(constant)  # nobody else does
    made = host.recorder.call(torch.clone, (host.enter(constant, paths.const(constant)),), {})
    if shared:
        lend(host, args[0], made._storage)
    return made


class Lent(NamedTuple):
    """An array whose memory a tensor shares in eager."""

    array: Any
    before: bytes
    storage: Any  # of the tensor
    record: Any  # of an array from outside
    path: Any  # what to refuse when it cannot be kept up


LENDING = paths.const("the memory of arrays")


def lend(host: Any, array: Any, storage: Any) -> None:
    """From now on a tensor has the memory of this array: both must stay as they are."""
    record = host.records.get(id(array))
    path = LENDING if record is None else record.path
    if path in host.whole_paths:
        name = "torch.from_numpy"
        raise host.refuse("tensor-numpy", "an array and a tensor that change or live on together", function=name)
    storage.fixed = "a write to memory that an array of numpy shares"
    host.lent.append(Lent(array, array.tobytes(), storage, record, path))
    if record is None:
        LENT.append(array)


def check_memory(host: Any, outputs: Iterable[Any]) -> None:
    """Raises Again where arrays and tensors could be the same memory, of which the program has two copies."""
    kept = {id(traced._storage) for traced in outputs}
    for lent in host.lent:
        if lent.record is not None and id(lent.storage) in kept:
            raise Again(lent.path)
    if host.lent or host.arrays:
        notice_writes(host)
    written = [host.recorder.tensor(name) for name in host.recorder.mutated]
    if written and host.array_inputs:
        check_inputs(host)
    for record in host.arrays:
        if record.path in host.dirty and host.recorder.inputs:
            raise Again(record.path)
        if written and (is_argument(record.path) or any(overlap(record.obj, tensor) for tensor in written)):
            raise Again(record.path)


def check_inputs(host: Any) -> None:
    """Inputs of a graph that writes to some, arrays among them, must not be the same memory in parts."""
    inputs = [tensor for name in host.recorder.inputs if type(tensor := host.recorder.tensor(name)) is not torch.SymInt]
    if len(inputs) < 2:
        return
    arrays = {id(real): (obj, path) for obj, path, real in host.array_inputs}
    for tensor in inputs:
        obj, path = arrays.get(id(tensor), (None, None))
        if obj is not None:
            if obj.base is not None:
                raise Again(path)
            host.guards.add(path.part("base", BASE), IS, None, None)
        elif (record := host.records.get(id(tensor))) is not None:  # others are made for the graph: numbers, draws
            with host.recorder.paused():
                owned = owns_memory(tensor)
            if not owned:
                raise Again(next(iter(arrays.values()))[1])
            host.guards.add(record.path.part("owns memory", owns_memory), EQ, True, None)


def owns_memory(tensor: Any) -> bool:
    """Whether the memory of a tensor is torch's own, so that no array of numpy began with it."""
    return bool(tensor.untyped_storage().resizable())


BASE = None if np is None else operator.attrgetter("base")


def overlap(array: Any, tensor: Any) -> bool:
    """Whether the memory of a tensor reaches into that of an array."""
    if type(tensor) is torch.SymInt or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return False
    with torch._C.DisableTorchFunction():
        storage = tensor.untyped_storage()
        start, size = storage.data_ptr(), storage.nbytes()
    low, high = np.lib.array_utils.byte_bounds(array)
    return bool(low < start + size and start < high)


def give_back(host: Any) -> None:
    """The capture is over."""
    mine = {id(lent.array) for lent in host.lent}
    LENT[:] = [array for array in LENT if id(array) not in mine]


def numpy_members() -> list[Any]:
    """What may run: the public functions and classes of numpy, numpy.linalg and numpy.fft."""
    found = []
    for module, prefix in MODULES.items():
        for name, member in list(vars(module).items()):  # not getattr: that would import more of numpy
            home = str(getattr(member, "__module__", None) or "numpy")
            if name.startswith("_") or name in EXCLUDED or home.split(".")[0] != "numpy":
                continue
            if not isinstance(member, type) or issubclass(member, (np.generic, np.dtype)):
                found.append(member)
                if id(member) not in NAMES or name == getattr(member, "__name__", None):  # some have several
                    NAMES[id(member)] = prefix + name
    return found


MODULES: dict[Any, str] = {} if np is None else {np: "", np.linalg: "linalg.", np.fft: "fft."}
ARRAY_TYPES: frozenset[Any] = frozenset()
NAMES: dict[int, str] = {}  # by id of a function: where it is in numpy
KNOWN: set[int] = set()


def register() -> None:
    """Put the rows in place."""
    global ARRAY_TYPES
    scalars = {kind for kind in np.sctypeDict.values() if not issubclass(kind, (np.object_, np.void))}
    ARRAY_TYPES = frozenset({np.ndarray, *scalars})
    TensorHost.array_types = ARRAY_TYPES | {TracedArray}
    TensorHost.operate_array = operate  # type: ignore[method-assign,assignment]
    for member in numpy_members():
        KNOWN.add(id(member))
        if not isinstance(member, type):
            SEEING.add(id(member))
        if isinstance(member, FUNCTION_KINDS):
            STANDINS.setdefault(member, call_numpy)
    for dispatcher in (np.sum, np.concatenate):
        CALLERS[id(type(dispatcher))] = call_dispatcher
    CALLERS[id(np.ufunc)] = call_ufunc
    CALLERS[id(types.BuiltinFunctionType)] = call_method
    IMPORTERS[id(np.ndarray)] = enter_array
    for kind in scalars:
        if kind is not np.complex128 and not issubclass(kind, (str, bytes)):
            IMPORTERS.setdefault(id(kind), enter_scalar)
    HOLLOW[id(np.ndarray)] = hollow_array
    SERVED.update({id(function): serve_shared for function in SHARING})
    SERVED.update({id(function): serve_copied for function in COPYING})
    RECIPES[id(np.ndarray)] = build_array
    effects.ROWS[id(np.ndarray)] = (np.ndarray, contents, change_array)
    standin(*COPYING, *SHARING)(make_tensor)
    standin(np.finfo)(call_finfo)


def call_dispatcher(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A function of numpy that may be overridden by its arguments."""
    if id(function) not in KNOWN:
        name = f"numpy.{getattr(function, '__name__', 'function')}"
        raise host.refuse("native-unknown", f"call of {name}", function=name)
    return call_numpy(host, f, function, args, kwargs)


if np is not None:
    register()
