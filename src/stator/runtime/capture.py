"""One capture: a call of a function becomes an entry."""

from __future__ import annotations

import gc
import os
import sys
import time
import types
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch

import stator
from stator import _frames
from stator._entry import mortal
from stator.emit.emitter import Emitter
from stator.emit.plan import CannotRebuild, Source
from stator.errors import InternalError, StatorError, Unsupported, unsupported
from stator.eval.machine import Machine, Place, Stopped
from stator.frame import Frame, forget_tracebacks
from stator.graph.backends import BACKENDS, compile_graph, refused, traces
from stator.graph.index_ranges import looking_first
from stator.graph.module import eager_callable, only_reads, operation_names
from stator.graph.overlap import guarded
from stator.graph.prologue import NotAsAssumed, assertions_of, checked, checks_of, undone, written_before_checks
from stator.graph.restore import keeping_grad_mode
from stator.graph.sharing import SharedGraph, key_of
from stator.graph.undefined import reach, undefining
from stator.guards import path as paths
from stator.guards.check import EQ
from stator.guards.guardset import GuardSet
from stator.guards.path import Path
from stator.guards.state import snapshot
from stator.native import (  # noqa: F401 - rows
    files,
    locks,
    logs,
    standins,
    standins_ambient,
    standins_environment,
    standins_errors,
    standins_reduce,
    standins_regex,
    standins_registry,
    standins_state,
    warn,
    weak,
)
from stator.native.callers import CO_VARARGS, CO_VARKEYWORDS, CONTENT_TYPES
from stator.native.held import check_callbacks
from stator.native.standins import Address
from stator.options import Options
from stator.report import events
from stator.runtime import (  # noqa: F401 - rows
    arrays,
    assumptions,
    autograd_calls,
    autograd_function,
    caches,
    checkpointing,
    control_flow,
    drawing,
    flex_attention,
    hook_handles,
    numpy_drawing,
    random_state,
    scripted,
    tensor_hooks,
    torch_standins,
    transforms,
)
from stator.runtime.assemble import Assembly, Rerun
from stator.runtime.compiling import compiling
from stator.runtime.continuation import Break, Continuation, break_place, origin_of_location
from stator.runtime.histories import are_asked_for
from stator.runtime.learned import Learned
from stator.runtime.tail import GoingOn, tail
from stator.runtime.tensor_host import TensorHost
from stator.runtime.throwing import throw
from stator.shapes.policy import Policy
from stator.tensors.modes import ENTER, SETTERS
from stator.tensors.spent import settle
from stator.tensors.subclasses import PLAIN, plain_copy, without_functions
from stator.tensors.traced import TracedTensor
from stator.world.class_contents import ClassContents
from stator.world.lazy import Lazy, forced

_frames.set_own_folder(os.path.dirname(stator.__file__) + os.sep)


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
    program: Any = field(init=False)  # the compiled guards; expired once an object they compare with has died

    def __post_init__(self) -> None:
        self.compile()

    def compile(self) -> None:
        """Makes the program of the guards as they are now."""
        self.program = self.guards.compile(self.loads)


class Call:
    """The call of a function, to be captured."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs or {}
        self.names = tuple(self.kwargs)
        self.values = (*args, *self.kwargs.values())  # as the guard program numbers them

    def run(self, owner: Any = None) -> Any:
        """The call itself, in CPython; frames below it go to the owner."""
        return _frames.below(owner, self.function, self.args, self.kwargs)

    def fail(self, error: BaseException) -> Any:
        """Nothing has happened yet: the error is the caller's."""
        raise error

    def enter(self, host: TensorHost) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Function, arguments and keyword arguments as the captured program sees them."""
        enter = host.light if takes_plainly(self.function) else host.enter
        entered = [enter_or_wait(host, enter, value, paths.arg(i)) for i, value in enumerate(self.values)]
        positional = tuple(entered[: len(self.args)])
        keywords = dict(zip(self.names, entered[len(self.args) :], strict=True))
        function = self.function
        host.enter_const(function)
        if type(function) is types.MethodType:
            positional = (host.enter_const(function.__self__), *positional)
            function = function.__func__
        return function, positional, keywords

    def eager_function(self, owner: Any) -> tuple[list[Path], Callable[..., Any]]:
        """What runs the call in CPython whenever the guards hold, and the values it takes."""
        function, npos, names = self.function, len(self.args), self.names

        def run(*values: Any) -> Any:
            keywords = dict(zip(names, values[npos:], strict=True)) if names else None
            return _frames.below(owner, function, values[:npos], keywords)

        return [paths.arg(i) for i in range(len(self.values))], run

    def passed_on(self, function: Any) -> Callable[..., Any]:
        """What gives the values of such a call to another function."""
        npos, names = len(self.args), self.names
        return lambda *values: function(*values[:npos], **dict(zip(names, values[npos:], strict=True)))

    @property
    def code(self) -> types.CodeType | None:
        return code_of(self.function)

    @property
    def name(self) -> str:
        """What is called, for people."""
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


class ResumedCall(Call):
    """The rest of a call behind a break, to be captured."""

    def __init__(self, continuation: Continuation, values: tuple[Any, ...]) -> None:
        super().__init__(None, values, None)
        self.continuation = continuation

    def run(self, owner: Any = None) -> Any:
        function, state = self.continuation.build(self.values)
        return _frames.below(owner, function, state)

    def eager_function(self, owner: Any) -> tuple[list[Path], Callable[..., Any]]:
        build = self.continuation.build

        def run(*values: Any) -> Any:
            return _frames.below(owner, *build(values))

        return [paths.arg(i) for i in range(len(self.values))], run

    def fail(self, error: BaseException) -> Any:
        """The program is in the middle of its blocks: the error goes through it."""
        return throw(self.continuation, error, self.values)

    def enter(self, host: TensorHost) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        host.lazy = True
        host.carried = self.values
        entered: list[Any] = []
        for i, value in enumerate(self.values):
            is_cell = type(value) is types.CellType
            entered.append(host.enter(value, paths.arg(i)) if is_cell else Lazy(value, paths.arg(i)))
        function, state = self.continuation.build(entered)
        for made in self.continuation.functions(function, state):
            host.inside_function(made)
        return function, (state,), {}

    @property
    def code(self) -> types.CodeType | None:
        return self.continuation.code

    @property
    def name(self) -> str:
        code = self.code
        return f"{code.co_qualname if code else 'a function'} behind a break"


class BoundCall(Call):
    """A frame below a break, to be captured: its function and the arguments that CPython has bound."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__(values[0], values, None)

    def run(self, owner: Any = None) -> Any:
        return _frames.NOT_TAKEN

    def eager_function(self, owner: Any) -> tuple[list[Path], Callable[..., Any]]:
        return [], leave_alone

    def enter(self, host: TensorHost) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        code = self.function.__code__
        named = code.co_argcount + code.co_kwonlyargcount
        function, *rest = [
            enter_or_wait(host, host.light if i <= named else host.enter, value, paths.arg(i))
            for i, value in enumerate(self.values)
        ]
        positional, keywords = rest[: code.co_argcount], rest[code.co_argcount : named]
        names = code.co_varnames[code.co_argcount : named]
        extra = rest[named:]
        if code.co_flags & VARARGS:
            positional += host.settled(forced(host, extra.pop(0)))
        passed = dict(zip(names, keywords, strict=True))
        if extra:
            passed |= host.settled(forced(host, extra[0]))
        return function, tuple(positional), passed


VARARGS = 0x04  # a flag of code objects


def leave_alone() -> Any:
    return _frames.NOT_TAKEN


def takes_plainly(function: Any) -> bool:
    """Whether arguments of a call become locals of the frame as they are."""
    function = function.__func__ if type(function) is types.MethodType else function
    return type(function) is types.FunctionType and not function.__code__.co_flags & (CO_VARARGS | CO_VARKEYWORDS)


def enter_or_wait(host: TensorHost, enter: Callable[[Any, Path], Any], value: Any, path: Path) -> Any:
    """The value as it enters, or not yet if nothing can be known about it: perhaps nobody looks at it."""
    known = len(host.records)
    try:
        return enter(value, path)
    except Unsupported:
        host.forget_since(known)
        host.lazy = True
        return Lazy(value, path)


def code_of(function: Any) -> types.CodeType | None:
    """The code object that a callable runs first."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        method = type(function).__call__
        function = getattr(method, "__func__", method)
    return getattr(function, "__code__", None)


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
        self.operations = 0
        self.graphs: MutableMapping[Any, SharedGraph] | None = None  # compiled ones that may serve again
        self.graph: SharedGraph | None = None
        self.looks_first = False  # the graph fails before it writes
        self.takes_back = False  # the graph leaves inputs as they were where what was assumed does not hold
        self.options = options
        self.graph_backend = options.backend
        self.stop = stop
        self.watched = watched  # types of which no object may be made before the break
        self.unmade: set[type] = set()  # types of objects that cannot be rebuilt
        self.machine: Machine | None = None
        self.generators: list[Any] = []  # weak references to those the program made
        self.instances: set[int] = set()  # addresses of objects with `__del__` that it made
        self.unbacked = unbacked
        learned = Learned() if learned is None else learned
        self.host = self.make_host(learned)
        self.otherwise = otherwise
        if otherwise is not None:
            self.host.floats.conditions = []
        self.symbolic = False  # whether it had symbolic numbers
        self.guessed = False  # whether it had such that nobody had seen change
        self.from_data = False  # whether it had such that only data tells
        if not options.fullgraph:
            self.host.varying = learned
            self.host.guards.unsettled = learned.unsettled
            self.host.patient = False
        self.host.draws_numbers = unbacked or not options.fullgraph
        self.host.recorder.no_leaves = NewLeaf in watched
        self.host.light_paths, self.host.whole_paths = learned.light, learned.whole
        self.host.locks_break = not locks.LOCK_TYPES.isdisjoint(watched)
        self.host.addresses_break = Address in watched
        self.host.unmade = frozenset(watched)
        self.guards = self.host.guards
        self.classes = self.host.classes
        self.regions = self.host.regions
        self.guards.state(snapshot())
        self.guards.call_shape(len(call.args), call.names)
        self.name = getattr(call.code, "co_name", "entry")
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
            return self.make_entry(going_on)
        except StatorError:
            raise
        except Exception as error:  # a mistake of stator's own: the program must not see it
            raise InternalError(f"{type(error).__name__}: {error}") from error

    def make_entry(self, going_on: GoingOn | None) -> Entry:
        started = time.perf_counter()
        recorder = self.host.recorder
        result: Any = None
        try:
            returned, result = self.execute()
            if not returned and isinstance(result, StatorError):
                raise result  # of stator's own code below native code, without a frame in between
            if not returned and not isinstance(result, (Exception, SystemExit, GeneratorExit)):
                raise result  # an interruption from outside, such as KeyboardInterrupt: nothing has happened yet
            if (self.stop is not None) != (type(result) is Break):
                raise InternalError("the program did not come to the place of its break again")
            if not returned and self.host.has_symbols():  # see whether it does with constants
                name = type(result).__name__
                raise unsupported("symbolic-value", f"{name} came out of the function", function=name)
            if not returned:  # the program raised: it does so again, by itself
                events.emit("skip", code=self.call.code, reason=f"{type(result).__name__} came out of the function")
                return self.eager()
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
            self.from_data = self.host.recorder.follows_data or (symbols is not None and bool(symbols.sizes))
            arrays.give_back(self.host)
            if symbols is not None:
                symbols.release()
            self.host.close()
        forget_tracebacks()

    def discard(self) -> None:
        """Generators and objects with finalizers that the program made end without running any code of theirs."""
        _frames.discard_generators(self.generators)
        _frames.discard_instances(self.instances)

    def place(self) -> Place | None:
        """Where a break can be after the capture was given up."""
        return break_place(self.machine.places) if self.machine is not None else None

    def found(self, stopped: Stopped) -> Break:
        """The break at which the capture stopped, which nothing else keeps alive."""
        for frame in stopped.frames:
            self.host.know_closure(frame.function)
        found = Break(stopped.frames, stopped.handled)
        stopped.frames.clear()
        stopped.__traceback__ = None
        return found

    def eager(self, alone: bool = False) -> Entry:
        """Under the guards so far CPython runs the call, and if it is `alone` also all frames below it."""
        loads, function = self.call.eager_function(None if alone else self.owner)
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
        if host.symbols is not None and host.symbols.doubt:
            raise unsupported("symbolic-value", host.symbols.doubt, function="C code")
        if any(host.held.values()):
            self.unmade = set(locks.LOCK_TYPES)
            raise unsupported("thread", "a lock is held beyond the end of the graph", function="the function")
        check_callbacks(host)
        host.settle_modules()
        modes = [(torch._C._push_on_torch_function_stack, (mode,)) for mode in host.modes]
        states = host.recorder.state_effects()
        for change, arguments in [*host.ambient.changes(), *states, *self.regions.effects(), *modes]:
            host.defer(change, list(arguments), None)
        if (condition := host.recorder.scope.condition) is not None:
            reader, values = condition
            self.guards.add(paths.const(reader).part("settings of torch", reader), EQ, values, None)
        assembly = self.make_assembly()
        start = Rerun(*self.call.eager_function(None if self.options.fullgraph else self.owner))
        if self.otherwise is not None and host.floats.conditions:
            start = start._replace(elsewhere=self.call.passed_on(self.otherwise()))
        try:
            outcome(assembly.write(None, [], start), result, None)
            found = 0
            while host.recorder.adorned and len(assembly.outputs) > found:  # their attributes may hold further ones
                found = len(assembly.outputs)
                outcome(assembly.write(None, [], start), result, None)
            if host.recorder.leaves or host.recorder.inner_grads:
                self.check_leaves(assembly)
                outcome(assembly.write(None, [], start), result, None)  # again: the gradients of leaves that come out
        except CannotRebuild as error:
            self.unmade = {type(obj) for obj in (error.obj, *error.within)} - CONTENT_TYPES
            if type(error.obj) is int:
                self.unmade = {Address}
            raise unsupported("cannot-rebuild", str(error), type=type(error.obj).__name__) from error
        arrays.check_memory(host, assembly.outputs.values())
        tensor_hooks.check(host)
        hook_handles.check(host)
        host.identities.guard(assembly.written, torch.Tensor)
        if type(result) is Break and host.recorder.traces and are_asked_for(result, assembly.outputs.values()):
            self.graph_backend = "eager"
        graph, inputs = self.compile_graph(assembly)
        if host.locks and host.recorder.repeatable and not self.options.fullgraph:
            # CPython would run the call again, and take them again.
            self.unmade = set(locks.LOCK_TYPES)
            raise unsupported("thread", "the graph may fail while a lock is held", function="the function")
        again = self.rerun(start) if graph is not None and host.recorder.repeatable and not host.locks else None
        emitter = assembly.write(graph, inputs, start, again)
        returned = outcome(emitter, result, going_on)
        short_lived = emitter.give_up(is_short_lived)
        loads = [*assembly.loads, *map(paths.const, short_lived.values())]
        params = [*(f"l{i}" for i in range(len(assembly.loads))), *short_lived]
        name = self.name if self.name.isidentifier() else "entry"
        function = emitter.function(name, params, returned)
        if host.symbols is not None:
            host.symbols.check_strict()
            for relation, origin in host.symbols.relations():
                self.guards.relation(relation, origin)
        self.classes.refresh(self.guards)  # a backend may have patched classes and put them back
        guards = self.guards
        events.emit("guards", name=name, count=len(guards), text=lambda: "\n".join(guards.describe([])))
        events.emit("code", name=name, text=lambda: str(vars(function)["__stator_source__"]))
        return Entry(guards, self.classes, loads, function, operations=self.operations, graph=self.graph)

    def rerun(self, start: Rerun) -> Rerun | None:
        """What runs the call when the graph fails; None if it cannot be known, or put back, what it has written."""
        recorder, backend, symbols = self.host.recorder, self.options.backend, self.host.symbols
        bounded = symbols is not None and symbols.bounded and not symbols.clamps
        if bounded and self.otherwise is not None and not self.options.fullgraph:
            start = start._replace(function=assumptions.rerun(start.function, self.call, self.otherwise))
        tensors = [recorder.tensor(name) for name in recorder.mutated]
        written = tuple(self.host.records[id(tensor)].path for tensor in tensors)
        if self.takes_back:
            start = start._replace(refusal=NotAsAssumed)
        if not written or (backend == "eager" and not recorder.fails_late):
            return start._replace(written=written)
        if not self.looks_first and recorder.can_be_undone():
            return start._replace(saved=written)
        if (self.looks_first or backend in IN_ORDER) and not recorder.has_arrays:  # numpy writes unnoticed
            return start._replace(written=written)
        return start if self.takes_back else None

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

    def compile_graph(self, assembly: Assembly) -> tuple[Any, list[str]]:
        """The graph through the backend, and the loads it takes; None if there is nothing to compute."""
        recorder, backend = self.host.recorder, self.graph_backend
        outputs = list(assembly.outputs.values())
        assembly.spent = settle(recorder, outputs)
        module = recorder.finish(outputs)
        if self.host.symbols is not None:
            self.host.symbols.answering = False
        assumptions.check(self.host)
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
        mode = None
        if self.host.symbols is not None and backend != "eager":
            mode, tensors = recorder.examples()
        wanted = [i for i, one in enumerate(outputs) if type(one) is TracedTensor and one._meta.requires_grad]
        led = None
        if len(wanted) > 1 and traces(backend):
            led = reach(module.graph, recorder.readings.homes, tensors, wanted)
        function = self.compiled_graph(module, originals, tensors, mode)
        if not isinstance(backend, str) or backend not in BACKENDS:
            function = keeping_grad_mode(function, module.graph)
        if led is not None:
            function = undefining(function, led)
        written = [recorder.inputs.index(name) for name in recorder.mutated]
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

    def compiled_graph(self, module: Any, originals: list[Any], examples: list[Any], mode: Any) -> Any:
        """What the backend makes of the graph, or made of the same one before."""
        options, name, operations, backend = self.options, self.name, self.operations, self.graph_backend
        if only_reads(module) and (
            self.stop is not None or all(id(one) in self.host.float_inputs for one in originals)
        ):
            return eager_callable(module)
        key = None
        if self.graphs is not None and not any(map(is_symbolic, examples)):
            key = key_of(module.graph, originals, origin_of_location, (options.dynamic, backend is options.backend))
        known = self.graphs.get(key.value) if self.graphs is not None and key is not None else None
        events.emit(
            "graph" if known is None else "shared",
            name=name,
            operations=operations,
            text=lambda: str(module.code),
            ops=lambda: operation_names(module),
        )
        if known is not None:
            self.graph = known
            return known.function
        function = compile_graph(
            module,
            examples,
            backend,
            mode=options.mode,
            options=options.options,
            dynamic=options.dynamic,
            fake_mode=mode,
        )
        if self.graphs is not None and key is not None:
            self.graph = self.graphs[key.value] = SharedGraph(function, key.kept)
        return function

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


IN_ORDER = ("eager", "aot_eager")  # backends that write to inputs when the program does, or at the end
MOST_SAVED = 2**20  # bytes that are copied before a graph whose backend writes when it likes, if anything else will do
QUALNAME: Any = type.__dict__["__qualname__"]


def is_symbolic(example: Any) -> bool:
    """Whether a backend may decide something about this input that is not known yet."""
    return type(example) is torch.SymInt or bool(getattr(example, "_has_symbolic_sizes_strides", False))


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
