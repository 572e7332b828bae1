"""KeyboardInterrupt at any moment comes out as it is, and leaves everything as it was."""

from __future__ import annotations

import _thread
import enum
import functools
import gc
import importlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch._guards import TracingContext

import stator
from stator import _frames
from stator._entry import Compiled
from stator.guards import GuardSet, arg
from stator.guards.check import EQ
from stator.interruptions import handlers


def surroundings() -> tuple[Any, ...]:
    """Everything process-wide or thread-wide that a capture changes for a while."""
    return (
        _frames.armed(),
        _frames.capturing(),
        gc.isenabled(),
        gc.get_threshold(),
        stator.is_compiling(),
        torch.compiler.is_compiling(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        TracingContext.try_get(),
        torch.get_rng_state().tolist(),
    )


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt; the surroundings are the same afterwards."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = surroundings()
    yield
    signal.signal(signal.SIGINT, handler)
    assert surroundings() == before


class Trap:
    """Sends the signal when it is armed, once."""

    def __init__(self, send: Callable[[], Any] = lambda: signal.raise_signal(signal.SIGINT)) -> None:
        self.send = send
        self.armed = True

    def __call__(self) -> None:
        if self.armed:
            self.armed = False
            self.send()


WAYS = [
    pytest.param(lambda: signal.raise_signal(signal.SIGINT), id="raise_signal"),
    pytest.param(_thread.interrupt_main, id="interrupt_main"),
]


def interrupted(compiled: Callable[..., Any], *args: Any) -> None:
    """The call ends with the interruption, outside of all handlers of the program."""
    before = surroundings()
    with pytest.raises(KeyboardInterrupt) as caught:
        compiled(*args)
    assert caught.value.__context__ is None
    caught.value.__traceback__ = None
    assert surroundings() == before


@pytest.mark.parametrize("send", WAYS)
def test_in_a_backend(send: Callable[[], Any]) -> None:
    trap = Trap(send)
    box: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        trap()
        return graph.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        box.append(1)
        with torch.no_grad():
            y = x + 1
            stator.graph_break()
            return y * 2

    compiled = stator.compile(f, backend=backend)
    x = torch.ones(2)
    interrupted(compiled, x)
    assert box == []  # nothing had happened yet
    assert compiled(x).tolist() == [4.0, 4.0]
    assert box == [1]
    box.clear()
    trap.armed = True
    assert compiled(x).tolist() == [4.0, 4.0]
    assert trap.armed  # nothing was left to compile


def test_in_a_backend_behind_a_break() -> None:
    """The program has begun: its blocks end, and only then the interruption comes out."""
    trap, log = Trap(), []
    trap.armed = False

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        trap()
        return graph.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        log.append("begin")
        try:
            with torch.no_grad():
                y = x + 1
                arm()
                return y * 2
        finally:
            log.append("end")

    @stator.disable
    def arm() -> None:
        trap.armed = not ran
        ran.append(1)

    ran: list[int] = []
    compiled = stator.compile(f, backend=backend)
    interrupted(compiled, torch.ones(2))
    assert log == ["begin", "end"]
    assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
    assert log == ["begin", "end"] * 2


@pytest.mark.parametrize("send", WAYS)
def test_in_the_step(send: Callable[[], Any]) -> None:
    trap = Trap(send)
    log: list[str] = []
    act = stator.disable(lambda: trap())

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        try:
            act()
        except Exception:
            log.append("wrong")
        finally:
            log.append("end")
        return y * 2

    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        trap.armed = True
        interrupted(compiled, torch.ones(2))
        assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
    assert log == ["end"] * 6


def test_caught_by_the_program() -> None:
    trap = Trap()
    act = stator.disable(lambda: trap())

    def f(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            act()
        except KeyboardInterrupt as error:
            return "caught", y * 3, error.args
        return "through", y * 2, ()

    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        trap.armed = True
        assert compiled(torch.ones(1)) == ("caught", torch.full((1,), 6.0), ())
        assert compiled(torch.ones(1)) == ("through", torch.full((1,), 4.0), ())


def test_in_a_frame_below_a_step() -> None:
    trap = Trap()

    @stator.disable
    def deeper() -> None:
        trap()

    def work(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        deeper()
        return y + 1

    @stator.disable(recursive=False)
    def outer(x: torch.Tensor) -> torch.Tensor:
        return work(x)

    def f(x: torch.Tensor) -> torch.Tensor:
        return outer(x + 1) * 2

    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        trap.armed = True
        interrupted(compiled, torch.ones(1))
        assert compiled(torch.ones(1)).item() == 10.0


def test_while_the_graph_runs() -> None:
    trap = Trap()
    trap.armed = False

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def run(*args: Any) -> Any:
            trap()
            return graph.forward(*args)

        return run

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y

    compiled = stator.compile(f, backend=backend)
    assert compiled(torch.ones(1)).item() == 4.0
    for _ in range(3):
        trap.armed = True
        interrupted(compiled, torch.ones(1))
        assert compiled(torch.ones(1)).item() == 4.0


def test_in_captured_code() -> None:
    """From another thread, while the interpreter is busy with the program."""
    inside = threading.Event()
    state: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return graph.forward

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        state.append(n)
        y = x + 1
        stator.graph_break()
        total = 0
        for i in range(n):
            total += i
        return y + total

    compiled = stator.compile(f, backend=backend)

    def send() -> None:
        inside.wait(60)
        _thread.interrupt_main()

    seen = threading.Thread(target=send, daemon=True)
    seen.start()
    gc.collect()  # not meanwhile: what dies may have callbacks, which lose the interruption
    watch = watching("f", inside.set)
    sys.setprofile(watch)
    try:
        interrupted(compiled, torch.ones(1), 10**8)
    finally:
        sys.setprofile(None)
    seen.join()
    assert state in ([], [10**8])
    state.clear()
    assert compiled(torch.ones(1), 3).item() == 5.0
    assert state == [3]


def watching(name: str, found: Callable[[], Any]) -> Callable[..., None]:
    """A profile function that notices when the interpreter has begun."""

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "interpret":
            found()

    return watch


def test_while_importing_in_a_capture(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is not left half-imported."""
    (tmp_path / "stator_interrupted.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nVALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        import stator_interrupted

        return y + stator_interrupted.VALUE

    compiled = stator.compile(f, backend="eager")
    interrupted(compiled, torch.ones(1))
    assert "stator_interrupted" not in sys.modules
    (tmp_path / "stator_interrupted.py").write_text("VALUE = 20 + 0\n")
    importlib.invalidate_caches()
    try:
        assert compiled(torch.ones(1)).item() == 22.0
    finally:
        sys.modules.pop("stator_interrupted", None)


def test_in_guards() -> None:
    """An error in a check means no hit, an interruption ends the call."""
    trap = Trap()

    def part(value: Any) -> Any:
        trap()
        if value == "odd":
            raise ValueError(value)
        return value

    guards = GuardSet()
    guards.call_shape(1, ())
    guards.add(arg(0).part("part", part), EQ, "x")
    missed: list[Any] = []
    program = guards.compile([])
    compiled = Compiled(print, lambda args, kwargs: missed.append(args))
    compiled.append(program, lambda: "hit")
    interrupted(compiled, "x")
    assert missed == []
    assert compiled("x") == "hit"
    assert compiled("odd") is None
    assert missed == [("odd",)]
    trap.armed = True
    with pytest.raises(KeyboardInterrupt):
        program.run(("x",))
    assert program.run(("x",)) == []


def test_when_a_backend_has_finished() -> None:
    """Nothing is made any more then, and the thread has no tracing context left."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    x = torch.ones(2)
    before = surroundings()
    number, done = 1, False
    while not done:
        compiled = stator.compile(f, backend=lambda graph, inputs: sys.setprofile(watch) or graph.forward)
        watch = Interrupting(number, "")
        try:
            compiled(x)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        done = watch.left > 0
        assert surroundings() == before, f"interrupted at call {number}"
        number += 1 + number // 10


class Interrupting:
    """Raises KeyboardInterrupt at one of the calls of stator's own or of all code, as a signal handler would."""

    def __init__(self, number: int, whose: str = "stator") -> None:
        self.left = number
        self.whose = whose

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "return") and self.whose in frame.f_code.co_filename:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def as_it_is(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """A backend of the program's: it is called in a tracing context, unlike stator's own `eager`."""
    return graph.forward


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # where a generator is being closed
@pytest.mark.parametrize("backend", ["eager", as_it_is])
def test_anywhere(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many moments of captures on both sides of a break."""
    monkeypatch.setattr("stator.world.world.AUDITING", False)
    log: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        log.append(1)
        with torch.no_grad():
            y = helper(x + 1)
        if y.sum() > 0:
            return y * len(log)
        return y

    def helper(x: torch.Tensor) -> torch.Tensor:
        return sorted([x, x * 2], key=lambda t: -t.dim())[0]

    x = torch.ones(2)
    stator.compile(f, backend=backend)(x)
    before = surroundings()
    number, done = 1, False
    while not done:
        stator.reset()
        compiled = stator.compile(f, backend=backend)
        watch = Interrupting(number)
        sys.setprofile(watch)
        try:
            compiled(x)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        done = watch.left > 0
        assert surroundings() == before, f"interrupted at call {number}"
        assert log in ([], [1])
        log.clear()
        assert compiled(x).tolist() == [2.0, 2.0]
        assert log == [1]
        log.clear()
        number += 1 + number // 10


def test_handlers_are_those_of_the_program() -> None:
    """Most signals have the members of an enumeration, whose class can be called."""
    assert enum.EnumType.__call__.__code__ not in set(handlers())
    before = signal.signal(signal.SIGUSR1, Trap())
    try:
        assert Trap.__call__.__code__ in set(handlers())
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_entries_die_without_python_code() -> None:
    """An interruption that came in a callback of a dying object would be lost."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        stator.graph_break()
        return y * 2

    compiled = stator.compile(f, backend="eager")
    compiled(torch.ones(2))
    gc.collect()
    calls: list[str] = []

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls.append(f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}")

    sys.setprofile(watch)
    try:
        del compiled
        gc.collect()
    finally:
        sys.setprofile(None)
    assert calls == [], calls


class Late:
    """A handler of a signal, as programs have them for time limits."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __call__(self, number: int, frame: Any) -> None:
        raise self.error("late")


@pytest.mark.parametrize("error", [TimeoutError, SystemExit])
@pytest.mark.parametrize("wrap", [lambda handler: handler, lambda handler: handler.__call__, functools.partial])
def test_errors_that_handlers_raise_come_out(error: type[BaseException], wrap: Any) -> None:
    sent = []

    def backend(graph: Any, inputs: Any) -> Any:
        if not sent:
            sent.append(1)
            signal.raise_signal(signal.SIGINT)
        return graph.forward

    signal.signal(signal.SIGINT, wrap(Late(error)))
    compiled = stator.compile(lambda x: x.sin() + 1, backend=backend)
    with pytest.raises(error, match="late"):
        compiled(torch.ones(2))
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin() + 1)
