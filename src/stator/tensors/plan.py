"""What a call does, in terms of its tensor arguments by position: the values of the propagation memo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stator.tensors.meta import Meta


@dataclass(frozen=True, slots=True)
class Same:
    """This result is the very object that came in as the i-th tensor."""

    index: int


@dataclass(frozen=True, slots=True)
class New:
    """This result is a new tensor object."""

    meta: Meta
    alias: int | None = None  # tensor whose storage it shares
    view: int | None = None  # tensor it is a differentiable view of
    twin: int | None = None  # earlier new result whose storage it shares
    near: int | None = field(default=None, compare=False)  # tensor whose storage it shares if a size is one
    itself: bool = field(default=False, compare=False)  # it is that very tensor then


@dataclass(frozen=True, slots=True)
class Again:
    """This result is the very object of an earlier new result."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """This result is no tensor."""

    value: Any


@dataclass(frozen=True, slots=True)
class Group:
    """Several results in a container."""

    build: Callable[[list[Any]], Any]
    items: tuple[Any, ...]
    names: tuple[Any, ...] | None = None  # keys of a dict


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a call does, in terms of its tensor arguments by position."""

    result: Any  # Same | New | Again | Constant | Group
    single: Meta | None  # set when all there is to do is one new tensor with storage of its own
    updates: tuple[tuple[int, Meta], ...]  # arguments whose metadata changed
    mutated: tuple[int, ...]  # arguments whose data changed
    pure: bool  # may be dropped when nobody uses the result
    silent: bool  # nothing to record at all
    bindings: Any = None  # numbers from data that the call makes: symbol -> its place in the result
    warns: bool = False  # torch's C code gives a warning, which names the line that makes the call
    in_kernel: bool = False  # that is given where the call is executed, and nowhere before

    def is_anywhere(self) -> bool:
        """Whether it only makes new tensors with memory of their own: where arguments lie in theirs is all the same."""
        return not (self.updates or self.mutated or self.bindings) and _is_fresh(self.result)


def _is_fresh(result: Any) -> bool:
    if type(result) is Group:
        return bool(result.items) and all(map(_is_fresh, result.items))
    return type(result) is New and result.alias is None and result.view is None
