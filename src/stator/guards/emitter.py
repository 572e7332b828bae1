"""From the tree to the flat instructions of a guard program.

What runs on every call comes first, then END, then one block per dict (or instance dict) in which items are looked up:

    INSTANCE object    check the class; take the instance dict; if it is not in the state seen last: its block
    STILL item         if the dict has another object there now: its block
    TAG dict           if it is not in the state seen last: its block
    ...                what can change unnoticed by the dict: tensors, classes of instances, cells, dicts further down
    END
    block:             load the items; run the checks that hold for as long as the items stay the same objects
    TAGGED             remember the state, go back behind INSTANCE or TAG
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from stator._entry import OPCODES, GuardProgram
from stator.guards.check import DISTINCT, RELATION, SAME, STATE, TYPE_IS
from stator.guards.path import DICT, ITEM, Path
from stator.guards.relation import Relation
from stator.guards.tree import Guard, Holder, Node, Tree, may_lag

_INSTANCE, _TAG, _TAGGED, _END = (OPCODES[name] for name in ("INSTANCE", "TAG", "TAGGED", "END"))
_CLASSFIELDS, _HOOKS, _STILL = (OPCODES[name] for name in ("CLASSFIELDS", "HOOKS", "STILL"))
_MANY_FREE = 16  # more loose values than this are not worth comparing one by one


class Emitter:
    """Writes the instructions of a settled tree; works from a stack of its own, since paths may be very long."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.code: list[int] = []
        self.keys: list[Any] = []
        self.blocks: list[tuple[Holder, int]] = []  # by number of the tag, with where to go back
        self.work: list[tuple[Callable[[Any], None], Any]] = []
        self.slots = 1  # slot 0 is the anchor
        for node in tree.consts:
            self.slot(node)

    def slot(self, node: Node) -> int:
        """The node's slot; slots are numbered as they are met, so that a run walks over them in order."""
        if node.slot < 0:
            node.slot = self.slots
            self.slots += 1
        return node.slot

    def put(self, op: int, src: int, dst: int, arg: int, key: Any, row: int) -> None:
        """Writes one instruction."""
        self.code += (op, src, dst, arg, row)
        self.keys.append(key)

    def state(self, snapshot: Any, row: int) -> None:
        """torch's state, to be put first: it is cheap, and nothing is loaded yet when it has to ask Python."""
        self.put(STATE.opcode, 0, 0, 0, snapshot, row)

    def values(self) -> None:
        """All loads and checks: constants first, as what holds for them is found out once, then the arguments."""
        self.work = [(self.fresh, node) for node in reversed(self.tree.args)]
        if self.tree.consts:
            anchor = Holder(Node(-1, None, None, 0))
            anchor.node.slot = 0
            anchor.items = self.tree.consts
            self.work.append((self.held, anchor))
        while self.work:
            step, subject = self.work.pop()
            step(subject)
        for node, other, row in self.tree.same:
            self.put(SAME.opcode, self.slot(node), 0, self.slot(other), None, row)

    def distinct(self, nodes: Sequence[Node], row: int) -> None:
        """Pairwise different values, split into those that rarely change and those that may change with every call."""
        fixed = [self.slot(node) for node in nodes if node.pinned]
        free = [self.slot(node) for node in nodes if not node.pinned]
        pinned = len(free) <= _MANY_FREE
        key = (tuple(fixed), tuple(free), True) if pinned else ((*fixed, *free), (), False)
        self.put(DISTINCT.opcode, 0, 0, 0, key, row)

    def relation(self, nodes: dict[Path, Node], relation: Relation, row: int) -> None:
        """A condition on sizes, strides and ints of several values."""
        self.put(RELATION.opcode, 0, 0, 0, self._relation_key(nodes, relation), row)

    def _relation_key(self, nodes: dict[Path, Node], relation: Relation) -> tuple[Any, ...]:
        operands = []
        for operand in relation.operands:
            inner = None if operand.inner is None else self._relation_key(nodes, operand.inner)
            slot = 0 if operand.inner is not None else self.slot(nodes[operand.path])
            operands.append((slot, operand.kind, operand.index, operand.bound, inner))
        return tuple(operands), relation.code, relation.real

    def finish(self, loads: Sequence[Node], npos: int, kwnames: tuple[str, ...], shape_row: int) -> GuardProgram:
        """Writes the blocks and packs everything."""
        numbers = [self.slot(node) for node in loads]
        self.put(_END, 0, 0, 0, None, shape_row)
        targets = []
        for tag, (holder, back) in enumerate(self.blocks):
            targets.append(len(self.keys))
            self.block(holder)
            self.put(_TAGGED, self.slot(holder.node), back, tag, None, holder.node.row)
        consts = tuple(self.tree.const_values)
        code = array("i", self.code)
        return GuardProgram(code, self.keys, targets, self.slots, consts, numbers, npos, kwnames, shape_row)

    def load(self, node: Node) -> None:
        """Fills the node's slot; a constant's is filled already."""
        if node.opcode >= 0:
            source, aside, slot = node.source, node.aside, node.slot
            number = 0 if source is None else source.slot if source.slot >= 0 else self.slot(source)
            arg = node.arg if aside is None else aside.slot if aside.slot >= 0 else self.slot(aside)
            self.code += (node.opcode, number, slot if slot >= 0 else self.slot(node), arg, node.row)
            self.keys.append(node.key)

    def checks(self, node: Node, guards: Sequence[Guard]) -> None:
        """Checks on the value itself."""
        slot = self.slot(node)
        for check, key, row in guards:
            self.code += (check.opcode, slot, 0, 0, row)
            self.keys.append(key)

    def fresh(self, node: Node) -> None:
        """A value that is loaded on every run."""
        self.load(node)
        if node.lasting:
            self.checks(node, node.lasting)
        self.live(node)

    def live(self, node: Node) -> None:
        """What must be looked at on every run although the object is the same."""
        holders = node.holders
        if holders is None and not node.steps and node.hooks is None:
            if node.passing:
                self.checks(node, node.passing)
            return
        later: list[tuple[Callable[[Any], None], Any]] = []
        fields = None if holders is None else holders.get("FIELDS")
        if fields is not None:
            self.instance(node, fields)
            later += [(self.live, item) for item in fields.items if item.is_alive()]
        elif node.passing:
            self.checks(node, node.passing)
        if node.hooks is not None:
            self.no_hooks(*node.hooks)
        for through, holder in (holders or {}).items():
            if holder is not fields:
                later.append((self.ordered if through == "ORDER" else self.held, holder))
        later += [(self.live if step.pinned else self.fresh, step) for step in node.steps]
        later.reverse()
        self.work += later

    def instance(self, node: Node, holder: Holder) -> None:
        """Class and instance dict in one instruction, then the other checks on the instance itself."""
        fused = next((guard for guard in node.passing if guard[0] is TYPE_IS), None)
        key, row = (None, node.row) if fused is None else fused[1:]
        self.put(_INSTANCE, self.slot(node), self.slot(holder.node), len(self.blocks), key, row)
        self.open_block(holder)
        if may_lag(node.kind):
            self.still_there(holder)
        if len(node.passing) > (fused is not None):
            self.checks(node, [guard for guard in node.passing if guard is not fused])

    def still_there(self, holder: Holder) -> None:
        """Looks again at the items for which the tag may lag behind."""
        for item in holder.items:
            if not item.is_harmless():
                self.put(_STILL, self.slot(holder.node), self.slot(item), len(self.blocks) - 1, item.key, item.row)

    def held(self, holder: Holder) -> None:
        """A dict, loaded first if it is a class's, and then its items."""
        node = holder.node
        if node.opcode == _CLASSFIELDS:
            self.load(node)
        self.put(_TAG, self.slot(node), 0, len(self.blocks), None, node.row)
        self.open_block(holder)
        if node.opcode == DICT.opcode:
            self.still_there(holder)
        self.work.extend((self.live, item) for item in reversed(all_items(holder)) if item.is_alive())

    def open_block(self, holder: Holder) -> None:
        """Notes that the holder needs a block, and that its items stay as long as its tag does."""
        self.blocks.append((holder, len(self.keys)))
        work = list(all_items(holder))
        while work:
            node = work.pop()
            node.pinned = True
            if node.steps:
                work.extend(lasting_items(node))

    def block(self, holder: Holder) -> None:
        """Loads the items and the items of tuples among them, and checks what lasts."""
        self.still(holder.items)
        if holder.order is not None:
            self.load(holder.order.node)
            self.still(holder.order.items)
        node = holder.node
        for check, key, row in holder.guards:
            source = node.source if check.pinned == "FIELDS" and node.source is not None else node
            self.put(check.opcode, self.slot(source), 0, self.slot(node), key, row)

    def still(self, nodes: list[Node]) -> None:
        """Loads and lasting checks of values that stay."""
        work = nodes[::-1]
        while work:
            node = work.pop()
            self.load(node)
            if node.lasting:
                self.checks(node, node.lasting)
            if node.steps:
                work.extend(reversed(lasting_items(node)))

    def ordered(self, holder: Holder) -> None:
        """Elements by position where nothing tells that the order is unchanged."""
        self.load(holder.node)
        self.work.extend((self.fresh, item) for item in reversed(holder.items))

    def no_hooks(self, row: int, dicts: list[Node]) -> None:
        """The hook dicts are looked up with the instance dict; here only their lengths are checked."""
        slots = [self.slot(node) for node in dicts]
        self.put(_HOOKS, slots[0], 0, len(slots), None, row)


def all_items(holder: Holder) -> list[Node]:
    """The items by key, then those by position."""
    return holder.items if holder.order is None else [*holder.items, *holder.order.items]


def lasting_items(node: Node) -> list[Node]:
    """The items of a tuple: they stay as long as the tuple itself."""
    return [step for step in node.steps if step.opcode == ITEM.opcode] if issubclass(node.kind, tuple) else []
