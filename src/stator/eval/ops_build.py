"""Building and taking apart containers, formatting, matching."""

from __future__ import annotations

from typing import Any

from stator.code.messages import message_call
from stator.code.micro import opcode_function
from stator.eval.opcodes import OPCODES, micro, op, run_micro
from stator.frame import Frame, native


def take(f: Frame, count: int) -> list[Any]:
    """Pop `count` values, lowest first."""
    if not count:
        return []
    values = f.stack[-count:]
    del f.stack[-count:]
    return values


@op("BUILD_TUPLE")
def build_tuple(f: Frame, count: int) -> None:
    f.stack.append(tuple(take(f, count)))


@op("BUILD_LIST")
def build_list(f: Frame, count: int) -> None:
    f.stack.append(take(f, count))


@op("LIST_TO_TUPLE")
def list_to_tuple(f: Frame, arg: Any) -> None:
    f.stack[-1] = tuple(f.stack[-1])


@op("BUILD_SLICE")
def build_slice(f: Frame, count: int) -> None:
    f.stack.append(slice(*take(f, count)))


@op("BUILD_STRING")
def build_string(f: Frame, count: int) -> None:
    parts = take(f, count)
    plain = f.world.texts.isdisjoint(map(type, parts))
    f.stack.append("".join(parts) if plain else f.world.joined(parts))


@op("LIST_APPEND")
def list_append(f: Frame, depth: int) -> None:
    value = f.stack.pop()
    list.append(f.stack[-depth], value)


@op("SET_ADD")
def set_add(f: Frame, depth: int) -> None:
    value = f.stack.pop()
    native(f, set.add, f.stack[-depth], value)


@op("MAP_ADD")
def map_add(f: Frame, depth: int) -> None:
    key, value = take(f, 2)
    native(f, dict.__setitem__, f.stack[-depth], key, value)


def merging(name: str, extra: int) -> None:
    """`container OP= iterable` on a container deeper in the stack; with the callee below it for error messages."""

    @op(name)
    def handler(f: Frame, depth: int) -> None:
        update = f.stack.pop()
        container = f.stack[-depth]
        below = [f.stack[-depth - extra]] if extra else []
        update = f.world.whole(update)
        f.stack.extend([*below, *[None] * (extra - 1), container, update])
        function = opcode_function(name, 1, 2 + extra, 1 + extra)
        run_micro(f, function, 2 + extra)


merging("LIST_EXTEND", 0)
merging("SET_UPDATE", 0)
merging("DICT_UPDATE", 0)
merging("DICT_MERGE", 2)

micro("BUILD_SET", lambda n: n, lambda n: 1)
micro("BUILD_MAP", lambda n: 2 * n, lambda n: 1)
micro("BUILD_CONST_KEY_MAP", lambda n: n + 1, lambda n: 1)
micro("FORMAT_VALUE", lambda n: 1 + (n >> 2 & 1), lambda n: 1)
_format_value = OPCODES["FORMAT_VALUE"]
micro("GET_LEN", lambda n: 1, lambda n: 2)
micro("MATCH_MAPPING", lambda n: 1, lambda n: 2)
micro("MATCH_SEQUENCE", lambda n: 1, lambda n: 2)
micro("MATCH_KEYS", lambda n: 2, lambda n: 3)
micro("MATCH_CLASS", lambda n: 3, lambda n: 1)
_match_class = OPCODES["MATCH_CLASS"]


@op("MATCH_CLASS")
def match_class(f: Frame, n: int) -> Any:
    """It takes attributes of the subject, and does nothing with them."""
    world = f.world
    before, world.asker_keeps = world.asker_keeps, True
    try:
        return _match_class(f, n)
    finally:
        world.asker_keeps = before


@op("FORMAT_VALUE")
def format_value(f: Frame, arg: int) -> Any:
    """Numbers that vary need not be known in a text that nobody looks at, or not before the graph has run."""
    if arg & 4 and not issubclass(type(f.stack[-1]), str):
        f.stack[-1] = f.stack[-1].decay()  # C looks into the specification
    spec = f.stack[-1] if arg & 4 else ""
    value = f.stack[-2] if arg & 4 else f.stack[-1]
    if type(value) in f.world.formattable:
        text = f.world.formatted(value, arg & 3, spec)
        if text is not NotImplemented:
            f.stack[-2 if arg & 4 else -1 :] = [text]
            return None
    if not arg & 4 and type(f.stack[-1]) in f.world.varying_types:
        between = message_call(f.info, f.lasti)
        if between is not None and len(f.stack) > between + 2:
            function, condition = f.stack[-between - 3], f.stack[-between - 2]
            if condition is True and any(function is check for check in f.world.silent_checks):
                f.stack[-1] = f.world.example(f.stack[-1])
    jump = _format_value(f, arg)
    if type(f.stack[-1]) is str:
        f.world.know_text(f.stack[-1])
    return jump


@op("UNPACK_SEQUENCE")
def unpack_sequence(f: Frame, count: int) -> None:
    value = f.stack[-1]
    if type(value) is tuple and len(value) == count:
        f.stack[-1:] = value[::-1]
        return
    f.stack[-1] = f.world.unpackable(f, value)
    result = run_micro(f, opcode_function("UNPACK_SEQUENCE", count, 1, count), 1)
    f.stack.extend(result if count != 1 else [result])


@op("UNPACK_EX")
def unpack_ex(f: Frame, arg: int) -> None:
    count = (arg & 255) + 1 + (arg >> 8)
    f.stack[-1] = f.world.unpackable(f, f.stack[-1])
    result = run_micro(f, opcode_function("UNPACK_EX", arg, 1, count), 1)
    f.stack.extend(result if count != 1 else [result])
