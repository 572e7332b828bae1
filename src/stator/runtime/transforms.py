"""`torch.func`: a transform is one node that applies torch's own transform to the captured function."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch._functorch import apis, eager_transforms
from torch._functorch import vmap as batching

from stator.emit.plan import CannotRebuild, Heap, Plan
from stator.emit.recipes import register_whole
from stator.frame import Frame, throw
from stator.native.callers import CALLERS
from stator.runtime.bodies import Captured, capture, flatten, record
from stator.runtime.entering import answers_for
from stator.tensors.meta import Meta, SymbolicMeta, intern, intern_symbolic
from stator.tensors.modes import Scope
from stator.tensors.traced import TracedTensor

# ---- vmap -----------------------------------------------------------------------------------------------------------


@answers_for(apis.vmap_impl)
def call_vmap(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`vmap(func, …)(*args, **kwargs)`."""
    (func, in_dims, out_dims, randomness, chunk_size), args = args[:5], args[5:]
    named = kwargs or {}
    flatten(host, (tuple(args), named, in_dims, out_dims), "vmap")
    try:
        batching._check_out_dims_is_int_or_int_pytree(out_dims, func)
        dims = batch_dims(host, in_dims, tuple(args), func)
    except ValueError as error:
        return throw(f, error.with_traceback(None))
    if type(randomness) is not str or type(chunk_size) not in (int, type(None)):
        raise host.refuse("higher-order", "vmap: options that are no constants", function="vmap")
    in_dims, out_dims = copy.deepcopy((in_dims, out_dims))  # numbers; the program may change what they are in

    def inner(index: int, outer: TracedTensor) -> Meta:
        return without(outer._meta, dims[index]) if index < len(dims) else outer._meta

    def call(body: Any, args: Any, named: Any) -> Any:
        return batching.vmap_impl(body, in_dims, out_dims, randomness, chunk_size, *args, **named)

    captured = capture(host, f, "vmap", func, args, named, inner, transformed=True)
    return record(host, "vmap", call, (tuple(args), named), [captured])


def batch_dims(host: Any, in_dims: Any, args: tuple[Any, ...], func: Any) -> list[int | None]:
    """By leaf of the arguments: the dimension that goes away. Torch's own words for what does not fit."""
    leaves, spec = flatten(host, args, "vmap")
    found = batching._broadcast_to_and_flatten(in_dims, spec) if isinstance(in_dims, (int, tuple)) and args else None
    if found is None or not all(map(fits, leaves, found)):
        batching._process_batched_inputs(in_dims, args, func)  # raises
        raise host.refuse("higher-order", "vmap: arguments that do not fit", function="vmap")
    dims = [None if dim is None else dim % len(leaf._meta.size) for leaf, dim in zip(leaves, found, strict=True)]
    sizes = [leaf._meta.size[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes or any(size != sizes[0] for size in sizes[1:]):
        batching._validate_and_get_batch_size(dims, leaves)
        raise host.refuse("higher-order", "vmap: sizes that do not fit", function="vmap")
    return dims


def fits(leaf: Any, dim: Any) -> bool:
    if dim is None:
        return True
    if type(dim) is not int or type(leaf) is not TracedTensor:
        return False
    return -len(leaf._meta.size) <= dim < len(leaf._meta.size)


def without(meta: Meta, dim: int | None) -> Meta:
    """Metadata of one element of a batch, which autograd knows nothing of."""
    if dim is None:
        return meta
    size, stride, *rest = meta.key
    key = (cut(size, dim), cut(stride, dim), rest[0], *rest[1:3], False, True, *rest[5:])
    if type(meta) is not SymbolicMeta:
        return intern(key)
    if all(type(number) is int for number in (*key[0], *key[1], key[2])):
        return intern(key)
    return intern_symbolic(key, meta.symbols)


def cut(numbers: Any, dim: int) -> tuple[Any, ...]:
    return (*numbers[:dim], *numbers[dim + 1 :])


# ---- derivatives ----------------------------------------------------------------------------------------------------


def differentiable(index: int, outer: TracedTensor) -> Meta:
    """An argument as a function that is differentiated sees it."""
    able = outer._meta.dtype.is_floating_point or outer._meta.dtype.is_complex
    return outer._meta.with_autograd(able, True)


def undifferentiated(index: int, outer: TracedTensor) -> Meta:
    return outer._meta.with_autograd(False, True)


def capture_recorded(host: Any, f: Frame, name: str, func: Any, args: Any, kwargs: Any, inner: Any) -> Captured:
    """Derivatives are taken in grad mode, whatever the mode around them."""
    with Scope():
        torch._C._set_grad_enabled(True)
        return capture(host, f, name, func, args, kwargs, inner, transformed=True)


@answers_for(eager_transforms.grad_impl, eager_transforms.grad_and_value_impl)
def call_grad(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`grad(func, argnums, has_aux)(*args, **kwargs)`, with or without the value."""
    names = dict(zip(("func", "argnums", "has_aux", "args", "kwargs"), args, strict=False)) | (kwargs or {})
    func, argnums, has_aux, given, named = (names[n] for n in ("func", "argnums", "has_aux", "args", "kwargs"))
    flatten(host, (given, named, argnums), "grad")
    chosen = places(argnums, given)

    def inner(index: int, outer: TracedTensor) -> Meta:
        return (differentiable if chosen is None or index in chosen else undifferentiated)(index, outer)

    def call(body: Any, given: Any, named: Any) -> Any:
        return function(body, argnums, has_aux, given, named)

    captured = capture_recorded(host, f, "grad", func, given, named, inner)
    return record(host, "grad", call, (given, named), [captured])


def places(argnums: Any, args: Any) -> set[int] | None:
    """The leaves of the chosen arguments; None: all."""
    if not isinstance(argnums, (int, tuple)):
        return None
    wanted = {argnum % max(len(args), 1) for argnum in (argnums if isinstance(argnums, tuple) else (argnums,))}
    found: set[int] = set()
    first = 0
    for number, arg in enumerate(args):
        count = len(torch.utils._pytree.tree_leaves(arg))
        if number in wanted:
            found.update(range(first, first + count))
        first += count
    return found


class Linear:
    """What `vjp` and `linearize` return as a function: each call calculates the value again, in one node with it."""

    __slots__ = ("captured", "options", "primals")

    def __init__(self, captured: Captured, primals: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.captured = captured
        self.primals = primals
        self.options = options


def refuse(obj: Any, solid: Any, heap: Heap) -> Plan:
    raise CannotRebuild(obj, "a function that torch.func returned cannot leave a compiled function")


class Pullback(Linear):
    """Of `vjp`: from cotangents to gradients."""

    __slots__ = ()


class Pushforward(Linear):
    """Of `linearize`: from tangents to tangents."""

    __slots__ = ()


@answers_for(eager_transforms._vjp_with_argnums)
def call_vjp(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`vjp(func, *primals)`: the value now, and a function for later."""
    check_stays(host, Pullback, "vjp")
    func, primals = args[0], tuple(args[1:])
    options = kwargs or {}
    flatten(host, (primals, options), "vjp")
    chosen = None if options.get("argnums") is None else places(options["argnums"], primals)

    def inner(index: int, outer: TracedTensor) -> Meta:
        return (differentiable if chosen is None or index in chosen else undifferentiated)(index, outer)

    def call(body: Any, primals: Any) -> Any:
        value, _, *aux = function(body, *primals, **options)
        return value, *aux

    captured = capture_recorded(host, f, "vjp", func, primals, {}, inner)
    if captured.body.random:
        raise host.refuse("higher-order", "vjp of a function that draws random numbers", function="vjp")
    value, *aux = record(host, "vjp", call, (primals,), [captured])
    return value, Pullback(captured, primals, options), *aux


def call_pullback(host: Any, f: Frame, pullback: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """The gradients for cotangents."""
    if kwargs and any(value is not None for value in kwargs.values()):
        raise host.refuse("higher-order", "vjp with options of its own", function="vjp")
    options = pullback.options

    def call(body: Any, primals: Any, cotangents: Any) -> Any:
        return eager_transforms._vjp_with_argnums(body, *primals, **options)[1](*cotangents)

    return record(host, "pullback", call, (pullback.primals, tuple(args)), [pullback.captured])


@answers_for(eager_transforms.linearize)
def call_linearize(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`linearize(func, *primals)`: the value now, and a function for later."""
    check_stays(host, Pushforward, "linearize")
    func, primals = args[0], tuple(args[1:])
    flatten(host, primals, "linearize")
    captured = capture(host, f, "linearize", func, primals, {}, undifferentiated, transformed=True)
    if captured.body.random or kwargs:
        raise host.refuse("higher-order", "linearize of a function that draws random numbers", function="linearize")
    value = record(host, "linearize", lambda body, primals: body(*primals), (primals,), [captured])
    return value, Pushforward(captured, primals, {})


def call_pushforward(host: Any, f: Frame, linear: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """The tangents of the value."""
    if kwargs:
        raise host.refuse("higher-order", "linearize: keyword arguments", function="linearize")

    def call(body: Any, primals: Any, tangents: Any) -> Any:
        return eager_transforms.jvp(body, primals, tangents)[1]

    return record(host, "pushforward", call, (linear.primals, tuple(args)), [linear.captured])


def check_stays(host: Any, kind: type, name: str) -> None:
    """Where such a function would leave the graph, torch makes it."""
    if kind in host.unmade:
        raise host.refuse("higher-order", f"{name}: the function it returns leaves the graph", function=name)


register_whole(Pullback, refuse)
register_whole(Pushforward, refuse)
CALLERS[id(Pullback)] = call_pullback
CALLERS[id(Pushforward)] = call_pushforward


@answers_for(eager_transforms._jvp_with_argnums)
def call_jvp(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`jvp(func, primals, tangents)`."""
    names = dict(zip(("func", "primals", "tangents", "argnums", "strict", "has_aux"), args, strict=False))
    names |= kwargs or {}
    func, primals, tangents = names.pop("func"), names.pop("primals"), names.pop("tangents")
    flatten(host, (primals, tangents, names), "jvp")
    if not isinstance(primals, tuple):
        raise host.refuse("higher-order", "jvp: primals that are no tuple", function="jvp")

    def call(body: Any, primals: Any, tangents: Any) -> Any:
        return function(body, primals, tangents, **names)

    captured = capture(host, f, "jvp", func, primals, {}, undifferentiated, transformed=True)
    return record(host, "jvp", call, (primals, tangents), [captured])
