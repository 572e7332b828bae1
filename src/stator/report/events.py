"""The one stream of events behind statistics, logs and reports.

An event is a kind and a few fields. Fields are plain data (text, numbers, code objects, locations); what is
expensive to make or keeps user objects alive is given as a zero-argument function, which only subscribers see.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from stator import forking

CAPACITY = 10_000


class Kind(NamedTuple):
    """One kind of event: the counter it moves, if any, and what it means."""

    counter: str | None
    meaning: str


# kind → fields that people and logs can rely on; further fields are welcome.
KINDS: dict[str, Kind] = {
    "capture": Kind("frames_captured", "a call was captured whole: code, seconds"),
    "skip": Kind("frames_skipped", "a frame ran eagerly: code, break_id, reason, remedy, location, stack"),
    "break": Kind("graph_breaks", "capture stopped before the end of a frame: the same as skip"),
    "graph": Kind("graphs", "a graph went to the backend: name, operations, text(), ops()"),
    "shared": Kind(None, "a graph that went to the backend before serves again: the same as graph"),
    "uncompiled": Kind("uncompiled", "a graph that no backend makes faster runs as it is: the same as graph"),
    "recompile": Kind("recompiles", "no entry fitted the call: code, reasons"),
    "guards": Kind(None, "the guards of a new entry: name, count, text()"),
    "code": Kind(None, "the entry function of a new entry: name, text()"),
    "backend": Kind(None, "a backend compiled a graph: name, seconds"),
    "error": Kind(None, "something went wrong inside stator: text"),
    "trace": Kind(None, "one step of the interpreter: text()"),
    "reset": Kind(None, "all statistics were set back"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, and when (seconds of the monotonic clock)."""

    kind: str
    time: float
    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        fields = {} if name == "fields" else self.fields  # a half-made event (unpickling) has no fields yet
        try:
            return fields[name]
        except KeyError:
            raise AttributeError(f"this event has no field {name!r}") from None


Subscriber = Callable[[Event], None]

_lock = forking.lock()  # a signal handler may come back here
_buffer: deque[Event] = deque(maxlen=CAPACITY)
_counts: dict[str, int] = {}
_codes: dict[int, weakref.ref[CodeType]] = {}  # by identity: equal code objects of two functions are two
_subscribers: dict[str | None, tuple[Subscriber, ...]] = {}  # None: every kind


def emit(kind: str, **fields: Any) -> None:
    """Records an event and shows it to those who subscribed."""
    event = Event(kind, time.monotonic(), fields)
    with _lock:
        _counts[kind] = _counts.get(kind, 0) + 1
        _buffer.append(_plain(event))
        if kind == "capture" and (code := fields.get("code")) is not None:
            _codes[id(code)] = weakref.ref(code, partial(_codes.pop, id(code)))  # in C: no interruption
    if _subscribers:
        for subscriber in _subscribers.get(kind, ()) + _subscribers.get(None, ()):
            subscriber(event)


def _plain(event: Event) -> Event:
    """The event without its functions, so that the buffer keeps nothing of the user's alive."""
    if not any(map(_is_function, event.fields.values())):
        return event
    kept = {name: value for name, value in event.fields.items() if not _is_function(value)}
    return Event(event.kind, event.time, kept)


def _is_function(value: Any) -> bool:
    return isinstance(value, (FunctionType, MethodType))


def listening(kind: str) -> bool:
    """Whether somebody subscribed to this kind: ask before emitting events at a high rate."""
    return bool(_subscribers) and (kind in _subscribers or None in _subscribers)


def subscribe(subscriber: Subscriber, kind: str | None = None) -> None:
    """Calls the subscriber on each event of a kind, or on every event."""
    with _lock:
        _subscribers[kind] = (*_subscribers.get(kind, ()), subscriber)


def unsubscribe(subscriber: Subscriber, kind: str | None = None) -> None:
    """Undoes one `subscribe` with the same arguments."""
    with _lock:
        left = list(_subscribers.get(kind, ()))
        left.remove(subscriber)
        if left:
            _subscribers[kind] = tuple(left)
        else:
            _subscribers.pop(kind, None)


@contextmanager
def recording(*kinds: str, here: bool = False) -> Iterator[list[Event]]:
    """Collects the events of these kinds (all without arguments) that happen in the block.

    With `here` only those of this thread, and with what their functions return at that moment.
    """
    seen: list[Event] = []
    append = _collector(seen) if here else seen.append  # one object: `unsubscribe` compares
    for kind in kinds or (None,):
        subscribe(append, kind)
    try:
        yield seen
    finally:
        for kind in kinds or (None,):
            unsubscribe(append, kind)


def _collector(seen: list[Event]) -> Subscriber:
    thread = threading.get_ident()

    def collect(event: Event) -> None:
        if threading.get_ident() == thread:
            fields = {name: value() if _is_function(value) else value for name, value in event.fields.items()}
            seen.append(Event(event.kind, event.time, fields))

    return collect


def events(kind: str | None = None) -> list[Event]:
    """The latest events, oldest first, of one kind or all."""
    with _lock:
        return [event for event in _buffer if kind is None or event.kind == kind]


def stats() -> dict[str, Any]:
    """Counts since the last reset, and the code objects that were captured."""
    with _lock:
        counts = {row.counter: _counts.get(kind, 0) for kind, row in KINDS.items() if row.counter}
        return {**counts, "captured_codes": [code for kept in _codes.values() if (code := kept()) is not None]}


def reset() -> None:
    """Sets all counts back and forgets the events so far; subscribers stay."""
    with _lock:
        _buffer.clear()
        _counts.clear()
        _codes.clear()
    if listening("reset"):
        emit("reset")
