"""`torch.autograd.grad` as a node of the graph, `requires_grad_`, and gradients of leaves made while capturing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from stator.tensors.bodies import Body
from stator.tensors.meta import Meta, meta_of
from stator.tensors.modes import read_state
from stator.tensors.plan import Constant, Group, New
from stator.tensors.replay import Replay
from stator.tensors.signals import UnsupportedOp
from stator.tensors.subclasses import PLAIN
from stator.tensors.targets import register
from stator.tensors.traced import Storage, TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

Traced = list[TracedTensor]


class Hook(NamedTuple):
    """A hook that may change the gradient of a tensor: a graph of that, and what it takes from around it."""

    tensor: TracedTensor
    body: Body
    taken: list[TracedTensor]


def record_gradients(
    recorder: Recorder,
    outputs: Traced,
    inputs: Traced,
    grads: list[TracedTensor | None] | None,
    *,
    keep_missing: bool = True,
    hooks: Sequence[Hook] = (),
    **options: Any,
) -> list[TracedTensor | None]:
    """Gradients of outputs with respect to inputs; None for what is not reached, which need not be in the graph."""
    _check(recorder, [*outputs, *inputs])
    recorder.state.go_to(read_state())
    replay = recorder.replay = recorder.replay or Replay(recorder)
    with torch._C.DisableTorchFunction():
        fakes = replay.gradients(outputs, inputs, grads, hooks, **options)
    if not keep_missing:
        reached = [i for i, fake in enumerate(fakes) if fake is not None]
        inputs = [inputs[i] for i in reached]
        found = _record(recorder, replay, outputs, inputs, grads, [fakes[i] for i in reached], hooks, options)
        places = dict(zip(reached, found, strict=True))
        return [places.get(i) for i in range(len(fakes))]
    return _record(recorder, replay, outputs, inputs, grads, list(fakes), hooks, options)


def gradient_meta(recorder: Recorder, outputs: Traced, traced: TracedTensor, grads: Any, hooks: Any) -> Meta | None:
    """What the gradient of a tensor looks like to its hooks; None if a backward does not come to it."""
    _check(recorder, [*outputs, traced])
    recorder.state.go_to(read_state())
    replay = recorder.replay = recorder.replay or Replay(recorder)
    with torch._C.DisableTorchFunction():
        fake = replay.gradients(outputs, [traced], grads, hooks, retain_graph=True, allow_unused=True)[0]
        return None if fake is None else meta_of(fake).with_autograd(False, True)


def hooked_gradients(hooks: Sequence[Hook]) -> Callable[..., Any]:
    """`torch.autograd.grad` with hooks on tensors, for a node."""
    bodies = [(hook.body, len(hook.taken)) for hook in hooks]

    def grad(outputs: Any, inputs: Any, grads: Any, tensors: Any, taken: Any, **options: Any) -> Any:
        handles, first = [], 0
        try:
            for tensor, (body, count) in zip(tensors, bodies, strict=True):
                handles.append(tensor.register_hook(body.function(taken[first : first + count])))
                first += count
            return torch.autograd.grad(outputs, inputs, grads, **options)
        finally:
            for handle in handles:
                handle.remove()

    return grad


def _check(recorder: Recorder, ends: Traced) -> None:
    if recorder.has_sizes_from_data():
        raise UnsupportedOp("torch.autograd.grad", "sizes that only data tells", "autograd")
    if recorder.sub is not None:
        raise UnsupportedOp("torch.autograd.grad", "inside of a backward", "autograd")
    for one in ends:
        recorder.doubts.look(one)
    recorder.told_leaves = True
    met: set[str] | None = None
    for name in recorder.inputs:
        meta = recorder.meta_of_input(name)
        if type(meta) is not torch.SymInt and meta.requires_grad and not meta.leaf:
            met = _met(recorder, ends) if met is None else met
            if name in met:
                raise UnsupportedOp("torch.autograd.grad", f"{name} has a history outside of the graph", "autograd")


def _met(recorder: Recorder, ends: Traced) -> set[str]:
    """The inputs that a backward could come to: those of which these were made, or anything that was written."""
    waiting = [*(one._node for one in ends), *recorder.readings.writers]
    seen = set(waiting)
    while waiting:
        fresh = [node for node in waiting.pop().all_input_nodes if node not in seen]
        seen.update(fresh)
        waiting += fresh
    return {node.name for node in seen if node.op == "placeholder"}


def _record(
    recorder: Recorder,
    replay: Replay,
    outputs: Traced,
    inputs: Traced,
    grads: list[TracedTensor | None] | None,
    fakes: list[Any],
    hooks: Sequence[Hook],
    options: dict[str, Any],
) -> list[TracedTensor | None]:
    if not inputs:
        return []
    if recorder.traces:  # a trace frees nothing; what it returns may be differentiated once more
        options = {**options, "retain_graph": True}
    nodes = ([one._node for one in outputs], [one._node for one in inputs])
    given = None if grads is None else [None if one is None else one._node for one in grads]
    named = {name: value for name, value in options.items() if value is not None and value is not False}
    function: Any = torch.autograd.grad
    args: tuple[Any, ...] = (*nodes, given)
    if hooks:
        function = hooked_gradients(hooks)
        args += ([hook.tensor._node for hook in hooks], [one._node for hook in hooks for one in hook.taken])
    node = recorder.nodes.add("call_function", function, args, named, "grad")
    recorder.kept.add(node)
    with torch._C.DisableTorchFunction():
        metas = [None if fake is None else meta_of(fake) for fake in fakes]
        owners = [None if fake is None else replay.owner(fake) for fake in fakes]
    node.meta.value = Group(tuple, tuple(Constant(None) if meta is None else New(meta) for meta in metas))
    replay.note(node, tuple(fakes))
    found: list[TracedTensor | None] = []
    for i, (fake, meta) in enumerate(zip(fakes, metas, strict=True)):
        if meta is None:
            found.append(None)
            continue
        item = recorder.nodes.item(node, i)
        item.meta.value = New(meta)
        found.append(recorder.new(meta, item, _memory(recorder, owners[i])))
        replay.note(item, fake)
    return found


def _memory(recorder: Recorder, owner: Any) -> Storage:
    """The memory of a gradient: that of another tensor if autograd passed it on."""
    if owner is not None:
        for traced in recorder.alive():
            if traced._node is owner:
                traced._storage.shared = True
                return traced._storage
        shared = Storage()
        shared.shared = True
        return shared
    return Storage()


def _requires_grad(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`requires_grad_` of a leaf made while capturing; or of one from outside, where the graph runs as it is."""
    traced = args[0]
    wanted = kwargs.get("requires_grad", args[1] if len(args) > 1 else True)
    meta = traced._meta
    if meta.requires_grad == wanted:
        return traced
    recorder.told_leaves = True
    floating = meta.dtype.is_floating_point or meta.dtype.is_complex
    outside = recorder.real(traced) is not None
    if type(wanted) is not bool or not meta.leaf or not floating or meta.inference or recorder.sub is not None:
        raise UnsupportedOp("Tensor.requires_grad_", "", "tensor-metadata")
    if (outside and recorder.traces) or recorder.no_leaves or not (outside or traced._stands_for in PLAIN):
        raise UnsupportedOp("Tensor.requires_grad_", "a leaf that comes out of the graph", "tensor-metadata")
    if outside and traced._node.op != "placeholder":  # another tensor stands for it in the graph
        raise UnsupportedOp("Tensor.requires_grad_", "its data was replaced", "tensor-metadata")
    if any(one() is not None and one() is not traced for one in traced._family or ()):  # they change, too
        raise UnsupportedOp("Tensor.requires_grad_", "there are views of its memory", "tensor-metadata")
    recorder.state.go_to(read_state())
    changed = meta.with_autograd(wanted, True)
    node = recorder.nodes.add("call_method", "requires_grad_", (traced._node, wanted), {}, "requires_grad")
    node.meta.value = New(changed)
    recorder.kept.add(node)
    traced._meta = changed
    if not outside:
        traced._node = node
        recorder.leaves.append(traced)
    return traced


register(torch.Tensor.requires_grad_, _requires_grad)


def as_gradient(recorder: Recorder, leaf: TracedTensor, grad: TracedTensor) -> TracedTensor:
    """What autograd stores as the gradient of a leaf: memory of its own, in the layout of the leaf."""
    if grad._meta.stride == leaf._meta.stride and not grad._storage.shared and not grad._meta.requires_grad:
        grad._storage.shared = True
        return grad
    if grad._meta.requires_grad:
        return recorder.call(torch.Tensor.clone, (grad,), {})
    with torch.no_grad():
        made = recorder.call(torch.empty_like, (leaf,), {})
        return recorder.call(torch.Tensor.copy_, (made, grad), {})
