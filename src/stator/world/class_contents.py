"""Classes change their version when an attribute is set and set back; what they contain tells whether they changed."""

from __future__ import annotations

from typing import Any

from stator import _entry, _frames
from stator.guards import path as paths
from stator.guards.check import TYPE_VERSION


class ClassContents:
    """What the guarded classes of one capture contained."""

    def __init__(self) -> None:
        self.versions: dict[int, tuple[type, int]] = {}
        self.bases: dict[int, tuple[type, dict[str, Any]]] = {}

    def note(self, cls: type, version: int) -> None:
        self.versions[id(cls)] = (cls, version)
        for base in cls.__mro__:
            if id(base) not in self.bases and _frames.is_heap_type(base):
                self.bases[id(base)] = (base, dict(_frames.class_dict(base)))

    def refresh(self, guards: Any) -> bool:
        """Guard the versions that unchanged classes have now; whether there was anything to do."""
        changed = False
        for cls, version in list(self.versions.values()):
            now = _entry.type_version(cls)
            if now != version and now and all(self.unchanged(base) for base in cls.__mro__):
                guards.replace(paths.const(cls), TYPE_VERSION, now)
                self.versions[id(cls)] = (cls, now)
                changed = True
        return changed

    def unchanged(self, base: type) -> bool:
        known = self.bases.get(id(base))
        if known is None:
            return not _frames.is_heap_type(base)
        before, now = known[1], _frames.class_dict(base)
        return len(before) == len(now) and all(now.get(name, before) is value for name, value in before.items())
