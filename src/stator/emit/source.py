"""The lines of an entry function: locals that are used once are folded into the place that uses them."""

from __future__ import annotations

import builtins
import dis
import itertools
import operator
import re
import types
from collections.abc import Sequence
from typing import Any

from stator.code import lines

from . import atoms

DEEPEST_NESTING = 16
_numbers = itertools.count(1)


class Slot:
    """Something an expression can refer to: a local variable, a load, a literal or a constant."""

    __slots__ = ("constant", "depth", "folded", "inline", "literal", "maker", "name", "pinned", "uses")

    def __init__(self, name: str, *, constant: bool = False, literal: bool = False) -> None:
        self.name = name
        self.constant = constant
        self.literal = literal
        self.maker: Line | None = None
        self.inline = False
        self.pinned = False
        self.folded = False
        self.uses = 0
        self.depth = 0


Text = tuple[str | Slot, ...]


class Line:
    """One statement; with a target it is an assignment to that local."""

    __slots__ = ("is_raw", "target", "text", "unpacks")

    def __init__(
        self, text: Text, target: Slot | None = None, unpacks: tuple[Slot, ...] | None = None, is_raw: bool = False
    ) -> None:
        self.text = text
        self.target = target
        self.unpacks = unpacks
        self.is_raw = is_raw
        if target is not None:
            target.maker = self
        for fragment in text:
            if isinstance(fragment, Slot):
                fragment.uses += 1


class Body:
    """The statements of one function, in order."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, line: Line) -> None:
        self.lines.append(line)

    def render(self, result: Text) -> list[str]:
        """Statements, the last of which returns the result."""
        returned = Line(("return ", *result))
        self._fold()
        self._fold_unpacking(returned)
        rendered: list[str] = []
        for line in (*self.lines, returned):
            rendered.extend(_render(line))
        return rendered

    def _fold(self) -> None:
        """Drop what nobody uses, fold what is used once; lines come after the lines they depend on."""
        for line in reversed(self.lines):
            slot = line.target
            if slot is not None and slot.uses == 0 and slot.inline and not slot.pinned:
                slot.folded = True
                for part in line.text:
                    if isinstance(part, Slot):
                        part.uses -= 1
        for line in self.lines:
            slot = line.target
            if slot is None or slot.folded:
                continue
            slot.depth = 1 + max(
                (part.depth for part in line.text if isinstance(part, Slot) and part.folded), default=0
            )
            wanted = slot.uses == 1 and slot.inline and not slot.pinned
            slot.folded = wanted and slot.depth < DEEPEST_NESTING

    def _fold_unpacking(self, returned: Line) -> None:
        """A graph with one output, used once and by the next thing that happens, is called right there."""
        at = next((i for i, line in enumerate(self.lines) if line.unpacks is not None), None)
        if at is None or any(line.unpacks is not None for line in self.lines[at + 1 :]):
            return
        line = self.lines[at]
        if line.unpacks is None or len(line.unpacks) != 1:
            return
        (slot,) = line.unpacks
        rest = [later for later in self.lines[at + 1 :] if later.target is None or not later.target.folded]
        if rest or slot.uses != 1 or slot.pinned:
            return
        slot.maker = Line((*line.text, "[0]"))
        slot.folded = True


def _render(line: Line) -> list[str]:
    if line.target is not None and line.target.folded:
        return []
    if line.unpacks is not None:
        if any(slot.folded for slot in line.unpacks):
            return []
        names = ", ".join(slot.name for slot in line.unpacks) + ("," if len(line.unpacks) == 1 else "")
        return [f"{names} = {_text(line.text)}" if line.unpacks else _text(line.text)]
    text = _text(line.text)
    return [text if line.target is None else f"{line.target.name} = {text}"]


_ATOM = re.compile(r"[A-Za-z_]\w*\Z")


def _text(fragments: Text) -> str:
    out: list[str] = []
    for index, fragment in enumerate(fragments):
        if isinstance(fragment, str):
            out.append(fragment)
            continue
        text = _text(fragment.maker.text) if fragment.folded and fragment.maker is not None else fragment.name
        following = fragments[index + 1] if index + 1 < len(fragments) else ""
        if isinstance(following, str) and following[:1] in (".", "[") and fragment.literal and not _ATOM.match(text):
            text = f"({text})"
        out.append(text)
    return "".join(out)


def compile_function(
    name: str, params: Sequence[str], body: Sequence[str], namespace: dict[str, Any], label: str
) -> types.FunctionType:
    """The function with this source; `linecache` knows the source for as long as the function lives."""
    while name in namespace:  # the program may call its function as a constant is called here
        name += "_"
    header = f"def {name}({', '.join(params)}):"
    if len(body) == 1 and "\n" not in body[0]:
        source = f"{header} {body[0]}\n"
    else:
        source = "\n".join([header, *("    " + part for line in body for part in line.split("\n"))]) + "\n"
    filename = f"<stator entry {next(_numbers)} of {label}>"
    namespace.setdefault("__builtins__", builtins)
    namespace.setdefault("__name__", filename)
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    function = namespace.pop(name)
    function.__stator_source__ = source
    lines.show(function, filename, source)
    return function


def with_constants(code: types.CodeType, objects: dict[str, Any]) -> types.CodeType:
    """The code with these very objects for its literals: programs tell equal texts apart by identity."""
    constants = tuple(_constant(value, objects) for value in code.co_consts)
    changed = any(map(operator.is_not, constants, code.co_consts))
    return code.replace(co_consts=constants) if changed else code


def _constant(value: Any, objects: dict[str, Any]) -> Any:
    if type(value) not in (str, bytes, int, float, tuple):
        return value
    known = objects.get(_written(value), value)
    if type(value) is not tuple or known is not value:
        return known
    parts = tuple(_constant(part, objects) for part in value)
    return parts if any(map(operator.is_not, parts, value)) else value


def _written(value: Any) -> str:
    """A constant as it is written down."""
    if type(value) is not tuple:
        return atoms.literal(value) or repr(value)
    parts = ", ".join(map(_written, value))
    return f"({parts},)" if len(value) == 1 else f"({parts})"


def unknown_names(function: types.FunctionType) -> list[str]:
    """Names that a function would look for in vain: it is wrong, and a handler in it might hide that."""
    known = function.__globals__.keys() | vars(builtins).keys()
    wanted = (step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL")
    return sorted(set(wanted) - known)
