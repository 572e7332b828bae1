"""Breaks on request, and whether a break is an error: a setting of the thread that captures carry along."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any

from stator.errors import InvalidArgument
from stator.options import Options


class _Thread(threading.local):
    """The regions this thread is in, innermost last; while it captures, those of the captured program."""

    def __init__(self) -> None:
        self.regions: list[bool] = []


_thread = _Thread()


def graph_break(msg: str = "") -> None:
    """Ends the graph here while capturing (`graph-break-requested`); does nothing when the program runs."""


class error_on_graph_break:
    """Says, for a block or for the calls of a function, whether a break raises `stator.Unsupported`.

    Regions nest, and the innermost one counts at the moment of the break; with `fullgraph=True` every break raises.
    """

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise InvalidArgument(f"error_on_graph_break takes True or False, got {value!r:.60}")
        self.value = value

    def __enter__(self) -> None:
        _thread.regions.append(self.value)

    def __exit__(self, *exc: object) -> None:
        _thread.regions.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise InvalidArgument(f"error_on_graph_break decorates functions, got {function!r:.60}")

        @functools.wraps(function)
        def in_region(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return in_region


# The frame around a decorated function is part of the program.
REGION_CODE: CodeType = error_on_graph_break(True)(graph_break).__code__


def change_regions(left: int, entered: tuple[bool, ...]) -> None:
    """An effect of captured code: it left some regions that it was called in, and entered others."""
    for _ in range(left):
        _thread.regions.pop()
    _thread.regions.extend(entered)


class Regions:
    """The regions of one capture: it starts in those of the thread and changes none of them."""

    def __init__(self, overlay: Callable[[dict[str, Any], str], Any]) -> None:
        self.before = tuple(_thread.regions)
        self.now = list(self.before)
        self._overlay: Callable[[dict[str, Any], str], Any] | None = overlay
        self._outer = _thread.regions
        self._torch = False

    def __enter__(self) -> Regions:
        _thread.regions = self.now
        return self

    def __exit__(self, *exc: object) -> None:
        _thread.regions = self._outer
        self._torch, self._overlay = self._torch_says(), None

    def effects(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """Calls to make when the entry has run, as far as it was captured."""
        same = 0
        while same < min(len(self.before), len(self.now)) and self.before[same] == self.now[same]:
            same += 1
        left, entered = len(self.before) - same, tuple(self.now[same:])
        return [(change_regions, (left, entered))] if left or entered else []

    def errors(self) -> bool:
        """Whether a break is an error where the program is now, or was when its capture ended."""
        return bool(self.now and self.now[-1]) or self._torch_says()

    def _torch_says(self) -> bool:
        """The same setting made with `torch._dynamo.error_on_graph_break`: a global, which capture sees changed."""
        module = sys.modules.get("torch._dynamo.utils")
        if self._overlay is None or module is None:
            return self._torch
        return bool(self._overlay(vars(module), "_error_on_graph_break"))


def breaks_are_errors(options: Options, capture: Any) -> bool:
    """Whether a break in this capture (or host: what has `regions`) is raised; `fullgraph` wins over all regions."""
    return options.fullgraph or capture.regions.errors()
