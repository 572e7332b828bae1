"""Results of a custom `autograd.Function`: tensors computed under no_grad, tied to a backward that is a graph.

The forward of the program's function is recorded like any other code. One node then makes its results what they are
in eager: results of a function whose backward runs the recorded graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

from stator.tensors.modes import read_state
from stator.tensors.plan import Group, New
from stator.tensors.traced import TracedTensor, make_view

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

MADE, INPUT, DIRTY = "made", "input", "dirty"
Tensors = Sequence[Any]
Pattern = tuple[bool, ...]  # by tensor among the results: whether there is a gradient for it


@dataclass
class Gradients:
    """Backward as a graph."""

    run: Callable[..., Any]  # of the gradients of the results, then of what it takes
    given: tuple[int | None, ...]  # by input: which result of the graph is its gradient
    written: tuple[bool, ...]  # by gradient: the graph writes to it
    taken: list[Any]  # nodes of the graph around it that it takes
    order: tuple[int, ...] = ()  # their places among what is kept for backward

    def ordered(self, kept: list[Any]) -> Gradients:
        """The same without references to nodes: it outlives the graph around it."""
        return replace(self, order=tuple(kept.index(node) for node in self.taken), taken=[])

    def __call__(self, grads: Tensors, kept: Tensors) -> tuple[Any, ...]:
        plain = [usable(grad, written) for grad, written in zip(grads, self.written, strict=True)]
        found = self.run(*plain, *(kept[place] for place in self.order))
        return tuple(None if place is None else found[place] for place in self.given)


@dataclass
class Failure:
    """A backward that raises."""

    kind: type[BaseException]
    args: tuple[Any, ...]
    taken: tuple[Any, ...] = ()

    def ordered(self, kept: list[Any]) -> Failure:
        return self

    def __call__(self, grads: Tensors, kept: Tensors) -> tuple[Any, ...]:
        raise self.kind(*self.args)


Variants = dict[Pattern, Gradients | Failure]


@dataclass(frozen=True)
class Tie:
    """How the results of one call hang together with its backward."""

    name: str  # of the program's class: the name of `grad_fn`
    outputs: tuple[tuple[str, int], ...]  # (MADE, number of the made tensor) or (INPUT or DIRTY, number of the input)
    differentiable: tuple[bool, ...]  # by output
    materialize: bool
    once: bool  # backward cannot be differentiated
    plain: Variants
    second: Variants  # in grad mode, for derivatives of gradients; those that are missing were not compiled
    inputs: int  # their number
    clears: bool  # saved tensors are gone once they were read
    reads: bool  # backward asks for saved tensors, which are gone once it has run


@dataclass(frozen=True)
class Result:
    """One tensor that forward returned."""

    kind: str
    index: int  # among made tensors or inputs
    differentiable: bool
    tensor: TracedTensor


class Hidden:
    """Tensors that autograd does not take for inputs."""

    def __init__(self, *groups: Tensors) -> None:
        self.groups = groups


def tied(tie: Tie) -> Callable[..., Any]:
    """The function that a node calls: of inputs, made tensors, saved tensors and the rest that backward needs."""

    def forward(ctx: Any, hidden: Hidden, *inputs: Any) -> Any:
        made, saved, ctx.rest = hidden.groups
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(tie.materialize)
        results = [made[index] if kind is MADE else inputs[index] for kind, index in tie.outputs]
        ctx.mark_dirty(*(inputs[index] for kind, index in tie.outputs if kind is DIRTY))
        ctx.mark_non_differentiable(*(r for r, yes in zip(results, tie.differentiable, strict=True) if not yes))
        return tuple(results)

    def backward(ctx: Any, *grads: Any) -> Any:
        kept = [*(ctx.saved_tensors if tie.reads else ()), *ctx.rest]
        if all(grad is None for grad in grads):
            return (None,) * (1 + tie.inputs)
        pattern = tuple(grad is not None for grad in grads)
        graph = (tie.second if torch.is_grad_enabled() else tie.plain).get(pattern)
        if graph is None:
            raise RuntimeError(
                f"{tie.name}: derivatives of this order are not compiled; exclude it with stator.disable"
            )
        return None, *graph([grad for grad in grads if grad is not None], kept)

    members = {
        "forward": staticmethod(forward),
        "backward": staticmethod(once_differentiable(backward) if tie.once else backward),
        "clear_saved_tensors_on_access": tie.clears,
    }
    function: Any = type(torch.autograd.Function)(tie.name, (torch.autograd.Function,), members)

    def call(inputs: Tensors, made: Tensors, saved: Tensors, rest: Tensors) -> Any:
        return function.apply(Hidden(made, saved, rest), *inputs)

    call.__name__ = call.__qualname__ = f"tie_{tie.name}"
    return call


def usable(grad: Any, written: bool) -> Any:
    """A gradient as the graph was recorded for: contiguous, and in a trace no input of it if backward writes to it."""
    grad = grad.contiguous()
    return grad.clone() if written and type(grad) is not torch.Tensor else grad


def record_tie(
    recorder: Recorder,
    tie: Tie,
    inputs: list[TracedTensor],
    made: list[TracedTensor],
    hidden: tuple[list[Any], list[Any]],  # nodes of saved tensors and of the rest
    results: list[Result],
) -> list[TracedTensor]:
    """Records the node, and makes the results what they are behind it."""
    nodes: Any = ([one._node for one in inputs], [one._node for one in made], *hidden)
    if recorder.sub is not None:
        nodes = recorder.sub.adopt(nodes)
    recorder.state.go_to(read_state())
    node = recorder.nodes.add("call_function", tied(tie), nodes, {}, tie.name)
    if any(result.kind is DIRTY for result in results):
        recorder.kept.add(node)
    metas = [one.tensor._meta.with_autograd(True, False) if one.differentiable else one.tensor._meta for one in results]
    node.meta.value = Group(tuple, tuple(map(New, metas)))
    return [_tied_result(recorder, node, i, *pair) for i, pair in enumerate(zip(results, metas, strict=True))]


def _tied_result(recorder: Recorder, node: Any, index: int, result: Result, meta: Any) -> TracedTensor:
    item = recorder.nodes.item(node, index)
    item.meta.value = New(meta)
    tensor = result.tensor
    if result.kind is INPUT:  # another tensor on the same memory
        twin = recorder.new(meta, item, tensor._storage)
        make_view(twin, tensor)
        return twin
    if result.kind is DIRTY:
        recorder.update(tensor, meta)
    tensor._node, tensor._meta = item, meta
    recorder.readings.homes[item] = tensor._storage
    return tensor
