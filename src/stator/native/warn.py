"""Warnings: inside `catch_warnings` they happen during capture; otherwise the entry function issues them."""

from __future__ import annotations

import _warnings
import dis
import sys
import types
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch import nn

from stator._frames import UNBOUND
from stator.code.hidden import HOOKS_FILE
from stator.code.own_files import OWN_FILES
from stator.eval.machine import replace_body
from stator.frame import Frame, native, throw
from stator.guards.check import TYPE_IS
from stator.native import hooked
from stator.native.callers import call_framed, call_python
from stator.native.host import Host
from stator.native.rows import passes_on, standin
from stator.world.callbacks import give_up

WATCHED = ("filters", "showwarning", "_showwarnmsg_impl", "_showwarnmsg")
REGISTRY = "__warningregistry__"


def is_inside(host: Host) -> bool:
    """Whether the program itself replaced the filters or the output, as catch_warnings does."""
    namespace = host.namespaces.get(id(vars(warnings)))
    if namespace is None:
        return False
    return any(n in namespace.values and namespace.values[n] is not namespace.before.get(n, UNBOUND) for n in WATCHED)


@standin(warnings.warn)
def stand_warn(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    given = dict(zip(("message", "category", "stacklevel", "source"), args, strict=False)) | (kwargs or {})
    message, category = given.get("message"), given.get("category")
    if is_inside(host) or "message" not in given or given.get("source") is not None:
        return call_framed(host, f, function, args, kwargs)
    if isinstance(message, Warning):
        category = type(message)
    category = UserWarning if category is None else category
    if not isinstance(category, type) or not issubclass(category, Warning):
        return call_framed(host, f, function, args, kwargs)
    if not isinstance(message, Warning):
        message = host.call(f, category, [message], None)
    level = given.get("stacklevel", 1)
    place = place_of(f, level)
    if place is None:
        return issue_beyond(host, f, message, category, level - depth_of(f))
    return issue(host, f, message, category, place)


def place_of(f: Frame, level: int) -> tuple[str, int, str, Any] | None:
    """(file, line, module, globals) of the frame that many calls up, or None beyond the captured ones."""
    found = next(islice(frames_of(f), max(level, 1) - 1, None), None)
    if found is None:
        return None
    file, line, namespace = found
    name = f.world.namespace_get(namespace, "__name__")
    return file, line, name if type(name) is str else "<string>", namespace


def depth_of(f: Frame) -> int:
    return sum(1 for _ in frames_of(f))


def frames_of(f: Frame) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """File, line and globals of the frames as eager has them: between a call of a module and forward are two more."""
    frame: Any = f
    while frame is not None:
        line = frame.object.f_lineno
        if frame.code.co_filename == HOOKS_FILE:
            f.world.namespace(HOOKED_LINES[0][2])
            yield CALL.co_filename, hooked.TORCH_LINES.get(line, line), HOOKED_LINES[0][2]
            yield from HOOKED_LINES
        else:
            yield frame.code.co_filename, line, frame.globals
        outer = frame.outer
        if f.world.through_module if outer is None else outer.through == outer.lasti:
            namespace = MODULE_LINES[0][2]
            f.world.namespace(namespace)
            yield from MODULE_LINES
        frame = outer


def returns_of(code: Any) -> list[int]:
    """The lines on which a function returns."""
    found = [each.positions for each in dis.get_instructions(code) if each.opname == "RETURN_VALUE"]
    return [place.lineno for place in found if place is not None and place.lineno is not None]


CALL, WRAPPED = nn.Module._call_impl.__code__, nn.Module._wrapped_call_impl.__code__
MODULE_LINES, HOOKED_LINES = (  # where a module without and with hooks goes on to forward, innermost first
    [
        (CALL.co_filename, returns_of(CALL)[at], vars(nn.modules.module)),
        (CALL.co_filename, returns_of(WRAPPED)[-1], vars(nn.modules.module)),
    ]
    for at in (0, -1)
)


def issue_beyond(host: Host, f: Frame, message: Any, category: type, above: int) -> None:
    """A warning that names the place from which the captured frames were called: known at run time only."""
    text = native(f, str, message)
    actions = set(actions_for(host, f, text, category))
    if actions == {"ignore"}:
        return
    if "error" in actions:
        raise host.refuse("native-effect", "a warning that may be an error", function="warnings.warn")
    defer(host, f, show_beyond, [text, category, above])


def issue(host: Host, f: Frame, message: Any, category: type, place: tuple[str, int, str, Any]) -> None:
    """What the filters say now is guarded; the registry, which changes with every warning, is asked at run time."""
    filename, line, module, namespace = place
    text = native(f, str, message)
    action = action_for(host, f, text, category, module, line)
    if action == "ignore":
        return
    if action == "error":
        throw(f, message)
    shown = host.namespaces.get(id(namespace))
    if shown is None:
        raise host.refuse(
            "native-effect", "a warning from code in a namespace made during capture", function="warnings.warn"
        )
    defer(host, f, show, [text, category, filename, line, module, namespace])


def defer(host: Host, f: Frame, function: Any, args: list[Any]) -> None:
    """The entry function issues the warning, to whoever listens then: that must not change meanwhile."""
    machinery = host.enter_const(warnings)
    shown = host.load_attr(f, machinery, "showwarning")
    if shown is not host.load_attr(f, machinery, "_showwarning_orig"):
        raise host.refuse("native-effect", "a warning that code of the program shows", function="warnings.warn")
    namespace = host.namespaces[id(vars(warnings))]
    listener = namespace.values.get(SHOWN, vars(warnings)[SHOWN])
    if type(listener) is types.FunctionType:
        if host.load_attr(f, machinery, SHOWN).__module__ != "warnings":
            raise host.refuse("native-effect", "a warning that code of the program shows", function="warnings.warn")
    else:  # a list of catch_warnings
        path = namespace.path_of(SHOWN)
        host.guards.add(path, TYPE_IS, type(listener), host.origin())
        kept = listener.__self__
        if host.is_reachable(kept) or type(kept) is not list:
            raise host.refuse("native-effect", "a warning that is recorded", function="warnings.warn")
        host.changed[id(kept)] = path.get("__self__")
    namespace.fixed = frozenset(WATCHED)
    host.defer(function, args, None)


SHOWN = "_showwarnmsg_impl"


@standin(warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings)
@passes_on
def change_filters(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Filters that change behind a warning which is still to be issued do so after it."""
    namespace = host.namespaces.get(id(vars(warnings)))
    if namespace is not None and namespace.fixed:
        raise host.refuse("native-effect", "filters change behind a warning", function=f"warnings.{function.__name__}")
    return call_python(host, f, function, args, kwargs)


@standin(_warnings._filters_mutated)  # type: ignore[attr-defined]
def stand_filters_mutated(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    """Warnings that were given already may be given again: those of the capture, and those of each call."""
    host.filters_mutated = True
    native(f, function, *args, **(kwargs or {}))


def action_for(host: Host, f: Frame, text: str, category: type, module: str, line: int) -> str:
    """The action of the first filter that matches."""
    return next(actions_for(host, f, text, category, (module, line)))


def actions_for(host: Host, f: Frame, text: str, category: type, place: tuple[str, int] | None = None) -> Iterator[str]:
    """The actions of the filters that match, up to one that does so wherever the warning comes from."""
    machinery = host.enter_const(warnings)
    for action, pattern, kind, where, number in host.load_attr(f, machinery, "filters"):
        if not matches(pattern, text) or not issubclass(category, kind):
            continue
        anywhere = where is None and number == 0
        if anywhere or place is None or (matches(where, place[0]) and number in (0, place[1])):
            yield str(action)
        if anywhere:
            return
    yield str(host.load_attr(f, machinery, "defaultaction"))


def matches(pattern: Any, text: str) -> bool:
    """As C compares: the filters that an interpreter starts with hold plain strings instead of patterns."""
    if pattern is None or type(pattern) is str:
        return pattern is None or bool(pattern == text)
    return bool(pattern.match(text))


def show(text: str, category: Any, filename: str, line: int, module: str, namespace: dict[str, Any]) -> None:
    """Run time: the warning as `warnings.warn` would have issued it there."""
    registry = namespace.setdefault(REGISTRY, {})
    warnings.warn_explicit(text, category, filename, line, module, registry)


def show_beyond(text: str, category: Any, above: int) -> None:
    """Run time: the warning as issued so many frames above the captured ones, of which none is left but stator's."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FILES):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(text, category, level + above - 1)


def never_awaited(f: Frame) -> None:
    """A coroutine dies that was never started: CPython says so, with the line at which that happens."""
    give_up(f.world.refuse("native-effect", "a coroutine that was never awaited", function="its end"))


replace_body(warnings._warn_unawaited_coroutine.__code__, never_awaited)  # type: ignore[attr-defined]


class Registries:
    """C code notes issued warnings in the globals of the running frame: put back what was there before the capture."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[dict[Any, Any], Any, Any]] = {}

    def note(self, namespace: dict[Any, Any]) -> None:
        if id(namespace) not in self.seen:
            registry = namespace.get(REGISTRY, UNBOUND)
            contents = dict(registry) if isinstance(registry, dict) else None
            self.seen[id(namespace)] = (namespace, registry, contents)

    def restore(self) -> None:
        for namespace, registry, contents in self.seen.values():
            if registry is UNBOUND:
                namespace.pop(REGISTRY, None)
            elif contents is not None and registry != contents:
                registry.clear()
                registry.update(contents)
        self.seen.clear()
