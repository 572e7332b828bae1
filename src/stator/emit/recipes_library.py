"""Recipes for other C types of the standard library and torch, for C reductions, and what cannot be rebuilt."""

from __future__ import annotations

import _random
import _thread
import ast
import contextvars
import copyreg
import datetime
import functools
import gc
import hashlib
import io
import mmap
import re
import socket
import sys
import types
import weakref
from typing import Any

import torch

from ..world.callbacks import Observed
from . import raw
from .generators import build_generator
from .makers import dead_reference
from .plan import SELF, CannotRebuild, Const, Heap, Part, Plan, listing, piece, refuse, tuple_of
from .recipes_containers import create

# Immutable ones.


def build_frozen(obj: Any, solid: type, heap: Heap) -> Plan:
    """Immutable: its reduction is a call with the parts, and it is a constant when they are."""
    reduce = raw.class_dict(solid).get("__reduce_ex__")  # of times: older protocols know no fold
    maker, arguments = raw.lookup(solid, "__reduce__")(obj) if reduce is None else reduce(obj, 4)
    if type(obj) is not solid:
        return Plan(create(solid, obj, *arguments))
    return Plan(piece("{0}({1})", Const(maker), listing(arguments)), frozen=True)


def build_match(obj: re.Match[Any], solid: type, heap: Heap) -> Plan:
    if type(obj.string) not in (str, bytes):
        raise CannotRebuild(obj, "the text it was found in is not a plain string")
    return Plan((Const(obj),), frozen=True)


def build_union(obj: types.UnionType, solid: type, heap: Heap) -> Plan:
    (first, *others) = obj.__args__
    make = piece("{0}", first)
    for other in others:
        make = (*make, *piece(" | {0}", other))
    return Plan(("(", *make, ")"), frozen=True)


def build_struct_sequence(obj: Any, solid: type, heap: Heap) -> Plan:
    """time.struct_time, torch.return_types: fields that are not items travel in a dict."""
    hidden = raw.lookup(solid, "__reduce__")(obj)[1][1]
    arguments: list[object] = [tuple_of(tuple.__iter__(obj))]
    template = "{0}({1}, {2})" if hidden else "{0}({1})"
    return Plan(piece(template, type(obj), *arguments, hidden), frozen=True)


# Mutable ones.


def build_buffer(obj: Any, solid: type, heap: Heap) -> Plan:
    """StringIO and BytesIO: contents and position."""
    kind: Any = solid
    try:
        *state, _ = kind.__getstate__(obj)
    except ValueError:
        return Plan(
            create(solid, obj),
            [piece("{0}({1})", Const(kind.__init__), SELF), piece("{0}({1})", Const(kind.close), SELF)],
        )
    return Plan(create(solid, obj), [piece("{0}({1}, {2})", Const(kind.__setstate__), SELF, (*state, None))])


def build_random(obj: Any, solid: type, heap: Heap) -> Plan:
    state = _random.Random.getstate(obj)
    return Plan(create(_random.Random, obj, 0), [piece("{0}({1}, {2})", Const(_random.Random.setstate), SELF, state)])


def build_copy(obj: Any, solid: type, heap: Heap) -> Plan:
    """Hash objects: a copy kept aside is copied again."""
    return Plan(piece("{0}.copy()", Const(obj.copy())))


def build_lock(obj: Any, solid: type, heap: Heap) -> Plan:
    if not raw.lookup(solid, "__repr__")(obj).startswith("<unlocked"):
        raise CannotRebuild(obj, "a lock that is held belongs to this run")
    return Plan(piece("{0}()", Const(_thread.RLock if solid is _thread.RLock else _thread.allocate_lock)))


def known_hash(reference: Any) -> int | None:
    """The hash of a dead reference, if somebody asked for it in time."""
    try:
        return weakref.ref.__hash__(reference)
    except TypeError:
        return None


def build_reference(obj: Any, solid: type, heap: Heap) -> Plan:
    referent = weakref.ref.__call__(obj)
    if referent is None:
        if type(obj) is not weakref.ref:
            raise CannotRebuild(obj, "the object it referred to is gone")
        return Plan(piece("{0}({1})", Const(dead_reference), known_hash(obj)))
    callback = weakref.ref.__dict__["__callback__"].__get__(obj)
    if type(callback) is Observed:
        callback = callback.callback
    held = Part(referent, held=True)
    arguments = [held] if callback is None else [held, callback]
    return Plan(
        piece("{0}({1})", Const(weakref.ref), listing(arguments))
        if type(obj) is weakref.ref
        else create(weakref.ref, obj, *arguments)
    )


def build_compared(obj: Any, solid: type, heap: Heap) -> Plan:
    """What functools.cmp_to_key makes, and the keys that makes."""
    _, compare, *key = gc.get_referents(obj)  # the first is its type
    return Plan(piece("{0}({1})({2})" if key else "{0}({1})", Const(functools.cmp_to_key), compare, *key))


def build_stateless(obj: Any, solid: type, heap: Heap) -> Plan:
    """Python classes over a C type that keeps everything in the instance `__dict__`."""
    return Plan(create(solid, obj))


def build_ndarray(obj: Any, solid: type, heap: Heap) -> Plan:
    """numpy arrays that own their memory; a view would have to share it."""
    owns_memory = obj.base is None and not obj.dtype.hasobject
    if not owns_memory or type(obj) is not solid:
        raise CannotRebuild(obj, "an array that shares memory or holds objects cannot be copied alone")
    kept: Any = solid.copy(obj, "K")
    return Plan(piece("{0}.copy({1})", Const(kept), "K"))


# Everything else.


def build_other(obj: Any, solid: type, heap: Heap) -> Plan:
    """C types without a row: struct sequences, and those whose reduction is C code."""
    if raw.derives(solid, tuple) and "n_sequence_fields" in raw.class_dict(solid):
        return build_struct_sequence(obj, solid, heap)
    if type(obj) is not solid:
        if raw.basicsize(solid) == raw.basicsize(object):
            return Plan(create(solid, obj))
        raise CannotRebuild(obj, f"its class extends {raw.class_name(solid)}, a C type without a recipe")
    maker, arguments, state = _reduction(obj, solid)
    if maker is copyreg.__newobj__:  # type: ignore[attr-defined]
        make = piece("{0}({1})", Const(raw.lookup(solid, "__new__")), listing(arguments))
    elif maker is solid:
        make = piece("{0}({1})", Const(maker), listing(Part(argument, contents=True) for argument in arguments))
    else:
        raise CannotRebuild(obj, "its reduction makes something else")
    if state is None:
        return Plan(make)
    if type(raw.lookup(solid, "__setstate__")) is not types.MethodDescriptorType:
        raise CannotRebuild(obj, "it is of a C type that has no recipe")
    return Plan(make, [piece("{0}.__setstate__({1})", SELF, state)])


def _reduction(obj: Any, solid: type) -> tuple[Any, tuple[Any, ...], Any]:
    """(maker, arguments, state) by the type's own C method; never object's, which would guess."""
    for name, extra in (("__reduce_ex__", (4,)), ("__reduce__", ())):
        method = raw.lookup(solid, name)
        if type(method) is types.MethodDescriptorType and method.__objclass__ is not object:
            try:
                maker, arguments, *rest = method(obj, *extra)
            except (TypeError, ValueError):
                break
            if any(more is not None for more in rest[1:]) or type(arguments) is not tuple:
                break
            return maker, arguments, rest[0] if rest else None
    raise CannotRebuild(obj, "it is of a C type that has no recipe")


_TIED = "it is tied to the running program"
_REFUSED: dict[type, str] = {
    types.AsyncGeneratorType: "an asynchronous generator is a suspended frame",
    types.FrameType: "a frame belongs to the call that it ran",
    types.TracebackType: "a traceback refers to the frames of this run",
    memoryview: "a memoryview shares the memory of another object",
    contextvars.ContextVar: "a context variable has no value of its own; each one is unique",
    contextvars.Context: _TIED,
    contextvars.Token: _TIED,
    _thread._local: "thread-local storage belongs to one thread",
    io.FileIO: "an open file cannot be opened again",
    io.BufferedReader: "an open file cannot be opened again",
    io.BufferedWriter: "an open file cannot be opened again",
    io.BufferedRandom: "an open file cannot be opened again",
    io.TextIOWrapper: "an open file cannot be opened again",
    socket.SocketType: "a socket cannot be opened again",
    mmap.mmap: "mapped memory is shared",
    weakref.finalize: "a finalizer is registered when it is made",
    weakref.ProxyType: "what a weak proxy refers to cannot be read without calling it",
    weakref.CallableProxyType: "what a weak proxy refers to cannot be read without calling it",
    torch._C.TensorBase: "the graph does not return this tensor",
    torch.SymInt: "the graph does not return this symbolic number",
    torch.SymFloat: "the graph does not return this symbolic number",
    torch.SymBool: "the graph does not return this symbolic number",
    torch.UntypedStorage: "memory of tensors is shared",
    torch.Generator: "the state of a random generator of torch is shared with the graph",
}

ROWS: dict[type, Any] = {
    types.GeneratorType: build_generator,
    types.CoroutineType: build_generator,
    **{cls: refuse(why) for cls, why in _REFUSED.items()},
    datetime.date: build_frozen,
    datetime.datetime: build_frozen,
    datetime.timedelta: build_frozen,
    datetime.time: build_frozen,
    types.GenericAlias: build_frozen,
    types.UnionType: build_union,
    re.Match: build_match,
    ast.AST: build_stateless,
    type(functools.cmp_to_key(max)): build_compared,
    io.StringIO: build_buffer,
    io.BytesIO: build_buffer,
    _random.Random: build_random,
    _thread.LockType: build_lock,
    _thread.RLock: build_lock,
    weakref.ref: build_reference,
    **{type(hashlib.new(name)): build_copy for name in ("sha256", "blake2b", "blake2s", "sha3_256")},
}
if (_numpy := sys.modules.get("numpy")) is not None:
    ROWS[_numpy.ndarray] = build_ndarray
