"""Which calls of C functions are spelt out: those below which a capture has found a break."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from types import CodeType
from weakref import WeakKeyDictionary

from stator.code.decode import CodeInfo
from stator.code.resume import SUSPENDS
from stator.eval.machine import Place
from stator.native.spelled import FILE
from stator.runtime.continuation import origin_of, resumed_from


class Spelling:
    """Instructions by code object, of one `compile()` call."""

    def __init__(self) -> None:
        self.units: WeakKeyDictionary[CodeType, set[int]] = WeakKeyDictionary()

    def add(self, place: Place | None, below: Sequence[Place]) -> bool:
        """Notes the place of a break; whether it is of use to capture again, with the call there spelt out.

        Not if the break was in a generator below the call, where nothing goes on.
        """
        if place is None or place.code.co_filename == FILE or not place.twins:
            return False
        inner = list(takewhile(lambda one: one is not place, below))
        if any(one.code.co_flags & SUSPENDS for one in inner) or not (inner or place.twins[0].compares):
            return False
        code, unit = origin_of(place.code, place.unit)
        known = self.units.setdefault(code, set())
        if unit in known:
            return False
        known.add(unit)
        return True

    def of(self, info: CodeInfo) -> Iterable[int]:
        """The instructions of a code object, which may be one of a resumed frame."""
        if not self.units:
            return ()
        known = resumed_from(info.code)
        return [unit + info.prefix for unit in self.units.get(info.code if known is None else known.code, ())]
