"""The tree of values that a guard program visits, built from paths and checks."""

from __future__ import annotations

import types
from collections import OrderedDict
from typing import Any

from stator._entry import OPCODES, mortal
from stator.guards.check import HOOK_DICTS, NO_HOOKS, PRESENT, SAME, TYPE_IS, Check
from stator.guards.mortal import alive
from stator.guards.path import ARG, CONST, IMMUTABLE_TYPE, ITEM, ITERAT, KEYAT, PART, SEQ, UPCOMING, Path

Guard = tuple[Check, Any, int]  # check, key, row

MANAGED_DICT = 1 << 4  # Py_TPFLAGS_MANAGED_DICT

_INDEXED = frozenset((ARG, ITEM, KEYAT, ITERAT, SEQ, UPCOMING))
_HIDDEN = {"FIELDS": OPCODES["INSTANCE"], "CLASSFIELDS": OPCODES["CLASSFIELDS"], "ORDER": OPCODES["ORDER"]}


class Node:
    """One value of the program: its slot, how to load it, what to check, what lies below."""

    __slots__ = (
        "arg",
        "aside",
        "holders",
        "hooks",
        "key",
        "kind",
        "lasting",
        "opcode",
        "passing",
        "pinned",
        "row",
        "slot",
        "source",
        "steps",
    )

    lasting: list[Guard] | tuple[()]
    passing: list[Guard] | tuple[()]
    steps: list[Node] | tuple[()]
    holders: dict[str, Holder] | None
    hooks: tuple[int, list[Node]] | None

    def __init__(self, opcode: int, source: Node | None, key: Any, row: int) -> None:
        self.slot = -1
        self.opcode = opcode
        self.source = source
        self.aside: Node | None = None  # the instance dict, for attributes
        self.arg = 0
        self.key = key
        self.row = row
        self.kind: type = object  # the exact type the checks promise
        self.lasting = ()  # checks that hold for as long as the object is the same one
        self.passing = ()  # checks that do not
        self.steps = ()  # reached by anything but a look-up in a dict
        self.holders = None
        self.hooks = None
        self.pinned = False  # known for as long as the dict above is unchanged

    def is_harmless(self) -> bool:
        """True if releasing the value runs nobody's code, or none before the program has expired."""
        return any(check.pinned == "OBJECT" and dies_quietly(key) for check, key, _ in self.lasting)

    def is_alive(self) -> bool:
        """True if there is something to look at although the object is the same one."""
        return bool(self.passing or self.steps or self.holders or self.hooks)


def dies_quietly(key: Any) -> bool:
    """True if the program keeps the object alive, or its death is known before anything else happens."""
    return isinstance(key, type | types.FunctionType | types.ModuleType | types.CodeType) or not mortal(key)


class Holder:
    """Where items are looked up: a dict, the instance dict, the class dict, or the order of elements."""

    __slots__ = ("guards", "items", "node", "order")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.items: list[Node] = []
        self.guards: list[Guard] = []
        self.order: Holder | None = None  # keys by position, as stable as the dict


def keeps_type(cls: type) -> bool:
    """True if an instance of exactly this class can never get another class."""
    return bool(cls.__flags__ & IMMUTABLE_TYPE) and not issubclass(cls, types.ModuleType)


def may_lag(kind: type) -> bool:
    """True if an assignment to an attribute may release the old value before the tag of the dict changes.

    CPython 3.11 does so when it has specialised the assignment, which takes a class with the usual `__setattr__`.
    """
    usual: Any = object.__setattr__
    return kind is object or (bool(kind.__flags__ & MANAGED_DICT) and kind.__setattr__ is usual)


class Tree:
    """The nodes for all paths of one guard set."""

    def __init__(self) -> None:
        self.nodes: dict[Path, Node] = {}
        self.args: list[Node] = []
        self.consts: list[Node] = []
        self.const_values: list[Any] = []
        self.same: list[tuple[Node, Node, int]] = []
        self.unsettled: list[Node] = []

    def node(self, path: Path, row: int) -> Node:
        """The node of a path; it and its parents are made for the row that needs them first."""
        found = self.nodes.get(path)
        if found is not None:
            return found
        missing = [path]
        while (parent := missing[-1].parent) is not None and parent not in self.nodes:
            missing.append(parent)
        for step in reversed(missing):
            found = self.nodes[step] = self._make(step, row)
        assert found is not None
        return found

    def _make(self, path: Path, row: int) -> Node:
        accessor, key = path.accessor, path.key
        parent = None if path.parent is None else self.nodes[path.parent]
        node = Node(accessor.opcode, parent, key[1] if accessor is PART else key, row)
        if accessor in _INDEXED:
            node.arg, node.key = key, None
        if accessor is CONST:
            node.pinned, node.key = True, None
            self.consts.append(node)
            self.const_values.append(alive(key))
        elif parent is None:
            self.args.append(node)
        elif accessor.through is not None:
            self._hold(parent, accessor.through, node)
        elif parent.steps:
            parent.steps.append(node)
        else:
            parent.steps = [node]
        return node

    def _holder(self, node: Node, through: str) -> Holder:
        if node.holders is None:
            node.holders = {}
        holder = node.holders.get(through)
        if holder is None:
            inner = node if through == "DICT" else Node(_HIDDEN[through], node, None, node.row)
            holder = node.holders[through] = Holder(inner)
        return holder

    def _hold(self, parent: Node, through: str, item: Node) -> None:
        holder = self._holder(parent, through)
        holder.items.append(item)
        if through == "FIELDS":
            item.aside = holder.node
        else:
            item.source = holder.node

    def add(self, path: Path, check: Check, key: Any, row: int) -> None:
        """Attaches one check."""
        node = self.node(path, row)
        if check is SAME:
            self.same.append((node, self.node(key, row), row))
        elif check is PRESENT:
            pass  # to load the value is the check
        elif check is NO_HOOKS:
            node.hooks = row, [Node(OPCODES["ATTR"], node, name, row) for name in HOOK_DICTS]
            for hooks in node.hooks[1]:
                self._hold(node, "FIELDS", hooks)
        elif check.pinned in ("FIELDS", "DICT"):
            self._holder(node, check.pinned).guards.append((check, key, row))
        else:
            self._attach(node, (check, key, row))

    def _attach(self, node: Node, guard: Guard) -> None:
        check, key, _ = guard
        lasts = check.pinned == "OBJECT"
        if check is TYPE_IS:
            node.kind = key
            lasts = keeps_type(key)
        elif check.pinned and not lasts:
            self.unsettled.append(node)
        if lasts:
            node.lasting = [*node.lasting, guard]
        else:
            node.passing = [*node.passing, guard]

    def settle(self) -> None:
        """Moves checks to where the known type of the value lets them be skipped."""
        for node in self.unsettled:
            sized = [guard for guard in node.passing if guard[0].pinned == "SIZE"]
            keyed = [guard for guard in node.passing if guard[0].pinned == "KEYS"]
            if issubclass(node.kind, tuple | frozenset):
                node.lasting = [*node.lasting, *sized]
            elif issubclass(node.kind, OrderedDict):
                # It can be reordered without its tag changing.
                self._holder(node, "DICT").guards.extend(sized)
            elif issubclass(node.kind, dict):
                self._holder(node, "DICT").guards.extend([*sized, *keyed])
            else:
                continue
            moved = [*sized, *keyed] if keeps_order(node.kind) else sized
            node.passing = [guard for guard in node.passing if guard not in moved]
        for node in self.nodes.values():
            if node.holders is not None and "ORDER" in node.holders and keeps_order(node.kind):
                self._holder(node, "DICT").order = node.holders.pop("ORDER")


def keeps_order(kind: type) -> bool:
    """True for dicts whose tag changes whenever the order of their keys does."""
    return issubclass(kind, dict) and not issubclass(kind, OrderedDict)
