"""Python 3.11: which instructions read, write and jump, for those who follow the ways through a function."""

from __future__ import annotations

READING = frozenset({"LOAD_FAST", "DELETE_FAST"})  # a variable; deleting one that is not there raises
CLOSING = frozenset({"LOAD_CLOSURE"})  # the cell of one
STORING = "STORE_FAST"
ASSIGNING = frozenset({STORING, "DELETE_FAST"})
UNPACKING = "UNPACK_SEQUENCE"
LOOP = "FOR_ITER"
RETURN = "RETURN_VALUE"
RAISE = "RAISE_VARARGS"
GLOBAL = "LOAD_GLOBAL"

PLAIN_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
NOT_FOLLOWED = frozenset({RETURN, RAISE, "RERAISE"}) | PLAIN_JUMPS  # by the next instruction
BRANCHES = {
    "POP_JUMP_FORWARD_IF_FALSE": False,
    "POP_JUMP_BACKWARD_IF_FALSE": False,
    "POP_JUMP_FORWARD_IF_TRUE": True,
    "POP_JUMP_BACKWARD_IF_TRUE": True,
}  # what the condition is where they jump
# Instructions that end the way to a `raise`, besides jumps.
ENDS = frozenset({RETURN, "YIELD_VALUE", "RERAISE", LOOP, "SEND", "GET_AWAITABLE", "RETURN_GENERATOR"})
MOVES = frozenset({
    "NOP", "LOAD_CONST", "LOAD_FAST", "STORE_FAST", "BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_POSITIVE",
    "COPY", "SWAP", "POP_TOP",
})  # fmt: skip
CALLS = frozenset({GLOBAL, "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD", "PUSH_NULL", "PRECALL", "CALL"})


def jumps(name: str) -> bool:
    """Whether an instruction may go on at its argument."""
    return "JUMP" in name or name in (LOOP, "SEND")


def goes_back(name: str) -> bool:
    return "JUMP_BACKWARD" in name
