"""Opcodes while hollow values are about: operands are filled before they are used, except where hollow ones will do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from stator import _frames
from stator.code.decode import Handler
from stator.code.operators import BINARY, COMPARE
from stator.eval.careful import MOVING, places_of
from stator.eval.consumption import taker
from stator.eval.opcodes import OPCODES
from stator.eval.ops_operate import truth
from stator.frame import RETURN, UNBOUND, Frame, Raised, forget_tracebacks, native
from stator.world import iterated
from stator.world.hollow import DECLINED, END, Hollow
from stator.world.hollow_entries import entries, goes_on_with
from stator.world.hollow_keyed import LOOPED

Serve = Callable[[Frame, Any], Any]  # a handler that answers DECLINED where the usual one must do

SERVE: dict[str, Serve] = {}
IDENTITY = frozenset({
    "IS_OP", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE",
})  # fmt: skip


def settling(name: str, number: int) -> Handler:
    """The handler of an instruction while hollow values are about."""
    if name in MOVING or name in IDENTITY:
        return settled(name, ())
    return settled(name, (1,) if name == "RETURN_VALUE" else places_of(name, number))


@cache
def settled(name: str, places: tuple[int, ...]) -> Handler:
    return serving(SERVE[name], OPCODES[name], places) if name in SERVE else filling(OPCODES[name], places)


def filling_locals(handler: Handler) -> Handler:
    """A body that is not bytecode: it reads locals as it likes."""

    def fill_locals(f: Frame, arg: Any) -> int | None:
        for value in f.locals:
            f.world.settled(value)
        return handler(f, arg)

    return fill_locals


def filling(handler: Handler, places: tuple[int, ...]) -> Handler:
    """The usual handler, after filling what it looks at."""

    def fill_operands(f: Frame, arg: Any) -> int | None:
        hollow = f.world.hollow
        if hollow:
            stack = f.stack
            for depth in places:
                if id(stack[-depth]) in hollow:
                    f.world.settled(stack[-depth])
        return handler(f, arg)

    return fill_operands if places else handler


def serving(serve: Serve, handler: Handler, places: tuple[int, ...]) -> Handler:
    """The same, unless hollow values will do."""

    def try_hollow(f: Frame, arg: Any) -> int | None:
        world = f.world
        if world.hollow or world.gone_over:
            answer: int | None = serve(f, arg)
            if answer is not DECLINED:
                return answer
            hollow, stack = world.hollow, f.stack
            for depth in places:
                if id(stack[-depth]) in hollow:
                    world.settled(stack[-depth])
        return handler(f, arg)

    return try_hollow


def careful(*names: str) -> Callable[[Serve], Serve]:
    """Register what serves these opcodes."""

    def register(serve: Serve) -> Serve:
        SERVE.update(dict.fromkeys(names, serve))
        return serve

    return register


# ---- subscripts and operators -------------------------------------------------------------------------------------


@careful("BINARY_SUBSCR")
def binary_subscr(f: Frame, arg: Any) -> Any:
    hollow = f.world.hollow.get(id(f.stack[-2]))
    if hollow is None:
        if (index := f.world.hollow.get(id(f.stack[-1]))) is not None:
            places = f.world.places(f.stack[-2], index)
            f.stack[-1] = f.stack[-1] if places is DECLINED else places
        return DECLINED
    value = hollow.item(f, f.stack[-1])
    if value is DECLINED:
        return DECLINED
    f.stack[-2:] = [value]
    return None


@careful("STORE_SUBSCR")
def store_subscr(f: Frame, arg: Any) -> Any:
    container, key = f.stack[-2:]
    if type(container) in f.world.tensor_types:
        take_number(f, -3, whole=True)
    value = f.world.settled(f.stack[-3])
    if f.world.gone_over:
        iterated.before_key(f.world, container, key, deletes=False)
    hollow = f.world.hollow.get(id(container))
    if hollow is None or hollow.put(f, key, value) is DECLINED:
        return DECLINED
    del f.stack[-3:]
    return None


@careful("DELETE_SUBSCR")
def delete_subscr(f: Frame, arg: Any) -> Any:
    container, key = f.stack[-2:]
    if f.world.gone_over:
        iterated.before_key(f.world, container, key, deletes=True)
    hollow = f.world.hollow.get(id(container))
    if hollow is None or hollow.drop(f, key) is DECLINED:
        return DECLINED
    del f.stack[-2:]
    return None


@careful("LIST_APPEND")
def list_append(f: Frame, depth: int) -> Any:
    return added(f, depth, "append")


@careful("SET_ADD")
def set_add(f: Frame, depth: int) -> Any:
    return added(f, depth, "add")


def added(f: Frame, depth: int, method: str) -> Any:
    """A comprehension that a break came into: what it has made so far is not looked at."""
    value = f.world.settled(f.stack[-1])
    hollow = f.world.hollow.get(id(f.stack[-1 - depth]))
    if hollow is None or hollow.call(f, method, [value]) is DECLINED:
        return DECLINED
    f.stack.pop()
    return None


@careful("MAP_ADD")
def map_add(f: Frame, depth: int) -> Any:
    key, value = f.stack[-2:]
    f.world.settled(value)
    hollow = f.world.hollow.get(id(f.stack[-2 - depth]))
    if hollow is None or hollow.put(f, key, value) is DECLINED:
        return DECLINED
    del f.stack[-2:]
    return None


@careful("CONTAINS_OP")
def contains_op(f: Frame, invert: int) -> Any:
    key, container = f.stack[-2:]
    hollow = f.world.hollow.get(id(container))
    found = DECLINED if hollow is None else hollow.contains(f, key)
    if found is DECLINED:
        return DECLINED
    f.stack[-2:] = [found ^ bool(invert)]
    return None


ARITHMETIC = frozenset(
    getattr(operator, prefix + name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    for prefix in ("", "i")
)


@careful("BINARY_OP")
def binary_op(f: Frame, arg: int) -> Any:
    left, right = f.stack[-2:]
    if BINARY[arg] in ARITHMETIC and not f.world.tensor_types.isdisjoint((type(left), type(right))):
        take_number(f, -1 if type(left) in f.world.tensor_types else -2)
        return DECLINED
    number = f.world.hollow.get(id(left)) or f.world.hollow.get(id(right))
    made = DECLINED if number is None else number.operate(f, BINARY[arg], left, right)
    if made is not DECLINED:
        f.stack[-2:] = [made]
        return None
    if BINARY[arg] is not operator.iadd or id(left) not in f.world.hollow:
        return DECLINED
    f.world.settled(right)
    hollow = f.world.hollow.get(id(left))
    if hollow is None or hollow.add_in_place(f, right) is DECLINED:
        return DECLINED
    f.stack.pop()
    return None


@careful("UNARY_NEGATIVE")
def unary_negative(f: Frame, arg: Any) -> Any:
    number = f.world.hollow.get(id(f.stack[-1]))
    made = DECLINED if number is None else number.negated()
    if made is DECLINED:
        return DECLINED
    f.stack[-1] = made
    return None


@careful("COMPARE_OP")
def compare_op(f: Frame, arg: str) -> Any:
    left, right = f.stack[-2:]
    number = f.world.hollow.get(id(left)) or f.world.hollow.get(id(right))
    made = DECLINED if number is None else number.operate(f, COMPARE[arg], left, right)
    if made is DECLINED:
        return DECLINED
    f.stack[-2:] = [made]
    return None


def take_number(f: Frame, place: int, whole: bool = False) -> None:
    """A hollow number next to a tensor, or given to torch, is the number that torch takes it for; or only an int."""
    hollow = f.world.hollow.get(id(f.stack[place]))
    if hollow is None or (whole and not hollow.is_whole()):
        return
    number = hollow.number()
    if number is not DECLINED:
        f.stack[place] = number


@careful("BUILD_SLICE", "BUILD_TUPLE", "BUILD_LIST")
def build(f: Frame, count: int) -> Any:
    """Bounds and sizes that only torch is given, or that an index is made of, are numbers as others."""
    if count and any(id(value) in f.world.hollow for value in f.stack[-count:]):
        used = taker(f, count)
        indexed = type(used) in f.world.tensor_types or type(used) in (list, tuple)
        if indexed or (used is not UNBOUND and f.world.takes_numbers(used)):
            for place in range(-count, 0):
                take_number(f, place, whole=True)
    return DECLINED


def take_numbers(f: Frame, function: Any, count: int) -> None:
    whole = f.world.takes_whole(function)
    if whole or f.world.takes_numbers(function):
        for place in range(-count, 0):
            take_number(f, place, whole)


# ---- truth --------------------------------------------------------------------------------------------------------


def truth_of(f: Frame) -> bool:
    """bool() of the top of the stack."""
    value = f.stack[-1]
    hollow = f.world.hollow.get(id(value))
    answer = DECLINED if hollow is None else hollow.truth()
    return truth(f, f.world.settled(value)) if answer is DECLINED else answer


@careful("UNARY_NOT")
def unary_not(f: Frame, arg: Any) -> None:
    answer = f.world.negated(f.stack[-1])
    f.stack[-1] = not truth_of(f) if answer is NotImplemented else answer


@careful(
    "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE"
)
def pop_jump(f: Frame, target: int) -> Any:
    if type(f.stack[-1]) in f.world.conditions:
        return DECLINED
    f.stack[-1] = truth_of(f)
    return DECLINED


@careful("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(f: Frame, target: int) -> int | None:
    if not truth_of(f):
        return target
    del f.stack[-1]
    return None


@careful("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(f: Frame, target: int) -> int | None:
    if truth_of(f):
        return target
    del f.stack[-1]
    return None


# ---- iteration ----------------------------------------------------------------------------------------------------


@careful("GET_ITER")
def get_iter(f: Frame, arg: Any) -> Any:
    if is_iterator(f.world, f.stack[-1]):
        return None
    made = entries(f.world.hollow.get(id(f.stack[-1])), "keys")
    if made is DECLINED:
        return DECLINED
    f.world.begins_loop(f, f.stack[-1], made)
    f.stack[-1] = made
    return None


def is_iterator(world: Any, value: Any) -> bool:
    return id(value) in world.hollow and hasattr(type(value), "__next__")


@careful("FOR_ITER")
def for_iter(f: Frame, target: int) -> Any:
    if not is_iterator(f.world, f.stack[-1]):
        return DECLINED
    f.world.begins_round(f)
    f.tail = f.lasti
    f.finish, f.kept = None, ()
    try:
        value = f.world.hollow[id(f.stack[-1])].advance(f, lazily=f.world.lazy)
    except Raised:
        if not isinstance(f.error, StopIteration):
            raise
        forget_tracebacks()
        f.error, value = None, END
    if value is END:
        del f.stack[-1]
        return target
    f.stack.append(value)
    return None


@careful("SEND")
def send(f: Frame, target: int) -> Any:
    """`yield from` an iterator."""
    iterator = f.stack[-2]
    if not is_iterator(f.world, iterator) or f.stack[-1] is not None:
        return DECLINED
    f.tail = -1
    value = f.world.hollow[id(iterator)].advance(f)
    f.stack[-1] = None if value is END else value
    if value is not END:
        return None
    del f.stack[-2]
    return target


# ---- attributes and names -----------------------------------------------------------------------------------------


@careful("LOAD_METHOD")
def load_method(f: Frame, name: str) -> Any:
    receiver = f.stack[-1]
    hollow = f.world.hollow.get(id(receiver))
    if hollow is None or name not in hollow.methods:
        return DECLINED
    f.stack[-1:] = [UNBOUND, getattr(receiver, name)]
    return None


@careful("STORE_ATTR")
def store_attr(f: Frame, name: str) -> Any:
    """An outside instance keeps the value in its overlay, which is as good as a register."""
    value, target = f.stack[-2:]
    if id(value) not in f.world.hollow or not goes_to_overlay(f.world, target, name):
        return DECLINED
    return OPCODES["STORE_ATTR"](f, name)


def goes_to_overlay(world: Any, target: Any, name: str) -> bool:
    cls = type(target)
    record = world.records.get(id(target))
    return (
        record is not None
        and record.obj is target
        and _frames.is_python_class(cls)
        and cls.__dictoffset__ != 0
        and world.type_info(cls).generic_write
        and _frames.type_lookup(cls, name) is UNBOUND
    )


@careful("STORE_DEREF")
def store_deref(f: Frame, slot: int) -> Any:
    if not f.world.cells_seen:
        return OPCODES["STORE_DEREF"](f, slot)
    return DECLINED


@careful("MAKE_CELL")
def make_cell(f: Frame, slot: int) -> Any:
    if f.world.cells_seen:
        f.world.settled(f.locals[slot])
    return OPCODES["MAKE_CELL"](f, slot)


@careful("RETURN_VALUE")
def return_value(f: Frame, arg: Any) -> Any:
    if not f.passes:
        return DECLINED
    f.result = f.stack.pop()
    return RETURN


# ---- calls --------------------------------------------------------------------------------------------------------


@careful("CALL")
def call(f: Frame, count: int) -> Any:
    stack = f.stack
    base = len(stack) - count - 2
    at = base + 1 if stack[base] is UNBOUND else base
    function, args = stack[at], stack[at + 1 :]
    names = f.kwnames
    if f.world.gone_over:
        iterated.before_call(f.world, function)
    if not names or names == NAMED.get(id(function)):
        result = served_call(f, function, args[: len(args) - len(names)], *args[len(args) - len(names) :])
        if result is not DECLINED:
            f.kwnames = ()
            stack[base:] = [result]
            return None
    hollow = f.world.hollow
    for arg in args:
        if id(arg) in hollow:
            take_numbers(f, function, len(args))
            break
    if passes(f.world, function):
        return OPCODES["CALL"](f, count)
    if type(function) is BuiltinFunctionType:
        f.world.settled(function.__self__)
    return DECLINED


def served_call(f: Frame, function: Any, args: list[Any], *named: Any) -> Any:
    """The result of a call that hollow values are enough for; `named`: the keywords of `NAMED`."""
    world = f.world
    if type(function) is BuiltinFunctionType and id(function.__self__) in world.hollow:
        for arg in args:
            world.settled(arg)
        hollow = world.hollow.get(id(function.__self__))
        if function.__name__ in LOOPED and goes_on_with(f, "GET_ITER") and not args:
            made = entries(hollow, function.__name__)
            world.begins_loop(f, function.__self__, made)
            return made
        return DECLINED if hollow is None else hollow.call(f, function.__name__, args)
    row = SERVED.get(id(function))
    hollow = world.hollow.get(id(args[0])) if args else None
    return DECLINED if hollow is None or row is None else row(f, hollow, args, *named)


def serve_len(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    return hollow.length(f) if len(args) == 1 else DECLINED


def serve_bool(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    return hollow.truth() if len(args) == 1 else DECLINED


def serve_iter(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    return args[0] if len(args) == 1 and is_iterator(f.world, args[0]) else DECLINED


def serve_next(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    if len(args) > 2 or not is_iterator(f.world, args[0]):
        return DECLINED
    value = hollow.advance(f)
    if value is not END:
        return value
    return args[1] if len(args) == 2 else native(f, next, iter(()))


def serve_type(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    return type(args[0]) if len(args) == 1 else DECLINED


def serve_isinstance(f: Frame, hollow: Hollow, args: list[Any]) -> Any:
    kinds = args[1] if len(args) == 2 and type(args[1]) is tuple else args[1:]
    return isinstance(args[0], tuple(kinds)) if kinds and all(type(kind) is type for kind in kinds) else DECLINED


def serve_fold(function: Any) -> Callable[[Frame, Hollow, list[Any]], Any]:
    return lambda f, hollow, args: hollow.fold(f, function) if len(args) == 1 else DECLINED


NAMED: dict[int, tuple[str, ...]] = {}  # by address of a function: keywords that its row takes, all of them or none
SERVED: dict[int, Callable[..., Any]] = {
    **{id(function): serve_fold(function) for function in (sum, min, max)},
    id(len): serve_len,
    id(bool): serve_bool,
    id(iter): serve_iter,
    id(next): serve_next,
    id(type): serve_type,
    id(isinstance): serve_isinstance,
}


def passes(world: Any, function: Any) -> bool:
    """Whether arguments only go on to frames; `call_python` fills what is packed on the way."""
    if type(function) is MethodType:
        function = function.__func__
    if type(function) is FunctionType:
        return world.known_caller(function) in world.passing
    method = _frames.type_lookup(type(function), "__call__")
    return type(method) is FunctionType and world.known_caller(function) in world.passing and passes(world, method)
