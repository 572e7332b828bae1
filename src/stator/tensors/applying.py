"""What a plan does to the graph and to the traced tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from stator.tensors.data import is_replaced
from stator.tensors.failing import may_fail
from stator.tensors.modes import State
from stator.tensors.plan import Again, Constant, Group, New, Plan, Same
from stator.tensors.signals import OpFailed, UnsupportedOp, describe
from stator.tensors.subgraph import left_its_graph
from stator.tensors.targets import Target
from stator.tensors.traced import LEAF_VIEW, SEALED, TracedTensor, make_view, views_leaf

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


def _fails_outside(plan: Plan, state: State, tensors: list[TracedTensor]) -> bool:
    """Whether torch may refuse to write to a tensor of inference mode, or to save it for backward."""
    if any(tensors[index]._meta.inference for index in plan.mutated):
        return True
    return state.grad and any(traced._meta.requires_grad for traced in tensors)


def apply(
    recorder: Recorder,
    target: Target,
    plan: Plan,
    state: State,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TracedTensor],
) -> Any:
    """Does to the graph and to the traced tensors what the plan says."""
    for traced in tensors:
        if traced._recorder is not recorder:
            raise UnsupportedOp(describe(target.func), "a traced tensor of another capture", "tensor-escaped")
        if traced._meta.inference and not state.inference and _fails_outside(plan, state, tensors):
            raise UnsupportedOp(describe(target.func), "a tensor of inference mode outside it", "tensor-metadata")
    if plan.silent:
        return _result(recorder, plan.result, None, tensors, [])
    if state.grad and not recorder.traces:  # compilers refuse by themselves, and give other views than these
        _check_sealed(target, plan, tensors)
    elif state.grad and recorder.eased and any(map(is_sealed_by_mode, tensors)):
        raise UnsupportedOp(describe(target.func), "a view made without gradients, outside", "tensor-metadata")
    if plan.warns and not recorder.may_warn():
        raise UnsupportedOp(describe(target.func), "it warns while the program has filters of its own", "native-effect")
    if plan.in_kernel and recorder.traces and recorder.may_break():
        raise UnsupportedOp(describe(target.func), "its kernel warns", "native-effect")
    if recorder.traces and (target.name in _RESIZING or "out" in kwargs):
        for index, meta in plan.updates:
            _check_growth(recorder, target, tensors[index], meta)
    for index in {*plan.mutated, *(index for index, _ in plan.updates)}:
        recorder.doubts.look(tensors[index])
    for index in plan.mutated:
        if not recorder.traces and recorder.may_break() and is_replaced(recorder, tensors[index]):
            raise UnsupportedOp(describe(target.func), "a write to a tensor whose data was set", "tensor-metadata")
        if reason := tensors[index]._storage.fixed:
            raise UnsupportedOp(describe(target.func), reason, "tensor-metadata")
        if recorder.fallible and recorder.sub is None and not tensors[index]._storage.mutated:
            recorder.before_write(tensors[index])
        if state.grad and (views_leaf(tensors[index]) or recorder._inputs.views_leaf(tensors[index])):
            raise OpFailed(RuntimeError(LEAF_VIEW), describe(target.func))
    if state != recorder.state.now:
        recorder.state.go_to(state)
    if recorder.sub is not None:
        recorder.sub.note(tensors)
        args, kwargs = recorder.sub.adopt(args), recorder.sub.adopt(kwargs)
        _check_inner(recorder, target, plan, tensors)
    elif any(traced._node.graph is not recorder.graph for traced in tensors):
        raise left_its_graph()
    if recorder.symbols is not None and recorder.symbols.assertions:
        recorder.numbers.write_checks()
    node = recorder.nodes.add(target.op, target.target, args, kwargs, target.name)
    if plan.bindings and recorder.symbols is not None:
        recorder.symbols.makers.update(dict.fromkeys(plan.bindings, recorder.symbols.stack()))
        recorder.numbers.sources.update({symbol: (node, path) for symbol, path in plan.bindings.items()})
    node.meta.warns = plan.warns
    if recorder.ends_before_failures and may_fail(node) and recorder._inputs.writers():
        raise UnsupportedOp(describe(target.func), "it may fail behind a write that cannot be undone", "autograd")
    if not plan.pure:
        recorder.kept.add(node)
        node.meta.pure, node.meta.writes = False, bool(plan.mutated)
        for index in plan.mutated:
            tensors[index]._storage.mutated = True
            tensors[index]._storage.writes.append(node)
            recorder.writes += 1
            recorder.readings.writers.add(node)
    if plan.single is not None:
        node.meta.value = plan.result
        return recorder.new(plan.single, node, recorder.memory())
    for index, meta in plan.updates:
        recorder.update(tensors[index], meta)
    node.meta.value = plan.result if type(plan.result) is not Same else New(tensors[plan.result.index]._meta)
    made: list[TracedTensor] = []
    result = _result(recorder, plan.result, node, tensors, made)
    if not state.grad or target.name in _SEVERAL_VIEWS:
        seal(made)
    return result


_SEVERAL_VIEWS = frozenset({"chunk", "split", "split_with_sizes", "unbind"})


def seal(views: list[TracedTensor]) -> None:
    """Notes that autograd does not follow writes to these views: one of several results, or made without gradients."""
    for view in views:
        if view._family is not None:
            view._sealed = len(view._storage.writes)


def is_sealed_by_mode(traced: TracedTensor) -> bool:
    """Whether inference mode or no_grad makes a difference to what autograd does with a view that was made in it."""
    return traced._sealed is not None and not traced._meta.inference


def _check_sealed(target: Target, plan: Plan, tensors: list[TracedTensor]) -> None:
    """Autograd refuses to write to sealed views, and to use them once somebody has written to their memory."""
    if not any(traced._meta.requires_grad for traced in tensors):
        return
    for index, traced in enumerate(tensors):
        if traced._sealed is None:
            continue
        stale = traced._meta.requires_grad and traced._sealed != len(traced._storage.writes)
        if stale or index in plan.mutated:
            raise OpFailed(RuntimeError(SEALED), describe(target.func))


_RESIZING = frozenset({"resize_", "resize_as_"})


def _check_growth(recorder: Recorder, target: Target, traced: TracedTensor, meta: Any) -> None:
    """AOTAutograd gives a tensor from outside the sizes that it gets in a graph, but not the memory for them."""
    sizes = (*traced._meta.size, *meta.size)
    is_less = all(type(size) is int for size in sizes) and prod(meta.size) <= prod(traced._meta.size)
    if not is_less and recorder._inputs.within(traced._storage):
        raise UnsupportedOp(describe(target.func), "a tensor from outside gets other memory", "tensor-metadata")


def _check_inner(recorder: Recorder, target: Target, plan: Plan, tensors: list[TracedTensor]) -> None:
    """A graph inside of another one runs later: it must leave the tensors of that one as they are."""
    assert recorder.sub is not None
    for index in {*plan.mutated, *(index for index, _ in plan.updates)}:
        storage = tensors[index]._storage
        if not recorder.sub.owns(storage):
            raise UnsupportedOp(describe(target.func), recorder.sub.why, "autograd")
        recorder.sub.written.append(storage)


def _result(recorder: Recorder, what: Any, node: Any, tensors: list[TracedTensor], made: list[TracedTensor]) -> Any:
    kind = type(what)
    if kind is New:
        return _new_result(recorder, what, node, tensors, made)
    if kind is Same:
        return tensors[what.index]
    if kind is Again:
        return made[what.index]
    if kind is Constant:
        return what.value
    return _group(recorder, what, node, tensors, made)


def _new_result(
    recorder: Recorder, what: New, node: Any, tensors: list[TracedTensor], made: list[TracedTensor]
) -> TracedTensor:
    if what.alias is not None:
        storage = tensors[what.alias]._storage
    elif what.twin is not None:
        storage = made[what.twin]._storage
    else:
        storage = recorder.memory()
    traced = recorder.new(what.meta, node, storage)
    node.meta.value = what
    if what.view is not None:
        make_view(traced, tensors[what.view])
        traced._sealed = tensors[what.view]._sealed
    if what.near is not None:
        recorder.doubts.add(tensors[what.near]._storage, storage)
        if what.itself:
            recorder.doubts.add_object(tensors[what.near], traced)
    made.append(traced)
    return traced


def _group(recorder: Recorder, what: Group, node: Any, tensors: list[TracedTensor], made: list[TracedTensor]) -> Any:
    items = []
    for index, item in enumerate(what.items):
        if type(item) in (New, Group) and node is not None:
            part = recorder.nodes.item(node, index if what.names is None else what.names[index])
        else:
            part = node
        items.append(_result(recorder, item, part, tensors, made))
    return what.build(items)
