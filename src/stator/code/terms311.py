"""Python 3.11: what instructions mean to those who read several as one idiom (cuts, pads, messages, comparisons)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Term = tuple[str, Any]  # what is done, and its argument
Row = Callable[[Any], tuple[Term, ...]]  # of the instruction's resolved argument


def one(term: str) -> Row:
    return lambda arg: ((term, arg),)


def nothing(arg: Any) -> tuple[Term, ...]:
    return ()


COMPARISON = "COMPARE_OP"
# name -> what a condition is where the instruction jumps forward, and whether it stays on the stack then.
BRANCHES: dict[str, tuple[bool, bool]] = {
    "POP_JUMP_FORWARD_IF_FALSE": (False, False),
    "POP_JUMP_FORWARD_IF_TRUE": (True, False),
    "JUMP_IF_FALSE_OR_POP": (False, True),
    "JUMP_IF_TRUE_OR_POP": (True, True),
}
NONE_BRANCHES = {"POP_JUMP_FORWARD_IF_NONE": True, "POP_JUMP_FORWARD_IF_NOT_NONE": False}  # whether it jumps at None
# name -> what the instruction does, in order; whatever is not here ends an idiom.
TERMS: dict[str, Row] = {
    "LOAD_CONST": one("constant"),
    "LOAD_FAST": one("variable"),
    "STORE_FAST": one("store"),
    "LOAD_DEREF": one("cell"),
    "LOAD_GLOBAL": lambda arg: (("global", arg[0]),),
    "KW_NAMES": one("names"),
    "BUILD_LIST": one("list"),
    "LOAD_ATTR": one("attribute"),
    "LOAD_METHOD": one("method"),
    "BINARY_SUBSCR": one("item"),
    "BINARY_OP": one("operator"),
    COMPARISON: one("comparison"),
    "BUILD_SLICE": one("slice"),
    "BUILD_TUPLE": one("tuple"),
    "BUILD_STRING": one("join"),
    "FORMAT_VALUE": lambda arg: (("format as" if arg & 4 else "format", arg),),
    "PRECALL": nothing,  # a CALL follows, which says the same
    "CALL": one("call"),
    "POP_JUMP_FORWARD_IF_FALSE": one("unless"),
    "POP_JUMP_FORWARD_IF_TRUE": one("if"),
    "JUMP_IF_TRUE_OR_POP": one("or"),
}
