"""`check(fn, *args)`: runs a program eagerly and compiled, and compares everything that can be observed.

Each way runs in its own world of copies. Inputs are fresh copies on every call, modules, methods and closures live as
long as their world. What is observed: result or exception, arguments after the call, named globals, stdout, stderr,
warnings, logging, random state, torch's global state; and how often something was compiled.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch

from tests.copies import World
from tests.image import TORCH, Image, image

Compile = Callable[..., Callable[..., Any]]

# Modules of torch that speak while compiling; their messages are not the program's.
_COMPILERS = tuple(f"{TORCH}/{name}" for name in ("_dynamo", "_inductor", "_functorch", "fx", "jit"))
_LOGGERS = ("torch", "stator", "concurrent", "asyncio", "filelock")


class Engine(Protocol):
    """A way to compile, and its counters since `reset`."""

    def compile(self, fn: Any, **options: Any) -> Callable[..., Any]: ...
    def reset(self) -> None: ...
    def counts(self) -> dict[str, int]: ...


class StatorEngine:
    """stator itself."""

    def compile(self, fn: Any, **options: Any) -> Callable[..., Any]:
        import stator

        return stator.compile(fn, **options)

    def reset(self) -> None:
        import stator

        stator.reset()

    def counts(self) -> dict[str, int]:
        import stator

        return {name: value for name, value in stator.stats().items() if isinstance(value, int)}


class TorchEngine:
    """torch.compile, to validate the tests themselves; it counts graphs of the eager backend only."""

    def __init__(self) -> None:
        self._graphs = 0

    def _eager(self, graph: Any, inputs: Any) -> Any:
        self._graphs += 1
        return graph.forward

    def compile(self, fn: Any, backend: Any = "inductor", **options: Any) -> Callable[..., Any]:
        return torch.compile(fn, backend=self._eager if backend == "eager" else backend, **options)

    def reset(self) -> None:
        torch.compiler.reset()
        self._graphs = 0

    def counts(self) -> dict[str, int]:
        return {"graphs": self._graphs}


class PlainEngine:
    """Any function that compiles, without counters."""

    def __init__(self, compile: Compile) -> None:
        self.compile = compile  # type: ignore[method-assign]

    def compile(self, fn: Any, **options: Any) -> Callable[..., Any]:
        raise NotImplementedError

    def reset(self) -> None:
        pass

    def counts(self) -> dict[str, int]:
        return {}


_ENGINES: dict[str, Callable[[], Engine]] = {"stator": StatorEngine, "torch": TorchEngine}
ENGINE = os.environ.get("STATOR_TEST_ENGINE", "stator")


def engine() -> Engine:
    """The engine under test, chosen by `STATOR_TEST_ENGINE`."""
    return _ENGINES[ENGINE]()


@dataclass
class Observation:
    """Everything one call did, as far as the program could tell."""

    raised: BaseException | None
    heap: Image
    texts: dict[str, Any]

    def difference(self, expected: Observation, tolerance: float | None, strides: bool) -> str | None:
        if (self.raised is None) != (expected.raised is None):
            return f"raised {self.raised!r} instead of {expected.raised!r}"
        for name, text in self.texts.items():
            if text != expected.texts[name]:
                return f"{name}: {text!r} instead of {expected.texts[name]!r}"
        return self.heap.difference(expected.heap, tolerance, strides)


class _Records(logging.Handler):
    """Keeps what the program logged."""

    def __init__(self) -> None:
        super().__init__(0)
        self.rows: list[tuple[Any, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(_LOGGERS):
            row = (record.name, record.levelno, record.getMessage(), record.pathname, record.lineno, record.funcName)
            self.rows.append(row)


@contextlib.contextmanager
def _logging() -> Iterator[_Records]:
    root, records = logging.getLogger(), _Records()
    root.addHandler(records)
    try:
        yield records
    finally:
        root.removeHandler(records)


def _seed(number: int) -> None:
    random.seed(number)
    torch.manual_seed(number)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(number)


def _random_state() -> dict[str, Any]:
    state: dict[str, Any] = {"random": random.getstate(), "torch": torch.get_rng_state().tolist()}
    if numpy := sys.modules.get("numpy"):
        state["numpy"] = [getattr(part, "tolist", lambda: part)() for part in numpy.random.get_state()]
    return {name: hash(repr(value)) for name, value in state.items()}


def _torch_state() -> dict[str, Any]:
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "modes": torch._C._len_torch_function_stack(),
        "compiling": torch.compiler.is_compiling(),
    }


def observe(call: Callable[[], Any], seed: int, backward: bool, roots: Callable[[], dict[str, Any]]) -> Observation:
    """Performs one call and describes what it did; `roots` gives the objects it may have changed."""
    out, err = io.StringIO(), io.StringIO()
    raised: BaseException | None = None
    result: Any = None
    _seed(seed)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(record=True) as caught,
        _logging() as records,
    ):
        warnings.simplefilter("always")
        try:
            result = call()
        except (Exception, SystemExit, GeneratorExit) as error:
            raised = error
    texts = {
        "random state": _random_state(),
        "stdout": out.getvalue(),
        "stderr": err.getvalue(),
        "warnings": [_warning(row) for row in caught if not _is_compilers(row)],
        "logging": records.rows,
        "torch state": _torch_state(),
    }
    if backward and raised is None:
        _backward(result)
    return Observation(raised, image(**roots(), result=result, raised=raised), texts)


def _is_compilers(row: warnings.WarningMessage) -> bool:
    return row.filename.startswith(_COMPILERS) or str(row.message).startswith("stator runs this function eagerly")


def _warning(row: warnings.WarningMessage) -> tuple[Any, ...]:
    return row.category, str(row.message), row.filename, row.lineno


def _backward(result: Any) -> None:
    leaves = torch.utils._pytree.tree_leaves(result)
    total = sum(leaf.abs().sum() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad)
    if isinstance(total, torch.Tensor):
        total.backward()


@dataclass
class Report:
    """What a check saw: observations of each call both ways, and counts after each compiled call."""

    eager: list[Observation] = field(default_factory=list)
    compiled: list[Observation] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)

    def gained(self, name: str, first: int = 1, last: int | None = None) -> int:
        """How much a counter grew from call `first` (from 1) up to call `last`."""
        before = self.counts[first - 2] if first > 1 else {}
        after = self.counts[(last or len(self.counts)) - 1]
        return after.get(name, 0) - before.get(name, 0)


@dataclass
class _Case:
    """One program with its inputs per call."""

    fn: Any
    inputs: list[tuple[tuple[Any, ...], dict[str, Any]]]
    names: Sequence[str]
    namespace: dict[str, Any]
    backward: bool

    def run(self, prepare: Callable[[Any], Callable[..., Any]], after: Callable[[], None]) -> list[Observation]:
        """All calls in a fresh world; the named globals are its copies meanwhile."""
        world = World()
        program = world.program(self.fn)
        before = {name: self.namespace[name] for name in self.names}
        self.namespace.update(world.program(before))
        target = prepare(program)
        seen = []
        try:
            for seed, (args, kwargs) in enumerate(self.inputs):
                args, kwargs = world.inputs((args, kwargs))
                roots = partial(self._roots, program, args, kwargs)
                seen.append(observe(lambda: target(*args, **kwargs), seed, self.backward, roots))
                after()
        finally:
            self.namespace.update(before)
        return seen

    def _roots(self, program: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        """Where changes made by a call can be seen."""
        absent = "<absent>"
        values = {name: self.namespace.get(name, absent) for name in self.names}
        return {"args": args, "kwargs": kwargs, "globals": values, **_state_of(program)}


def _state_of(program: Any) -> dict[str, Any]:
    """The mutable state a program carries: instance, module or closure."""
    owner = getattr(program, "__self__", None)
    closure = getattr(program, "__closure__", None) or ()
    state: dict[str, Any] = {"self": owner} if owner is not None else {}
    if isinstance(program, torch.nn.Module):
        state["self"] = program
    return state | {f"closure_{index}": cell for index, cell in enumerate(closure)}


def check(
    fn: Any,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    calls: int = 2,
    vary: Sequence[Any] | Callable[[int], tuple[Any, ...]] | None = None,
    expect_graphs: int | None = None,
    expect_recompiles: int | None = 0,
    expect_breaks: int | None = 0,
    fullgraph: bool = True,
    backend: Any = "eager",
    dynamic: bool | None = None,
    globals: Sequence[str] = (),
    namespace: dict[str, Any] | None = None,
    backward: bool = False,
    tolerance: float | None = None,
    strides: bool = True,
    compile: Engine | Compile | None = None,
) -> Report:
    """Fails if `fn` compiled does anything else than `fn` does.

    Args:
        kwargs: keyword arguments of the call.
        calls: how often to call with these arguments; the calls after the first must be hits.
        vary: instead, the arguments of each call: a sequence of tuples, or a function of the call's number from 0.
        expect_graphs: graphs after all calls; by default at most one for a full graph.
        expect_recompiles: recompilations after all calls.
        expect_breaks: graph breaks after all calls.
        globals: names in the namespace of `fn` (or the one given) that it changes.
        backward: runs backward on the results and compares gradients.
        tolerance: relative and absolute tolerance of floating-point data; None: equal to the bit.
        strides: whether strides are compared; a backend that chooses layouts may give other ones.
        compile: an engine or a compiling function instead of the engine under test.
    """
    under_test = engine() if compile is None else PlainEngine(compile) if callable(compile) else compile
    case = _Case(
        fn,
        [(arguments, kwargs or {}) for arguments in _arguments(args, calls, vary)],
        globals,
        _namespace(fn) if namespace is None else namespace,
        backward,
    )
    report = Report()
    report.eager = case.run(lambda program: program, lambda: None)
    under_test.reset()
    report.compiled = case.run(
        lambda program: under_test.compile(program, fullgraph=fullgraph, backend=backend, dynamic=dynamic),
        lambda: report.counts.append(under_test.counts()),
    )
    for number, (mine, expected) in enumerate(zip(report.compiled, report.eager, strict=True), 1):
        if what := mine.difference(expected, tolerance, strides):
            raise AssertionError(f"call {number} differs from eager: {what}") from mine.raised
    _check_counts(report, expect_graphs, expect_recompiles, expect_breaks, fullgraph)
    return report


def _arguments(args: tuple[Any, ...], calls: int, vary: Any) -> list[tuple[Any, ...]]:
    if vary is None:
        return [args] * calls
    if callable(vary):
        return [vary(number) for number in range(calls)]
    return [entry if isinstance(entry, tuple) else (entry,) for entry in vary]


def _namespace(fn: Any) -> dict[str, Any]:
    function = getattr(fn, "__func__", fn)
    if isinstance(function, torch.nn.Module):
        function = type(function).forward
    return getattr(function, "__globals__", {})


def _check_counts(
    report: Report, graphs: int | None, recompiles: int | None, breaks: int | None, fullgraph: bool
) -> None:
    """Compares counters with what was expected; a call that raises may run eagerly every time."""
    if not report.counts[-1]:
        return
    completed = all(seen.raised is None for seen in report.eager)
    expected = {"graphs": graphs, "recompiles": recompiles, "graph_breaks": breaks}
    for name, number in expected.items():
        if number is not None and name in report.counts[-1]:
            got = report.gained(name)
            assert got == number, f"{name}: {got} instead of {number}"
    if not (fullgraph and completed and recompiles == 0):
        return
    assert report.gained("graphs") <= 1, f"{report.gained('graphs')} graphs instead of one"
    if "frames_captured" in report.counts[-1]:
        assert report.gained("frames_skipped") == 0, "a frame ran eagerly"
        assert report.gained("frames_captured", 1, 1) > 0, "nothing was captured"
        assert report.gained("frames_captured", 2) == 0, "a later call was not a hit"
