"""The propagation memo: what a call does to metadata, by function, argument metadata, constants and torch state."""

from __future__ import annotations

from typing import Any

from stator.tensors.plan import Plan

LIMIT = 20_000


class Memo:
    """A bounded table of plans, kept for the whole process; it holds values only, never a tensor."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.plans: dict[Any, Plan] = {}
        self.limit = limit
        self.misses = 0

    def add(self, key: Any, plan: Plan) -> None:
        """Remembers a plan; a full table starts again from nothing."""
        self.misses += 1
        if len(self.plans) >= self.limit:
            self.plans.clear()
        self.plans[key] = plan

    def clear(self) -> None:
        """Forgets everything."""
        self.plans.clear()
        self.misses = 0


memo = Memo()
