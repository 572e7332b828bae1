"""One capture: a call of a function becomes an entry."""

from __future__ import annotations

import gc
import os
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import stator
from stator import _frames
from stator.emit.plan import CannotRebuild
from stator.errors import InternalError, StatorError, unsupported
from stator.eval.machine import Machine
from stator.frame import Frame, forget_tracebacks
from stator.graph.backends import compile_graph, refused
from stator.graph.module import eager_callable
from stator.graph.overlap import guarded
from stator.guards import path as paths
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
from stator.options import Options
from stator.report import events
from stator.runtime.assemble import Assembly
from stator.runtime.compiling import compiling
from stator.runtime.tensor_host import TensorHost
from stator.world.class_contents import ClassContents

_frames.set_own_folder(os.path.dirname(stator.__file__) + os.sep)


@dataclass(eq=False)
class Entry:
    """What one capture leaves behind: guards, the values they load, and the function that takes them."""

    guards: GuardSet
    classes: ClassContents
    loads: list[Path]
    function: Callable[..., Any]
    captured: bool = True  # False: under these guards CPython runs the call

    def program(self) -> Any:
        return self.guards.compile(self.loads)


class Call:
    """The call being captured."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs or {}
        self.names = tuple(self.kwargs)
        self.values = (*args, *self.kwargs.values())  # as the guard program numbers them

    def run(self) -> Any:
        """The call itself, in CPython."""
        return self.function(*self.args, **self.kwargs)

    @property
    def code(self) -> types.CodeType | None:
        return code_of(self.function)


def code_of(function: Any) -> types.CodeType | None:
    """The code object that a callable runs first."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        method = type(function).__call__
        function = getattr(method, "__func__", method)
    return getattr(function, "__code__", None)


class Capture:
    """Runs a call under the interpreter and assembles the entry."""

    def __init__(self, call: Call, options: Options) -> None:
        self.call = call
        self.options = options
        self.host = TensorHost(refused(options.backend))
        self.guards = self.host.guards
        self.classes = self.host.classes
        self.guards.state(snapshot())
        self.guards.call_shape(len(call.args), call.names)
        self.name = getattr(call.code, "co_name", "entry")

    def entry(self) -> Entry:
        """The entry; StatorError if the call cannot be captured."""
        started = time.perf_counter()
        host, recorder = self.host, self.host.recorder
        result: Any = None
        try:
            with compiling(), recorder:
                returned, result = host.ambient.context.run(self.interpret)
            host.registries.restore()
            if not returned and not isinstance(result, (Exception, SystemExit, GeneratorExit)):
                raise result  # an interruption from outside, such as KeyboardInterrupt: nothing has happened yet
            if not returned:  # the program raised: it does so again, by itself
                events.emit("skip", code=self.call.code, reason=f"{type(result).__name__} came out of the function")
                return self.eager()
            made = self.assemble(result)
        finally:
            result = None
            host.registries.restore()
            host.close()
            forget_tracebacks()
        check_survivors(recorder)
        events.emit("capture", code=self.call.code, seconds=time.perf_counter() - started)
        return made

    def eager(self) -> Entry:
        """Under the guards so far CPython runs the call."""
        function, npos, names = self.call.function, len(self.call.args), self.call.names

        def with_keywords(*values: Any) -> Any:
            return function(*values[:npos], **dict(zip(names, values[npos:], strict=True)))

        loads = [paths.arg(i) for i in range(len(self.call.values))]
        return Entry(self.guards, self.classes, loads, with_keywords if names else function, captured=False)

    def interpret(self) -> tuple[bool, Any]:
        """(True, result) or (False, exception) of the call."""
        call, host = self.call, self.host
        entered = [host.enter(value, paths.arg(i)) for i, value in enumerate(call.values)]
        positional = tuple(entered[: len(call.args)])
        keywords = dict(zip(call.names, entered[len(call.args) :], strict=True))
        function = call.function
        host.enter_const(function)
        if type(function) is types.MethodType:
            positional = (host.enter_const(function.__self__), *positional)
            function = function.__func__
        _frames.note_classes(True)
        if host.gc_enabled:
            gc.disable()  # collections would run finalizers of strangers as part of the captured program
        try:
            return _frames.capture(Machine(host).interpret, Frame, host.inside_types, function, positional, keywords)
        except StatorError:
            raise
        except Exception as error:
            raise InternalError(f"{type(error).__name__}: {error}") from error
        finally:
            _frames.note_classes(False)
            if host.gc_enabled_before:
                gc.enable()

    def assemble(self, result: Any) -> Entry:
        """Graph, effects and result become the entry function."""
        host = self.host
        host.settle_modules()
        for change, arguments in [*host.ambient.changes(), *host.recorder.state_effects()]:
            host.defer(change, list(arguments), None)
        assembly = Assembly(host)
        try:
            assembly.write(None, []).value(result)
        except CannotRebuild as error:
            raise unsupported("cannot-rebuild", str(error), type=type(error.obj).__name__) from error
        host.identities.guard(assembly.written, torch.Tensor)
        graph, inputs = self.compile_graph(assembly)
        emitter = assembly.write(graph, inputs)
        emitter.value(result)
        params = [f"l{i}" for i in range(len(assembly.loads))]
        name = self.name if self.name.isidentifier() else "entry"
        function = emitter.function(name, params, result)
        self.classes.refresh(self.guards)  # a backend may have patched classes and put them back
        guards = self.guards
        events.emit("guards", name=name, count=len(guards), text=lambda: "\n".join(guards.describe([])))
        events.emit("code", name=name, text=lambda: str(vars(function)["__stator_source__"]))
        return Entry(guards, self.classes, list(assembly.loads), function)

    def compile_graph(self, assembly: Assembly) -> tuple[Any, list[str]]:
        """The graph through the backend, and the loads it takes; None if there is nothing to compute."""
        recorder, options = self.host.recorder, self.options
        outputs = list(assembly.outputs.values())
        module = recorder.finish(outputs)
        operations = sum(node.op not in ("placeholder", "output") for node in module.graph.nodes)
        if not operations and not outputs:
            return None, []
        tensors = [recorder.tensor(name) for name in recorder.inputs]
        loads = [assembly.load(self.host.records[id(tensor)].path) for tensor in tensors]
        events.emit("graph", name=self.name, operations=operations, text=lambda: str(module.code))
        function = compile_graph(
            module, tensors, options.backend, mode=options.mode, options=options.options, dynamic=options.dynamic
        )
        written = [recorder.inputs.index(name) for name in recorder.mutated]
        if written and options.backend != "eager":
            function = guarded(function, eager_callable(module), written)
        return function, loads


def check_survivors(recorder: Any) -> None:
    """No traced tensor may live on after its capture: something outside would hold a tensor without data."""
    if recorder.survivors():
        gc.collect()
        if left := recorder.survivors():
            raise unsupported("tensor-escaped", f"{len(left)} traced tensors are still referenced")
