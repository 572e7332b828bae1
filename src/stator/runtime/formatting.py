"""Formatting numbers and texts that vary: the text is made when the graph has run.

That is how it would come out now, so formatting must not fail for any number: it is tried on some.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import torch

from stator.native.attribute_rows import READERS, WRITERS
from stator.native.ends import STANDINS
from stator.runtime import given_texts, symbolic_host
from stator.runtime.entering_numbers import write_number
from stator.runtime.number_calls import ROWS, STANDS_FOR
from stator.runtime.symbolic_host import STR_METHODS
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedInt
from stator.shapes.texts import Piece, TracedText
from stator.tensors import values
from stator.tensors.traced import TracedTensor
from stator.world import constants
from stator.world.door import IMPORTERS

CONVERSIONS = (None, str, repr, ascii)  # by the lowest bits of the argument of FORMAT_VALUE
EXAMPLES: dict[type, tuple[Any, ...]] = {
    TracedFloat: (1.5, -0.0, math.nan, math.inf, -1e300),
    TracedInt: (7, 0, -1, (1 << 62) + 1, -(1 << 62)),
    TracedText: ("text", "", "%d", "{}", "é"),
}
PLAIN = frozenset({str, int, float, bool, type(None)})
TEXTS = frozenset({str, TracedText})
DEEPEST = 8  # a list may hold itself
BRACKETS: dict[type, tuple[str, str]] = {
    tuple: ("(", ")"),
    list: ("[", "]"),
    dict: ("{", "}"),
    torch.Size: ("torch.Size([", "])"),
}


def waits(value: Any) -> bool:
    """Whether a value varies, so that a text with it is made when the graph has run."""
    return type(value) in EXAMPLES and not getattr(value, "mixed", False)


def may_follow(args: Any) -> bool:
    """Whether a text can be made of these later: nothing else is among them, and something must wait."""
    return all(type(arg) in PLAIN or waits(arg) for arg in args) and any(map(waits, args))


def tried(function: Any, *args: Any) -> bool:
    """Whether a function of these gives a text, whatever the numbers are."""
    try:
        for at in range(5):
            made = function(*[EXAMPLES[type(arg)][at] if type(arg) in EXAMPLES else arg for arg in args])
            if type(made) is not str:
                return False
    except (ValueError, TypeError, OverflowError, LookupError, AttributeError, MemoryError):
        return False
    return True


def listed(args: Any) -> Iterator[Piece]:
    """Arguments of a call as pieces of source."""
    for arg in args:
        yield from (repr(arg) if type(arg) in PLAIN and not is_odd(arg) else (arg,), ", ")


def is_odd(value: Any) -> bool:
    return type(value) is float and value - value != 0


def spelt(host: Any, value: Any, deep: int = 0) -> list[Any] | None:
    """The texts that `repr` of a container with numbers in it that vary consists of; None for anything else."""
    kind = type(value)
    if kind in PLAIN:
        return [repr(value)]
    if waits(value):
        return [TracedText("repr(", (value,), ")")]
    if kind not in BRACKETS or deep == DEEPEST or id(value) in host.hollow:
        return None
    found: list[Any] = []
    for item in value.items() if kind is dict else value:
        parts = [spelt(host, part, deep + 1) for part in (item if kind is dict else (item,))]
        if any(part is None for part in parts):
            return None
        for between, part in zip((", " if found else "", ": "), parts, strict=False):
            found += [between, *part]  # type: ignore[misc]
    before, after = BRACKETS[kind]
    return [before, *found, ",)" if kind is tuple and len(value) == 1 else after]


def spelt_out(host: Any, value: Any) -> Any:
    """That as one text; NotImplemented if nothing in it varies."""
    parts = spelt(host, value)
    return joined(parts) if parts is not None and TracedText in map(type, parts) else NotImplemented


def formatted(host: Any, value: Any, conversion: int, spec: Any) -> Any:
    """What FORMAT_VALUE leaves; NotImplemented if that is a constant."""
    if type(value) is TracedTensor:
        value = number_in(host, value) if conversion == 0 else None
    if type(spec) is str and not spec and CONVERSIONS[conversion] is not ascii and type(value) in BRACKETS:
        return spelt_out(host, value)
    if type(spec) is not str or not waits(value):
        return NotImplemented
    convert: Any = CONVERSIONS[conversion]
    if not tried(lambda one: format(one if convert is None else convert(one), spec), value):
        return NotImplemented
    if type(value) is TracedText and not spec and conversion < 2:
        return value
    before, after = ("", "") if convert is None else (f"{convert.__name__}(", ")")
    return TracedText(f"format({before}", (value,), f"{after}, {spec!r})")


def number_in(host: Any, traced: TracedTensor) -> Any:
    """The number that a tensor without dimensions is formatted as."""
    meta, recorder = traced._meta, host.recorder
    if traced._stands_for is not torch.Tensor or len(meta.size) or meta.dtype is torch.bool or meta.dtype.is_complex:
        return None
    if meta.dtype is torch.uint64 or recorder.overriding or recorder.follow() is None:
        return None
    return values.number_of(recorder, traced, "format")


def joined(parts: Any, between: str = "") -> TracedText:
    """What texts are as one; long ones grow in loops."""
    if between:
        return TracedText(f"{between!r}.join((", *listed(parts), "))")
    flat = [one for part in parts for one in (part.parts if type(part) is TracedText else (part,))]
    made = TracedText("''.join((", *listed(flat), "))")
    made.parts = tuple(flat)
    return made


def operated(function: Any, args: tuple[Any, ...]) -> Any:
    """An operator with something among its operands that waits: joins and formats wait too, others need the value."""
    if function in (operator.add, operator.iadd) and TEXTS.issuperset(map(type, args)):
        return joined(args)
    if function in (operator.mod, operator.imod) and type(args[0]) is str:
        given = args[1] if type(args[1]) is tuple else (args[1],)
        if may_follow(given) and tried(lambda *numbers: args[0] % numbers, *given):
            return TracedText(f"{args[0]!r} % (", *listed(given), ")")
    if len(args) == 2 and (answer := given_texts.compared(function, *args)) is not NotImplemented:
        return answer
    if function is not operator.setitem:
        for arg in args:
            if type(arg) is TracedText:
                arg.decay()
    return NotImplemented


# ---- calls --------------------------------------------------------------------------------------------------------


def text_of(function: Any) -> Any:
    def row(host: Any, f: Any, args: list[Any]) -> Any:
        if len(args) == 1 and type(args[0]) in BRACKETS and function is not ascii:
            return spelt_out(host, args[0])
        if len(args) != 1 or not waits(args[0]):
            return NotImplemented
        if function is str and type(args[0]) is TracedText:
            return args[0]
        return TracedText(f"{function.__name__}(", (args[0],), ")")

    return row


def format_of(host: Any, f: Any, args: list[Any]) -> Any:
    if len(args) not in (1, 2) or type(args[0]) is TracedTensor:
        return NotImplemented
    return formatted(host, args[0], 0, args[1] if len(args) == 2 else "")


def method_format(receiver: str, args: list[Any]) -> Any:
    if not may_follow(args) or not tried(receiver.format, *args):
        return NotImplemented
    return TracedText(f"{receiver!r}.format(", *listed(args), ")")


def method_join(receiver: str, args: list[Any]) -> Any:
    if len(args) != 1 or type(args[0]) not in (list, tuple) or not TEXTS.issuperset(map(type, args[0])):
        return NotImplemented
    return joined(args[0], receiver) if TracedText in map(type, args[0]) else NotImplemented


def enter_text(world: Any, obj: str, path: Any) -> Any:
    """A string from outside: a constant, or a text of its own once it was seen to change."""
    policy = world.policy
    if policy.dynamic is False or (path, "str", 0) not in policy.learned:
        return constants.enter_text(world, obj, path)
    symbolic_host.start(world)
    return given_texts.enter(world, obj, path, path)


def read_text(host: Any, f: Any, obj: TracedText, name: str) -> Any:
    if name == "__class__":
        return str
    if given_texts.is_method(f, str, name):
        return given_texts.bound(str, name, obj)
    return host.load_attr(f, obj.decay(), name)


ROWS.update({str: text_of(str), repr: text_of(repr), ascii: text_of(ascii), format: format_of})
STR_METHODS.update({"format": method_format, "join": method_join})
STANDS_FOR[TracedText] = str
STANDINS.add(TracedText)
IMPORTERS[id(str)] = enter_text
READERS[id(TracedText)] = read_text
WRITERS[id(TracedText)] = write_number
FORMATTABLE = frozenset({TracedTensor, *EXAMPLES, *BRACKETS})
