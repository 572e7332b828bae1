"""Compiling regular expressions: CPython does it, unless that prints or warns."""

from __future__ import annotations

import re
import threading
import types
import warnings
from typing import Any

from stator import _frames
from stator.frame import Frame
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin
from stator.native.standins import functions_of

COMPILE: Any = re._compile  # type: ignore[attr-defined]
CACHE: dict[Any, Any] = re._cache  # type: ignore[attr-defined]
COMPILER: Any = re._compiler  # type: ignore[attr-defined]


def codes(code: types.CodeType) -> list[types.CodeType]:
    """A code object and those in it."""
    found = [code]
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            found += codes(value)
    return found


MODULES = (re._parser, re._compiler, re._casefix)  # type: ignore[attr-defined]
CODES = [code for module in MODULES for function in functions_of(module) for code in codes(function.__code__)]
CODES += codes(COMPILE.__code__)


@standin(COMPILE)
def stand_compile(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if args and type(args[0]) in host.texts:
        args = [args[0].decay(), *args[1:]]
    if kwargs or len(args) != 2 or type(args[0]) not in (str, bytes) or not isinstance(args[1], int):
        return call_python(host, f, function, args, kwargs)
    pattern, flags = args[0], int(args[1])
    if flags & re.DEBUG:
        return interpreted(host, f, pattern, flags)
    key = (type(pattern), pattern, flags)
    if key in CACHE and not host.patterns_purged:
        return CACHE[key]
    with quiet() as said:
        result = call_python(host, f, COMPILER.compile if host.patterns_purged else function, args, None)
    if said:
        CACHE.pop(key, None)
        raise host.refuse("native-effect", f"compiling {pattern!r} warns: {said[0]}", function="re.compile")
    return result


def interpreted(host: Host, f: Frame, pattern: Any, flags: int) -> Any:
    """With DEBUG the compiler prints, and its result is never cached."""
    namespace = host.namespace(vars(re))
    if namespace is not None and "_cache" not in namespace.values:
        namespace.values["_cache"] = namespace.before["_cache"] = {}
    for code in CODES:
        _frames.mark_code(code, _frames.TAKEN)
    try:
        return call_python(host, f, COMPILE, [pattern, flags], None)
    finally:
        for code in CODES:
            _frames.mark_code(code, _frames.SKIPPED)


class quiet:
    """Collects what this thread would warn of."""

    def __enter__(self) -> list[Any]:
        self.warn, said, thread = warnings.warn, [], threading.get_ident()
        warn = self.warn

        def note(message: Any, *args: Any, **kwargs: Any) -> None:
            if threading.get_ident() != thread:
                warn(message, *args, **kwargs)
            else:
                said.append(message)

        warnings.warn = note
        return said

    def __exit__(self, *exc: object) -> None:
        warnings.warn = self.warn


@standin(re.purge)
def stand_purge(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Patterns are compiled anew from here on; the caches are emptied when the program runs."""
    host.patterns_purged = True
    host.defer(re.purge, [], None)
