"""Nodes that call torch's higher-order operators with captured functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from stator.tensors.bodies import Body
from stator.tensors.fakes import is_looking
from stator.tensors.meta import Meta
from stator.tensors.modes import read_state
from stator.tensors.plan import Group, New
from stator.tensors.rules.layout import is_row_major
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

Call = Callable[..., Sequence[Any]]


class Branch:
    """A body as a function of all values that the operator is given."""

    def __init__(self, body: Body, places: Sequence[int]) -> None:
        self.body = body
        self.places = tuple(places)
        self.__name__ = self.__qualname__ = "branch"

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return tuple(self.body.run(*(values[place] for place in self.places)))


class Padded(Branch):
    """A branch whose results have other sizes than those of the other one: padded to the larger, with their sizes."""

    def __init__(self, branch: Branch, plans: Sequence[Padding | None]) -> None:
        super().__init__(branch.body, branch.places)
        self.plans = plans

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        found, sizes = [], []
        for made, plan in zip(super().__call__(*values), self.plans, strict=True):
            if plan is not None:
                sizes += [torch.full((), made.size(dim), dtype=torch.int64, device="cpu") for dim in plan.dims]
                missing = [most - size for most, size in zip(plan.size, made.size(), strict=True)]
                made = torch.nn.functional.pad(made, [part for size in reversed(missing) for part in (0, size)])
            found.append(made)
        return *found, *sizes


class Padding(NamedTuple):
    """The sizes that fit the results of both branches, and the dimensions in which they differ, with bounds."""

    size: tuple[int, ...]
    dims: dict[int, tuple[int, int]]


def padding(one: Meta, other: Meta) -> Padding | None:
    """None: they have the same sizes; ValueError if they differ in something else."""
    if tuple(one.size) == tuple(other.size):
        return None
    sizes = list(zip(one.size, other.size, strict=False))
    plain = all(type(size) is int for pair in sizes for size in pair)
    kind = [(m.dtype, m.device, m.conj, m.neg, len(m.size), is_row_major(m)) for m in (one, other)]
    if kind[0] != kind[1] or not plain or not kind[0][-1] or one.dtype is torch.bool:
        raise ValueError
    dims = {dim: (min(pair), max(pair)) for dim, pair in enumerate(sizes) if pair[0] != pair[1]}
    return Padding(tuple(max(pair) for pair in sizes), dims)


def cut(recorder: Recorder, made: list[TracedTensor], plans: Sequence[Padding | None]) -> list[TracedTensor]:
    """The results without what they were padded with."""
    sizes, found = iter(made[len(plans) :]), []
    for one, plan in zip(made, plans, strict=False):
        if plan is not None:
            for dim, bounds in plan.dims.items():
                one = recorder.call(torch.narrow, (one, dim, 0, recorder.number_from_data(next(sizes), *bounds)), {})
            one = recorder.call(torch.clone, (one,), {"memory_format": torch.contiguous_format})
        found.append(one)
    return found


class Emulated(torch.autograd.Function):
    """The operator on fake tensors of a capture: what one of its functions gives, without looking into it."""

    @staticmethod
    def forward(ctx: Any, run: Any, *values: Any) -> Any:
        ctx.save_for_backward(*(value for value in values if isinstance(value, torch.Tensor)))
        ctx.tensors = [isinstance(value, torch.Tensor) for value in values]
        return tuple(run(*values))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        found = [next(saved) if is_tensor else None for is_tensor in ctx.tensors]
        return None, *(_like(one) for one in found)


def _like(tensor: Any) -> Any:
    able = tensor is not None and (tensor.is_floating_point() or tensor.is_complex())
    return torch.empty_like(tensor) if able else None


def operator(name: str, call: Call, emulate: Call, bodies: Sequence[Body]) -> Callable[..., Any]:
    """The function that a node calls: of the values that the operator is given."""

    def node(*values: Any) -> Any:
        if is_looking():
            return Emulated.apply(emulate, *values)
        return tuple(call(*values))

    node.__name__ = node.__qualname__ = name
    node.may_fail = any(body.may_fail for body in bodies)  # type: ignore[attr-defined]
    node.may_draw = any(body.random for body in bodies)  # type: ignore[attr-defined]
    return node


def record_operator(
    recorder: Recorder, function: Callable[..., Any], values: Sequence[Any], metas: Sequence[Meta], random: bool
) -> list[TracedTensor]:
    """Records the node; its results are new tensors with this metadata, which belong to autograd if a value does."""
    tensors = [value for value in values if type(value) is TracedTensor]
    nodes: Any = tuple(
        value._node if type(value) is TracedTensor else value.symbols.node(value.expr) for value in values
    )
    state = read_state()
    recorder.state.go_to(state)
    if recorder.sub is not None:
        recorder.sub.note(tensors)
        nodes = recorder.sub.adopt(nodes)
    node = recorder.nodes.add("call_function", function, nodes, {}, function.__name__)
    if random:
        recorder.kept.add(node)
    recorded = state.grad and not state.inference and any(one._meta.requires_grad for one in tensors)
    results = [_result_meta(meta, recorded).with_inference(state.inference) for meta in metas]
    node.meta.value = Group(tuple, tuple(map(New, results)))
    made = []
    for index, meta in enumerate(results):
        item = recorder.nodes.item(node, index)
        item.meta.value = New(meta)
        made.append(recorder.new(meta, item, recorder.memory()))
    return made


def _result_meta(meta: Meta, recorded: bool) -> Meta:
    recorded = recorded and (meta.dtype.is_floating_point or meta.dtype.is_complex)
    return meta.with_autograd(recorded, not recorded)
