"""Python 3.11: how much of the stack each instruction looks at, for those that can be executed on their own."""

from __future__ import annotations

from collections.abc import Callable

Window = Callable[[int], int]


def fixed(count: int) -> Window:
    return lambda arg: count


def rows(count: int, names: str) -> dict[str, Window]:
    return dict.fromkeys(names.split(), fixed(count))


# name -> stack values (NULLs included) that the instruction pops or peeks at.
# CHECK_EG_MATCH is not here: it also changes which exception is being handled.
WINDOWS: dict[str, Window] = {
    **rows(0, "LOAD_FAST LOAD_CLOSURE LOAD_DEREF LOAD_CLASSDEREF LOAD_GLOBAL LOAD_NAME LOAD_CONST LOAD_BUILD_CLASS"),
    **rows(0, "LOAD_ASSERTION_ERROR SETUP_ANNOTATIONS DELETE_NAME DELETE_GLOBAL DELETE_DEREF"),
    **rows(1, "UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT GET_ITER GET_YIELD_FROM_ITER GET_AITER GET_ANEXT"),
    **rows(1, "GET_AWAITABLE BEFORE_WITH BEFORE_ASYNC_WITH GET_LEN MATCH_MAPPING MATCH_SEQUENCE LIST_TO_TUPLE"),
    **rows(1, "LOAD_ATTR LOAD_METHOD DELETE_ATTR IMPORT_FROM IMPORT_STAR PRINT_EXPR POP_TOP STORE_NAME STORE_GLOBAL"),
    **rows(1, "STORE_DEREF FOR_ITER UNPACK_SEQUENCE UNPACK_EX JUMP_IF_FALSE_OR_POP"),
    **rows(1, "JUMP_IF_TRUE_OR_POP"),
    **rows(1, "POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_NONE"),
    **rows(1, "POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE"),
    **rows(1, "POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE"),
    **rows(2, "BINARY_OP COMPARE_OP CONTAINS_OP IS_OP BINARY_SUBSCR DELETE_SUBSCR STORE_ATTR IMPORT_NAME SEND"),
    **rows(2, "MATCH_KEYS CHECK_EXC_MATCH PREP_RERAISE_STAR"),
    **rows(3, "STORE_SUBSCR MATCH_CLASS"),
    **rows(4, "WITH_EXCEPT_START"),
    "CALL": lambda arg: arg + 2,
    "CALL_FUNCTION_EX": lambda arg: 3 + (arg & 1),
    "MAKE_FUNCTION": lambda arg: 1 + bin(arg & 15).count("1"),
    "FORMAT_VALUE": lambda arg: 2 if arg & 4 else 1,
    "RAISE_VARARGS": lambda arg: arg,
    "BUILD_TUPLE": lambda arg: arg,
    "BUILD_LIST": lambda arg: arg,
    "BUILD_SET": lambda arg: arg,
    "BUILD_STRING": lambda arg: arg,
    "BUILD_SLICE": lambda arg: arg,
    "BUILD_MAP": lambda arg: 2 * arg,
    "BUILD_CONST_KEY_MAP": lambda arg: arg + 1,
    "LIST_APPEND": lambda arg: arg + 1,
    "SET_ADD": lambda arg: arg + 1,
    "LIST_EXTEND": lambda arg: arg + 1,
    "SET_UPDATE": lambda arg: arg + 1,
    "DICT_UPDATE": lambda arg: arg + 1,
    "DICT_MERGE": lambda arg: arg + 3,  # the message of a failure names the function below the dict
    "MAP_ADD": lambda arg: arg + 2,
}

# Instructions without an exit by falling through.
NO_RETURN = frozenset({"RAISE_VARARGS"})

# Instructions that jump, and the form that jumps forward.
JUMPS: dict[str, str] = {
    name: name.replace("BACKWARD", "FORWARD")
    for name in WINDOWS
    if name.startswith(("POP_JUMP", "JUMP_IF")) or name in ("FOR_ITER", "SEND")
}

# Instructions whose NULL on the stack is left out when they are executed on their own: the form that pushes none.
WITHOUT_NULL: dict[str, tuple[str, Callable[[int], int]]] = {
    "LOAD_METHOD": ("LOAD_ATTR", lambda arg: arg),
    "LOAD_GLOBAL": ("LOAD_GLOBAL", lambda arg: arg & ~1),
}


def pushes_null(name: str, arg: int) -> bool:
    """Whether the instruction leaves a NULL below its result."""
    return name == "LOAD_METHOD" or (name == "LOAD_GLOBAL" and bool(arg & 1))


# What a value that is being made may become part of within one expression: containers, indices, arguments.
BUILDING = frozenset({"BUILD_TUPLE", "BUILD_LIST"})
SUBSCRIPTS = frozenset({"BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"})
CALLING = frozenset({"CALL"})
STILL = frozenset({"NOP", "PRECALL", "KW_NAMES", "CACHE"})  # they leave the stack as it is
LOADING = frozenset({"LOAD_ATTR", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_NAME", "PUSH_NULL"})
OPERATING = frozenset({"BINARY_OP", "BUILD_SLICE", "UNARY_NEGATIVE"})
PUSHED: dict[str, Window] = {  # how many values an instruction of an expression leaves on the stack, if not one
    **rows(0, "NOP PRECALL KW_NAMES CACHE STORE_SUBSCR DELETE_SUBSCR"),
    **rows(2, "LOAD_METHOD"),
    "LOAD_GLOBAL": lambda arg: 2 if arg & 1 else 1,
}
EXPRESSION = BUILDING | SUBSCRIPTS | CALLING | STILL | LOADING | OPERATING | {"LOAD_GLOBAL", "LOAD_METHOD"}
