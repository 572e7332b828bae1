"""Which instructions a frame may come to again."""

from __future__ import annotations

from stator.code.decode import CodeInfo


def is_in_loop(info: CodeInfo, unit: int) -> bool:
    """Whether a jump backwards leads from behind an instruction to one before it."""
    return any("JUMP_BACKWARD" in name and info.ops[at][1] <= unit <= at for at, name in enumerate(info.names))
