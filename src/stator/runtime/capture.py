"""One capture: a call of a function becomes an entry."""

from __future__ import annotations

import gc
import keyword
import os
import sys
import time
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

import stator
from stator import _frames, forking
from stator._entry import mortal
from stator.emit.emitter import Emitter
from stator.emit.plan import CannotRebuild, Source
from stator.errors import InternalError, StatorError, unsupported
from stator.eval.machine import Machine, Place, Stopped
from stator.filters import Unnoticed
from stator.frame import Frame, forget_tracebacks
from stator.graph.backends import refused, traces
from stator.graph.prologue import NotAsAssumed
from stator.graph.sharing import SharedGraph
from stator.guards import path as paths
from stator.guards.check import EQ
from stator.guards.guardset import GuardSet
from stator.guards.path import Path
from stator.guards.state import snapshot
from stator.interruptions import is_interruption
from stator.native import (  # noqa: F401 - rows
    collecting,
    files,
    locks,
    logs,
    source_lines,
    standins,
    standins_ambient,
    standins_classes,
    standins_environment,
    standins_errors,
    standins_reduce,
    standins_regex,
    standins_registry,
    standins_signatures,
    standins_state,
    warn,
    weak,
)
from stator.native.addresses import Address
from stator.native.callers import CONTENT_TYPES
from stator.native.held import Dropped, check_callbacks, dropped_ending, seen
from stator.options import Options
from stator.report import events
from stator.runtime import (  # noqa: F401 - rows
    arrays,
    assumptions,
    autograd_calls,
    autograd_function,
    caches,
    checkpointing,
    choices,
    control_flow,
    drawing,
    extremes,
    flex_attention,
    hook_handles,
    inference_blocks,
    legacy_arrays,
    numpy_drawing,
    random_state,
    scripted,
    tensor_attributes,
    tensor_hooks,
    tensor_methods,
    torch_standins,
    transforms,
)
from stator.runtime.assemble import Assembly, Rerun
from stator.runtime.calls import Call
from stator.runtime.compiling import compiling
from stator.runtime.continuation import Break, break_place, resumed_from
from stator.runtime.graph_maker import IN_ORDER, GraphMaker
from stator.runtime.histories import are_asked_for, are_sealed
from stator.runtime.learned import Learned
from stator.runtime.tail import GoingOn, tail
from stator.runtime.tensor_host import TensorHost
from stator.runtime.turns import TURN
from stator.runtime.unneeded import spared
from stator.shapes.policy import Policy
from stator.tensors.traced import TracedTensor
from stator.world.class_contents import ClassContents

forking.in_child(_frames.forget_threads)
_frames.set_own_folder(os.path.dirname(stator.__file__) + os.sep)
_frames.set_own_error(StatorError)

COLLECTING: list[tuple[int, int, int]] = []  # the thresholds before captures that are going on, one within the other


@forking.in_child
def collect_in_child() -> None:
    """A child whose parent captured in another thread collects objects as that one would."""
    if COLLECTING and not TURN._is_owned():
        gc.set_threshold(*COLLECTING[0])
        COLLECTING.clear()


@dataclass(eq=False)
class Entry:
    """What one capture leaves behind: guards, the values they load, and the function that takes them."""

    guards: GuardSet
    classes: ClassContents
    loads: list[Path]
    function: Callable[..., Any]
    captured: bool = True  # False: under these guards CPython runs the call
    operations: int = 0  # on tensors
    graph: SharedGraph | None = None  # what the function runs, if others may run it too
    light: frozenset[Path] = frozenset()  # containers that were known to change, and read item by item
    program: Any = field(init=False)  # the compiled guards; expired once an object they compare with has died

    def __post_init__(self) -> None:
        self.compile()

    def compile(self) -> None:
        """Makes the program of the guards as they are now."""
        self.program = self.guards.compile(self.loads)


class NewLeaf:
    """Stands among the types of which no object may be made for tensors that are told to require grad."""


class Capture:
    """Runs a call under the interpreter and assembles the entry."""

    def __init__(
        self,
        call: Call,
        options: Options,
        owner: Any = None,
        stop: Place | None = None,
        watched: Any = (),
        learned: Learned | None = None,
        unbacked: bool = True,  # numbers that only data tells may be symbols
        otherwise: Callable[..., Any] | None = None,  # makes what takes calls that go another way
    ) -> None:
        self.call = call
        self.owner = owner
        self.options = options
        self.stop = stop
        self.watched = watched  # types of which no object may be made before the break
        self.unmade: set[type] = set()  # types of objects that cannot be rebuilt
        self.machine: Machine | None = None
        self.generators: dict[int, Any] = {}  # weak references to those the program made, by address
        self.instances: set[int] = set()  # addresses of objects with `__del__` that it made and that live
        self.unbacked = unbacked
        learned = Learned() if learned is None else learned
        self.host = self.make_host(learned)
        self.driven = self.host.driven
        self.otherwise = otherwise
        if otherwise is not None:
            self.host.floats.conditions = []
        self.symbolic = False  # whether it had symbolic numbers
        self.guessed = False  # whether it had such that nobody had seen change
        self.from_data = False  # whether it had such that only data tells
        self.told_compiling = False  # whether the program asked, and the answer was yes
        self.came_out: type | None = None  # the exception that came out of the program
        self.unsure: Entry | None = None  # the entry for it, should it come without symbols, too
        if not options.fullgraph:
            self.host.varying = learned
            self.host.guards.unsettled = learned.unsettled
            self.host.patient = False
            self.host.recorder.before_write = self.host.before_write
        self.host.draws_numbers = unbacked or not options.fullgraph
        self.host.recorder.no_leaves = NewLeaf in watched
        self.host.light_paths, self.host.whole_paths = learned.light, learned.whole
        self.host.waiting = learned.waiting
        self.host.recorder.ends_before_failures = assumptions.LATE in learned.whole
        self.host.locks_break = not locks.LOCK_TYPES.isdisjoint(watched)
        self.host.addresses_break = Address in watched
        self.host.drops_break = Dropped in watched
        self.host.unmade = frozenset(watched)
        self.host.below = owner
        self.guards = self.host.guards
        self.classes = self.host.classes
        self.regions = self.host.regions
        self.guards.state(snapshot())
        self.guards.call_shape(len(call.args), call.names)
        self.guards.names = call.argument_names
        self.name = getattr(call.code, "co_name", "entry")
        self.maker = GraphMaker(self.host, options, self.name)
        maker = self.maker
        maker.behind_break, maker.behind_one, maker.requested = call.behind_break, call.behind_one, call.requested
        maker.loops, maker.goes_round = call.loops, call.goes_round
        self.host.in_loop = bool(call.loops)
        self.compiling = compiling()

    def make_host(self, learned: Learned | None) -> TensorHost:
        policy = Policy(self.options.dynamic, learned if learned is not None else frozenset(), self.unbacked)
        return TensorHost(refused(self.options.backend), policy, traces(self.options.backend))

    def make_assembly(self) -> Assembly:
        return Assembly(self.host)

    def entry(self, going_on: GoingOn | None = None) -> Entry:
        """The entry; StatorError if the call cannot be captured.

        With a place to stop at, `going_on` answers for a break what follows it.
        """
        try:
            with Unnoticed():  # torch changes filters, too
                return self.make_entry(going_on)
        except StatorError:
            raise
        except Exception as error:  # a mistake of stator's own: the program must not see it
            if is_interruption(error):
                raise
            raise InternalError(f"{type(error).__name__}: {error}") from error

    def make_entry(self, going_on: GoingOn | None) -> Entry:
        """The same; objects are collected only while a backend works, as most of them die with the capture.

        By a threshold: other threads look at the flag of the process, and set it.
        """
        thresholds = self.maker.thresholds = gc.get_threshold()
        try:
            COLLECTING.append(thresholds)
            gc.set_threshold(0)
            return self.found_entry(going_on)
        finally:
            gc.set_threshold(*thresholds)
            del COLLECTING[-1:]

    def found_entry(self, going_on: GoingOn | None) -> Entry:
        started = time.perf_counter()
        recorder = self.host.recorder
        result: Any = None
        try:
            returned, result = self.execute()
            if not returned and issubclass(type(result), StatorError):
                raise result  # of stator's own code below native code, without a frame in between
            if not returned and is_interruption(result):
                raise result  # nothing has happened yet
            if (self.stop is not None) != (type(result) is Break):
                raise InternalError("the program did not come to the place of its break again")
            if not returned:
                return self.raising(type(result))
            if going_on is not None:
                going_on.look(result)
            made = self.assemble(result, going_on)
        finally:
            try:
                self.discard()  # first: dying, they would run
                result = None
                self.close()
            except KeyboardInterrupt:
                self.close()
                raise
        check_survivors(recorder)
        events.emit("capture", code=self.call.code, seconds=time.perf_counter() - started)
        return made

    def raising(self, kind: type) -> Entry:
        """The program raised: it does so again, by itself; with symbols it is to be seen whether it does without."""
        name = kind.__name__
        self.came_out = kind
        if self.host.has_symbols():
            if not self.host.floats.conditions:
                self.guard_relations()
                self.unsure = self.eager()
            raise unsupported("symbolic-value", f"{name} came out of the function", function=name)
        events.emit("skip", name=self.call.name, code=self.call.code, reason=f"{name} came out of the function")
        return self.eager()

    def guard_relations(self) -> None:
        """What was assumed about symbols becomes guards."""
        if self.host.symbols is not None:
            for relation, origin in self.host.symbols.relations():
                self.guards.relation(relation, origin)

    def execute(self) -> tuple[bool, Any]:
        """(True, result), (True, Break) or (False, exception): what the program came to."""
        host = self.host
        try:
            with self.compiling, self.regions, host.recorder:
                return host.ambient.context.run(self.interpret)
        except Stopped as stopped:
            host.registries.restore()
            return True, self.found(stopped)
        except BaseException:
            self.put_back()  # perhaps interrupted while it was being put back
            raise
        finally:
            host.registries.restore()

    def put_back(self) -> None:
        """Everything of the process and the thread that a capture changes for a while is as it was; may be repeated."""
        self.host.recorder.__exit__()
        self.regions.__exit__()
        self.compiling.__exit__()

    def close(self) -> None:
        """Nothing of the program is held or watched any longer; may be repeated."""
        self.discard()
        if vars(self.host):
            self.host.registries.restore()
            self.put_back()
            self.symbolic = self.host.has_symbols()
            symbols = self.host.symbols
            self.guessed = bool(self.host.policy.guessed)
            self.told_compiling = self.host.told_compiling
            self.from_data = self.host.recorder.follows_data or (symbols is not None and bool(symbols.sizes))
            arrays.give_back(self.host)
            if symbols is not None:
                symbols.release()
            self.host.close()
        forget_tracebacks()

    def check_names(self, codes: set[Any]) -> None:
        """Frames behind a break are others: names that `exec` or the program has added to `locals()` would be lost."""
        for code, names in self.host.frame_dicts:
            if code in codes and not {*names} <= {*code.co_varnames, *code.co_cellvars, *code.co_freevars}:
                self.unmade = {types.FrameType}
                raise unsupported("cannot-rebuild", "names that were added to `locals()`", type="frame")

    def discard(self) -> None:
        """Generators that the program made or drove end without running any code of theirs."""
        driven = [weakref.ref(generator) for generator in self.driven]
        _frames.discard_generators([*self.generators.values(), *driven])
        self.driven.clear()

    def place(self) -> Place | None:
        """Where a break can be after the capture was given up."""
        return break_place(self.machine.places) if self.machine is not None else None

    @property
    def innermost(self) -> types.CodeType:
        """The user's code that ran when the capture was given up."""
        assert self.machine is not None
        place = self.machine.places[0]
        known = resumed_from(place.code)
        return place.code if known is None else known.code

    def works(self) -> bool:
        """Whether there were operations on tensors so far."""
        return any(node.op != "placeholder" for node in self.host.recorder.graph.nodes)

    def found(self, stopped: Stopped) -> Break:
        """The break at which the capture stopped, which nothing else keeps alive."""
        for frame in stopped.frames:
            self.host.know_closure(frame.function)
        found = Break(stopped.frames, stopped.handled, spared(self.host, stopped.frames))
        self.check_names({frame.code for frame in found.frames})
        stopped.frames.clear()
        stopped.__traceback__ = None
        return found

    def eager(self, alone: bool = False) -> Entry:
        """Under the guards so far CPython runs the call, and if it is `alone` also all frames below it."""
        loads, function = self.call.eager_function(None if alone else self.owner)
        self.classes.refresh(self.guards)  # a backend that failed may have patched classes, too
        return Entry(self.guards, self.classes, loads, function, captured=False)

    def interpret(self) -> tuple[bool, Any]:
        """(True, result) or (False, exception) of the call."""
        host = self.host
        function, positional, keywords = self.call.enter(host)
        self.machine = self.make_machine(first_function(function))
        host.finalizable = self.instances
        made = host.inside_types, self.generators, self.instances
        return _frames.capture(self.machine.interpret, Frame, *made, function, positional, keywords)

    def make_machine(self, root: Any) -> Machine:
        return Machine(self.host, root, self.stop, self.watched)

    def assemble(self, result: Any, going_on: GoingOn | None = None) -> Entry:
        """Graph, effects and result become the entry function; the result may be a Break."""
        host = self.host
        host.check_constants()
        if host.symbols is not None and host.symbols.doubt:
            raise unsupported("symbolic-value", host.symbols.doubt, function="C code")
        if any(host.held.values()):
            self.unmade = set(locks.LOCK_TYPES)
            raise unsupported("thread", "a lock is held beyond the end of the graph", function="the function")
        if host.protects and not self.options.fullgraph:
            self.unmade = set(locks.LOCK_TYPES)
            raise unsupported(
                "thread", "what a lock protects is read before the lock is taken", function="the function"
            )
        check_callbacks(host)
        self.check_drops(result)
        host.settle_modules()
        modes = [(torch._C._push_on_torch_function_stack, (mode,)) for mode in host.modes]
        states = host.recorder.state_effects()
        for change, arguments in [*host.ambient.changes(), *states, *self.regions.effects(), *modes]:
            host.defer(change, list(arguments), None)
        host.guard_leaves()
        tensor_methods.guard(host)
        if (condition := host.recorder.scope.condition) is not None:
            reader, values = condition
            self.guards.add(paths.const(reader).part("settings of torch", reader), EQ, values, None)
        assembly = self.make_assembly()
        start = Rerun(*self.call.eager_function(None if self.options.fullgraph else self.owner))
        if self.otherwise is not None and host.floats.conditions:
            start = start._replace(elsewhere=self.call.passed_on(self.otherwise()))
        try:
            draft = drafted(assembly, start, result)
            found = 0
            while host.recorder.adorned and len(assembly.outputs) > found:  # their attributes may hold further ones
                found = len(assembly.outputs)
                draft = drafted(assembly, start, result)
            if host.recorder.leaves or host.recorder.inner_grads:
                self.check_leaves(assembly)
                draft = drafted(assembly, start, result)  # again: the gradients of leaves that come out
        except CannotRebuild as error:
            self.unmade = {type(obj) for obj in (error.obj, *error.within)} - CONTENT_TYPES
            if type(error.obj) in (int, str):
                self.unmade = {Address}
            raise unsupported("cannot-rebuild", str(error), type=type(error.obj).__name__) from error
        if not choices.hold(host, assembly.outputs.values()):
            self.unmade = {choices.Chosen}
            raise unsupported(
                "data-dependent-branch", "which tensor the branch, `max` or `min` gives makes a difference"
            )
        if not all(map(draft.builds, self.instances)):
            raise unsupported("native-effect", "something with `__del__` that is left behind", function="its end")
        caches.check(host, draft, assembly.outputs.values())
        arrays.check_memory(host, assembly.outputs.values())
        tensor_hooks.check(host)
        tensor_attributes.check(host, assembly.outputs.values(), type(result) is Break)
        inference_blocks.check(host, assembly.outputs.values())
        hook_handles.check(host, draft.builds)
        logs.check(host)
        host.identities.guard(assembly.written, torch.Tensor)
        if host.recorder.traces and self.needs_histories(result, assembly.outputs.values()):
            self.maker.backend = "eager"
        graph, inputs = self.compile_graph(assembly)
        again = self.rerun(start) if graph is not None and host.recorder.repeatable and not host.locks else None
        write = partial(assembly.write, graph, inputs, start, again)
        emitter, returned = self.written(assembly, write, result, going_on)
        short_lived = emitter.give_up(is_short_lived)
        loads = [*assembly.loads, *map(paths.const, short_lived.values())]
        params = [*(f"l{i}" for i in range(len(assembly.loads))), *short_lived]
        name = self.name if self.name.isidentifier() and not keyword.iskeyword(self.name) else "entry"
        function = emitter.function(name, params, returned)
        if host.symbols is not None:
            host.symbols.check_strict()
            self.guard_relations()
        self.classes.refresh(self.guards)  # a backend may have patched classes and put them back
        guards = self.guards
        events.emit("guards", name=name, count=len(guards), text=lambda: "\n".join(guards.describe()))
        events.emit("code", name=name, text=lambda: str(vars(function)["__stator_source__"]))
        return Entry(guards, self.classes, loads, function, operations=self.maker.operations, graph=self.maker.shared)

    def check_drops(self, result: Any) -> None:
        """The effects are applied before anything is printed: an end that runs code comes in the program's order."""
        if not self.options.fullgraph:
            values = result.values if type(result) is Break else [result]
            one = dropped_ending(self.host, [seen(self.host, value) for value in values])
            if one is not None:
                self.unmade = {Dropped}
                self.host.departed = type(one).__name__
                self.host.let_die()

    def needs_histories(self, result: Any, outputs: Any) -> bool:
        """Whether autograd, or what follows a break, looks at the history of single results."""
        if are_sealed(outputs, self.host.recorder) or inference_blocks.are_saved(self.host, outputs):
            return True
        old_hooks = self.host.below is not None and self.host.below.old_hooks
        return type(result) is Break and are_asked_for(result, outputs, old_hooks)

    def written(
        self, assembly: Assembly, write: Callable[[], Emitter], result: Any, going_on: GoingOn | None
    ) -> tuple[Emitter, Source]:
        """The entry function; once more if the backend has found that a number is another one, not named before."""
        numbers = -1
        while numbers < len(assembly.numbers):
            numbers = len(assembly.numbers)
            emitter = write()
            returned = outcome(emitter, result, going_on)
        return emitter, returned

    def rerun(self, start: Rerun) -> Rerun | None:
        """What runs the call when the graph fails; None if it cannot be known, or put back, what it has written."""
        recorder, backend, symbols = self.host.recorder, self.options.backend, self.host.symbols
        bounded = symbols is not None and symbols.bounded and not symbols.clamps
        if bounded and self.otherwise is not None and not self.options.fullgraph:
            start = start._replace(function=assumptions.rerun(start.function, self.call, self.otherwise))
        tensors = [recorder.tensor(name) for name in recorder.mutated]
        written = tuple(self.host.records[id(tensor)].path for tensor in tensors)
        if self.maker.takes_back:
            start = start._replace(refusal=NotAsAssumed)
        if not written or (backend == "eager" and not recorder.fails_late):
            return start._replace(written=written)
        if not self.maker.looks_first and recorder.can_be_undone():
            return start._replace(saved=written)
        if (self.maker.looks_first or backend in IN_ORDER) and not recorder.has_arrays:  # numpy writes unnoticed
            return start._replace(written=written)
        return start if self.maker.takes_back else None

    def check_locks(self) -> None:
        """Where the graph fails, CPython would run the call again, and take its locks again."""
        if self.host.locks and self.host.recorder.repeatable and not self.options.fullgraph:
            self.unmade = set(locks.LOCK_TYPES)
            raise unsupported("thread", "the graph may fail while a lock is held", function="the function")

    def compile_graph(self, assembly: Assembly) -> tuple[Any, list[str]]:
        """The graph through the backend, and the loads it takes."""
        return self.maker.compile(assembly, self.stop is not None, self.check_locks)

    def check_leaves(self, assembly: Assembly) -> None:
        """A trace gives no new leaves, nor anything that requires grad without an input that does."""
        recorder = self.host.recorder
        if not recorder.traces:
            return
        leaves = {leaf._storage for leaf in recorder.leaves}
        tensors = [output for output in assembly.outputs.values() if type(output) is TracedTensor]
        outputs = [output for output in tensors if output._meta.requires_grad]
        made = any(output._stands_for is torch.nn.Parameter and recorder.real(output) is None for output in tensors)
        if made or any(output._storage in leaves for output in outputs) or (outputs and not recorder.has_grad_inputs()):
            self.unmade = {NewLeaf}
            raise unsupported("autograd", "a leaf made in the graph comes out of it", function="Tensor.requires_grad_")


QUALNAME: Any = type.__dict__["__qualname__"]


def is_short_lived(obj: Any) -> bool:
    """Whether an entry function should not keep this alive: a class that no module has under its name."""
    if not isinstance(obj, type) or not mortal(obj):
        return False
    found: Any = sys.modules.get(_frames.class_dict(obj).get("__module__", ""))
    for name in QUALNAME.__get__(obj).split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found is not obj


def outcome(emitter: Emitter, result: Any, going_on: GoingOn | None) -> Source:
    """The expression that the entry function returns."""
    return tail(emitter, result, going_on) if type(result) is Break else emitter.value(result)


def drafted(assembly: Assembly, start: Rerun, result: Any) -> Emitter:
    """The entry function as far as it can be written without its graph: what comes out of that is known then."""
    emitter = assembly.write(None, [], start)
    outcome(emitter, result, None)
    return emitter


def first_function(function: Any) -> Any:
    """The Python function whose frame comes first when this is called, and whose result is the result."""
    if type(function) is types.FunctionType:
        return function
    method = _frames.type_lookup(type(function), "__call__")
    return method if type(method) is types.FunctionType else None


def check_survivors(recorder: Any) -> None:
    """No traced tensor may live on after its capture: something outside would hold a tensor without data."""
    if recorder.survivors():
        gc.collect()
        if left := recorder.survivors():
            raise unsupported("tensor-escaped", f"{len(left)} traced tensors are still referenced")
