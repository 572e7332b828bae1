"""Python 3.11: how the argument of each opcode is resolved once per code object."""

from __future__ import annotations

import opcode
from typing import Any

CACHES: dict[str, int] = {opcode.opname[i]: n for i, n in enumerate(opcode._inline_cache_entries) if n}  # type: ignore[attr-defined]

BINARY_OPERATORS: list[str] = [sign for _, sign in opcode._nb_ops]  # type: ignore[attr-defined]


def plain(info: Any, arg: int, following: int) -> Any:
    return arg


def constant(info: Any, arg: int, following: int) -> Any:
    return info.code.co_consts[arg]


def name(info: Any, arg: int, following: int) -> Any:
    return info.code.co_names[arg]


def global_name(info: Any, arg: int, following: int) -> Any:
    return info.code.co_names[arg >> 1], arg & 1


def forward(info: Any, arg: int, following: int) -> Any:
    return following + arg


def backward(info: Any, arg: int, following: int) -> Any:
    return following - arg


def comparison(info: Any, arg: int, following: int) -> Any:
    return opcode.cmp_op[arg]


ARGUMENTS = {
    "LOAD_CONST": constant,
    "KW_NAMES": constant,
    "COMPARE_OP": comparison,
    "LOAD_GLOBAL": global_name,
    **dict.fromkeys(
        [
            "LOAD_NAME",
            "STORE_NAME",
            "DELETE_NAME",
            "STORE_GLOBAL",
            "DELETE_GLOBAL",
            "LOAD_ATTR",
            "STORE_ATTR",
            "DELETE_ATTR",
            "LOAD_METHOD",
            "IMPORT_NAME",
            "IMPORT_FROM",
        ],
        name,
    ),
    **dict.fromkeys(
        [
            "JUMP_FORWARD",
            "FOR_ITER",
            "SEND",
            "JUMP_IF_FALSE_OR_POP",
            "JUMP_IF_TRUE_OR_POP",
            "POP_JUMP_FORWARD_IF_FALSE",
            "POP_JUMP_FORWARD_IF_TRUE",
            "POP_JUMP_FORWARD_IF_NONE",
            "POP_JUMP_FORWARD_IF_NOT_NONE",
        ],
        forward,
    ),
    **dict.fromkeys(
        [
            "JUMP_BACKWARD",
            "JUMP_BACKWARD_NO_INTERRUPT",
            "POP_JUMP_BACKWARD_IF_FALSE",
            "POP_JUMP_BACKWARD_IF_TRUE",
            "POP_JUMP_BACKWARD_IF_NONE",
            "POP_JUMP_BACKWARD_IF_NOT_NONE",
        ],
        backward,
    ),
}
