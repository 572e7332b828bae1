"""The graph of a capture goes through the backend, and comes out as the function that the entry calls."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from types import CodeType
from typing import Any

import torch

from stator.errors import BackendError
from stator.graph.backends import BACKENDS, backend_name, compile_graph, traces
from stator.graph.filled import fill, unless_empty
from stator.graph.grad_mode import begun_in_it, calling_in_it, enters
from stator.graph.heard import HEARD
from stator.graph.index_ranges import looking_first
from stator.graph.joined import can_join, joined
from stator.graph.module import eager_callable, operation_names
from stator.graph.overlap import guarded
from stator.graph.overwritten import is_needed
from stator.graph.prologue import assertions_of, checked, checks_of, undone, written_before_checks
from stator.graph.restore import keeping_grad_mode
from stator.graph.sharing import Shared, SharedGraph, key_of
from stator.graph.steep import is_steep
from stator.graph.twice import differentiable
from stator.graph.undefined import reach, undefining
from stator.graph.worth import (
    FEW,
    HANDFUL,
    is_little,
    is_one_kernel,
    kernels,
    only_decides,
    only_prepares,
    only_reads,
    only_searches,
)
from stator.options import Options
from stator.report import events
from stator.runtime import assumptions
from stator.runtime.assemble import Assembly
from stator.runtime.continuation import origin_of_location
from stator.runtime.tensor_host import TensorHost
from stator.tensors.bindings import are_untold
from stator.tensors.examples import lying_apart
from stator.tensors.failing import may_run_twice as has_no_effect
from stator.tensors.meta import SymbolicMeta
from stator.tensors.modes import ENTER, SETTERS
from stator.tensors.rules.layout import is_filled
from stator.tensors.spent import settle
from stator.tensors.subclasses import PLAIN, plain_copy, without_functions
from stator.tensors.traced import TracedTensor
from stator.tensors.undoing import MOST_SAVED

IN_ORDER = ("eager", "aot_eager")  # backends that write to inputs when the program does, or at the end


class GraphMaker:
    """Makes the function of one graph, and knows what was decided about it."""

    def __init__(self, host: TensorHost, options: Options, name: str) -> None:
        self.host = host
        self.options = options
        self.name = name
        self.backend = options.backend
        self.graphs: Shared | None = None  # compiled ones that may serve again
        self.shared: SharedGraph | None = None  # what the function runs, if others may run it too
        self.behind_break = False  # the graph goes on after a break, or is that of a frame below one
        self.behind_one = False  # the only break so far
        self.loops: Collection[CodeType] = ()  # frames that are in a loop there, or leave one
        self.goes_round = False  # does not leave it
        self.requested = False  # which the program has asked for
        self.repeated = False  # there was an entry for this place before
        self.joining: Collection[torch.Tensor] = ()  # inputs that have a gradient from the next round on
        self.operations = 0
        self.thresholds: tuple[int, ...] = ()  # at which objects are to be collected while the backend works
        self.looks_first = False  # the graph fails before it writes
        self.takes_back = False  # the graph leaves inputs as they were where what was assumed does not hold

    def compile(self, assembly: Assembly, stops: bool, check: Callable[[], None]) -> tuple[Any, list[str]]:
        """The graph as a function, and the loads it takes; None if there is nothing to compute.

        `stops`: at a break. `check` is called once it is known what the graph does.
        """
        recorder = self.host.recorder
        assembly.arrange()
        outputs = list(assembly.outputs.values())
        assembly.spent = settle(recorder, outputs)
        module = recorder.finish(outputs)
        if recorder.heard:
            module.meta[HEARD] = frozenset(recorder.heard)
        if self.host.symbols is not None:
            self.host.symbols.answering = False
            self.host.symbols.env.captured = True
        assumptions.check(self.host)
        check()
        if self.overwrites(module) or self.misplaces(outputs):
            self.backend = "eager"
        backend = self.backend
        operations = sum(node.op not in ("placeholder", "output") for node in module.graph.nodes)
        if not operations and not outputs:
            return None, []
        tensors = [recorder.tensor(name) for name in recorder.inputs]
        self.operations = operations
        originals = tensors
        loads = [assembly.input(tensor) for tensor in tensors]
        dressed = [type(one) not in PLAIN and isinstance(one, torch.Tensor) for one in tensors]  # of subclasses
        with recorder.paused():
            tensors = [plain_copy(one) if yes else one for one, yes in zip(tensors, dressed, strict=True)]
        written = [recorder.inputs.index(name) for name in recorder.mutated]
        mode = None
        if self.host.symbols is not None and backend != "eager":
            mode, tensors = recorder.examples()
        elif written and backend != "eager":
            with recorder.paused():
                tensors = lying_apart(tensors, written)
        wanted = [i for i, one in enumerate(outputs) if type(one) is TracedTensor and one._meta.requires_grad]
        is_ours = isinstance(backend, str) and backend in BACKENDS
        if not is_ours and are_untold(outputs[i]._meta for i in wanted):
            raise BackendError(backend_name(backend), ValueError("a gradient whose size is calculated from data"))
        led, histories = None, self.changed_histories(written)
        if (wanted or histories) and traces(backend):
            led = reach(module.graph, recorder.readings.homes, tensors, wanted, histories)
        recorded = eager_callable(module) if led is not None else None  # before the backend changes it
        twice = eager_callable(module) if wanted and self.may_run_twice() else None
        steep = twice is not None and is_steep(module.graph)  # before the backend changes it, too
        function = self.made(module, originals, tensors, mode, stops)
        if not is_ours:
            function = keeping_grad_mode(function, module.graph)
        if led is not None and recorded is not None:
            function = undefining(function, led, recorded, histories)
        if twice is not None:
            function = differentiable(function, twice, steep)
        if written and backend != "eager":
            function = guarded(function, eager_callable(module), written)
        if written and backend not in IN_ORDER and recorder.repeatable:
            function = self.looking_first(function, module)
        self.takes_back = bool(written) and self.may_be_late(module)
        if self.takes_back:
            function = self.taking_back(function, module, written)
        if any(dressed):
            function = without_functions(function, [] if backend == "eager" else dressed)
        return function, loads

    def changed_histories(self, written: list[int]) -> list[int]:
        """Which of the inputs that are written to have a history afterwards."""
        recorder = self.host.recorder
        grown = [one for one in recorder.alive() if one._storage.mutated and one._meta.requires_grad] if written else ()
        real = {id(recorder.real(one)) for one in grown}
        return [i for i in written if id(recorder.tensor(recorder.inputs[i])) in real]

    def overwrites(self, module: Any) -> bool:
        """Whether what is written over is lost to the backward pass of compiled code."""
        recorder = self.host.recorder
        if self.backend != "inductor" or not recorder.mutated or not recorder.has_grad_inputs():
            return False
        return is_needed(module.graph, recorder._inputs.writers(), recorder.meta_of_input, recorder.state.start.grad)

    def misplaces(self, outputs: list[Any]) -> bool:
        """Whether a trace would give a view of what was written over in the layout of new memory: AOTAutograd does that
        with symbolic views of an input that has gaps."""
        recorder = self.host.recorder
        if self.host.symbols is None or not recorder.mutated or not traces(self.backend):
            return False
        views = [one for one in outputs if type(one) is TracedTensor and type(one._meta) is SymbolicMeta]
        places = {id(one._storage) for one in views if recorder.real(one) is None}
        written = (one for one in recorder.alive() if recorder.real(one) is not None and one._storage.mutated)
        return any(id(one._storage) in places and not is_filled(*one._meta.wrap[:2]) for one in written)

    def may_run_twice(self) -> bool:
        """Whether the recorded operations give the same once more, when backward runs."""
        recorder = self.host.recorder
        if self.backend == "eager" or not isinstance(self.backend, str):
            return False
        if recorder.random or recorder.generators or recorder.mutated or self.host.draws:
            return False
        return all(map(has_no_effect, recorder.kept))

    def made(self, module: Any, originals: list[Any], examples: list[Any], mode: Any, stops: bool) -> Any:
        """What the backend makes of the graph, or made of the same one before."""
        options, backend = self.options, self.backend
        if not self.is_worth_it(module, originals, stops):
            self.tell("uncompiled", module)
            return eager_callable(module)
        key = None
        if self.graphs is not None:
            originals, examples = self.with_histories(module, originals, examples, mode)
            way = options.dynamic, backend is options.backend
            recorder = self.host.recorder
            written = [recorder.inputs.index(name) for name in recorder.mutated]
            key = key_of(module.graph, originals, examples, origin_of_location, way, written)
        known = self.graphs.find(key) if self.graphs is not None and key is not None else None
        self.tell("graph" if known is None else "shared", module)
        if known is not None:
            self.shared = known
            return known.function
        function = self.compiled(module, examples, mode)
        if self.graphs is not None and key is not None and key.is_undecided():
            self.shared = self.graphs.add(key, function)
        return function

    def with_histories(
        self, module: Any, originals: list[Any], examples: list[Any], mode: Any
    ) -> tuple[list[Any], list[Any]]:
        """The inputs as they are from the second round of a loop on, where that makes no other graph of the first."""
        recorder, joining = self.host.recorder, {id(one) for one in self.joining}
        places = [place for place, one in enumerate(originals) if id(one) in joining]
        odd = recorder.mutated or recorder.has_arrays
        if not places or odd or not can_join(module.graph, places, recorder.readings.homes):
            return originals, examples
        with recorder.paused():
            return joined(originals, places, None), joined(examples, places, mode)

    def compiled(self, module: Any, examples: list[Any], mode: Any) -> Any:
        """What the backend makes of the graph, for all sizes that it may meet."""
        options, symbols = self.options, self.host.symbols
        places = fill(symbols, examples) if symbols is not None and self.backend not in IN_ORDER else []
        recorded = eager_callable(module) if places else None  # before the backend, which may change the graph
        try:
            if self.thresholds and self.backend != "eager":
                gc.set_threshold(*self.thresholds)
            late = self.begins_late(module)
            with torch.set_grad_enabled(late or torch.is_grad_enabled()):
                function = compile_graph(
                    begun_in_it(module) if late else module,
                    examples,
                    self.backend,
                    mode=options.mode,
                    options=options.options,
                    dynamic=options.dynamic,
                    fake_mode=mode,
                )
        finally:
            if self.thresholds:
                gc.set_threshold(0)
        function = calling_in_it(function) if late else function
        return function if recorded is None else unless_empty(function, recorded, places)

    def begins_late(self, module: Any) -> bool:
        """Whether the graph writes to inputs and enters grad mode, in which it does not begin."""
        recorder = self.host.recorder
        if self.backend == "eager" or recorder.state.start.grad or not recorder.mutated:
            return False
        return enters(module.graph)

    def is_worth_it(self, module: Any, originals: list[Any], stops: bool) -> bool:
        """Whether the graph goes to the backend at all."""
        if only_reads(module) and (stops or all(id(one) in self.host.float_inputs for one in originals)):
            return False
        if self.host.fills_cache or (stops and (only_searches(module) or only_prepares(module, originals))):
            return False
        if (stops or self.behind_break) and (not kernels(module) or only_decides(module)):
            return False
        between = self.behind_break and not self.requested and (stops or self.goes_round)
        if between and is_little(module, originals, FEW):
            return False
        if not stops and self.host.loops.worked.intersection(self.loops) and is_little(module, originals, HANDFUL):
            return False
        first = not self.repeated and (self.requested or (self.behind_one and not stops))
        return not self.behind_break or first or not is_one_kernel(module)

    def tell(self, kind: str, module: Any) -> None:
        """The event of a graph that was made."""
        events.emit(
            kind,
            name=self.name,
            operations=self.operations,
            text=lambda: str(module.code),
            ops=lambda: operation_names(module),
        )

    def looking_first(self, function: Any, module: Any) -> Any:
        """The graph behind a look at its indices, where it writes to more than is worth a copy."""
        recorder = self.host.recorder
        if sum(recorder.tensor(name).nbytes for name in recorder.mutated) <= MOST_SAVED:
            return function
        metas = {name: recorder.meta_of_input(name) for name in recorder.inputs}
        readings, kept = recorder.readings, recorder.kept
        failing = [node for node in module.graph.nodes if node in recorder.failing]
        made = looking_first(function, module, failing, metas, readings.writers, kept, readings.homes)
        self.looks_first = made is not None
        return made or function

    def may_be_late(self, module: Any) -> bool:
        """Whether an assertion of the graph may fail once something was written."""
        if self.options.backend != "eager":
            return bool(assertions_of(module.graph))
        return written_before_checks(module.graph, self.host.recorder.readings.writers)

    def taking_back(self, function: Any, module: Any, written: list[int]) -> Any:
        """The graph behind its assertions, or with what it writes undone where one fails."""
        recorder = self.host.recorder
        assertions = set(assertions_of(module.graph))
        changes = any(node.target in ENTER or node.target in SETTERS for node in recorder.kept)
        writers, homes = recorder.readings.writers, recorder.readings.homes
        checks = None if changes else checks_of(module, writers, recorder.kept - assertions, homes)
        return undone(function, written) if checks is None else checked(function, checks)
