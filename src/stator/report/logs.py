"""Readable logs of what stator does: `STATOR_LOGS=graph_code,guards,...` prints them to stderr.

Each log is a row: which event it shows, and how it reads. Nothing is formatted, and nothing costs, while it is off.
"""

from __future__ import annotations

import difflib
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from ..breaks import BREAKS, PAGES
from .events import Event, subscribe, unsubscribe

VARIABLE = "STATOR_LOGS"


def _text(event: Event) -> str:
    """The text of an event, made now if it was given as a function."""
    text = event.fields.get("text", "")
    return str(text() if callable(text) else text)


def _name(event: Event) -> str:
    code = event.fields.get("code")
    if code is None:
        return str(event.fields.get("name", "?"))
    return f"{event.fields.get('name', code.co_qualname)} ({code.co_filename}:{code.co_firstlineno})"


def _graph_code(event: Event) -> str:
    return f"graph {_name(event)}\n{_text(event)}"


def _graph_sizes(event: Event) -> str:
    return f"graph {_name(event)}: {event.fields.get('operations', '?')} operations"


def _guards(event: Event) -> str:
    return f"guards of {_name(event)}: {event.fields.get('count', '?')}\n{_text(event)}"


def _recompiles(event: Event) -> str:
    reasons = event.fields.get("reasons", ())
    return "\n".join([f"recompiling {_name(event)}", *(f"  - {reason}" for reason in reasons)])


def _bytecode(event: Event) -> str:
    return f"entry function {_name(event)}\n{_text(event)}"


def _graph_breaks(event: Event) -> str:
    return f"break {_why(event)}"


def _skips(event: Event) -> str:
    return f"running {_name(event)} eagerly: {_why(event)}"


def _why(event: Event) -> str:
    """Id, reason, remedy, the page to read, and the lines of the program that lead there."""
    break_id = event.fields.get("break_id")
    lines = [f"[{break_id}] {event.fields.get('reason', '')}" if break_id else str(event.fields.get("reason", ""))]
    if remedy := event.fields.get("remedy"):
        lines.append(f"  remedy: {remedy}")
    if break_id in BREAKS:
        lines.append(f"  page: {PAGES.format(break_id)}")
    location = event.fields.get("location")
    stack = event.fields.get("stack") or ((location,) if location is not None else ())
    return "\n".join([*lines, *(place.format() for place in stack)])


def _place(event: Event) -> Any:
    """What one report of a break stands for: its place and its id."""
    fields = event.fields
    code = fields.get("code")
    return fields.get("location") or (code and id(code)), fields.get("break_id") or fields.get("reason")


class Log(NamedTuple):
    """One log: its name, the event it shows and how; with `once`, only the first event with the same key."""

    name: str
    kind: str
    format: Callable[[Event], str]
    once: Callable[[Event], Any] | None = None


LOGS = (
    Log("graph_code", "graph", _graph_code),
    Log("graph_sizes", "graph", _graph_sizes),
    Log("guards", "guards", _guards),
    Log("recompiles", "recompile", _recompiles),
    Log("bytecode", "code", _bytecode),
    Log("graph_breaks", "break", _graph_breaks, once=_place),
    Log("graph_breaks", "skip", _skips, once=_place),
    Log("trace", "trace", _text),
)
NAMES = tuple(dict.fromkeys(log.name for log in LOGS))

_logger = logging.getLogger("stator")
_active: list[tuple[Callable[[Event], None], str]] = []
_said: set[Any] = set()  # keys of the logs that say a thing once


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at that moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("[%(name)s] %(message)s"))

    @property
    def stream(self) -> Any:  # type: ignore[override]
        return sys.stderr


_handler = _Stderr()


def set_logs(*names: str) -> None:
    """Turns exactly these logs on (`"all"`: every one); without arguments all are off."""
    wanted = NAMES if "all" in names else names
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        near = difflib.get_close_matches(unknown[0], NAMES, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown log {unknown[0]!r}.{hint} Known logs: {', '.join(NAMES)}, all")
    while _active:
        unsubscribe(*_active.pop())
    _said.clear()
    _logger.removeHandler(_handler)
    for log in LOGS:
        if log.name in wanted:
            printer = _printer(log)
            subscribe(printer, log.kind)
            _active.append((printer, log.kind))
    if _active:
        subscribe(_forget, "reset")
        _active.append((_forget, "reset"))
        _logger.addHandler(_handler)
        _logger.setLevel(logging.INFO)
        _logger.propagate = False


def _printer(log: Log) -> Callable[[Event], None]:
    logger = logging.getLogger(f"stator.{log.name}")

    def show(event: Event) -> None:
        if logger.isEnabledFor(logging.INFO) and _first(log, event):
            logger.info("%s", log.format(event))

    return show


def _first(log: Log, event: Event) -> bool:
    """Whether an event has to be shown: always, or once until the next reset."""
    if log.once is None:
        return True
    key = (log.name, log.once(event))
    known = key in _said
    _said.add(key)
    return not known


def _forget(event: Event) -> None:
    _said.clear()


def configure(setting: str | None) -> None:
    """Applies the value of `STATOR_LOGS`; a name that does not exist is a warning, not a failed import."""
    names = [name.strip() for name in (setting or "").split(",") if name.strip()]
    if not names:
        return
    try:
        set_logs(*names)
    except ValueError as error:
        warnings.warn(f"{VARIABLE}: {error}", stacklevel=2)
