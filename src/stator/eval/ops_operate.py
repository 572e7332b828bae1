"""Operators, subscripts, comparisons, truth and jumps."""

from __future__ import annotations

import operator
from typing import Any

from stator._frames import FAILED
from stator._frames import native as run_native
from stator.code.operators import BINARY, COMPARE
from stator.eval.methods import expect, method_of, next_method, operator_method, truth_method
from stator.eval.opcodes import op
from stator.frame import RAISED, RETURN, Frame

UNARY = {"UNARY_POSITIVE": operator.pos, "UNARY_NEGATIVE": operator.neg, "UNARY_INVERT": operator.invert}


def operate(f: Frame, function: Any, *args: Any) -> Any:
    """An operator; the first method that it asks may be one of the user's, started for this instruction."""
    f.called = operator_method(f.world, function, args)
    f.finish, f.kept = None, ()
    result = f.world.operate(f, function, *args)
    f.called = None
    return result


@op("BINARY_OP")
def binary_op(f: Frame, arg: int) -> None:
    f.stack[-2:] = [operate(f, BINARY[arg], f.stack[-2], f.stack[-1])]


@op("COMPARE_OP")
def compare_op(f: Frame, arg: str) -> None:
    f.stack[-2:] = [operate(f, COMPARE[arg], f.stack[-2], f.stack[-1])]


@op("BINARY_SUBSCR")
def binary_subscr(f: Frame, arg: Any) -> None:
    key = f.stack.pop()
    f.stack[-1] = operate(f, operator.getitem, f.stack[-1], key)


@op("STORE_SUBSCR")
def store_subscr(f: Frame, arg: Any) -> None:
    value, container, key = f.stack[-3:]
    del f.stack[-3:]
    operate(f, operator.setitem, container, key, value)


@op("DELETE_SUBSCR")
def delete_subscr(f: Frame, arg: Any) -> None:
    container, key = f.stack[-2:]
    del f.stack[-2:]
    operate(f, operator.delitem, container, key)


def unary(name: str) -> None:
    function = UNARY[name]

    @op(name)
    def handler(f: Frame, arg: Any) -> None:
        f.stack[-1] = operate(f, function, f.stack[-1])


for _name in UNARY:
    unary(_name)


@op("UNARY_NOT")
def unary_not(f: Frame, arg: Any) -> None:
    answer = f.world.negated(f.stack[-1])
    f.stack[-1] = not truth(f, f.stack[-1]) if answer is NotImplemented else answer


@op("IS_OP")
def is_op(f: Frame, invert: int) -> None:
    right = f.stack.pop()
    f.stack[-1] = f.world.same(f.stack[-1], right) ^ bool(invert)


@op("CONTAINS_OP")
def contains_op(f: Frame, invert: int) -> None:
    container = f.stack.pop()
    found = operate(f, operator.contains, container, f.stack[-1])
    f.stack[-1] = found ^ bool(invert)


def truth(f: Frame, value: Any) -> bool:
    """bool(value) as a branch sees it."""
    if value is True or value is False:
        return value
    if value is None:
        return False
    ask = f.world.truth_of(value)
    if ask is bool:
        expect(f, truth_method(type(value)), "")
    result = ask if type(ask) is bool else run_native(ask, value)
    if result is FAILED:
        raise RAISED
    return result


@op("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(f: Frame, target: int) -> int:
    return target


@op("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")
def pop_jump_if_false(f: Frame, target: int) -> int | None:
    if type(f.stack[-1]) in f.world.conditions and (joined := f.world.chosen(f, f.stack[-1])) is not None:
        return joined
    answer = truth(f, f.stack[-1])
    del f.stack[-1]
    return None if answer else target


@op("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
def pop_jump_if_true(f: Frame, target: int) -> int | None:
    if type(f.stack[-1]) in f.world.conditions and (joined := f.world.chosen(f, f.stack[-1])) is not None:
        return joined
    answer = truth(f, f.stack[-1])
    del f.stack[-1]
    return target if answer else None


@op("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE")
def pop_jump_if_none(f: Frame, target: int) -> int | None:
    return target if f.stack.pop() is None else None


@op("POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE")
def pop_jump_if_not_none(f: Frame, target: int) -> int | None:
    return target if f.stack.pop() is not None else None


@op("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(f: Frame, target: int) -> int | None:
    if truth(f, f.stack[-1]):
        del f.stack[-1]
        return None
    return target


@op("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(f: Frame, target: int) -> int | None:
    if truth(f, f.stack[-1]):
        return target
    del f.stack[-1]
    return None


@op("GET_ITER")
def get_iter(f: Frame, arg: Any) -> None:
    expect(f, method_of(type(f.stack[-1]), "__iter__"), "")
    f.stack[-1] = f.world.iterate(f, f.stack[-1])


@op("FOR_ITER")
def for_iter(f: Frame, target: int) -> int | None:
    f.world.begins_round(f)
    if f.world.streams:
        f.world.leave_streams(f.stack[-1:])
    expect(f, next_method(f.stack[-1]))
    value = run_native(next, f.stack[-1], END)
    if value is END:
        del f.stack[-1]
        return target
    if value is FAILED:
        raise RAISED
    f.stack.append(value)
    return None


END = object()


@op("RETURN_VALUE")
def return_value(f: Frame, arg: Any) -> int:
    f.result = f.stack.pop()
    return RETURN
