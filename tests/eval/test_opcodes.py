"""The interpreter knows every opcode of this Python."""

from __future__ import annotations

import opcode

from stator.eval import machine  # noqa: F401 - registers the handlers
from stator.eval.opcodes import OPCODES

FOLDED = {"EXTENDED_ARG"}  # part of the instruction behind it


def test_every_opcode_has_a_handler() -> None:
    assert opcode.opmap.keys() - FOLDED <= OPCODES.keys()
