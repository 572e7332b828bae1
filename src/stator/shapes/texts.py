"""The stand-in for a text that varies, or that has numbers in it which vary: it is put together when the graph has run.

To Python code it is a str. It may be printed, logged, kept and returned; who looks into it needs its value, a constant
from then on. There is none yet if only data tells the numbers in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stator.guards.path import Path

Piece = str | tuple[Any]  # source, or a value in it


class TracedText:
    """Python source that makes a text, and the values in it: numbers, other texts."""

    __slots__ = ("parts", "pieces")

    def __init__(self, *pieces: Piece) -> None:
        self.pieces = pieces
        self.parts: tuple[Any, ...] = (self,)  # texts that are this one, one after the other

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return str

    def source(self, resolve: Callable[[Any], str | None]) -> str:
        """The source, with names for the values."""
        return "".join(piece if type(piece) is str else str(resolve(piece[0])) for piece in self.pieces)

    def decay(self) -> str:
        """The value, made of constants; a number that only data tells says so."""
        names: dict[str, Any] = {}
        for piece in self.pieces:
            if type(piece) is not str:
                value: Any = piece[0]
                names[f"v{len(names)}"] = value.decay() if hasattr(value, "decay") else value
        place = iter(names)
        source = "".join(piece if type(piece) is str else next(place) for piece in self.pieces)
        return str(eval(source, names))

    def given(self) -> Any:
        """The string from outside that it is, if it is one as it came."""
        piece = self.pieces[0] if len(self.pieces) == 1 else ""
        return piece[0] if type(piece) is tuple and issubclass(type(piece[0]), GivenText) else None

    def __iter__(self) -> Iterator[str]:
        return iter(self.decay())

    def __hash__(self) -> int:
        return hash(self.decay())

    def __bool__(self) -> bool:
        given = self.given()
        return bool(self.decay()) if given is None else given.truth()

    def __len__(self) -> int:
        return len(self.decay())

    def __str__(self) -> str:
        return self.decay()

    def __repr__(self) -> str:
        return repr(self.decay())

    def __format__(self, spec: str) -> str:
        return format(self.decay(), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return str, (self.decay(),)


class GivenText:
    """A string from outside that was seen to change: which one it is matters to who looks at it."""

    __slots__ = ("decay", "path")

    def __init__(self, path: Path, decay: Callable[[], str]) -> None:
        self.path = path
        self.decay = decay

    def truth(self) -> bool:
        """Whether it is not empty."""
        return bool(self.decay())


def _plain(value: Any) -> Any:
    return value.decay() if type(value) is TracedText else value


def _asking(name: str) -> None:
    """A method that the value answers; the other operand may be such a text too."""
    setattr(TracedText, name, lambda self, other: getattr(self.decay(), name)(_plain(other)))


for _name in ("add", "radd", "mod", "rmod", "mul", "rmul", "eq", "ne", "lt", "le", "gt", "ge", "contains", "getitem"):
    _asking(f"__{_name}__")
TracedText.__name__ = "str"  # in messages of C code
