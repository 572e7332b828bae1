"""Texts that tell where objects lie, as `repr` of an object without one of its own does."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any

from stator.guards.check import EQ, IS

MARK = " at 0x"
WEAK = "<weakref at 0x"
ADDRESS = re.compile(MARK + "([0-9a-f]+)")
LOWEST, HIGHEST, APART = 0x10000, 1 << 57, 16  # where memory of the process may lie, and how objects in it do


def is_address(number: int) -> bool:
    """Whether an object could lie there; other numbers that look like addresses are texts of the program."""
    return LOWEST <= number < HIGHEST and number % APART == 0


def tells_inside(host: Any, text: str) -> bool:
    """Whether it tells the address of an object that is none from outside, and will lie elsewhere."""
    if MARK not in text:
        return False
    told = [int(found, 16) for found in ADDRESS.findall(text)]
    return any(is_address(number) and number not in host.records for number in told)


def pin_told(host: Any, text: str) -> None:
    """The text is that of these objects from outside alone."""
    if WEAK in text:
        raise host.refuse("native-outside-object", "a text that tells whether an object is alive", function="repr")
    for found in ADDRESS.findall(text):
        record = host.records.get(int(found, 16))
        if record is None or id(record.obj) != int(found, 16):
            continue
        if (record.path, "identity", 0) in host.varying:
            detail = f"the address of a {type(record.obj).__name__} that is another one on every call"
            raise host.refuse("native-outside-object", detail, function="repr")
        host.guards.add(record.path, IS, record.obj, host.origin())
        look = STATES.get(type(record.obj))
        if look is not None:
            look(host, record)


def guard_name(host: Any, record: Any) -> None:
    host.guards.add(record.path.get("__qualname__"), EQ, record.obj.__qualname__, host.origin())


def refuse_state(host: Any, record: Any) -> None:
    kind = type(record.obj).__name__
    raise host.refuse("native-outside-object", f"a text that tells the state of a {kind}", function="repr")


# What a text tells of an object besides where it lies.
STATES: dict[type, Callable[[Any, Any], None]] = {
    types.FunctionType: guard_name,
    types.GeneratorType: guard_name,
    types.CoroutineType: guard_name,
}
