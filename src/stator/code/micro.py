"""Single opcodes as functions: CPython itself executes them on values from the interpreter's stack."""

from __future__ import annotations

import builtins
import dis
from functools import cache
from types import CodeType, FunctionType

from stator import _frames
from stator.code import tables311 as tables


def assemble(*instructions: tuple[str, int]) -> bytes:
    """Code bytes of the instructions with the caches each of them needs."""
    raw = bytearray()
    for name, arg in instructions:
        if arg > 255:
            raw += bytes([dis.opmap["EXTENDED_ARG"], arg >> 8])
        raw += bytes([dis.opmap[name], arg & 255]) + bytes(2 * tables.CACHES.get(name, 0))
    return bytes(raw)


@cache
def opcode_function(name: str, arg: int, inputs: int, outputs: int) -> FunctionType:
    """f(*stack_values) -> tuple of what the opcode leaves in their place (or the value itself if it is one)."""
    template = eval("lambda {}: None".format(", ".join(f"v{i}" for i in range(inputs))))
    code: CodeType = template.__code__
    tail = [("RETURN_VALUE", 0)] if outputs == 1 else [("BUILD_TUPLE", outputs), ("RETURN_VALUE", 0)]
    body = assemble(("RESUME", 0), *(("LOAD_FAST", i) for i in range(inputs)), (name, arg), *tail)
    code = code.replace(
        co_code=body, co_stacksize=inputs + outputs + 4, co_name=name.lower(), co_filename="<stator opcode>"
    )
    _frames.mark_code(code, _frames.TRANSPARENT)
    return FunctionType(code, {"__builtins__": builtins}, name.lower())  # C code that imports looks for them there
