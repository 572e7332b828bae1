"""Source lines of generated functions, in `linecache` for as long as the functions live."""

from __future__ import annotations

import linecache
import weakref
from functools import partial
from types import FunctionType


class Lines(list[str]):
    """The lines of one function; the reference that takes them out of the cache lives as long as they do."""

    __slots__ = ("reference",)

    def __init__(self, function: FunctionType, filename: str, text: str) -> None:
        super().__init__(text.splitlines(keepends=True))
        self.reference = weakref.ref(function, partial(linecache.cache.pop, filename))  # in C: no interruption


def show(function: FunctionType, filename: str, text: str) -> None:
    """Tracebacks, debuggers and `inspect` find the text of the function."""
    linecache.cache[filename] = (len(text), None, Lines(function, filename, text), filename)
