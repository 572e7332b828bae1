"""Logging: records are made and handled by the entry function, with the place in the user's program they belong to."""

from __future__ import annotations

import enum
import gc
import logging
import operator
from types import FunctionType, ModuleType
from typing import Any

from stator.errors import Again
from stator.frame import Frame, native
from stator.guards import path as paths
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin

SEEN = paths.const("what handlers of the program do is seen by it")
OWN = frozenset({"logging", "logging.handlers"})
SETTINGS = frozenset({"level", "disabled", "propagate", "handlers", "filters", "parent", "formatter", "stream"})


@standin(logging.Logger.isEnabledFor)
def stand_is_enabled(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """As isEnabledFor answers, without its cache, which would change with the first message."""
    if len(args) != 2 or kwargs or id(args[0]) not in host.records:
        return call_python(host, f, function, args, kwargs)
    logger, level = args
    if (
        host.load_attr(f, logger, "disabled")
        or host.load_attr(f, host.load_attr(f, logger, "manager"), "disable") >= level
    ):
        return False
    return level >= host.call(f, logging.Logger.getEffectiveLevel, [logger], None)


@standin(logging.Logger._log)
def stand_log(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Logger._log(level, msg, args, exc_info, extra, stack_info, stacklevel) on a logger from outside."""
    names = ("self", "level", "msg", "args", "exc_info", "extra", "stack_info", "stacklevel")
    given = dict(zip(names, args, strict=False)) | (kwargs or {})
    logger = given.get("self")
    plain = not (given.get("exc_info") or given.get("stack_info") or given.get("extra"))
    if id(logger) not in host.records or not plain:
        return call_python(host, f, function, args, kwargs)
    real = host.records[id(logger)].obj
    host.handlers += handlers_of(real)
    host.logged.append(real)
    if SEEN in host.whole_paths or is_changed(host, real):
        raise host.refuse("native-effect", "a handler of the program gets a message", function="Logger._log")
    frame: Any = caller_of(f, given.get("stacklevel", 1))
    values = given.get("args", ())
    known = type(given["msg"]) is str or type(given["msg"]) in host.texts
    message = given["msg"] if known else native(f, str, given["msg"])
    texts = tuple(host.snapshot(v) if host.is_deferred(v) or is_plain(v) else rendered(f, v) for v in values)
    place = [frame.code.co_filename, frame.object.f_lineno, frame.code.co_name]
    host.defer(handle, [logger, given["level"], message, texts, *place], None)
    return None


def handlers_of(logger: Any) -> list[Any]:
    """Handlers and filters that a message of a logger comes to, of other classes than those of the logging module."""
    found = []
    while logger is not None:
        rows = [*logger.filters, *logger.handlers, *(row for handler in logger.handlers for row in handler.filters)]
        found += [row for row in rows if type(row).__module__ not in OWN]
        logger = logger.parent if logger.propagate else None
    return found


def is_changed(host: Host, logger: Any) -> bool:
    """Whether the program has changed where a message goes: handlers, filters and levels on its way."""
    while logger is not None:
        parts = [logger, *logger.handlers]
        lists = [rows for part in parts for rows in (part.filters, getattr(part, "handlers", None)) if rows is not None]
        spaces = (host.namespaces.get(id(vars(part))) for part in parts)
        if any(space is not None and not SETTINGS.isdisjoint(space.touched) for space in spaces):
            return True
        if any(record is not None and is_other(record) for record in (host.records.get(id(rows)) for rows in lists)):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def is_other(record: Any) -> bool:
    """Whether a list has changed."""
    if record.hollow is not None:
        return bool(record.hollow.popped or record.hollow.added)
    return len(record.inner) != len(record.obj) or any(map(operator.is_not, record.inner, record.before))


def check(host: Host) -> None:
    """At the end: messages were left for later, which the program must not have noticed."""
    if any(id(thing) in host.records for handler in host.handlers for thing in reached(handler)):
        raise Again(SEEN)
    if any(is_changed(host, logger) for logger in host.logged):
        raise Again(SEEN)


def reached(handler: Any) -> list[Any]:
    """What a handler is likely to write to: itself, its attributes, and the globals that its methods name."""
    found = [handler, *getattr(handler, "__dict__", {}).values()]
    methods = [getattr(type(handler), name, None) for name in ("emit", "handle", "format", "filter", "__call__")]
    for method in [handler, *methods]:
        if isinstance(method, FunctionType) and method.__module__ not in OWN:
            names, cells = method.__code__.co_names, method.__closure__ or ()
            found += [method.__globals__[name] for name in names if name in method.__globals__]
            found += [thing for cell in cells for thing in gc.get_referents(cell)]  # none in an empty one
    return [thing for thing in found if not isinstance(thing, (*PLAIN, FunctionType, type, ModuleType))]


def is_plain(value: Any) -> bool:
    """A value that is the same when the message is made: numbers (numpy's too), strings, enums, tuples of them."""
    kind = type(value)
    if kind is tuple:
        return all(map(is_plain, value))
    return kind in PLAIN or isinstance(value, enum.Enum) or (kind.__module__ == "numpy" and hasattr(kind, "item"))


PLAIN = (str, int, float, bool, complex, bytes, type(None))


class Rendered:
    """What an object looked like when it was logged."""

    __slots__ = ("text", "view")

    def __init__(self, text: str, view: str) -> None:
        self.text = text
        self.view = view

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.view


def rendered(f: Frame, value: Any) -> Rendered:
    return Rendered(native(f, str, value), native(f, repr, value))


def caller_of(f: Frame, level: int) -> Any:
    """The frame that logged: the first one outside of the logging module, and further up by the stack level."""
    frame: Any = f
    while frame.outer is not None and frame.code.co_filename == logging.__file__:
        frame = frame.outer
    for _ in range(level - 1):
        frame = frame.outer or frame
    return frame


def handle(logger: Any, level: int, message: str, values: tuple[Any, ...], file: str, line: int, function: str) -> None:
    """Run time: what Logger._log does once it knows the caller."""
    record = logger.makeRecord(logger.name, level, file, line, message, values, None, function, None, None)
    logger.handle(record)
