"""What a call of numpy does, found by running it on example arrays of the same layout.

Once on arrays that cannot be written to, once on others with other contents. Both must come to the same.
"""

from __future__ import annotations

from typing import Any

import torch

from stator.filters import Listening
from stator.tensors.array_arguments import Leaves, put_in
from stator.tensors.array_calls import DTYPES, FACTS, NUMPY_DTYPES, function_of, np
from stator.tensors.backwards import descending, turned
from stator.tensors.meta import Meta, intern
from stator.tensors.plan import Constant, Group, New, Same
from stator.tensors.signals import DataDependent, OpFailed, UnsupportedOp


def example(meta: Meta, is_scalar: bool, turn: int) -> Any:
    """An array with this layout; the contents depend on the turn, except that indices stay in range."""
    dtype, size, stride = NUMPY_DTYPES[meta.dtype], tuple(meta.size), meta.stride
    extent = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if 0 in size:
        return np.zeros(size, dtype)
    if dtype.kind == "b":
        flat = np.full(extent, bool(turn))
    elif dtype.kind in "iu":
        flat = np.zeros(extent, dtype)
    else:
        flat = ((np.arange(extent) * (3 + 2 * turn)) % (7 + 4 * turn) + 1).astype(dtype)
    array = np.ndarray(size, dtype, flat, 0, tuple(step * dtype.itemsize for step in stride))
    return array[()] if is_scalar else array


class RunsBackwards(UnsupportedOp):
    """The result of a call has strides below zero."""


class Trial:
    """One run of numpy on examples."""

    def __init__(self, leaves: Leaves, turn: int, written: frozenset[int]) -> None:
        self.written = written
        self.given = []
        for index, array in enumerate(leaves.arrays):
            if type(array).__module__ == np.__name__:
                made = array.copy()
            else:
                made = turned(example(leaves.layouts[index], array.is_scalar, turn), leaves.backwards[index])
            if type(made) is np.ndarray:
                made.flags.writeable = bool(turn) or index in written
            self.given.append(made)

    def run(self, name: str, args: Any, kwargs: Any) -> Any:
        """What the call does to layout, memory and identity, as a plan says it."""
        function = function_of(name, np)
        with np.errstate(all="ignore"), Listening() as warned:
            made = function(*put_in(args, self.leaf, self.dtype), **put_in(kwargs, self.leaf, self.dtype))
        if warned:
            raise UnsupportedOp(name, "numpy warns", "tensor-numpy")
        self.made: list[Any] = []
        return self.described(name, made)

    def leaf(self, index: int) -> Any:
        return self.given[index]

    def dtype(self, value: Any) -> Any:
        return NUMPY_DTYPES[value]

    def described(self, name: str, made: Any) -> Any:
        for index, given in enumerate(self.given):
            if made is given and type(made) is np.ndarray:
                return Same(index), np.ndarray
        if isinstance(made, np.ndarray | np.generic):
            return self.array(name, made), type(made)
        if type(made) in (list, tuple) or (isinstance(made, tuple) and hasattr(made, "_fields")):
            parts = [self.described(name, item) for item in made]
            return Group(list, tuple(part[0] for part in parts)), (type(made), [part[1] for part in parts])
        if made is None or name.partition(":")[2] in FACTS or isinstance(made, np.dtype):
            return Constant(made), None
        raise DataDependent(name.partition(":")[2] or name)

    def array(self, name: str, made: Any) -> New:
        kind = type(made)
        dtype = DTYPES.get(made.dtype)
        itemsize = made.dtype.itemsize
        odd = dtype is None or any(step % itemsize for step in made.strides)
        if not odd and descending(made):
            raise RunsBackwards(name, f"torch has no array with strides {made.strides}", "tensor-numpy")
        if odd or (kind is not np.ndarray and not issubclass(kind, np.generic)):
            raise UnsupportedOp(name, f"torch has no {made.dtype} array with strides {made.strides}", "tensor-numpy")
        stride = tuple(step // itemsize for step in made.strides)
        alias = None
        if kind is np.ndarray:
            shared = [i for i, given in enumerate(self.given) if np.may_share_memory(made, given)]
            alias = shared[0] if shared else None
            lone = not any(np.may_share_memory(made, other) for other in self.made) or alias is not None
            writeable = made.flags.writeable or (alias is not None and not self.given[alias].flags.writeable)
            if len(shared) > 1 or not lone or not writeable:
                raise UnsupportedOp(name, "an array that cannot be written to, or shares memory", "tensor-numpy")
            self.made.append(made)
        inference = torch.is_inference_mode_enabled()
        key = (made.shape, stride, 0, dtype, CPU, False, True, False, False, inference)
        return New(intern(key), alias=alias)


CPU = torch.device("cpu")


def agreed(name: str, leaves: Leaves, args: Any, kwargs: Any, written: frozenset[int]) -> Any:
    """What two runs on examples have in common: everything, or it depends on data."""
    try:
        first, second = (Trial(leaves, turn, written).run(name, args, kwargs) for turn in (0, 1))
    except (UnsupportedOp, DataDependent):
        raise
    except Exception as error:
        raise OpFailed(error, name.replace(":", ".")) from None
    if first != second:
        raise DataDependent(name.partition(":")[2], "", "data-dependent-shape")
    return second
