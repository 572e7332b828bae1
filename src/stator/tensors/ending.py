"""The end of a recording: what the graph may do that has to be known, and its clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import fx

from stator.tensors.array_calls import array_call, array_call_once
from stator.tensors.cases import indicators_of
from stator.tensors.checks import assert_holds
from stator.tensors.doubts import ask
from stator.tensors.failing import draws_nothing, may_draw, may_fail, may_run_twice
from stator.tensors.finish import close
from stator.tensors.modes import QUIET
from stator.tensors.subclasses import PLAIN as PLAIN_CLASSES
from stator.tensors.subgraph import left_its_graph
from stator.tensors.traced import TracedTensor
from stator.tensors.undoing import MOST_SAVED, Failures
from stator.tensors.undoing import can_be_undone as is_undoable

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


def finish(recorder: Recorder, outputs: Any) -> fx.GraphModule:
    """Closes the graph with these traced tensors as outputs, and cleans it up."""
    recorder.numbers.write_checks()
    left = recorder._left  # blocks of autocast open at a break share what they have cast
    recorder.state.finish(not recorder.traces and left is not None and left.nesting > recorder.scope.nesting)
    if any(traced._node.graph is not recorder.graph for traced in outputs):
        raise left_its_graph()
    recorder.doubts.at_end(outputs, recorder._inputs.storages.values())
    symbols = recorder.symbols if recorder.traces else None  # compilers lay out results as if nothing were one
    metas = [traced._meta for traced in outputs if type(traced) is TracedTensor] if symbols is not None else []
    if symbols is not None and indicators_of(metas, symbols):
        ask()
    failing = {node for node in recorder.graph.nodes if node.op.startswith("call") and may_fail(node)}
    failing |= recorder.numbers.takers_of_data()
    recorder.failing = failing
    mutated = recorder.mutated
    told = bool(mutated) and recorder.fallible  # after it has written
    if (failing or recorder.fallible) and not (told and is_costly(recorder)) and all(map(may_run_twice, recorder.kept)):
        recorder.repeatable = not any(recorder._inputs.metas[name].inference for name in mutated)
    if not recorder.repeatable or mutated:
        for node in recorder.graph.find_nodes(op="call_function", target=array_call):
            node.target = array_call_once
    if recorder.repeatable and mutated:
        found = Failures(failing, recorder._inputs.writers(), recorder.readings.homes)
        recorder.fails_late = told or found.come_late(recorder.graph, recorder._inputs.metas)
    drawing = (node for node in recorder.kept if node not in recorder.readings.writers or may_draw(node))
    silent = {assert_holds, *QUIET}
    recorder.random = any(node.target not in silent and not draws_nothing(node) for node in drawing)
    nodes = [traced._node for traced in outputs]
    module = close(recorder.graph, nodes, recorder.kept | failing, recorder.state.start.grad)
    recorder._inputs.keep({node.name for node in recorder.graph.find_nodes(op="placeholder")})
    return module


def can_be_undone(recorder: Recorder) -> bool:
    """Whether what the graph writes to inputs can be put back."""
    now = {id(tensor): traced for traced, tensor in recorder._inputs.by_id.values()}
    before = ((recorder._inputs.metas[name], now[id(recorder.tensor(name))]._meta) for name in recorder.mutated)
    if any(type(recorder.tensor(name)) not in PLAIN_CLASSES for name in recorder.mutated):
        return False  # copying would be up to the subclass
    return all(is_undoable(*metas) for metas in before)


def is_costly(recorder: Recorder) -> bool:
    """Whether what the graph writes to inputs cannot be put back, or is not worth a copy."""
    written = sum(recorder.tensor(name).nbytes for name in recorder.mutated)
    return written > MOST_SAVED or not can_be_undone(recorder)
