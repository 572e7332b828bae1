"""One `compile()` call: its cache, and what happens when no entry fits."""

from __future__ import annotations

import functools
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from stator import _entry, _frames
from stator.errors import RecompileLimit, StatorError
from stator.options import Options
from stator.report import events
from stator.runtime.capture import Call, Capture, Entry, code_of

SESSIONS: weakref.WeakSet[Session] = weakref.WeakSet()


def make_compiled(function: Callable[..., Any], options: Options) -> Any:
    """The callable that `stator.compile` returns for a function."""
    return Session(function, options).compiled


def reset() -> None:
    """Forget everything that was compiled."""
    for session in list(SESSIONS):
        session.reset()


class Session:
    """The function, its options, and the entries made for it so far."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.compiled = _entry.Compiled(function, self.miss)
        functools.update_wrapper(self.compiled, function)
        self.lock = threading.RLock()
        self.entries: list[Entry] = []
        self.warned = False
        SESSIONS.add(self)

    def reset(self) -> None:
        """Forget all entries."""
        with self.lock:
            self.compiled.clear()
            self.entries.clear()
            self.warned = False

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """No entry fits: make one and run it, or run the call in CPython."""
        call = Call(self.function, args, kwargs)
        if _frames.capturing():
            return call.run()
        with self.lock:
            ready = self.fitting(call)
            if ready is None:
                if self.entries and not self.may_recompile(call):
                    return call.run()
                ready = self.add(call)
        return self.start(ready, call)

    def fitting(self, call: Call) -> tuple[Entry, Any] | None:
        """An entry that fits after all: made by another thread meanwhile, or with classes that only look changed."""
        for entry in self.entries:
            if entry.guards.first_failure(call.values, call.names) is None:
                return entry, entry.program()
        changed = [entry for entry in self.entries if entry.classes.refresh(entry.guards)]
        if not changed:
            return None
        self.compiled.clear()
        for entry in self.entries:
            self.compiled.append(entry.program(), entry.function)
        return self.fitting(call)

    def may_recompile(self, call: Call) -> bool:
        """Report why; after too many compilations: say which guards kept failing, once."""
        failures = [entry.guards.first_failure(call.values, call.names) for entry in self.entries]
        reasons = [failure.sentence for failure in failures if failure is not None]
        if len(self.entries) < self.options.recompile_limit:
            events.emit("recompile", code=code_of(self.function), reasons=reasons)
            return True
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        text = "\n  ".join([f"{name} was compiled {len(self.entries)} times (recompile_limit)", *reasons])
        if self.options.fullgraph:
            raise RecompileLimit("recompile-limit", text)
        events.emit("skip", code=code_of(self.function), reason=text, break_id="recompile-limit")
        if not self.warned:
            self.warned = True
            warnings.warn(f"stator runs this function eagerly from now on: {text}", RuntimeWarning, stacklevel=4)
        return False

    def add(self, call: Call) -> tuple[Entry, Any]:
        """Capture the call; what cannot be is an error with fullgraph, else CPython's under the guards so far."""
        capture = Capture(call, self.options)
        try:
            entry = capture.entry()
        except StatorError as error:
            if self.options.fullgraph:
                raise
            known = {"break_id": getattr(error, "break_id", None), "location": getattr(error, "location", None)}
            events.emit("skip", code=call.code, reason=str(error), **known)
            entry = capture.eager()
        program = entry.program()
        self.entries.append(entry)
        self.compiled.append(program, entry.function)
        return entry, program

    def start(self, ready: tuple[Entry, Any], call: Call) -> Any:
        """First use of an entry: its guards must hold for the call it was made from."""
        entry, program = ready
        loads = program.run(call.values, call.names)
        if isinstance(loads, list):
            return entry.function(*loads)
        failure = entry.guards.first_failure(call.values, call.names)
        reason = failure.sentence if failure else f"row {loads}"
        events.emit(
            "error", text=f"a fresh entry of {call.code} does not accept the call it was captured from: {reason}"
        )
        return call.run()
