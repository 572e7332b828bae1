"""The words of recipes: a plan tells how one object is made and filled, in pieces of source with holes for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from string import Formatter
from types import TracebackType
from typing import Protocol

from . import raw


class CannotRebuild(Exception):
    """An object made during capture escapes, and no recipe makes an equal one."""

    def __init__(self, obj: object, why: str, within: Sequence[object] = ()) -> None:
        self.obj = obj
        self.why = why
        self.within = tuple(within)
        super().__init__(obj, why)

    def __str__(self) -> str:
        chain = "".join(f", inside {article(type_name(owner))}" for owner in self.within)
        return f"cannot rebuild {article(type_name(self.obj))}{chain}: {self.why}"


def type_name(obj: object) -> str:
    """The name of obj's type, without asking a metaclass."""
    return type.__dict__["__name__"].__get__(type(obj))


def article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


class Source(str):
    """Text of an expression, accepted wherever the emitter expects an object."""

    __slots__ = ()


class Part:
    """A hole for another object.

    With `contents`, that object must be complete at this point, not only exist. With `held`, it must outlive the place
    that uses it, because that only refers to it weakly.
    """

    __slots__ = ("contents", "held", "obj")

    def __init__(self, obj: object, contents: bool = False, held: bool = False) -> None:
        self.obj = obj
        self.contents = contents
        self.held = held


class Const:
    """A hole for an object embedded as it is, whatever the caller's `resolve` says."""

    __slots__ = ("obj",)

    def __init__(self, obj: object) -> None:
        self.obj = obj


class Self:
    """A hole for the object that the plan builds."""

    __slots__ = ()


class Splice:
    """Fragments to put in place of a hole."""

    __slots__ = ("fragments",)

    def __init__(self, *fragments: str | Part | Const | Self) -> None:
        self.fragments = fragments


SELF = Self()
Fragment = str | Part | Const | Self
Piece = tuple[Fragment, ...]


@lru_cache(maxsize=1024)
def _parse(template: str) -> tuple[str | int, ...]:
    fragments: list[str | int] = []
    for text, field, _, _ in Formatter().parse(template):
        if text:
            fragments.append(text)
        if field is not None:
            fragments.append(int(field))
    return tuple(fragments)


def hole(obj: object) -> Fragment:
    """What stands for obj in a piece."""
    kind = type(obj)
    if kind is Part or kind is Const or kind is Self:
        return obj  # type: ignore[return-value]
    if kind is Source:
        return str.__str__(obj)
    return Part(obj)


def piece(template: str, *objects: object) -> Piece:
    """`piece("{0}.append({1})", SELF, x)`: braces are doubled to stand for themselves."""
    fragments: list[Fragment] = []
    for fragment in _parse(template):
        if isinstance(fragment, str):
            fragments.append(fragment)
        elif type(obj := objects[fragment]) is Splice:
            fragments += obj.fragments
        else:
            fragments.append(hole(obj))
    return tuple(fragments)


def listing(objects: Iterable[object]) -> Splice:
    """The objects, with commas between them."""
    fragments: list[Fragment] = []
    for obj in objects:
        if fragments:
            fragments.append(", ")
        fragments += obj.fragments if type(obj) is Splice else (hole(obj),)
    return Splice(*fragments)


def tuple_of(objects: Iterable[object]) -> Splice:
    """A tuple display."""
    objects = [*objects]
    return Splice("(", *listing(objects).fragments, ",)" if len(objects) == 1 else ")")


def dict_of(items: Iterable[tuple[object, object]]) -> Splice:
    """A dict display."""
    fragments: list[Fragment] = []
    for key, value in items:
        fragments += (", " if fragments else "{", keyed(key), ": ", hole(value))
    return Splice(*fragments, "}" if fragments else "{}")


def keywords_of(items: Iterable[tuple[str, object]]) -> Splice:
    """Keyword arguments that follow others."""
    fragments: list[Fragment] = []
    for name, value in items:
        fragments += (f", {name}=", hole(value))
    return Splice(*fragments)


def keyed(key: object) -> Part:
    """A hole for something that is about to be hashed."""
    return Part(key, contents=raw.hash_reads_contents(key))


@dataclass(slots=True)
class Plan:
    """How to build one object.

    `make` is an expression for the object, `fills` are statements that complete it. Where the parts of `make` lead back
    to the object, `bare` creates it without them and the statements in `rest` put them in; a plan without `bare` cannot
    be part of such a cycle.
    """

    make: Piece
    fills: Sequence[Piece] = ()
    bare: Piece | None = None
    rest: Sequence[Piece] = ()
    # The expression only reads the identity of its parts, so it may be evaluated later, at the one place that uses it.
    inline: bool = True
    # The expression to use instead of `make` when there are many parts and all of them are constants.
    bulk: Piece | None = None
    # The object is immutable: when all parts are constants it is one too.
    frozen: bool = False

    def then(self, fills: Sequence[Piece]) -> Plan:
        return replace(self, fills=(*self.fills, *fills)) if fills else self

    def pieces(self) -> Iterable[Piece]:
        yield self.make
        if self.bare is not None:
            yield self.bare
        yield from self.rest
        yield from self.fills


def parts_of(*pieces: Piece) -> Iterable[Part]:
    for fragments in pieces:
        for fragment in fragments:
            if type(fragment) is Part:
                yield fragment


class Heap(Protocol):
    """What recipes may ask about the heap they belong to."""

    hashes_vary: bool  # code of the program may have said hashes that follow from addresses

    def inside(self, obj: object) -> bool:
        """Was this class, function, cell or namespace made during capture?"""

    def resolved(self, obj: object) -> bool:
        """Does obj exist at run time already?"""

    def traceback(self, obj: TracebackType) -> object:
        """What stands for this traceback of an exception."""

    def shares(self, owner: object, namespace: object) -> bool:
        """Is this instance `__dict__` also met as an object of its own? If not, remember its owner."""


Recipe = Callable[[object, type, Heap], Plan]


def refuse(why: str) -> Recipe:
    """A row for objects that nothing can rebuild."""

    def refused(obj: object, cls: type, heap: Heap) -> Plan:
        raise CannotRebuild(obj, why)

    return refused
