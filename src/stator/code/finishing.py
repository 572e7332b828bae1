"""What an instruction still does with the result of the method that it called: `__add__`, `__setitem__`, a setter.

A break inside such a method goes on in it, and then in the caller with the rest of the instruction.
"""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stator.code.operators import BINARY, COMPARE, SIGNS

Place = Sequence[int | None]


class Finish(NamedTuple):
    """How to go on in the caller."""

    replaced: int  # values still on the stack that the result replaces
    emit: Callable[[Any, int, Place], None]  # assembler, argument, place: behind the call that pushed the result


def nothing(asm: Any, arg: int, place: Place) -> None:
    """The result is the instruction's."""


def discard(asm: Any, arg: int, place: Place) -> None:
    asm.emit("POP_TOP", 0, place)


def answer(asm: Any, inverted: int, place: Place) -> None:
    """CONTAINS_OP: the truth of the result."""
    for _ in range(2 - inverted):
        asm.emit("UNARY_NOT", 0, place)


def operated(function_of: Callable[[int], Any]) -> Callable[[Any, int, Place], None]:
    """An operator, its operands below the result: NotImplemented means that others are asked."""

    def emit(asm: Any, arg: int, place: Place) -> None:
        asm.emit("COPY", 1, place)
        asm.emit("LOAD_CONST", constant(asm, NotImplemented), place)
        asm.emit("IS_OP", 0, place)
        slow = asm.jump("POP_JUMP_FORWARD_IF_TRUE", place)
        asm.emit("SWAP", 3, place)
        discard(asm, 0, place)
        discard(asm, 0, place)
        done = asm.jump("JUMP_FORWARD", place)
        asm.land(slow, asm.unit)
        discard(asm, 0, place)
        asm.emit("LOAD_CONST", constant(asm, function_of(arg)), place)
        asm.emit("BUILD_TUPLE", 3, place)
        asm.emit("PUSH_NULL", 0, place)
        asm.emit("SWAP", 2, place)
        asm.emit("LOAD_CONST", constant(asm, ask_others), place)
        asm.emit("SWAP", 2, place)
        asm.emit("PRECALL", 1, place)
        asm.emit("CALL", 1, place)
        asm.land(done, asm.unit)

    return emit


def constant(asm: Any, value: Any) -> int:
    """Index of an object among the constants of the code being made."""
    consts = asm.code.co_consts
    asm.code = asm.code.replace(co_consts=(*consts, value))
    return len(consts)


# Methods by operator.
PLAIN = {
    operator.getitem: "__getitem__", operator.setitem: "__setitem__", operator.delitem: "__delitem__",
    operator.contains: "__contains__", operator.neg: "__neg__", operator.pos: "__pos__", operator.invert: "__invert__",
}  # fmt: skip
FORWARD = {function: (f"__{name}__", f"__r{name}__") for function, (name, _) in SIGNS.items()}
INPLACE = {getattr(operator, f"i{name}"): (f"__i{name}__", function) for function, (name, _) in SIGNS.items()}
COMPARED = {
    operator.lt: ("__lt__", "__gt__"), operator.gt: ("__gt__", "__lt__"), operator.le: ("__le__", "__ge__"),
    operator.ge: ("__ge__", "__le__"), operator.eq: ("__eq__", "__eq__"), operator.ne: ("__ne__", "__ne__"),
}  # fmt: skip
COMPARE_SIGNS = {operator.lt: "<", operator.gt: ">", operator.le: "<=", operator.ge: ">="}
IDENTITY = {operator.eq: operator.is_, operator.ne: operator.is_not}
NUMBERS = frozenset({int, float, bool, complex})  # whose own methods answer NotImplemented without user code


def ask_others(operands: tuple[Any, Any, Any]) -> Any:
    """The rest of `left op right` once the method that was asked first has answered NotImplemented."""
    left, right, function = operands
    one, two = type(left), type(right)
    inplace = function in INPLACE
    if inplace:
        name, function = INPLACE[function]
        if hasattr(one, name):  # it was this one
            return without_it(left, right, function)
    _, reflected = COMPARED[function] if function in COMPARED else FORWARD[function]
    if one not in NUMBERS and (function in COMPARED or one is not two):
        method = getattr(two, reflected, None)
        result = NotImplemented if method is None else method(right, left)
        if result is not NotImplemented:
            return result
    if function in IDENTITY:
        return IDENTITY[function](left, right)
    names = f"'{one.__name__}' and '{two.__name__}'"
    if function in COMPARED:
        raise TypeError(f"'{COMPARE_SIGNS[function]}' not supported between instances of {names}")
    sign = SIGNS[function][1]
    sign = f"{sign}=" if inplace else "** or pow()" if function is operator.pow else sign
    raise TypeError(f"unsupported operand type(s) for {sign}: {names}")


def without_it(left: Any, right: Any, function: Any) -> Any:
    """`left += right` as `left + right`; errors still name the sign that the program has."""
    sign = SIGNS[function][1]
    try:
        return function(left, right)
    except TypeError as error:
        names = f"'{type(left).__name__}' and '{type(right).__name__}'"
        if error.args != (f"unsupported operand type(s) for {sign}: {names}",):
            raise
    raise TypeError(f"unsupported operand type(s) for {sign}=: {names}")


FINISHES: dict[str, Finish] = {
    "CALL": Finish(0, nothing),
    "CALL_FUNCTION_EX": Finish(0, nothing),
    "LOAD_ATTR": Finish(1, nothing),
    "BINARY_SUBSCR": Finish(1, nothing),
    "UNARY_NEGATIVE": Finish(1, nothing),
    "UNARY_POSITIVE": Finish(1, nothing),
    "UNARY_INVERT": Finish(1, nothing),
    "STORE_SUBSCR": Finish(0, discard),
    "DELETE_SUBSCR": Finish(0, discard),
    "STORE_ATTR": Finish(0, discard),
    "DELETE_ATTR": Finish(0, discard),
    "CONTAINS_OP": Finish(1, answer),
    "BINARY_OP": Finish(0, operated(BINARY.__getitem__)),
    "COMPARE_OP": Finish(0, operated(lambda arg: COMPARE[dis.cmp_op[arg]])),
}

ask_others._torchdynamo_disable = True  # type: ignore[attr-defined]  # calls methods behind the interpreter's back
