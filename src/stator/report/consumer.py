"""What the result of one instruction is used for, from the bytecode alone.

The value is followed by its height on the stack: through arithmetic, comparisons and one variable, up to the
instruction that decides what a break there means to the program (a condition, a call, an index, …).
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Callable
from itertools import islice
from types import CodeType
from typing import NamedTuple

STEPS = 400  # instructions looked at before giving up
LONGEST = 60  # characters of an expression that is still shown


class Use(NamedTuple):
    """Where a value ends up: the kind of consumer, its name, its line, and the variable that carried it there."""

    kind: str
    name: str = ""
    line: int = 0
    via: str = ""


class _Step(NamedTuple):
    """One instruction on the way, with the number of values above the one that is followed."""

    code: CodeType
    instruction: dis.Instruction
    above: int


def consumer(code: CodeType, offset: int) -> Use | None:
    """What consumes the result of the instruction at a byte offset; None when that cannot be seen."""
    instructions = {each.offset: each for each in dis.get_instructions(code)}
    start = instructions.get(offset)
    if start is None or start.opname.startswith(("STORE_", "DELETE_", "RESUME")):
        return None
    if start.opname in _CONDITIONS or start.opname in ("GET_ITER", "FORMAT_VALUE"):
        return _CONSUMERS[start.opname](_Step(code, start, 0))
    return _follow(code, instructions, offset)


def _follow(code: CodeType, instructions: dict[int, dis.Instruction], offset: int) -> Use | None:
    """Follows the value on top of the stack after the instruction at `offset`."""
    above, via = 0, ""
    passed: set[str] = set()
    place = instructions.get(offset)
    for _ in range(STEPS):
        place = _next(instructions, place) if place is not None else None
        if place is None:
            return None
        name = place.opname
        if name in _MOVES:
            above = _MOVES[name](above, place.arg or 0)
            continue
        pops = _POPS.get(name)
        if pops is None:
            return None
        count = pops(place.arg or 0)
        if count <= above:
            above += dis.stack_effect(place.opcode, place.arg, jump=False)
            continue
        step = _Step(code, place, above)
        if name in _STORES and not via:
            loaded = _first_load(instructions, place)
            if loaded is None:
                return Use(_refined("store", passed), str(place.argval), _line(place))
            via, above, place = str(place.argval), 0, loaded
            continue
        use = _CONSUMERS[name](step) if name in _CONSUMERS else None
        if use is not None and not (use.kind == "call" and use.name in _PASSED_CALLS):
            return use._replace(kind=_refined(use.kind, passed), via=via)
        if use is None and name not in _PASSED:
            return None
        passed.add(name)
        above = 0
    return None


def _refined(kind: str, passed: set[str]) -> str:
    """The kind of a consumer, given what the value went through before."""
    if kind == "index" and "BUILD_SLICE" in passed:
        return "slice"
    return "arithmetic" if kind in _KEEPING and "BINARY_OP" in passed else kind


def _next(instructions: dict[int, dis.Instruction], place: dis.Instruction) -> dis.Instruction | None:
    """The instruction that runs next when no condition jumps."""
    if place.opname in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"):
        return instructions.get(place.argval)
    offset = place.offset + 2
    while offset not in instructions:  # inline caches
        offset += 2
        if offset > place.offset + 40:
            return None
    return instructions[offset]


def _first_load(instructions: dict[int, dis.Instruction], stored: dis.Instruction) -> dis.Instruction | None:
    """The first instruction after a store, in the order of the code, that reads the variable."""
    load = stored.opname.replace("STORE_", "LOAD_")
    for offset in sorted(offset for offset in instructions if offset > stored.offset):
        place = instructions[offset]
        if place.argval == stored.argval and place.opname in (load, stored.opname):
            return place if place.opname == load else None
    return None


def _line(place: dis.Instruction) -> int:
    return (place.positions.lineno if place.positions else None) or 0


# ---- kinds of consumers -------------------------------------------------------------------------


def _condition(step: _Step) -> Use:
    """`assert`, `while`, `case` or `if`: by what the jump leads to, whether the test is repeated at the end of a loop,
    and what stands before it."""
    place = step.instruction
    if _is_case(step.code, place):
        return Use("case", line=_line(place))
    all_of_them = list(dis.get_instructions(step.code))
    following = next((each for each in all_of_them if each.offset > place.offset), None)
    if following is not None and following.opname == "LOAD_ASSERTION_ERROR":
        return Use("assert", line=_line(place))
    again = any(
        each.opname.startswith("POP_JUMP_BACKWARD") and each.positions == place.positions for each in all_of_them
    )
    in_comprehension = step.code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
    return Use("while" if again and not in_comprehension else "if", line=_line(place))


def _is_case(code: CodeType, place: dis.Instruction) -> bool:
    """Whether an instruction is part of a `case`: of the pattern, or of the guard, which has the same place."""
    line, _, column, _ = _span(place)
    before = linecache.getline(code.co_filename, line).encode()[:column].split() if line is not None else []
    return before[:1] == [b"case"]


def _call(step: _Step) -> Use:
    return Use("call", _callee(step.code, step.instruction), _line(step.instruction))


def _callee(code: CodeType, place: dis.Instruction) -> str:
    """The text of what is called, from the source."""
    try:
        tree = ast.parse(expression(code.co_filename, *_span(place)), mode="eval").body
    except SyntaxError:
        return ""
    text = ast.unparse(tree.func) if isinstance(tree, ast.Call) else ""
    return text if len(text) <= LONGEST else ""


def _subscript(step: _Step) -> Use:
    return Use("index" if step.above == 0 else "subscripted", line=_line(step.instruction))


def _store_item(step: _Step) -> Use:
    return Use("store-item" if step.above == 2 else "index", line=_line(step.instruction))


def _named(kind: str) -> Callable[[_Step], Use]:
    return lambda step: Use(kind, str(step.instruction.argval), _line(step.instruction))


def _plain(kind: str) -> Callable[[_Step], Use]:
    return lambda step: Use(kind, line=_line(step.instruction))


_CONDITIONS = frozenset(name for name in dis.opmap if "JUMP_IF" in name or name.endswith(("_IF_TRUE", "_IF_FALSE")))

_CONSUMERS: dict[str, Callable[[_Step], Use]] = {
    **dict.fromkeys(_CONDITIONS, _condition),
    "JUMP_IF_FALSE_OR_POP": _plain("and"),
    "JUMP_IF_TRUE_OR_POP": _plain("or"),
    "CALL": _call,
    "CALL_FUNCTION_EX": _call,
    "BINARY_SUBSCR": _subscript,
    "STORE_SUBSCR": _store_item,
    "DELETE_SUBSCR": _plain("index"),
    "STORE_ATTR": _named("store-attribute"),
    "STORE_GLOBAL": _named("store-global"),
    "LOAD_ATTR": _named("attribute"),
    "LOAD_METHOD": _named("attribute"),
    "FORMAT_VALUE": _plain("format"),
    "GET_ITER": _plain("for"),
    "UNPACK_SEQUENCE": _plain("unpack"),
    "UNPACK_EX": _plain("unpack"),
    "RETURN_VALUE": _plain("return"),
    "YIELD_VALUE": _plain("yield"),
    "POP_TOP": _plain("nothing"),
    "LIST_APPEND": _plain("container"),
    "SET_ADD": _plain("container"),
    "MAP_ADD": _plain("container"),
    "DICT_MERGE": _plain("container"),
    "RAISE_VARARGS": _plain("raise"),
}

# Instructions whose result is as good as the value: the search goes on with it.
_PASSED = frozenset(
    {"BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "UNARY_NOT", "UNARY_NEGATIVE", "UNARY_POSITIVE",
     "UNARY_INVERT", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE", "LIST_TO_TUPLE", "BUILD_STRING"}
)  # fmt: skip
_PASSED_CALLS = frozenset({"int", "float", "bool", "abs", "max", "min", "round", "math.ceil", "math.floor", "len"})
_KEEPING = frozenset({"return", "store", "nothing"})  # say less about a value than arithmetic does
_STORES = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_NAME"})


def _times(number: int) -> Callable[[int], int]:
    return lambda arg: number


# How many values an instruction takes from the stack, given its argument. What is not listed ends the search.
_POPS: dict[str, Callable[[int], int]] = {
    **{name: _times(1) for name in _CONDITIONS},
    **{name: _times(0) for name in (
        "NOP", "RESUME", "CACHE", "EXTENDED_ARG", "PRECALL", "KW_NAMES", "PUSH_NULL", "LOAD_CONST", "LOAD_FAST",
        "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "LOAD_ASSERTION_ERROR",
        "LOAD_BUILD_CLASS", "DELETE_FAST", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
    )},
    **{name: _times(1) for name in (
        "LOAD_ATTR", "LOAD_METHOD", "STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "POP_TOP",
        "RETURN_VALUE", "YIELD_VALUE", "GET_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "UNARY_NOT", "UNARY_NEGATIVE",
        "UNARY_POSITIVE", "UNARY_INVERT", "LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE",
        "DICT_MERGE", "LIST_TO_TUPLE", "MAKE_FUNCTION",
    )},
    **{name: _times(2) for name in (
        "BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "BINARY_SUBSCR", "STORE_ATTR", "DELETE_SUBSCR", "MAP_ADD",
    )},
    "STORE_SUBSCR": _times(3),
    **{name: lambda arg: arg for name in (
        "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE", "RAISE_VARARGS",
    )},
    "BUILD_MAP": lambda arg: 2 * arg,
    "BUILD_CONST_KEY_MAP": lambda arg: arg + 1,
    "FORMAT_VALUE": lambda arg: 2 if arg & 4 else 1,
    "CALL": lambda arg: arg + 2,
    "CALL_FUNCTION_EX": lambda arg: 3 + (arg & 1),
}  # fmt: skip


def _swapped(above: int, arg: int) -> int:
    return {0: arg - 1, arg - 1: 0}.get(above, above)


# Instructions that move values on the stack: where the followed one is afterwards.
_MOVES: dict[str, Callable[[int, int], int]] = {"SWAP": _swapped, "COPY": lambda above, arg: above + 1}


# ---- source -------------------------------------------------------------------------------------


def _span(place: dis.Instruction) -> tuple[int | None, int | None, int | None, int | None]:
    found = place.positions
    return (found.lineno, found.end_lineno, found.col_offset, found.end_col_offset) if found else (None,) * 4


def expression(file: str, line: int | None, end_line: int | None, col: int | None, end_col: int | None) -> str:
    """The source text of a range, columns in UTF-8 bytes; empty when there is no source."""
    if line is None or end_line is None or col is None or end_col is None:
        return ""
    lines = [text.encode() for text in islice(linecache.getlines(file), line - 1, end_line)]
    if len(lines) != end_line - line + 1:
        return ""
    lines[-1] = lines[-1][:end_col]
    lines[0] = lines[0][col:]
    return b"".join(lines).decode(errors="replace").strip()
