"""Capturing one call, and what happens on a miss."""

from __future__ import annotations

import functools
import gc
import os
import threading
import time
import types
import warnings
import weakref
from typing import Any, Callable

import torch

import stator
from stator import _entry, _frames
from stator.errors import InternalError, RecompileLimit, StatorError, unsupported
from stator.eval.machine import Machine
from stator.emit.plan import CannotRebuild
from stator.frame import Frame
from stator.graph.backends import compile_graph
from stator.guards import path as paths
from stator.guards.state import snapshot
from stator.native import locks, standins, standins_ambient, warn, weak  # noqa: F401 - they register their rows
from stator.options import Options
from stator.report import events
from stator.runtime.assemble import Assembly
from stator.runtime.compiling import compiling
from stator.runtime.tensor_host import TensorHost

_frames.set_own_folder(os.path.dirname(stator.__file__) + os.sep)


SESSIONS: weakref.WeakSet[Session] = weakref.WeakSet()


def reset() -> None:
    """Forget everything that was compiled."""
    for session in list(SESSIONS):
        session.reset()


def make_compiled(function: Callable[..., Any], options: Options) -> Any:
    """The callable that `stator.compile` returns for a function."""
    return Session(function, options).compiled


class Session:
    """One `compile()` call: its options, its cache and its decisions."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.compiled = _entry.Compiled(function, self.miss)
        functools.update_wrapper(self.compiled, function)
        self.lock = threading.RLock()
        self.guard_sets: list[Any] = []
        self.warned = False
        SESSIONS.add(self)

    def reset(self) -> None:
        """Forget all entries."""
        self.compiled.clear()
        self.guard_sets.clear()
        self.warned = False

    @property
    def code(self) -> types.CodeType | None:
        function = getattr(self.function, "__func__", self.function)
        if not isinstance(function, types.FunctionType):
            function = getattr(type(function).__call__, "__func__", type(function).__call__)
        return getattr(function, "__code__", None)

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """No entry fits: capture, keep the entry, and run it; or run eagerly."""
        if _frames.capturing():
            return self.function(*args, **(kwargs or {}))
        with self.lock:
            if self.guard_sets:
                reasons = self.reasons(args, kwargs)
                if len(self.guard_sets) >= self.options.recompile_limit:
                    self.exhausted(reasons)
                    return self.function(*args, **(kwargs or {}))
                events.emit("recompile", code=self.code, reasons=reasons)
            entry = self.capture(args, kwargs)
        if entry is None:
            return self.function(*args, **(kwargs or {}))
        return entry(args, kwargs)

    def exhausted(self, reasons: list[str]) -> None:
        """Compiled too often already: say which guards kept failing, once."""
        text = "\n  ".join([f"{self.name} was compiled {len(self.guard_sets)} times (recompile_limit)", *reasons])
        if self.options.fullgraph:
            raise RecompileLimit("recompile-limit", text)
        events.emit("skip", code=self.code, reason=text, break_id="recompile-limit")
        if not self.warned:
            self.warned = True
            warnings.warn(f"stator runs this function eagerly from now on: {text}", RuntimeWarning, stacklevel=3)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__qualname__))

    def reasons(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[str]:
        """Why no entry fitted: the first failing guard of each."""
        values, names = flat(args, kwargs)
        failures = [guards.first_failure(values, names) for guards in self.guard_sets]
        return [failure.sentence for failure in failures if failure is not None]

    def capture(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Callable[..., Any] | None:
        """A new entry for this call, or None if CPython shall run it; that decision is guarded like any other."""
        started = time.perf_counter()
        host = TensorHost()
        recorder, guards = host.recorder, host.guards
        values, names = flat(args, kwargs)
        guards.state(snapshot())
        guards.call_shape(len(args), names)
        try:
            with compiling(), recorder:
                returned, result = host.ambient.context.run(self.run, host, args, kwargs, values)
            if not returned:  # the program raised: it does so again, by itself
                self.skipped(f"{type(result).__name__} came out of the function", repr(result))
                return self.eager_entry(guards, len(args), names)
            program, function = self.assemble(host, result)
        except StatorError as error:
            return self.refused(error, guards, len(args), names)
        finally:
            result = None
            host.registries.restore()
            host.close()
        try:
            check_survivors(recorder)
        except StatorError as error:
            return self.refused(error, guards, len(args), names)
        self.guard_sets.append(guards)
        self.compiled.append(program, function)
        events.emit("capture", code=self.code, seconds=time.perf_counter() - started)
        return functools.partial(run_entry, self, program, function)

    def refused(self, error: StatorError, guards: Any, npos: int, names: tuple[str, ...]) -> None:
        """Not captured: an error with fullgraph, else eager under the guards so far, with the reason on record."""
        if self.options.fullgraph:
            raise error
        self.skipped(str(error), "", break_id=getattr(error, "break_id", None), location=getattr(error, "location", None))
        self.eager_entry(guards, npos, names)

    def skipped(self, reason: str, text: str, **fields: Any) -> None:
        events.emit("skip", code=self.code, reason=reason, text=text, **fields)

    def eager_entry(self, guards: Any, npos: int, names: tuple[str, ...]) -> None:
        """Under these guards the call runs in CPython."""
        function = self.function

        def eager(*values: Any) -> Any:
            return function(*values[:npos], **dict(zip(names, values[npos:])))

        program = guards.compile([paths.arg(i) for i in range(npos + len(names))])
        self.guard_sets.append(guards)
        self.compiled.append(program, eager if names else function)

    def run(self, host: TensorHost, args: Any, kwargs: Any, values: tuple[Any, ...]) -> tuple[bool, Any]:
        entered = [host.enter(value, paths.arg(i)) for i, value in enumerate(values)]
        positional = tuple(entered[: len(args)])
        keywords = dict(zip(kwargs or (), entered[len(args) :]))
        host.enter_const(self.function)
        function = self.function
        if type(function) is types.MethodType:
            positional = (host.enter_const(function.__self__), *positional)
            function = function.__func__
        machine = Machine(host)
        if host.gc_enabled:
            gc.disable()  # collections would run finalizers of strangers as part of the captured program
        try:
            return _frames.capture(machine.interpret, Frame, host.inside_types, function, positional, keywords)
        except StatorError:
            raise
        except Exception as error:
            raise InternalError(f"{type(error).__name__}: {error}") from error
        finally:
            if host.gc_enabled_before:
                gc.enable()

    def assemble(self, host: TensorHost, result: Any) -> tuple[Any, Any]:
        """The guard program and the entry function."""
        for change, arguments in host.ambient.changes():
            host.defer(change, arguments, None)
        assembly = Assembly(host, result)
        try:
            assembly.write(None, []).value(result)
        except CannotRebuild as error:
            raise unsupported("cannot-rebuild", str(error), type=type(error.obj).__name__) from error
        host.identities.guard(assembly.written, torch.Tensor)
        outputs = list(assembly.outputs.values())
        graph, inputs = self.compile_graph(host, assembly, outputs)
        emitter = assembly.write(graph, inputs)
        name = getattr(self.code, "co_name", "entry")
        if not name.isidentifier():
            name = "entry"
        emitter.value(result)
        params = [f"l{i}" for i in range(len(assembly.loads))]
        function = emitter.function(name, params, result)
        program = host.guards.compile(list(assembly.loads))
        events.emit("guards", name=name, count=len(host.guards), text=lambda: "\n".join(host.guards.describe([])))
        events.emit("code", name=name, text=lambda: function.__stator_source__)
        return program, function

    def compile_graph(self, host: TensorHost, assembly: Assembly, outputs: list[Any]) -> tuple[Any, list[str]]:
        """The graph through the backend, and the loads it takes; None if there is nothing to compute."""
        recorder = host.recorder
        module = recorder.finish(outputs)
        nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
        if not nodes and not outputs:
            return None, []
        tensors = [recorder.tensor(name) for name in recorder.inputs]
        loads = [assembly.load(host.records[id(tensor)].path) for tensor in tensors]
        events.emit("graph", name=getattr(self.code, "co_name", "?"), operations=len(nodes), text=lambda: str(module.code))
        options = self.options
        function = compile_graph(
            module, tensors, options.backend, mode=options.mode, options=options.options, dynamic=options.dynamic
        )
        return function, loads


def check_survivors(recorder: Any) -> None:
    """No traced tensor may live on after its capture: something outside would hold a tensor without data."""
    if recorder.survivors():
        gc.collect()
        if left := recorder.survivors():
            raise unsupported("tensor-escaped", f"{len(left)} traced tensors are still referenced")


def run_entry(session: Session, program: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """First use of a new entry: its guards must hold for the call it was made from."""
    values, names = flat(args, kwargs)
    loads = program.run(values, names)
    if not isinstance(loads, list):
        failure = session.guard_sets[-1].first_failure(values, names)
        text = failure.sentence if failure else f"row {loads}"
        events.emit("error", text=f"a fresh entry of {session.code} does not accept the call it was captured from: {text}")
        return session.function(*args, **(kwargs or {}))
    return function(*loads)


def flat(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The values of a call as the guard program numbers them, and the names of the keyword ones."""
    return (args, ()) if not kwargs else ((*args, *kwargs.values()), tuple(kwargs))


