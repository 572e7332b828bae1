"""Instructions for captures with lazy values: what an instruction looks at enters first, the rest stays outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stator.code.decode import Handler
from stator.code.windows311 import WINDOWS
from stator.frame import UNBOUND, Frame
from stator.world.lazy import Lazy

Positions = Callable[[int], tuple[int, ...]]


def both_ends(arg: int) -> tuple[int, ...]:
    return 1, arg + 1


# Instructions that only move values, or whose operands are never lazy.
MOVING = frozenset({
    "NOP", "RESUME", "CACHE", "PRECALL", "KW_NAMES", "POP_TOP", "PUSH_NULL", "COPY", "SWAP", "LOAD_CONST", "LOAD_FAST",
    "LOAD_CLOSURE", "STORE_FAST", "DELETE_FAST", "MAKE_CELL", "COPY_FREE_VARS", "JUMP_FORWARD", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_GENERATOR",
})  # fmt: skip

# Instructions outside of the table of windows, or that look at some places of theirs only: depths from the top.
PLACES: dict[str, Positions] = {
    **dict.fromkeys(("LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE"), both_ends),
    "DICT_MERGE": lambda arg: (1, arg + 1, arg + 3),  # messages name the function
    "CHECK_EG_MATCH": lambda arg: (1, 2),
    "MAP_ADD": lambda arg: (1, 2, arg + 2),
    "WITH_EXCEPT_START": lambda arg: (1, 4),
    "PUSH_EXC_INFO": lambda arg: (1,),
    "POP_EXCEPT": lambda arg: (1,),
    "RERAISE": lambda arg: (1, arg + 1),
    "YIELD_VALUE": lambda arg: (1,),
    "END_ASYNC_FOR": lambda arg: (1, 2),
    "ASYNC_GEN_WRAP": lambda arg: (1,),
}


def careful(name: str, number: int, handler: Handler) -> Handler:
    if name in ("STORE_FAST", "DELETE_FAST"):
        return letting_go(handler)
    if name == "POP_TOP":
        return dropping(handler)
    if name in MOVING:
        return handler
    if name == "RETURN_VALUE":
        return returning(handler)
    places = places_of(name, number)
    if name == "CALL":
        return calling(handler, number)
    return entering(handler, places, name in WINDOWS) if places else handler


def places_of(name: str, number: int) -> tuple[int, ...]:
    """The depths on the stack that an instruction looks at."""
    return PLACES[name](number) if name in PLACES else tuple(range(1, WINDOWS[name](number) + 1))


def entering(handler: Handler, places: tuple[int, ...], may_break: bool = True) -> Handler:
    def enter_operands(f: Frame, arg: Any) -> int | None:
        world = f.world
        if world.perishable:
            world.notice_perished(f)
        if world.watched_ends:
            world.look_out(f)
        if may_break and world.departed and f.direct:
            world.let_die()
        stack = f.stack
        for depth in places:
            value = stack[-depth]
            if type(value) is Lazy:
                stack[-depth] = value.force(world)
        return handler(f, arg)

    return enter_operands


def letting_go(handler: Handler) -> Handler:
    """A value that came over the break lives until the next one: that is at once if its end runs code."""

    def let_go(f: Frame, slot: Any) -> int | None:
        value = f.locals[slot]
        jump = handler(f, slot)
        if value is not UNBOUND:
            f.world.leaves_variable(f, value)
        return jump

    return let_go


def dropping(handler: Handler) -> Handler:
    """The same for a value on the stack, as the iterator of a loop that is left."""

    def drop(f: Frame, arg: Any) -> int | None:
        value = f.stack[-1]
        jump = handler(f, arg)
        f.world.leaves_variable(f, value)
        return jump

    return drop


def calling(handler: Handler, count: int) -> Handler:
    """A call without receiver: the function is called, and nothing else."""
    enter_all = entering(handler, tuple(range(1, count + 3)))

    def enter_called(f: Frame, arg: Any) -> int | None:
        function = f.stack[-count - 1]
        if type(function) is Lazy and f.stack[-count - 2] is UNBOUND:
            f.stack[-count - 1] = function.called(f.world)
        return enter_all(f, arg)

    return enter_called


def returning(handler: Handler) -> Handler:
    """The result may stay lazy where the interpreter or the entry function takes it."""

    def leave(f: Frame, arg: Any) -> int | None:
        value = f.stack[-1]
        if type(value) is Lazy and not f.passes:
            f.stack[-1] = value.force(f.world)
        f.world.leaves_frame(f)
        return handler(f, arg)

    return leave
