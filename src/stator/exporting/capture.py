"""The capture of a call that is to be exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CellType
from typing import Any

import torch
from torch import fx, nn

from stator import _frames
from stator.errors import Again, ExportError, StatorError, unsupported
from stator.eval.machine import Machine
from stator.exporting.dims import Leaf, Shapes
from stator.exporting.finding import Found, Seeker
from stator.exporting.outside import ProgramAssembly, describer
from stator.exporting.places import Origin, Where, user_place
from stator.exporting.suggestion import check
from stator.exporting.symbols import Condition, Named, NamedSymbols
from stator.graph.module import operation_names
from stator.guards.path import Path
from stator.options import Options
from stator.report import events
from stator.runtime.assemble import Assembly
from stator.runtime.calls import Call, place_of
from stator.runtime.capture import Capture, Entry
from stator.runtime.learned import Learned
from stator.runtime.tensor_host import TensorHost
from stator.tensors.targets import called
from stator.tensors.traced import is_traced


class ProgramHost(TensorHost):
    """A host whose symbols are the dimensions that the user named, and which knows the names of modules."""

    def __init__(self, policy: Named, shapes: Shapes, root: nn.Module | None) -> None:
        super().__init__(frozenset(), policy)
        self.numbers = policy.numbers
        self.floats.has_ints = False
        self.shapes = shapes
        self.names = {} if root is None else {id(module): name for name, module in root.named_modules()}
        self.calls: dict[int, int] = {}  # how often each module was called so far
        compiler = self.namespace(vars(torch.compiler))
        assert compiler is not None
        compiler.values["_is_exporting_flag"] = compiler.before["_is_exporting_flag"] = True

    def make_symbols(self) -> NamedSymbols:
        return NamedSymbols(self.origin, self.shapes, self.numbers, check)

    def origin(self) -> Any:
        frame = _frames.top_frame()
        return None if frame is None else Origin(frame)

    def load_method(self, f: Any, obj: Any, name: str) -> Any:
        if name == "forward" and id(obj) in self.names:
            self.calls[id(obj)] = self.calls.get(id(obj), 0) + 1
        return super().load_method(f, obj, name)

    def where(self) -> Any:
        top = frame = _frames.top_frame()
        found = []
        while frame is not None:
            if frame.code.co_name == "forward" and frame.locals:
                first = frame.locals[0]
                if type(first) is CellType:
                    first = first.cell_contents
                if id(first) in self.names:
                    found.append(self.called(first))
            frame = frame.outer
        return Where(top, dict(reversed(found)))

    def called(self, module: Any) -> tuple[str, tuple[str, str]]:
        """A row of what torch calls nn_module_stack: a name for this call; the name and class of the module."""
        name, number, kind = self.names[id(module)], self.calls.get(id(module), 1) - 1, type(module)
        key = name + (f"@{number}" if number > 0 and name else "")
        return key, (name, f"{kind.__module__}.{kind.__qualname__}")


class Hooks:
    """What the entry function calls while torch traces it; set by the module that runs it."""

    run: Callable[..., Any]  # the graph
    assign: Callable[[str, Any], None]  # a buffer

    def run_graph(self, *inputs: Any) -> Any:
        return self.run(*inputs)

    def assign_buffer(self, name: str, value: Any) -> None:
        self.assign(name, value)


@dataclass(eq=False)
class Captured:
    """What a capture leaves to the exported program."""

    call: Call
    entry: Entry
    graph: fx.GraphModule
    hooks: Hooks
    conditions: list[Condition]  # on sizes and ints of the arguments
    mutated: list[tuple[Path, Any]]  # tensors that the graph writes to, and where it first does
    kept: set[str]  # buffers that become other tensors, but whose old value is needed until the end
    describe: Callable[[Path], str]


class ProgramCapture(Capture):
    """Captures a call whole, with named dimensions; its effects are those that an exported program can have."""

    def __init__(
        self, call: Call, shapes: Shapes, policy: Named, root: nn.Module | None, names: list[str], learned: Learned
    ) -> None:
        self.shapes, self.policy, self.root = shapes, policy, root
        self.buffers = buffer_dicts(root)
        self.hooks = Hooks()
        self.raised: Exception | None = None
        self.sought: Path | None = None  # what a program changes, if only the place is wanted
        self.graph: fx.GraphModule
        self.mutated: list[tuple[Path, Any]] = []
        self.conditions: list[Condition] = []
        self.kept: set[str] = set()
        self.describe = describer(names)
        super().__init__(call, Options(fullgraph=True, backend="eager"), learned=learned)

    def make_host(self, learned: Learned | None) -> TensorHost:
        return ProgramHost(self.policy, self.shapes, self.root)

    def make_machine(self, root: Any) -> Machine:
        if self.sought is None:
            return super().make_machine(root)
        machine = Seeker(self.host, root, self.stop, self.watched)
        machine.sought = self.sought
        return machine

    def make_assembly(self) -> Assembly:
        return ProgramAssembly(self.host, self.buffers, self.describe, self.hooks.assign_buffer)

    def captured(self) -> Captured:
        """The captured program; what it raised comes out."""
        try:
            entry = self.entry()
        except Again:
            raise
        except StatorError as error:
            if self.raised is None:
                error.locate(self.call.place if self.root is None else place_of(self.root.forward))
                raise
            entry = None
        if self.raised is not None:
            raise self.raised from None
        assert entry is not None
        parts = self.hooks, self.conditions, self.mutated, self.kept, self.describe
        return Captured(self.call, entry, self.graph, *parts)

    def execute(self) -> tuple[bool, Any]:
        returned, result = super().execute()
        if not returned and isinstance(result, Exception) and not isinstance(result, StatorError):
            self.raised = result
        return returned, result

    def assemble(self, result: Any, going_on: Any = None) -> Entry:
        entry = super().assemble(result, going_on)
        if isinstance(self.host.symbols, NamedSymbols):
            self.conditions = Condition.all_of(self.host.symbols)
        return entry

    def compile_graph(self, assembly: Any) -> tuple[Any, list[str]]:
        """No backend: torch traces the graph later."""
        recorder, records = self.host.recorder, self.host.records
        outputs = list(assembly.outputs.values())
        shown = {id(traced._storage) for traced in outputs}  # memory that somebody sees after the graph
        shown |= {id(r.inner._storage) for r in records.values() if r.path in assembly.loads and is_traced(r.inner)}
        for name, (before, _) in assembly.assigned.items():
            if before._storage.mutated or id(before._storage) in shown:
                self.kept.add(name)
        self.graph = module = recorder.finish(outputs)
        note_modules(module)
        if self.host.symbols is not None:
            self.host.symbols.answering = False
        recorder.repeatable = False  # what fails while it is traced is not tried again
        loads = [assembly.input(recorder.tensor(name)) for name in recorder.inputs]
        self.mutated = [
            (records[id(recorder.tensor(name))].path, first_write(module.graph, name)) for name in recorder.mutated
        ]
        self.maker.operations = sum(node.op not in ("placeholder", "output") for node in module.graph.nodes)
        events.emit(
            "graph",
            name=self.name,
            operations=self.maker.operations,
            text=lambda: str(module.code),
            ops=lambda: operation_names(module),
        )
        return self.hooks.run_graph, loads


def capture(
    call: Call, shapes: Shapes, numbers: dict[Path, Leaf], root: nn.Module | None, names: list[str]
) -> Captured:
    """Captures a call; `names` are those of the parameters, by the number of the argument."""

    def attempt(policy: Named) -> Captured:
        learned = Learned()
        while True:
            try:
                return ProgramCapture(call, shapes, policy, root, names, learned).captured()
            except Again as again:
                learned.whole.add(again.path)
            except ExportError as error:
                if error.changed is not None:
                    find_change(error, ProgramCapture(call, shapes, policy, root, names, learned))
                raise

    try:
        return attempt(Named(shapes.leaves, numbers))
    except StatorError:
        raise
    except Exception as error:
        raised = error
    attempt(Named([], {}))  # raises it again, if it does with constants
    name = type(raised).__name__
    raise unsupported("symbolic-value", f"with symbolic sizes it raises {name}: {raised}", function=name) from raised


def find_change(error: ExportError, capture: ProgramCapture) -> None:
    """Tells an error the line where the program changes what it must not."""
    capture.sought = error.changed
    try:
        capture.captured()
    except Found as found:
        place = user_place(found.origin)
        error.stack = () if place is None else (place,)
    except StatorError:  # not this time; the error says what it is about
        return


def first_write(graph: fx.Graph, name: str) -> Any:
    """Where the program first writes to a graph input, if that shows."""
    for node in graph.nodes:
        if any(used.name == name for used in node.all_input_nodes[:1]) and writes(called(node)):
            return getattr(node.meta, "location", None)
    return None


def writes(name: str) -> bool:
    """Whether an operation of that name is one of those in place."""
    return (name.endswith("_") and not name.endswith("__")) or name == "setitem" or name in INPLACE


INPLACE = frozenset({"iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"})


def note_modules(graph: fx.GraphModule) -> None:
    """Writes down for each operation the modules that were being called."""
    for node in graph.graph.nodes:
        place = getattr(node.meta, "location", None)
        if type(place) is Where and place.modules:
            node.meta["nn_module_stack"] = place.modules


def buffer_dicts(root: nn.Module | None) -> dict[int, str]:
    """By id of the dict of buffers of each module: what the names of its buffers begin with."""
    if root is None:
        return {}
    return {id(module._buffers): f"{name}." if name else "" for name, module in root.named_modules()}
