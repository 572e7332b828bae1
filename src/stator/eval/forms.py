"""What one instruction is executed as, decoded when a frame comes to it."""

from __future__ import annotations

from typing import Any

from stator.code.decode import CodeInfo, Handler, Op, unit_at
from stator.eval.careful import careful
from stator.eval.settling import filling_locals, settling
from stator.frame import Frame

PLAIN, SETTLING, CAREFUL = range(3)  # the last two: while hollow values are about, while lazy ones are


def ops_in(info: CodeInfo, form: int) -> list[Op]:
    """The instructions of a code object in a form, as far as they are decoded; the others decode themselves."""
    ops = info.forms[form]
    if ops is None:
        ops = info.forms[form] = [PENDING] * info.count
    return ops


def op_at(info: CodeInfo, form: int, unit: int) -> Op:
    """One instruction of a code object in a form."""
    ops = ops_in(info, form)
    op = ops[unit]
    if op is PENDING:
        name, number, following = unit_at(info.raw, unit)
        handler, arg, following = info.op(name, number, following)
        if form != PLAIN:
            handler = settling(name, number)
        if form == CAREFUL:
            handler = careful(name, number, handler)
        op = ops[unit] = handler, arg, following
    return op


def replace(info: CodeInfo, body: Handler, forces: bool = False) -> None:
    """Frames of this code answer what a function of the frame does; `forces`: it enters what it looks at itself."""
    plain, filling = [(body, None, 0)] * info.count, [(filling_locals(body), None, 0)] * info.count
    info.forms = [plain, filling, plain if forces else filling]
    info.unprotect()


def decode(frame: Frame, arg: Any) -> int:
    """Stands for an instruction that no frame has come to in this capture."""
    handler, arg, following = frame.world.machine.decoded(frame.info, frame.lasti)
    jump: int | None = handler(frame, arg)
    return following if jump is None else jump


PENDING: Op = (decode, None, 0)
