"""What the program demands of sizes that the user wants to vary, in the user's words."""

from __future__ import annotations

from typing import Any


def check(symbols: Any) -> None:
    """Raises ConstraintViolation if the program cannot do with what dynamic_shapes says."""
