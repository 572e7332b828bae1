"""The functions of Python's operators: by sign, and by the arguments of BINARY_OP and COMPARE_OP."""

from __future__ import annotations

import operator
from typing import Any

from stator.code.tables311 import BINARY_OPERATORS

# The name that the methods are made of, and the sign.
SIGNS = {
    operator.add: ("add", "+"), operator.sub: ("sub", "-"), operator.mul: ("mul", "*"),
    operator.matmul: ("matmul", "@"), operator.truediv: ("truediv", "/"), operator.floordiv: ("floordiv", "//"),
    operator.mod: ("mod", "%"),
    operator.pow: ("pow", "**"), operator.lshift: ("lshift", "<<"), operator.rshift: ("rshift", ">>"),
    operator.and_: ("and", "&"), operator.xor: ("xor", "^"), operator.or_: ("or", "|"),
}  # fmt: skip
_BY_SIGN = {
    **{sign: function for function, (_, sign) in SIGNS.items()},
    **{f"{sign}=": getattr(operator, f"i{name}") for name, sign in SIGNS.values()},
}
BINARY: list[Any] = [_BY_SIGN[sign] for sign in BINARY_OPERATORS]
COMPARE: dict[str, Any] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
