"""Strings from outside that were seen to change: what is asked of one is guarded by the answer.

`name == "adam"`, `name.startswith("layer")`, `name in known` and `len(name)` leave the text itself open; what methods
make of it (`name.lower()`) is such a text again. What else looks into one is CPython's.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from stator.code.decode import units
from stator.frame import Frame
from stator.guards.check import EQ, TYPE_IS
from stator.guards.constant import is_plain
from stator.shapes.floats import TracedFloat
from stator.shapes.texts import GivenText, TracedText
from stator.world import constants

MOST_KEYS = 32  # of a container that a text is looked for in
QUESTIONS = frozenset({
    "startswith", "endswith", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle", "isupper",
})  # fmt: skip
CHANGES = frozenset({
    "capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip", "removeprefix", "removesuffix",
    "replace", "rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill",
})  # fmt: skip
COMPARED = {operator.eq: "__eq__", operator.ne: "__ne__"}
HELD = frozenset({tuple, list, set, frozenset, dict})


class Given(GivenText):
    """One of them, in the world of a capture."""

    __slots__ = ("origin", "value", "world")

    def __init__(self, world: Any, obj: str, path: Any, origin: Any) -> None:
        super().__init__(path, self.constant)
        self.world = world
        self.value = obj
        self.origin = origin  # the path of what it was made of

    def constant(self) -> str:
        found = constants.enter_text(self.world, self.value, self.path)
        self.world.text_constants.add((self.origin, "str", 0))
        return found

    def truth(self) -> bool:
        return bool(self.ask("is not empty", bool))

    def ask(self, label: str, function: Callable[[str], Any]) -> Any:
        """What a function of C says about the text: guarded, unless the text is."""
        answer = function(self.value)
        if self.world.guards.has(self.path, EQ):
            return answer
        return self.world.enter(answer, self.path.part(label, function))

    def changed(self, label: str, function: Callable[[str], str]) -> Any:
        """The text that a function of C makes of it."""
        return enter(self.world, function(self.value), self.path.part(label, function), self.origin)


def enter(world: Any, obj: str, path: Any, origin: Any) -> TracedText:
    """The text at a path as one that varies, the same one each time."""
    if path not in world.symbolic_numbers:
        world.guards.add(path, TYPE_IS, str, world.origin())
        world.symbolic_numbers[path] = TracedText((Given(world, obj, path, origin),))
    made: TracedText = world.symbolic_numbers[path]
    return made


def given(text: Any) -> Given | None:
    """What a text is that comes from outside as it is."""
    found = text.given() if type(text) is TracedText else None
    return found if type(found) is Given else None


@functools.lru_cache(4096, typed=True)
def method(name: str, *args: Any) -> Any:
    """One object for each call of a method: paths compare them."""
    return operator.methodcaller(name, *args)


@functools.lru_cache(4096)
def applied(function: Any, operand: Any) -> Any:
    return functools.partial(function, operand)


def compared(function: Any, left: Any, right: Any) -> Any:
    """`text == constant`, `text in constants`, `constant in text`; NotImplemented where the text itself is needed."""
    if function is operator.contains:
        return contained(left, right)
    text, other = (left, right) if type(left) is TracedText else (right, left)
    found = given(text)
    if found is None or type(other) is not str or function not in COMPARED:
        return NotImplemented
    return found.ask(f"{COMPARED[function]}({other!r})", applied(function, other))


def contained(container: Any, item: Any) -> Any:
    if type(container) is TracedText:
        found = given(container)
        if found is None or type(item) is not str:
            return NotImplemented
        return found.ask(f"__contains__({item!r})", method("__contains__", item))
    found = given(item)
    if found is None or type(container) not in HELD or len(container) > MOST_KEYS:
        return NotImplemented
    keys = tuple(container)
    if not all(type(key) is str for key in keys):
        return NotImplemented
    return found.ask(f"in {keys}", applied(operator.contains, keys))


def length_of(text: Any) -> Any:
    """`len(text)`; NotImplemented of anything else."""
    found = given(text)
    return NotImplemented if found is None else found.ask("length", len)


def is_method(f: Frame, kind: type, name: str) -> bool:
    """Whether an instruction is about to call a method of C."""
    return units(f.code)[f.lasti][0] == "LOAD_METHOD" and type(vars(kind).get(name)) is types.MethodDescriptorType


def bound(kind: type, name: str, value: Any) -> Any:
    """The method of a text or number that varies, as the instruction that calls it is given it."""
    return functools.partial(getattr(kind, name), value)


def method_of(function: Any) -> tuple[str, Any] | None:
    """The name of such a method, and what it is bound to."""
    if type(function) is not functools.partial or type(function.func) is not types.MethodDescriptorType:
        return None
    value = function.args[0] if len(function.args) == 1 and not function.keywords else None
    kind = METHODS.get(type(value))
    return (function.func.__name__, value) if kind is not None and function.func.__objclass__ is kind else None


METHODS: dict[type, type] = {TracedText: str, TracedFloat: float}


def called(name: str, text: Any, args: list[Any]) -> Any:
    """A method of a text with constants; NotImplemented where the text itself is needed, or it fails."""
    found = given(text)
    if found is None or name not in QUESTIONS | CHANGES or not all(map(is_plain, args)):
        return NotImplemented
    asked = method(name, *args)
    try:
        asked(found.value)
    except (TypeError, ValueError):
        return NotImplemented
    label = f"{name}({', '.join(map(repr, args))})"
    return found.ask(label, asked) if name in QUESTIONS else found.changed(label, asked)
