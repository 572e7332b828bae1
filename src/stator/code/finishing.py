"""What an instruction still does with the result of the method that it called: `__add__`, `__init__`, a setter.

A break inside such a method goes on in it, and then in the caller with the rest of the instruction.
"""

from __future__ import annotations

import dis
import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stator.code.operators import BINARY, COMPARE, SIGNS

Place = Sequence[int | None]
MRO: Any = type.__dict__["__mro__"]


class Finish(NamedTuple):
    """How to go on in the caller."""

    replaced: int  # values still on the stack that the result replaces
    emit: Callable[[Any, int, Place], None]  # assembler, argument, place: behind the call that pushed the result
    catches: type[BaseException] | None = None  # an exception that is an answer too
    dropped: int = 0  # values that it takes from the stack
    jumps: bool = False  # and then the instruction jumps
    told: Callable[[Any, Any, Any], None] | None = None  # or it goes on, but is told what lies below, and the name
    named: bool = False  # the instruction has that


def nothing(asm: Any, arg: int, place: Place) -> None:
    """The result is the instruction's."""


def discard(asm: Any, arg: int, place: Place) -> None:
    asm.emit("POP_TOP", 0, place)


def helped(helper: Callable[[Any], Any]) -> Callable[[Any, int, Place], None]:
    """The result is what a function makes of it."""

    def emit(asm: Any, arg: int, place: Place) -> None:
        asm.emit("PUSH_NULL", 0, place)
        asm.emit("SWAP", 2, place)
        asm.emit("LOAD_CONST", constant(asm, helper), place)
        asm.emit("SWAP", 2, place)
        asm.emit("PRECALL", 1, place)
        asm.emit("CALL", 1, place)

    return emit


def length(result: Any) -> int:
    found = operator.index(result)
    if found < 0:
        raise ValueError("__len__() should return >= 0")
    if found > sys.maxsize:
        raise OverflowError("cannot fit 'int' into an index-sized integer")
    return found


def number(kind: type, title: str) -> Callable[[tuple[Any, Any]], Any]:
    """What `float` or `int` makes of the answer of an object's method."""
    own = f"__{kind.__name__}__"

    def passed(asked: tuple[Any, Any]) -> Any:
        obj, result = asked
        if type(result) is kind:
            return result
        title_of = title.format(type(obj).__name__)
        text = f"{title_of}{own} returned non-{kind.__name__} (type {type(result).__name__})"
        if not isinstance(result, kind):
            raise TypeError(text)
        warnings.warn(f"{text}.{DEPRECATED.format(kind.__name__)}", DeprecationWarning, stacklevel=2)
        return vars(kind)[own](result)

    return passed


def from_pair(helper: Callable[[tuple[Any, Any]], Any]) -> Callable[[Any, int, Place], None]:
    """The same as `helped`, of the object that was asked, which is below, and the result."""

    def emit(asm: Any, arg: int, place: Place) -> None:
        asm.emit("BUILD_TUPLE", 2, place)
        helped(helper)(asm, arg, place)

    return emit


DEPRECATED = (
    "  The ability to return an instance of a strict subclass of {} is deprecated, "
    "and may be removed in a future version of Python."
)
PASSED = {float: number(float, "{}."), int: number(int, "")}


def truth(result: Any) -> bool:
    """What `__bool__` answered."""
    if type(result) is not bool:
        raise TypeError(f"__bool__ should return bool, returned {type(result).__name__}")
    return result


def iterator(result: Any) -> Any:
    if not hasattr(type(result), "__next__"):
        raise TypeError(f"iter() returned non-iterator of type '{type(result).__name__}'")
    return result


def jump_or_go_on(name: str, pops: bool) -> Callable[[Any, int, Place], None]:
    """A branch on the result; without `pops` the value that was asked stays where the branch is taken."""

    def emit(asm: Any, arg: int, place: Place) -> None:
        helped(truth)(asm, arg, place)
        asm.leaving.append(asm.jump(name, place))
        if pops:
            discard(asm, 0, place)

    return emit


def negate(asm: Any, arg: int, place: Place) -> None:
    helped(truth)(asm, arg, place)
    asm.emit("UNARY_NOT", 0, place)


def made(asm: Any, arg: int, place: Place) -> None:
    """`__init__` has filled the instance below."""
    asm.emit("COPY", 1, place)
    jump = asm.jump("POP_JUMP_FORWARD_IF_NONE", place)
    helped(refuse_result)(asm, arg, place)
    asm.land(jump, asm.unit)
    discard(asm, 0, place)


def refuse_result(result: Any) -> None:
    raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")


def initialized(asm: Any, arg: int, place: Place) -> None:
    """`__new__` has made something; the class and the arguments are below it."""
    asm.emit("BUILD_TUPLE", 4, place)
    helped(initialize)(asm, arg, place)


def is_made(cls: type, instance: Any) -> bool:
    """Whether what `__new__` gave is to be initialized."""
    return any(base is cls for base in MRO.__get__(type(instance)))


def initialize(made: tuple[Any, ...]) -> Any:
    """The rest of a call of a class."""
    cls, args, kwargs, instance = made
    if is_made(cls, instance):
        result = type(instance).__init__(instance, *args, **kwargs)
        if result is not None:
            refuse_result(result)
    return instance


def nothing_comes(asm: Any, arg: int, place: Place) -> None:
    """`setattr` and its like give None, whatever a setter gives."""
    discard(asm, 0, place)
    asm.emit("LOAD_CONST", constant(asm, None), place)


def instead(asm: Any, arg: int, place: Place) -> None:
    """The result takes the place of the default below."""
    asm.emit("SWAP", 2, place)
    discard(asm, 0, place)


def missing(error: Any, obj: Any, name: str) -> None:
    """What CPython says in an AttributeError in which nobody did."""
    if error.name is None and error.obj is None:
        error.name, error.obj = name, obj


def missing_of(error: Any, sought: tuple[Any, str], name: None) -> None:
    """The same of `getattr`, of an object and a name that lie below."""
    missing(error, *sought)


def present(asm: Any, arg: int, place: Place) -> None:
    """There is a result, so the answer is True and not the one below."""
    discard(asm, 0, place)
    discard(asm, 0, place)
    asm.emit("LOAD_CONST", constant(asm, True), place)


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


def emit_catch(asm: Any, rest: Finish, arg: int, place: Place) -> None:
    """An exception that is an answer: no longer one, and what it takes from the stack is gone; others go on."""
    asm.emit("PUSH_EXC_INFO", 0, place)
    asm.emit("LOAD_CONST", constant(asm, rest.catches), place)
    asm.emit("CHECK_EXC_MATCH", 0, place)
    matches = asm.jump("POP_JUMP_FORWARD_IF_TRUE", place)
    emit_reraise(asm, place)
    asm.land(matches, asm.unit)
    if rest.told is not None:
        asm.emit("PUSH_NULL", 0, place)
        asm.emit("LOAD_CONST", constant(asm, rest.told), place)
        asm.emit("COPY", 3, place)  # the exception
        asm.emit("COPY", 6, place)  # what lies below it and the one that was handled before
        asm.emit("LOAD_CONST", constant(asm, asm.code.co_names[arg] if rest.named else None), place)
        asm.emit("PRECALL", 3, place)
        asm.emit("CALL", 3, place)
        asm.emit("POP_TOP", 0, place)
        emit_reraise(asm, place)
        return
    asm.emit("POP_TOP", 0, place)
    asm.emit("POP_EXCEPT", 0, place)
    for _ in range(rest.dropped):
        asm.emit("POP_TOP", 0, place)


def emit_reraise(asm: Any, place: Place) -> None:
    asm.emit("SWAP", 2, place)
    asm.emit("POP_EXCEPT", 0, place)
    asm.emit("RERAISE", 0, place)


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
    "LOAD_ATTR": Finish(0, instead, AttributeError, told=missing, named=True),
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
    "UNARY_NOT": Finish(1, negate),
    "POP_JUMP_FORWARD_IF_FALSE": Finish(1, jump_or_go_on("POP_JUMP_FORWARD_IF_FALSE", False)),
    "POP_JUMP_BACKWARD_IF_FALSE": Finish(1, jump_or_go_on("POP_JUMP_FORWARD_IF_FALSE", False)),
    "POP_JUMP_FORWARD_IF_TRUE": Finish(1, jump_or_go_on("POP_JUMP_FORWARD_IF_TRUE", False)),
    "POP_JUMP_BACKWARD_IF_TRUE": Finish(1, jump_or_go_on("POP_JUMP_FORWARD_IF_TRUE", False)),
    "JUMP_IF_FALSE_OR_POP": Finish(0, jump_or_go_on("POP_JUMP_FORWARD_IF_FALSE", True)),
    "JUMP_IF_TRUE_OR_POP": Finish(0, jump_or_go_on("POP_JUMP_FORWARD_IF_TRUE", True)),
    "GET_ITER": Finish(1, helped(iterator)),
    "FOR_ITER": Finish(0, nothing, StopIteration, 1, True),
    "BEFORE_WITH": Finish(0, nothing),
    # Calls of C functions that pass on what a method answers: frames say which (`Frame.finish`).
    "init": Finish(0, made),
    "new": Finish(0, initialized),
    "len": Finish(0, helped(length)),
    "float": Finish(0, from_pair(PASSED[float])),
    "int": Finish(0, from_pair(PASSED[int])),
    "bool": Finish(0, helped(truth)),
    "iter": Finish(0, helped(iterator)),
    "setattr": Finish(0, nothing_comes),
    "getattr": Finish(0, instead, AttributeError, told=missing_of),
    "getattr or default": Finish(0, instead, AttributeError),
    "hasattr": Finish(0, present, AttributeError),
    "next or default": Finish(0, instead, StopIteration),
}

ask_others._torchdynamo_disable = True  # type: ignore[attr-defined]  # calls methods behind the interpreter's back
