"""What stator hears of warnings while it works is its own; those of other threads, and what they set, are not."""

from __future__ import annotations

import dis
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator import filters
from stator.filters import Listening

THREADS = 4
ROUNDS = 4


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts of warnings that come out; all do."""
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *rest, **more: texts.append(str(message)))
        yield texts


def elsewhere(*works: Any) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def machinery() -> Any:
    names = ("filters", "showwarning", "_showwarnmsg", "_showwarnmsg_impl")
    return [*warnings.filters], *(vars(warnings)[name] for name in names)


def process() -> Any:
    disabled = torch._logging._internal.logging.root.manager.loggerDict
    return (
        machinery(),
        torch.is_warn_always_enabled(),
        torch.is_anomaly_enabled(),
        torch._C._get_mkldnn_enabled(),
        {name: getattr(log, "disabled", None) for name, log in disabled.items() if name.startswith("torch")},
    )


def test_another_thread_is_not_heard(shown: list[str]) -> None:
    with Listening() as heard:
        elsewhere(lambda: warnings.warn("of another", stacklevel=1))
        warnings.warn("of this one", stacklevel=1)
    warnings.warn("later", stacklevel=1)
    assert [str(one.message) for one in heard] == ["of this one"]
    assert shown == ["of another", "later"]


def test_those_who_came_first_may_go_first(shown: list[str]) -> None:
    before = machinery()
    first, second = threading.Event(), threading.Event()
    heard: list[list[str]] = []

    def early() -> None:
        with Listening() as own:
            first.set()
            second.wait(30)
            warnings.warn("early", stacklevel=1)
        heard.append([str(one.message) for one in own])
        first.clear()

    def late() -> None:
        first.wait(30)
        with Listening() as own:
            second.set()
            while first.is_set():
                pass
            warnings.warn("late", stacklevel=1)
        heard.append([str(one.message) for one in own])

    elsewhere(early, late)
    assert heard == [["early"], ["late"]]
    assert machinery() == before
    assert shown == []


def test_filters_that_are_set_meanwhile_stay(shown: list[str]) -> None:
    with Listening():
        elsewhere(lambda: warnings.simplefilter("ignore", BytesWarning))
    assert warnings.filters[0][:3] == ("ignore", None, BytesWarning)
    assert warnings.filters[1][0] == "always"


def test_what_listens_inside_hears(shown: list[str]) -> None:
    with Listening() as outer:
        with warnings.catch_warnings(record=True) as inner:
            warnings.simplefilter("always")
            warnings.warn("inside", stacklevel=1)
        with Listening() as nested:
            warnings.warn("nested", stacklevel=1)
        with pytest.raises(UserWarning), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.warn("an error", stacklevel=1)
    assert [[str(one.message) for one in heard] for heard in (outer, inner, nested)] == [[], ["inside"], ["nested"]]


def test_a_backend_at_work_takes_no_warnings_of_other_threads(shown: list[str]) -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        elsewhere(lambda: warnings.warn("of another", stacklevel=1))
        warnings.warn("of the backend", stacklevel=1)
        assert shown == ["of another"]
        return graph

    stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    assert shown == ["of another", "of the backend"]


def many(number: int) -> Any:
    names: dict[str, Any] = {"stator": stator, "torch": torch}
    lines = "y = x.sin() + number", "stator.graph_break()", "return y.cumprod(0).sum() + torch.linalg.norm(y).numpy()"
    exec(f"def program(x, number={number}):\n    " + "\n    ".join(lines), names)
    return names["program"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_threads_that_compile_leave_the_process_as_it_was(
    backend: str, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stator.world.world.AUDITING", False)  # it looks at every object
    wrong: list[int] = []
    said: list[str] = []
    begun = threading.Barrier(THREADS + 1)

    def work(number: int) -> None:
        begun.wait(30)
        for i in range(ROUNDS):
            function = many(number + THREADS * i)
            x = torch.ones(3 + i)
            if not torch.equal(stator.compile(function, backend=backend)(x), function(x)):
                wrong.append(number)

    def stranger() -> None:
        begun.wait(30)
        for i in range(100):
            warnings.warn_explicit(f"stranger {i}", UserWarning, "strange.py", i)
            said.append(f"stranger {i}")

    stator.compile(many(-1), backend=backend)(torch.ones(3))  # what is imported now need not be then
    before, interval = process(), sys.getswitchinterval()
    shown.clear()
    sys.setswitchinterval(1e-4)
    try:
        elsewhere(stranger, *(lambda number=number: work(number) for number in range(THREADS)))
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert process() == before
    assert [text for text in shown if text.startswith("stranger")] == said


def test_an_interruption_ends_the_listening(shown: list[str]) -> None:
    def interrupted(graph: Any, inputs: Any) -> Any:
        begun.append(Listening())
        begun[0].__enter__()
        raise KeyboardInterrupt

    begun: list[Listening] = []
    before = machinery()
    with pytest.raises(KeyboardInterrupt):
        stator.compile(lambda x: x + 1, backend=interrupted)(torch.ones(3))
    begun[0].__exit__()  # as where a generator dies that was interrupted
    warnings.warn("later", stacklevel=1)
    assert machinery() == before
    assert shown == ["later"]


class Interrupting:
    """A trace function: an interruption at some of the places in a file where CPython may deliver one."""

    def __init__(self, file: str, number: int) -> None:
        self.file = file
        self.left = number
        self.last: dict[Any, str] = {}

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != self.file:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            before, self.last[frame] = self.last.get(frame), name
            self.left -= before == "CALL" or name in ("RESUME", "JUMP_BACKWARD")
            if not self.left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def test_an_interruption_anywhere_leaves_the_process_as_it_was(shown: list[str]) -> None:
    before, number, interrupted = machinery(), 0, True
    while interrupted:
        number += 1
        interrupted = False
        outer = sys.gettrace()
        sys.settrace(Interrupting(filters.__file__, number))
        try:
            with Listening():
                pass
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(outer)
        shown.clear()
        warnings.warn(f"later {number}", stacklevel=1)
        assert shown == [f"later {number}"]
        with Listening():  # what it finds it leaves as it should be
            pass
        assert machinery() == before
    assert number > 20
