"""Generators, coroutines and asynchronous iteration."""

from __future__ import annotations

from types import CoroutineType, GeneratorType
from typing import Any

from stator import _frames
from stator._frames import FAILED
from stator.code.micro import opcode_function
from stator.eval.opcodes import micro, op, run_micro
from stator.frame import RAISED, RERAISED, RETURN, Frame, throw

ITERABLE_COROUTINE, COROUTINE = 0x100, 0x80


@op("RETURN_GENERATOR")
def return_generator(f: Frame, arg: Any) -> None:
    raise AssertionError("generator frames arrive after RETURN_GENERATOR")


@op("YIELD_VALUE")
def yield_value(f: Frame, arg: Any) -> int:
    f.result = f.stack.pop()
    f.yielded = 1
    return RETURN


@op("SEND")
def send(f: Frame, target: int) -> int | None:
    value = f.stack.pop()
    result = _frames.send(f.stack[-1], value)
    if result is FAILED:
        raise RAISED
    finished, value = result
    if finished:
        f.stack[-1] = value
        return target
    f.stack.append(value)
    return None


@op("GET_YIELD_FROM_ITER")
def get_yield_from_iter(f: Frame, arg: Any) -> None:
    value = f.stack[-1]
    if type(value) is CoroutineType:
        if not f.info.code.co_flags & (COROUTINE | ITERABLE_COROUTINE):
            throw(f, TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator"))
    elif type(value) is not GeneratorType:
        f.stack[-1] = f.world.iterate(f, value)


@op("END_ASYNC_FOR")
def end_async_for(f: Frame, arg: Any) -> None:
    error = f.stack.pop()
    if isinstance(error, StopAsyncIteration):
        del f.stack[-1]
        return
    f.error = error
    raise RERAISED


@op("GET_ANEXT")
def get_anext(f: Frame, arg: Any) -> None:
    f.stack.append(f.stack[-1])  # the iterator stays where it is, also if it has no next
    f.stack.append(run_micro(f, opcode_function("GET_ANEXT", 0, 1, 2), 1)[1])


micro("ASYNC_GEN_WRAP", lambda n: 1, lambda n: 1)
micro("GET_AITER", lambda n: 1, lambda n: 1)
micro("GET_AWAITABLE", lambda n: 1, lambda n: 1)
