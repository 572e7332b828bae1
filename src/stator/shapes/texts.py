"""The stand-in for a text with numbers in it that only data tells: it is put together when the graph has run.

To Python code it is a str. It may be printed, logged, kept and returned; who looks into it needs its value, of which
there is none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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
        """There is no value before the graph has run: a number in it says so."""
        for piece in self.pieces:
            if type(piece) is not str:
                piece[0].decay()  # type: ignore[union-attr]
        raise AssertionError("a text without a number from data")

    def __iter__(self) -> Iterator[str]:
        return iter(self.decay())

    def __hash__(self) -> int:
        return hash(self.decay())

    def __bool__(self) -> bool:
        return bool(self.decay())

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


def _asking(name: str) -> None:
    """A method that the value answers."""
    setattr(TracedText, name, lambda self, other: getattr(self.decay(), name)(other))


for _name in ("add", "radd", "mod", "rmod", "mul", "rmul", "eq", "ne", "lt", "le", "gt", "ge", "contains", "getitem"):
    _asking(f"__{_name}__")
TracedText.__name__ = "str"  # in messages of C code
