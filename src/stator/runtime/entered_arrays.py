"""Arrays from outside, and out again: small ones are copied and guarded by what they hold, others are inputs."""

from __future__ import annotations

import sys
from typing import Any

import torch

from stator.emit import effects
from stator.emit.plan import CannotRebuild, Const, Heap, Plan, piece
from stator.frame import Frame
from stator.guards import path as paths
from stator.guards.check import EQ, TYPE_IS
from stator.runtime import tensor_lists
from stator.tensors.array_calls import DTYPES
from stator.tensors.arrays import TracedArray
from stator.world.hollow import DECLINED, Hollow
from stator.world.iterators import refuse_sequence

np: Any = sys.modules.get("numpy")  # torch imports it where it is installed
LARGEST_COPY = 4096  # bytes of an outside array that is guarded by its contents
LENT: list[Any] = []  # arrays that share memory with tensors of the captures under way


def is_argument(path: Any) -> bool:
    """Whether each call may come with another array."""
    return path.chain()[0].accessor is not paths.CONST


def contents(array: Any) -> Any:
    """What an array holds and how: dtype, sizes, strides, and the bytes."""
    return (array.dtype.str, array.shape, array.strides, array.flags.writeable, array.tobytes())


def enter_array(world: Any, obj: Any, path: Any) -> Any:
    """A small array that owns its memory: a copy, guarded by its contents."""
    if is_input(world, obj, path):
        return enter_input(world, obj, path)
    inner = None if path in world.whole_paths else empty_copy(obj)
    if inner is None:
        return refuse_sequence(world, obj, path)
    record = world.register(obj, path, inner)
    fill_array(world, record)
    return inner


def is_input(world: Any, obj: Any, path: Any) -> bool:
    """Whether an array is an input of the graph: an argument is, and what changes, is large or a view."""
    if obj.dtype not in DTYPES or not obj.flags.writeable or type(obj) is not np.ndarray or path in world.whole_paths:
        return False
    if any(step < 0 or step % obj.dtype.itemsize for step in obj.strides):
        return False
    varies = (path.part("contents", contents), "contents", 0) in world.varying
    return is_argument(path) or varies or obj.nbytes > LARGEST_COPY or obj.base is not None


def enter_input(world: Any, obj: Any, path: Any) -> TracedArray:
    """Guarded as a tensor with its memory is."""
    world.guards.add(path, TYPE_IS, np.ndarray, world.origin())
    with world.recorder.paused():
        real = torch.from_numpy(obj)
    traced = world.enter(real, path.part("from_numpy", torch.from_numpy))
    inner = TracedArray(traced, np.ndarray)
    world.register(obj, path, inner)
    world.array_inputs.append((obj, path, real))
    world.identities.matters(np.ndarray)
    return inner


def empty_copy(obj: Any) -> Any:
    """An array of the same kind, or None."""
    if obj.dtype.hasobject or obj.dtype.names is not None:
        return None
    return np.empty_like(obj)


def fill_array(world: Any, record: Any) -> None:
    """The contents enter, where they are few and nobody else's, and not others each time."""
    obj, path = record.obj, record.path
    held = path.part("contents", contents)
    odd = obj.base is not None or record.inner.strides != obj.strides
    if odd or obj.nbytes > LARGEST_COPY or (held, "contents", 0) in world.varying:
        refuse_sequence(world, obj, path)
    world.arrays.append(record)
    record.before = contents(obj)
    world.guards.add(path, TYPE_IS, np.ndarray, world.origin())
    world.guards.add(held, EQ, record.before, world.origin())
    np.copyto(record.inner, obj)
    record.inner.flags.writeable = obj.flags.writeable


class HollowArray(Hollow):
    """An array from outside that nobody has looked into: a tensor can be made of it all the same."""

    def fill(self) -> None:
        fill_array(self.world, self.record)


def hollow_array(world: Any, obj: Any, path: Any) -> Hollow | None:
    inner = None if path in world.whole_paths or is_input(world, obj, path) else empty_copy(obj)
    if inner is None:
        return None
    world.guards.add(path, TYPE_IS, np.ndarray, world.origin())
    return HollowArray(world, world.register(obj, path, inner))


def serve_shared(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    """`torch.from_numpy(array)`: an input of the graph, which has the memory of the array."""
    if type(hollow) is not HollowArray or len(args) != 1 or not hollow.obj.flags.writeable:
        return DECLINED
    world: Any = hollow.world
    try:
        with world.recorder.paused():
            real = torch.from_numpy(hollow.obj)
    except Exception:  # of a dtype that torch does not have, or with such strides
        return DECLINED
    return world.enter(real, hollow.path.part("from_numpy", torch.from_numpy))


def serve_copied(f: Frame, hollow: Hollow, args: list[Any], dtype: Any = None) -> Any:
    """`torch.tensor(array)`, or of a list."""
    if type(hollow) is not HollowArray:
        return tensor_lists.serve_tensor(f, hollow, args, dtype)
    shared = DECLINED if dtype is not None else serve_shared(f, hollow, args)
    world: Any = hollow.world
    return DECLINED if shared is DECLINED else world.recorder.call(torch.clone, (shared,), {})


def change_array(target: effects.Target, old: Any, new: Any) -> None:
    if old[-1] == new[-1] and old[:-1] == new[:-1]:
        return
    if old[:3] != new[:3]:
        raise CannotRebuild(target.expression, "an array from outside got another shape")
    made = np.frombuffer(new[-1], dtype=new[0]).reshape(new[1]).copy()
    target.emitter.statement("{0}({1}, {2})", Const(np.copyto), target.expression, Const(made))


def build_array(obj: Any, solid: Any, heap: Heap) -> Plan:
    """An array made during capture: a copy of what it holds, or a view of the array that it is a view of."""
    if obj.dtype.hasobject or type(obj) is not solid or any(np.may_share_memory(obj, lent) for lent in LENT):
        raise CannotRebuild(obj, "an array that holds objects or shares memory with a tensor cannot be copied alone")
    base = obj.base
    if base is None:
        plan = Plan(piece("{0}.copy({1})", Const(obj.copy("K")), "K"))
        if obj.copy("K").strides != obj.strides:
            raise CannotRebuild(obj, "an array with such strides cannot be copied")
    elif type(base) is np.ndarray and base.flags.c_contiguous and base.flags.writeable:
        offset = obj.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        layout = (obj.shape, obj.dtype, offset, obj.strides)
        plan = Plan(piece("{0}({1}, {2})", Const(view_of), base, Const(layout)))
    else:
        raise CannotRebuild(obj, "an array that shares memory cannot be copied alone")
    if not obj.flags.writeable:
        raise CannotRebuild(obj, "an array that cannot be written to")
    return plan


def view_of(base: Any, layout: tuple[Any, ...]) -> Any:
    """A view of the memory of an array."""
    shape, dtype, offset, strides = layout
    return np.ndarray(shape, dtype, base, offset, strides)
