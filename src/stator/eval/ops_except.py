"""Exceptions, `with`, and what re-raises."""

from __future__ import annotations

from types import MethodType
from typing import Any

from stator import _frames
from stator._frames import FAILED
from stator.code.micro import opcode_function
from stator.eval.methods import method_of
from stator.eval.opcodes import micro, op, run_micro
from stator.frame import CALLER_HANDLES, RAISED, RERAISED, UNBOUND, Frame


@op("PUSH_EXC_INFO")
def push_exc_info(f: Frame, arg: Any) -> None:
    error, handled = f.stack[-1], f.handled
    if handled is f.world.caller_handles and f.generator is None:
        handled = CALLER_HANDLES
    f.stack[-1:] = [handled, error]
    f.handled = error


@op("POP_EXCEPT")
def pop_except(f: Frame, arg: Any) -> None:
    handled = f.stack.pop()
    f.handled = f.world.caller_handles if handled is CALLER_HANDLES else handled


@op("RERAISE")
def reraise(f: Frame, depth: int) -> None:
    if depth:
        f.lasti = f.stack[-1 - depth]
    f.error = f.stack.pop()
    raise RERAISED


@op("RAISE_VARARGS")
def raise_varargs(f: Frame, count: int) -> None:
    cause = f.stack.pop() if count > 1 else UNBOUND
    error = f.stack.pop() if count else UNBOUND
    result = _frames.native(_frames.do_raise, error, cause)
    assert result is FAILED
    again = error is UNBOUND and f.error is f.topmost  # a bare raise adds no line to the traceback
    raise RERAISED if again else RAISED


@op("LOAD_ASSERTION_ERROR")
def load_assertion_error(f: Frame, arg: Any) -> None:
    f.stack.append(AssertionError)


@op("WITH_EXCEPT_START")
def with_except_start(f: Frame, arg: Any) -> None:
    error = f.stack[-1]
    f.stack.append(f.world.call(f, f.stack[-4], [type(error), error, error.__traceback__], None))


CALLED: set[type] = set()  # managers made in C whose methods have stand-ins


@op("BEFORE_WITH")
def before_with(f: Frame, arg: Any) -> None:
    manager = f.stack[-1]
    enter, leave = (method_of(type(manager), name) for name in ("__enter__", "__exit__"))
    if enter is not None and leave is not None and not f.world.is_opaque(manager):
        f.stack[-1] = MethodType(leave, manager)
        f.tail = f.lasti
        f.finish, f.kept = None, ()
        f.stack.append(f.world.call(f, enter, [manager], None))
        return
    if not f.world.is_opaque(manager) and type(manager) not in CALLED:
        f.stack.extend(run_micro(f, opcode_function("BEFORE_WITH", 0, 1, 2), 1))
        return
    f.stack[-1] = f.world.load_attr(f, manager, "__exit__")
    f.stack.append(f.world.call(f, f.world.load_attr(f, manager, "__enter__"), [], None))


micro("CHECK_EXC_MATCH", lambda n: 2, lambda n: 2)
micro("CHECK_EG_MATCH", lambda n: 2, lambda n: 2)
micro("PREP_RERAISE_STAR", lambda n: 2, lambda n: 1)
micro("BEFORE_ASYNC_WITH", lambda n: 1, lambda n: 2)
