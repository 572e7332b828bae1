"""Typed errors, and the place in the user's program that an error or a break belongs to."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

from .breaks import BREAKS, PAGES, fill, lookup
from .report.consumer import Use, consumer, expression
from .report.remedy import remedy


class Span(NamedTuple):
    """Source range of one instruction: lines from 1, columns in UTF-8 bytes from 0, None where unknown."""

    line: int | None
    end_line: int | None
    col: int | None
    end_col: int | None


class Location:
    """One instruction of the user's program; everything but code and offset is computed when asked for."""

    __slots__ = ("_code", "_lasti", "_span", "_use", "file", "function")

    def __init__(self, code: CodeType, lasti: int = -1) -> None:
        self.file = code.co_filename
        self.function = code.co_qualname
        self._code: CodeType | None = code
        self._lasti = lasti
        self._span: Span | None = None
        self._use: Use | None = None

    @property
    def span(self) -> Span:
        """Source range of the instruction, or of the `def` line when the offset is unknown."""
        if self._span is None:
            assert self._code is not None
            unknown = (self._code.co_firstlineno, None, None, None)
            index = self._lasti // 2
            row = next(islice(self._code.co_positions(), index, None), unknown) if index >= 0 else unknown
            self._span = Span(*(row if row[0] is not None else unknown))
        return self._span

    @property
    def lineno(self) -> int:
        return self.span.line or 0

    @property
    def text(self) -> str:
        """The source line without its line end; empty when there is no source."""
        return linecache.getline(self.file, self.lineno).rstrip("\n")

    @property
    def expression(self) -> str:
        """The source text of the instruction; empty when there is none."""
        return expression(self.file, *self.span)

    @property
    def use(self) -> Use | None:
        """What the program does with the result of the instruction, as far as its bytecode shows."""
        if self._use is None and self._code is not None:
            self._use = consumer(self._code, self._lasti)
        return self._use

    def format(self) -> str:
        """The lines Python itself would print for this place, with a caret under the expression."""
        lines = [f'  File "{self.file}", line {self.lineno}, in {self.function}']
        text = self.text
        if stripped := text.strip():
            lines.append("    " + stripped)
            if caret := self._caret(text):
                lines.append("    " + caret)
        return "\n".join(lines)

    def _caret(self, text: str) -> str:
        line, end_line, col, end_col = self.span
        if col is None or end_col is None:
            return ""
        raw = text.encode()
        start = len(raw[:col].decode(errors="replace"))
        stop = len(raw[:end_col].decode(errors="replace")) if end_line == line else len(text.rstrip())
        margin = len(text) - len(text.lstrip())
        return " " * (start - margin) + "^" * max(stop - start, 1)

    def __str__(self) -> str:
        return f"{self.file}:{self.lineno}"

    def __repr__(self) -> str:
        return f"<Location {self} in {self.function}>"

    def _key(self) -> tuple[object, ...]:
        return self.file, self.function, self.span

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_location, (self.file, self.function, tuple(self.span), self.use)


def _restore_location(file: str, function: str, span: Sequence[int | None], use: Use | None) -> Location:
    """A pickled location comes back without its code object."""
    location = Location.__new__(Location)
    location.file, location.function, location._span = file, function, Span(*span)
    location._code, location._lasti, location._use = None, -1, use
    return location


class StatorError(RuntimeError):
    """Base of all errors that stator raises on its own behalf."""

    break_id: str | None = None  # the row of `breaks.py`, for errors that keep a program from being captured

    stack: tuple[Location, ...] = ()  # the lines of the program that lead there, outermost first

    def locate(self, place: Location | None) -> None:
        """Belongs to the call that begins here, if nothing more precise is known."""
        if place is not None and not self.stack:
            self.stack = (place,)

    def report(self) -> dict[str, Any]:
        """What an event says about this error: id, reason, remedy, place."""
        return {
            "break_id": self.break_id,
            "reason": str(self),
            "remedy": lookup(self.break_id).remedy if self.break_id else "",
            "location": self.stack[-1] if self.stack else None,
            "stack": self.stack,
        }


class InvalidArgument(StatorError, TypeError):
    """An argument of `compile` has the wrong type."""


class InvalidOptions(StatorError, ValueError):
    """An argument of `compile` has a value that means nothing, or contradicts another one."""


class InvalidBackend(StatorError):
    """No backend of that name exists."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        super().__init__(name, tuple(known))
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        known = f" Known backends: {', '.join(self.known)}." if self.known else ""
        return f"there is no backend named {self.name!r}.{known} A callable (GraphModule, example_inputs) works too."


class BackendError(StatorError):
    """A backend raised an error while compiling a graph; the error itself is the cause."""

    break_id = "backend-error"

    def __init__(self, backend: str, error: BaseException) -> None:
        super().__init__(backend, error)
        self.backend = backend
        self.error = error
        self.__cause__ = error

    def __str__(self) -> str:
        return f"backend {self.backend!r} failed: {type(self.error).__name__}: {self.error}"


class ConstraintViolation(StatorError, ValueError):
    """A size that was marked as varying does not, or is out of its bounds."""

    suggestion: Sequence[str] = ()  # lines of Python that define dynamic_shapes which may pass


class ExportError(StatorError):
    """The program does something that an exported program cannot."""

    why = "besides its result, an exported program can only change buffers of the module and tensors it is given"
    remedy = "return what is new, keep state in a buffer (register_buffer), or leave the effect to the caller"

    def __init__(self, detail: str, location: Location | None = None) -> None:
        super().__init__(detail, location)
        self.detail = detail
        self.changed: Any = None  # the path of a container that the program changes
        self.stack = (location,) if location is not None else ()

    def __str__(self) -> str:
        lines = ["the program cannot be exported: " + self.detail, f"  why: {self.why}", f"  remedy: {self.remedy}"]
        return "\n".join([*lines, *(place.format() for place in self.stack)])


class InternalError(StatorError):
    """stator itself went wrong while capturing."""

    break_id = "internal"


class Again(StatorError):
    """The capture has to be made again.

    With what is at this path imported whole, with these numbers constants, with breaks at these instructions, with
    those numbers varying, with sizes of one as what they are, because of what is done at `origin`, or with sizes as
    larger ones.
    """

    def __init__(
        self,
        path: Any,
        constants: frozenset[Any] = frozenset(),
        breaks: frozenset[tuple[CodeType, int]] = frozenset(),
        varies: frozenset[Any] = frozenset(),
        ones: bool = False,
        origin: Any = None,
        larger: frozenset[Any] = frozenset(),
    ) -> None:
        super().__init__(path)
        self.path = path
        self.constants = constants
        self.breaks = breaks
        self.varies = varies
        self.ones = ones
        self.origin = origin
        self.larger = larger


class Unsupported(StatorError):
    """The program does something that cannot be captured."""

    break_id: str

    def __init__(
        self,
        break_id: str,
        detail: str = "",
        location: Location | None = None,
        stack: Sequence[Location] = (),
        fields: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(break_id, detail)
        self.break_id = break_id
        self.detail = detail
        self.fields = dict(fields or {})
        self.stack = tuple(stack) or ((location,) if location else ())
        self._location = location

    @property
    def location(self) -> Location | None:
        """The innermost line of the user's program that leads to the break."""
        return self._location or (self.stack[-1] if self.stack else None)

    @location.setter
    def location(self, location: Location | None) -> None:
        self._location = location
        self.stack = self.stack or ((location,) if location else ())

    @property
    def title(self) -> str:
        return lookup(self.break_id).title

    @property
    def reason(self) -> str:
        """What happened here: the detail if there is one, else the general explanation."""
        return self.detail or self.explanation

    @property
    def explanation(self) -> str:
        return fill(lookup(self.break_id).explanation, self.fields)

    @property
    def remedy(self) -> str:
        """What to do about it, as specific as the place in the program allows."""
        return remedy(self.break_id, self.fields, self.stack)

    @property
    def page(self) -> str:
        """The page about this break."""
        return PAGES.format(self.break_id)

    def report(self) -> dict[str, Any]:
        return {
            "break_id": self.break_id,
            "reason": self.reason,
            "remedy": self.remedy,
            "location": self.location,
            "stack": self.stack,
        }

    def __str__(self) -> str:
        lines = [f"{self.title} [{self.break_id}]"]
        known = self.page if self.break_id in BREAKS else ""
        texts = (("reason", self.detail), ("why", self.explanation), ("remedy", self.remedy), ("page", known))
        lines += [f"  {name}: {text}" for name, text in texts if text]
        return "\n".join([*lines, *(place.format() for place in self.stack)])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.break_id, self.detail, self._location, self.stack, self.fields)


class RecompileError(StatorError):
    """No entry fits a call, and the stance is "fail_on_recompile"."""

    def __init__(self, function: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(function, tuple(reasons))
        self.function = function
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        head = f"{self.function} would have to be compiled again, and the stance is 'fail_on_recompile'"
        rows = [f"  - {reason}" for reason in self.reasons] or ["  nothing was compiled for it so far"]
        return "\n".join([head + (", because of these guards:" if self.reasons else ":"), *rows])


class RecompileLimit(Unsupported):
    """A full graph is required, but the function was compiled too often already."""


def unsupported(
    break_id: str,
    detail: str = "",
    *,
    location: Location | None = None,
    stack: Sequence[Location] = (),
    **fields: Any,
) -> Unsupported:
    """An `Unsupported` whose remaining keywords fill the texts of the break's row."""
    return Unsupported(break_id, detail, location, stack, fields)
