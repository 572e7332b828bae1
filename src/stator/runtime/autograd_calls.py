"""`torch.autograd.grad` and `backward` inside a captured program."""

from __future__ import annotations

from typing import Any

import torch

from stator.errors import Unsupported
from stator.frame import Frame, native
from stator.guards.check import IS, LEN
from stator.native.rows import standin
from stator.runtime import backward_warning
from stator.runtime.tensor_attributes import read_outside, write_outside
from stator.runtime.tensor_hooks import captured, change, check_none, hooked, retains, run_hooks
from stator.tensors.gradients import as_gradient, record_gradients
from stator.tensors.traced import TracedTensor

GRAD = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
        "is_grads_batched", "materialize_grads")  # fmt: skip
BACKWARD = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
METHOD = ("tensors", "grad_tensors", "retain_graph", "create_graph", "inputs")
METHOD_NAMES = {"gradient": "grad_tensors"}


def bound(host: Any, names: tuple[str, ...], args: list[Any], kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Arguments by name; a call that does not fit is left to CPython."""
    given = dict(zip(names, args, strict=False))
    for name, value in (kwargs or {}).items():
        name = METHOD_NAMES.get(name, name)
        if name in given or name not in names:
            raise host.refuse("autograd", "arguments that do not fit", function="torch.autograd")
        given[name] = value
    if len(args) > len(names) or len(given) < 1:
        raise host.refuse("autograd", "arguments that do not fit", function="torch.autograd")
    return given


def tensors(host: Any, f: Frame, value: Any, holes: bool = False) -> list[Any]:
    """One tensor, or the tensors in something that can be iterated over."""
    found = [value] if type(value) is TracedTensor or value is None else list(native(f, tuple, value))
    if not found or not all(type(one) is TracedTensor or (holes and one is None) for one in found):
        raise host.refuse("autograd", "something that is no tensor", function="torch.autograd")
    return found


@standin(torch.autograd.grad, everywhere=True)
def stand_grad(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Gradients as a node of the graph."""
    given = bound(host, GRAD, args, kwargs)
    if given.get("is_grads_batched") or "inputs" not in given or given.get("only_inputs", True) is not True:
        raise host.refuse("autograd", "batched gradients", function="torch.autograd.grad")
    inputs = given["inputs"]
    names = list(inputs) if type(inputs) is dict else None
    outputs = tensors(host, f, given["outputs"])
    wanted = tensors(host, f, list(inputs.values()) if names is not None else inputs)
    grads = given.get("grad_outputs")
    if grads is not None:
        grads = tensors(host, f, grads, holes=True)
    options: dict[str, Any] = {
        name: given.get(name) for name in ("retain_graph", "create_graph", "allow_unused", "materialize_grads")
    }
    options = {name: value for name, value in options.items() if value is not None}
    for one in wanted:
        if one._meta.leaf and one._meta.requires_grad:
            check_hooks(host, one)
    if options.get("create_graph") or retains(host):
        check_none(host, "torch.autograd.grad")
    try:
        hooks = captured(host, f, outputs, grads, "torch.autograd.grad") if host.hooks else []
        found = record_gradients(host.recorder, outputs, wanted, grads, hooks=hooks, **options)
    except Unsupported as error:
        raise host.located(error) from None
    return tuple(found) if names is None else dict(zip(names, found, strict=True))


@standin(torch.Tensor.backward, everywhere=True)
def stand_method(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return backward(host, f, bound(host, METHOD, args, kwargs))


@standin(torch.autograd.backward, everywhere=True)
def stand_backward(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return backward(host, f, bound(host, BACKWARD, args, kwargs))


def backward(host: Any, f: Frame, given: dict[str, Any]) -> None:
    """Gradients of all leaves, added to what they have."""
    host.backwards += 1
    recorder = host.recorder
    if given.get("grad_variables") is not None:
        raise host.refuse("autograd", "grad_variables", function="torch.autograd.backward")
    outputs = tensors(host, f, given["tensors"])
    grads = given.get("grad_tensors")
    if grads is not None:
        grads = tensors(host, f, grads, holes=True)
    create_graph = bool(given.get("create_graph"))
    if create_graph:
        backward_warning.note(host, f)
    retain_graph = given.get("retain_graph")
    chosen = given.get("inputs")
    leaves = leaves_of(host) if chosen is None else tensors(host, f, chosen)
    for leaf in leaves:
        check_hooks(host, leaf)
    watching = hooked(host) if host.hooks else []
    if watching and (create_graph or chosen is not None or (change(host) and retains(host))):
        check_none(host, "Tensor.backward")
    options = {"create_graph": create_graph, "retain_graph": create_graph if retain_graph is None else retain_graph}
    try:
        wanted = [*leaves, *(traced for traced in watching if not any(traced is leaf for leaf in leaves))]
        hooks = captured(host, f, outputs, grads, "Tensor.backward") if change(host) else []
        found = record_gradients(
            recorder, outputs, wanted, grads, keep_missing=False, hooks=hooks, allow_unused=True, **options
        )
        if watching and not hooks:
            observe(host, f, watching, wanted, found)
        for leaf, grad in zip(leaves, found, strict=False):
            if grad is not None:
                accumulate(host, f, leaf, grad, create_graph)
    except Unsupported as error:
        raise host.located(error) from None


def observe(host: Any, f: Frame, watching: list[Any], wanted: list[Any], found: list[Any]) -> None:
    """The hooks of tensors that the backward reached, in the state that autograd runs them in."""
    grads = {id(traced): grad for traced, grad in zip(wanted, found, strict=True)}
    enabled = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    try:
        for traced in watching:
            if grads[id(traced)] is not None:
                run_hooks(host, f, traced, grads[id(traced)])
    finally:
        torch._C._set_grad_enabled(enabled)


def leaves_of(host: Any) -> list[Any]:
    """Tensors that a backward may reach: from outside, in the order they came, and made while capturing."""
    recorder = host.recorder
    outside = [traced for traced in recorder.alive() if recorder.real(traced) is not None]
    return [leaf for leaf in (*outside, *recorder.leaves) if leaf._meta.requires_grad and leaf._meta.leaf]


def check_hooks(host: Any, leaf: Any) -> None:
    """Hooks on a leaf would run now; there must be none whenever the entry runs."""
    record = host.records.get(id(leaf))
    if not leaf._meta.leaf or not leaf._meta.requires_grad:
        raise host.refuse("autograd", "backward to a tensor that is no leaf", function="torch.autograd.backward")
    if record is None:
        return
    with host.recorder.paused():
        hooked = record.obj._backward_hooks or record.obj._post_accumulate_grad_hooks
    if hooked:
        raise host.refuse("gradient-hook", "hooks on a leaf", function="Tensor.backward")
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        there = getattr(record.obj, name) is not None  # a dict without any left
        host.guards.add(record.path.get(name), *((LEN, 0) if there else (IS, None)), host.origin())


def accumulate(host: Any, f: Frame, leaf: Any, grad: Any, create_graph: bool) -> None:
    """What autograd does with the gradient of a leaf."""
    recorder = host.recorder
    record = host.records.get(id(leaf))
    before = read_outside(host, f, record, "grad") if record is not None else recorder.inner_grad(leaf)
    enabled = torch.is_grad_enabled()
    torch._C._set_grad_enabled(create_graph)
    try:
        if before is None:
            after = as_gradient(recorder, leaf, grad)
        elif create_graph:
            after = recorder.call(torch.Tensor.add, (before, grad), {})
        else:
            after = recorder.call(torch.Tensor.add_, (before, grad), {})
    finally:
        torch._C._set_grad_enabled(enabled)
    if record is None:
        recorder.inner_grads[id(leaf)] = leaf, after
    elif after is not before:
        write_outside(host, record, "grad", after)
