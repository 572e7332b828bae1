"""`globals()`, `vars(x)`, `x.__dict__`: names of the outside as a dict, read name by name."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from stator._frames import UNBOUND
from stator.frame import Frame, native
from stator.world.hollow import DECLINED, Hollow

if TYPE_CHECKING:
    from stator.world.record import Namespace, Record
    from stator.world.world import World


class HollowNamespace(Hollow):
    """What is read is what the program reads by name elsewhere; anything else takes the whole namespace."""

    methods = frozenset({"get"})
    lasting = False

    def __init__(self, world: World, record: Record, namespace: Namespace) -> None:
        super().__init__(world, record)
        self.namespace = namespace

    def read(self, key: Any) -> Any:
        return self.namespace.get(key) if type(key) is str else DECLINED

    def item(self, f: Frame, key: Any) -> Any:
        value = self.read(key)
        return native(f, operator.getitem, {}, key) if value is UNBOUND else value

    def contains(self, f: Frame, key: Any) -> Any:
        value = self.read(key)
        return DECLINED if value is DECLINED else value is not UNBOUND

    def _get(self, f: Frame, key: Any, default: Any = None) -> Any:
        value = self.read(key)
        return default if value is UNBOUND else value

    def fill(self) -> None:
        self.namespace.expose()


def as_dict(namespace: Namespace) -> dict[Any, Any]:
    """A namespace as a value for a register of the interpreter."""
    world, path = namespace.world, namespace.dict_path()
    if id(namespace.values) in world.hollow:
        return namespace.values
    if namespace.full or id(namespace.real) in world.records or path in world.whole_paths or world.machine is None:
        return namespace.expose()
    record = world.register(namespace.real, path, namespace.values)
    record.hollow = world.hollow[id(namespace.values)] = HollowNamespace(world, record, namespace)
    world.namespaces[id(namespace.values)] = namespace
    world.machine.be_careful()
    return namespace.values
