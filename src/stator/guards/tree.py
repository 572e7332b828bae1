"""From paths and checks to the flat instructions of a guard program.

Every dict (or instance dict) in which items are looked up becomes a block

    TAG dict, live     the dict is in the state seen last: what was loaded below is still right, go to live
      load the items, run the checks that hold for as long as the items stay the same objects
    TAGGED dict        remember the state
  live:
      what can change without the dict noticing: tensors, classes of instances, cells, dicts further down
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from stator._entry import OPCODES
from stator.guards.check import HOOK_DICTS, NO_HOOKS, SAME, TYPE_IS, Check
from stator.guards.path import ARG, CONST, IMMUTABLE_TYPE, ITEM, KEYAT, ITERAT, PART, SEQ, Path

Instruction = tuple[int, int, int, int, Any, int]  # opcode, dst, src, arg, key, row
Guard = tuple[Check, Any, int]  # check, key, row

_INDEXED = frozenset((ARG, ITEM, KEYAT, ITERAT, SEQ))
_HIDDEN = {name: OPCODES[name] for name in ("FIELDS", "CLASSFIELDS", "ORDER")}
_TAG, _TAGGED, _ATTR, _HOOKS = (OPCODES[name] for name in ("TAG", "TAGGED", "ATTR", "HOOKS"))
_MANY_FREE = 16  # more loose values than this are not worth comparing one by one


class Node:
    """One value of the program: its slot, how to load it, what to check, what lies below."""

    __slots__ = ("slot", "opcode", "source", "aside", "arg", "key", "row", "guards", "steps", "holders", "hooks", "pinned")

    def __init__(self, opcode: int, source: Node | None, key: Any, row: int) -> None:
        self.slot = -1
        self.opcode = opcode
        self.source = source
        self.aside: Node | None = None  # the instance dict, for attributes
        self.arg = 0
        self.key = key
        self.row = row
        self.guards: list[Guard] = []
        self.steps: list[Node] = []  # reached by anything but a dict look-up
        self.holders: dict[str, Holder] = {}
        self.hooks: tuple[int, list[Node]] | None = None
        self.pinned = False  # known for as long as the dict above is unchanged


class Holder:
    """Where items are looked up: a dict, the instance dict, the class dict, or the order of elements."""

    __slots__ = ("node", "items", "guards", "order")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.items: list[Node] = []
        self.guards: list[Guard] = []
        self.order: Holder | None = None  # keys by position, as stable as the dict


def keeps_type(cls: Any) -> bool:
    """True if an instance of exactly this class can never get another class."""
    return isinstance(cls, type) and bool(cls.__flags__ & IMMUTABLE_TYPE) and not issubclass(cls, types.ModuleType)


def known_type(node: Node) -> type:
    """The exact type the checks promise, `object` if they promise none."""
    for check, key, _ in node.guards:
        if check is TYPE_IS:
            return key  # type: ignore[no-any-return]
    return object


class Tree:
    """The nodes for all paths of one guard set."""

    def __init__(self) -> None:
        self.nodes: dict[Path, Node] = {}
        self.args: list[Node] = []
        self.consts: list[Node] = []
        self.const_values: list[Any] = []
        self.same: list[tuple[Node, Node, int]] = []
        self.slots = 0

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
            self.const_values.append(key)
        elif parent is None:
            self.args.append(node)
        elif accessor.through is None:
            parent.steps.append(node)
        else:
            self._hold(parent, accessor.through, node)
        return node

    def _holder(self, node: Node, through: str) -> Holder:
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
        elif check is NO_HOOKS:
            node.hooks = row, [Node(_ATTR, node, name, row) for name in HOOK_DICTS]
            for hooks in node.hooks[1]:
                self._hold(node, "FIELDS", hooks)
        elif check.pinned == "FIELDS":
            self._holder(node, "FIELDS").guards.append((check, key, row))
        else:
            node.guards.append((check, key, row))

    def settle(self) -> None:
        """Moves what a dict's tag vouches for into its block, and numbers the slots: anchor, constants, all others."""
        self.slots = 1
        for node in self.consts:
            self._number(node)
        work = [*self.consts, *self.args]
        while work:
            node = work.pop()
            if node.slot < 0:
                self._number(node)
            self._settle_dict(node)
            for dicts in node.hooks[1] if node.hooks else ():
                self._number(dicts)
            for holder in node.holders.values():
                if holder.node.slot < 0:
                    self._number(holder.node)
                work.extend(holder.items)
            work.extend(node.steps)

    def _number(self, node: Node) -> None:
        node.slot = self.slots
        self.slots += 1

    def _settle_dict(self, node: Node) -> None:
        kind = known_type(node)
        if not issubclass(kind, dict):
            return
        # An OrderedDict can be reordered without its tag changing.
        vouched = ("DICT",) if issubclass(kind, OrderedDict) else ("DICT", "KEYS")
        moved = [guard for guard in node.guards if guard[0].pinned in vouched]
        if moved:
            self._holder(node, "DICT").guards.extend(moved)
            node.guards = [guard for guard in node.guards if guard[0].pinned not in vouched]
        if "KEYS" in vouched and "ORDER" in node.holders:
            self._holder(node, "DICT").order = node.holders["ORDER"]


class Emitter:
    """Writes the instructions of a settled tree; works from a stack of its own, since paths may be very long."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.code: list[Instruction] = []
        self.work: list[tuple[Callable[[Any], None], Any]] = []

    def run(self) -> list[Instruction]:
        """Constants first, as what holds for them is found out once, then the arguments."""
        anchor = Holder(Node(-1, None, None, 0))
        anchor.node.slot = 0
        anchor.items = self.tree.consts
        self.work = [(self.fresh, node) for node in reversed(self.tree.args)]
        if anchor.items:
            self.work.append((self.block, anchor))
        while self.work:
            step, subject = self.work.pop()
            step(subject)
        for node, other, row in self.tree.same:
            self.code.append((SAME.opcode, 0, node.slot, other.slot, None, row))
        return self.code

    def load(self, node: Node) -> None:
        """Fills the node's slot; a constant's is filled already."""
        if node.opcode >= 0:
            source = 0 if node.source is None else node.source.slot
            arg = node.arg if node.aside is None else node.aside.slot
            self.code.append((node.opcode, node.slot, source, arg, node.key, node.row))

    def checks(self, node: Node, lasting: bool) -> None:
        """The checks whose outcome lasts as long as the object does, or the others."""
        for check, key, row in node.guards:
            if lasting == (check.pinned == "OBJECT" or (check is TYPE_IS and keeps_type(key))):
                self.code.append((check.opcode, 0, node.slot, 0, key, row))

    def guards(self, node: Node, fields: Holder) -> None:
        """The checks on the contents of a dict."""
        for check, key, row in fields.guards:
            source = node if check.pinned != "FIELDS" else node.source
            assert source is not None
            self.code.append((check.opcode, 0, source.slot, node.slot, key, row))

    def fresh(self, node: Node) -> None:
        """A value that is loaded on every run."""
        self.load(node)
        self.checks(node, lasting=True)
        self.work.append((self.live, node))

    def still(self, nodes: list[Node]) -> None:
        """Values that stay as long as the dict above does: its items, and the items of tuples among them."""
        work = list(reversed(nodes))
        while work:
            node = work.pop()
            node.pinned = True
            self.load(node)
            self.checks(node, lasting=True)
            if issubclass(known_type(node), tuple):
                work.extend(step for step in reversed(node.steps) if step.opcode == ITEM.opcode)

    def block(self, holder: Holder) -> None:
        """The TAG block of one dict; see the top of this file."""
        node = holder.node
        start = len(self.code)
        self.code.append((_TAG, 0, node.slot, 0, None, node.row))
        self.still(holder.items)
        if holder.order is not None:
            self.load(holder.order.node)
            self.still(holder.order.items)
        self.guards(node, holder)
        self.code.append((_TAGGED, 0, node.slot, 0, None, node.row))
        self.code[start] = (_TAG, 0, node.slot, len(self.code), None, node.row)
        self.work.extend((self.live, item) for item in reversed(holder.items))
        if holder.order is not None:
            self.work.extend((self.live, item) for item in reversed(holder.order.items))

    def live(self, node: Node) -> None:
        """What must be looked at on every run although the object is the same."""
        self.checks(node, lasting=False)
        later: list[tuple[Callable[[Any], None], Any]] = []
        for through, holder in node.holders.items():
            if through == "ORDER" and "DICT" in node.holders and node.holders["DICT"].order is holder:
                continue
            later.append((self.ordered if through == "ORDER" else self.held, holder))
        if node.hooks is not None:
            later.append((self.no_hooks, node))
        later.extend((self.live if step.pinned else self.fresh, step) for step in node.steps)
        self.work.extend(reversed(later))

    def held(self, holder: Holder) -> None:
        """A block, after loading the hidden dict if it is one."""
        if holder.node.source is not None and holder.node.opcode in _HIDDEN.values():
            self.load(holder.node)
        self.block(holder)

    def ordered(self, holder: Holder) -> None:
        """Elements by position where nothing tells that the order is unchanged."""
        self.load(holder.node)
        self.work.extend((self.fresh, item) for item in reversed(holder.items))

    def no_hooks(self, node: Node) -> None:
        """The hook dicts were looked up with the instance dict; here their lengths are checked."""
        assert node.hooks is not None
        row, dicts = node.hooks
        self.code.append((_HOOKS, 0, dicts[0].slot, len(dicts), None, row))


def split_distinct(nodes: list[Node]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Slots that rarely change, and those that may change with every call."""
    fixed = [node.slot for node in nodes if node.pinned]
    free = [node.slot for node in nodes if not node.pinned]
    if len(free) > _MANY_FREE:
        return (*fixed, *free), ()
    return tuple(fixed), tuple(free)
