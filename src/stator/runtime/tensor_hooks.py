"""Hooks on tensors: the entry function registers them on the real tensors after the graph ran.

A tensor of the graph that has a hook is returned by it. Where the graph runs as it is, that is the tensor which later
operations used; a trace gives copies, so there only tensors from outside can have hooks.
"""

from __future__ import annotations

from typing import Any

import torch

from stator.emit.plan import CannotRebuild, Heap, Plan
from stator.emit.recipes import register_whole
from stator.errors import Again
from stator.frame import Frame
from stator.guards import path as paths
from stator.native.attribute_rows import READERS
from stator.native.callers import CALLERS
from stator.native.rows import standin
from stator.runtime.bodies import capture
from stator.tensors.gradients import Hook, gradient_meta
from stator.tensors.subclasses import PLAIN
from stator.tensors.targets import register
from stator.tensors.traced import TracedTensor


class HookHandle:
    """Stands for the handle of a hook that is yet to be registered."""

    __slots__ = ("row",)

    def __init__(self, row: Any) -> None:
        self.row = row

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return torch.utils.hooks.RemovableHandle


class Removal:
    """`handle.remove`, yet to be called."""

    __slots__ = ("handle",)

    def __init__(self, handle: HookHandle) -> None:
        self.handle = handle


def attach(host: Any, function: Any, traced: Any, args: list[Any]) -> Any:
    """Registers later, in the order of the program; until then nobody may write to the tensor."""
    name = f"Tensor.{function.__name__}"
    meta = traced._meta
    host.recorder.doubts.look(traced)
    host.recorder.told_leaves = True
    outside = host.recorder.real(traced) is not None
    if not meta.requires_grad or host.recorder.sub is not None:
        raise host.refuse("autograd", "a tensor that does not require grad", function=name)
    if host.recorder.traces and not outside and HOOKING in host.whole_paths:
        raise host.refuse("autograd", "the backend gives other tensors than it works with", function=name)
    if not outside and traced._stands_for not in PLAIN:
        raise host.refuse("gradient-hook", "the graph gives another object of the subclass", function=name)
    if function is torch.Tensor.register_post_accumulate_grad_hook and not meta.leaf:
        raise host.refuse("autograd", "a tensor that is no leaf", function=name)
    traced._storage.fixed = "a write to a tensor with a hook"
    host.defer(function, [traced, *args], None)
    host.hooks.append(host.effects[-1])
    return host.effects[-1]


@standin(torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook, everywhere=True)
def stand_hook(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) != 2 or kwargs or type(args[0]) is not TracedTensor:
        raise host.refuse("autograd", "a hook by other arguments", function=f"Tensor.{function.__name__}")
    return HookHandle(attach(host, function, args[0], args[1:]))


def retain(recorder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`retain_grad()`: of a leaf it does nothing."""
    host = recorder.host
    recorder.told_leaves = True
    if not (args[0]._meta.leaf and args[0]._meta.requires_grad):
        attach(host, torch.Tensor.retain_grad, args[0], [])


CHANGING = paths.const("hooks that change gradients inside of the graph")
HOOKING = paths.const("hooks on tensors of a graph that is traced")


def check(host: Any) -> None:
    """At the end: a trace would not run hooks on its own tensors; the capture is made again, with a break."""
    if host.recorder.traces and any(host.recorder.real(row[1][0]) is None for row in host.hooks):
        raise Again(HOOKING)


def check_none(host: Any, what: str) -> None:
    """Gradients that are taken inside would run hooks that do not exist yet."""
    if host.hooks:
        raise host.refuse("autograd", "gradients through tensors with hooks", function=what)


def hooked(host: Any) -> list[Any]:
    """Tensors whose hooks a backward runs, in the order it does that: those made last come first."""
    found = {id(args[0]): args[0] for _, args, _ in host.hooks}
    if any(function is torch.Tensor.register_post_accumulate_grad_hook for function, _, _ in host.hooks):
        check_none(host, "Tensor.backward")
    order = {node: place for place, node in enumerate(host.recorder.graph.nodes)}
    return sorted(found.values(), key=lambda traced: -order[traced._node])


def run_hooks(host: Any, f: Frame, traced: Any, grad: Any) -> None:
    """Hooks that look at a gradient, as all of a tensor see the same one; one that changes it cannot be served."""
    memory, before = grad._storage, grad._storage.fixed
    memory.fixed = "a hook that writes to the gradient"  # which autograd passes on
    for function, args, _ in list(host.hooks):
        if args[0] is not traced:
            continue
        if function is torch.Tensor.retain_grad:
            host.recorder.inner_grads[id(traced)] = traced, host.recorder.call(torch.clone, (grad,), {})
        elif host.call(f, args[1], [grad], None) is not None:
            raise Again(CHANGING)
    memory.fixed = before


def change(host: Any) -> bool:
    """Whether hooks are graphs of their own, since one of them was seen to change a gradient."""
    return bool(host.hooks) and CHANGING in host.whole_paths


def captured(host: Any, f: Frame, outputs: list[Any], grads: Any, name: str) -> list[Hook]:
    """The hooks that a backward from here runs, in the order it does that, each as a graph of the gradient."""
    hooks: list[Hook] = []
    enabled = torch.is_grad_enabled()
    for traced in hooked(host):
        meta = gradient_meta(host.recorder, outputs, traced, grads, hooks)
        rows = [args[1] for function, args, _ in host.hooks if args[0] is traced and len(args) == 2]
        if meta is None or not rows:
            continue
        torch._C._set_grad_enabled(False)
        try:
            made = [capture(host, f, name, hook, [traced], {}, lambda place, outer: meta) for hook in rows]
        finally:
            torch._C._set_grad_enabled(enabled)
        for one in made:
            results = [(out.size, out.dtype, out.device) for out in one.outputs]
            plain = all(type(value) is TracedTensor for value in one.taken)
            if not plain or results not in ([], [(meta.size, meta.dtype, meta.device)]):
                raise host.refuse("gradient-hook", "a hook that gives something else than a gradient", function=name)
            hooks.append(Hook(traced, one.body, one.taken))
    return hooks


def retains(host: Any) -> bool:
    return any(function is torch.Tensor.retain_grad for function, _, _ in host.hooks)


def read_handle(host: Any, f: Frame, handle: HookHandle, name: str) -> Any:
    if name == "remove":
        return Removal(handle)
    raise host.refuse("autograd", f"RemovableHandle.{name}", function=f"RemovableHandle.{name}")


def remove(host: Any, f: Frame, removal: Removal, args: list[Any], kwargs: Any) -> None:
    """The hook is not registered at all."""
    row = removal.handle.row
    for rows in (host.effects, host.hooks):
        rows[:] = [one for one in rows if one is not row]


def refuse(obj: Any, solid: Any, heap: Heap) -> Plan:
    raise CannotRebuild(obj, "the handle of a hook exists only once it is registered")


@standin(torch._C._autograd._push_saved_tensors_default_hooks, torch._C._autograd._pop_saved_tensors_default_hooks)
def stand_saved(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Hooks on saved tensors run when autograd saves them, which a capture does not see."""
    raise host.refuse("gradient-hook", "hooks on saved tensors", function="saved_tensors_hooks")


register(torch.Tensor.retain_grad, retain)
READERS[id(HookHandle)] = read_handle
CALLERS[id(Removal)] = remove
register_whole(HookHandle, refuse)
register_whole(Removal, refuse)
