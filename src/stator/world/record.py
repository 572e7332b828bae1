"""What capture knows about outside objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator._frames import UNBOUND
from stator.guards.check import KEYS, NO_ATTR, NO_KEY
from stator.guards.constant import is_comparable

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World


Names = set[Any]
TEXTS = frozenset({str})


class Record:
    """One outside object: the path to it and the object that stands for it during capture."""

    __slots__ = ("before", "extra", "hollow", "inner", "obj", "path", "probe", "traceback")

    def __init__(self, obj: Any, path: Path, inner: Any) -> None:
        self.obj = obj
        self.path = path
        self.inner = inner
        self.before: Any = None  # contents of a shadow as they were imported
        self.extra: Any = None
        self.probe: Any = None  # an iterator over a shadow: it fails once keys or elements have come or gone
        self.traceback: Any = None  # of an exception, as it was imported
        self.hollow: Any = None  # how a hollow shadow is read and written

    def was_stirred(self) -> bool:
        """Whether keys or elements of an ordered dict or deque have come or gone; asked when the capture is over."""
        if self.probe is not None and type(self.probe) is not bool:
            probe, self.probe = self.probe, False
            try:
                next(probe, None)
            except RuntimeError:
                self.probe = True
        return bool(self.probe)

    def __repr__(self) -> str:
        return f"<Record {self.path} {type(self.obj).__name__}>"


class Namespace:
    """A dict of outside names (instance attributes, globals, module attributes), read and guarded name by name.

    `values` holds what capture sees. Until `expose` it is partial: names are imported when they are read.
    """

    __slots__ = (
        "absent",
        "before",
        "by_attribute",
        "fixed",
        "full",
        "lost",
        "owner",
        "path",
        "real",
        "removed",
        "touched",
        "values",
        "world",
    )  # fmt: skip

    def __init__(self, world: World, real: dict[Any, Any], owner: Any, path: Path, by_attribute: bool) -> None:
        self.world = world
        self.real = real
        self.owner = owner  # the instance, or the dict itself
        self.path = path  # of the owner
        self.by_attribute = by_attribute
        self.values: dict[Any, Any] = {}
        self.before: dict[Any, Any] = {}
        self.absent: Names = set()
        self.touched: dict[Any, Any] = {}  # names written, in first-write order, and where
        self.removed: Names = set()  # names deleted at some time: set again, they come last
        self.full = False
        self.fixed: frozenset[str] = frozenset()  # names that the effects so far depend on
        self.lost: frozenset[str] = frozenset()  # names that calls of the entry function change
        if not TEXTS.issuperset(map(type, real)) and not all(map(is_comparable, real)):
            kind = type(owner).__name__
            raise world.refuse("outside-type", f"attributes of a {kind} among keys with an `__eq__`", type=kind)

    def get(self, name: Any) -> Any:
        value = self.values.get(name, UNBOUND)
        if value is not UNBOUND or self.full or name in self.absent:
            return value
        return self._read(name)

    def _read(self, name: Any) -> Any:
        real = self.real.get(name, UNBOUND)
        world = self.world
        if name in self.lost:
            raise world.refuse("native-effect", f"{name!r} is another one behind a call", function=name)
        if real is UNBOUND:
            self.guard_absent(name)
            self.absent.add(name)
            return UNBOUND
        value = world.light(real, self.path_of(name))
        self.values[name] = self.before[name] = value
        return value

    def guard_absent(self, name: Any) -> None:
        self.world.guards.add(self.path, NO_ATTR if self.by_attribute else NO_KEY, name, self.world.origin())

    def lose(self, name: str) -> None:
        """A call that the entry function makes reads and changes this attribute: as it was before the call began."""
        if self.full or name in self.touched:
            raise self.world.refuse("native-effect", f"{name!r} has changed before a call that needs it", function=name)
        self.values.pop(name, None)
        self.lost |= {name}
        self.fixed |= {name}

    def look_again(self) -> None:
        """Names that were not there have come, from a module that was loaded: that is no effect of the program.

        The guard stays: the program may have gone another way because of it.
        """
        self.absent -= {name for name in self.absent if name in self.real and name not in self.touched}

    def path_of(self, name: Any) -> Path:
        return self.path.attr(name) if self.by_attribute and type(name) is str else self.dict_path().entry(name)

    def dict_path(self) -> Path:
        return self.path.fields() if self.by_attribute else self.path

    def set(self, name: Any, value: Any) -> None:
        if name in self.fixed:
            raise self.world.refuse("native-effect", f"{name!r} changes behind an effect that needs it", function=name)
        if name not in self.touched:
            self.touched[name] = self.world.origin()
        if self.full:
            self.world.settled(value)
        if value is UNBOUND:
            if name not in self.real:
                self.guard_absent(name)
            self.values.pop(name, None)
            self.absent.add(name)
            self.removed.add(name)
        else:
            self.values[name] = value
            self.absent.discard(name)

    def may_be(self, other: dict[Any, Any]) -> bool:
        """Whether a dict has the names that were found here, and none of those that were not."""
        return self.before.keys() <= other.keys() and not any(name in other for name in self.absent - self.removed)

    def expose(self) -> dict[Any, Any]:
        """The whole namespace as a real dict that native code may read and change."""
        if not self.full:
            self.world.guards.add(self.dict_path(), KEYS, tuple(self.real), self.world.origin())
            for name in list(self.real):
                if name not in self.values and name not in self.absent:
                    self._read(name)
            kept = [n for n in self.real if n in self.values and n not in self.removed]
            order = kept + [n for n in self.values if n not in self.real or n in self.removed]
            ordered = [(n, self.world.settled(self.values[n])) for n in order]
            self.values.clear()
            self.values.update(ordered)
            self.full = True
            self.world.register_shadow(self.real, self.dict_path(), self.values)
            self.world.namespaces[id(self.values)] = self
        return self.values

    def changes(self) -> list[tuple[Any, Any]]:
        """(name, new value or UNBOUND): first what stays in its place, then what comes last, in order."""
        if not self.full and not self.touched:
            return []
        names = dict(self.touched)
        if self.full:
            names.update(dict.fromkeys(n for n in self.values if self.before.get(n, UNBOUND) is not self.values[n]))
            names.update(dict.fromkeys(n for n in self.before if n not in self.values))
        moved = self.moved()
        result = []
        for name in names:
            new = self.values.get(name, UNBOUND)
            if name not in self.real or name in moved or (new is not UNBOUND and new is self.before.get(name, UNBOUND)):
                continue
            result.append((name, new))
        for name, new in self.values.items():
            if name in moved:
                result.append((name, UNBOUND))
            if name in moved or name not in self.real:
                result.append((name, new))
        return result

    def moved(self) -> Names:
        """Names of the real dict that were deleted and set again."""
        moved = {name for name in self.removed if name in self.values and name in self.real}
        if self.full:
            position = {name: i for i, name in enumerate(self.real)}
            last = -1
            for name in self.values:
                at = position.get(name, len(position))
                if at < last:
                    moved.add(name)
                last = max(last, at)
        return moved


class ShadowedNamespace(Namespace):
    """The namespace of a dict that had come in as a container before it was used as globals or attributes."""

    __slots__ = ()

    def __init__(self, world: World, record: Record) -> None:
        super().__init__(world, record.obj, record.obj, record.path, by_attribute=False)
        self.values = world.settled(record.inner)
        self.full = True

    def set(self, name: Any, value: Any) -> None:
        self.world.settled(value)
        if value is UNBOUND:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def expose(self) -> dict[Any, Any]:
        return self.values

    def changes(self) -> list[tuple[Any, Any]]:
        """None: they are those of the container."""
        return []


Importer = Callable[["World", Any, "Path"], Any]
