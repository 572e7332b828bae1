"""Writes the source of entry functions: from a heap of example objects, code that makes an equal heap on every run."""

from __future__ import annotations

import builtins
import re
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import InternalError
from ..world import audit
from . import atoms, raw
from .order import Cycle, NoOrder, components
from .plan import CannotRebuild, Const, Part, Piece, Plan, Self, Source, hole, listing, parts_of, piece
from .recipes import plan_for
from .recipes_instances import build_instance_dict
from .source import Body, Line, Slot, Text, compile_function, unknown_names, with_constants
from .tracebacks import Chains

FEWEST_FOR_BULK = 32
_NOT_A_NAME = re.compile(r"\W+")


def never(obj: object) -> bool:
    return False


class Emitter:
    """Collects statements and the objects they need.

    `resolve(obj)` names an object that exists at run time already; it is asked first, for every object, and the name
    must mean that object in the whole function. `inside(obj)` tells of a class, function, cell, module or namespace
    whether it was made during capture; an outside one that `resolve` does not name is embedded as it is.
    Names `v0`, `v1`, … and `c_…` are the emitter's.
    """

    def __init__(self, resolve: Callable[[object], str | None], inside: Callable[[object], bool] = never) -> None:
        self._resolve = resolve
        self.inside = inside
        self.hashes_vary = False  # code of the program may have said hashes that follow from addresses
        self._slots: dict[int, Slot] = {}
        self._names: dict[str, Slot] = {}
        self._constants: dict[int, Slot] = {}
        self._namespace: dict[str, Any] = {}
        self._uses: dict[str, int] = {}  # how often a name was wanted
        self._owners: dict[int, object] = {}
        self._literals: dict[str, object] = {}
        self._met: set[int] = set()
        self._chains = Chains()
        self._keep: list[object] = []
        self._body = Body()
        self._locals = 0
        self._block: str | None = None  # header of the block that the rest of the function is

    # What callers use.

    def value(self, obj: object) -> Source:
        """An expression for obj, a name unless it is a literal; everything it needs has been emitted before."""
        if type(obj) is Source:
            return obj
        slot = self._slot(obj)
        slot.pinned = True
        return Source(slot.name)

    def statement(self, template: str, *objects: object) -> None:
        """Add a statement such as `statement("{0}.append({1})", target, item)`; each hole is evaluated once."""
        self._body.add(Line(self._text(piece(template, *objects))))

    def call(self, function: object, *objects: object) -> None:
        """Add a statement that calls function with these objects."""
        self.statement("{0}({1})", function, listing(objects))

    def raw(self, line: str) -> None:
        """Add a complete statement as it is written; objects in it come from `value` and `constant`."""
        self._pin_names_in(line)
        self._body.add(Line((line,), is_raw=True))

    def unpack(self, names: Sequence[str], template: str, *objects: object) -> None:
        """Add `g0, g1 = expression`, and know these names from then on."""
        slots = tuple(Slot(name) for name in names)
        self._body.add(Line(self._text(piece(template, *objects)), unpacks=slots))
        self._names.update((slot.name, slot) for slot in slots)

    def bind(self, text: str, hint: str) -> Source:
        """Add `name = text`, and give the name."""
        name = self._free_name(hint)
        self.raw(f"{name} = {text}")
        self._names[name] = Slot(name)
        return Source(name)

    def know(self, names: Sequence[str]) -> None:
        """Names that a raw statement assigns."""
        for name in names:
            self._names[name] = slot = Slot(name)
            slot.pinned = True

    def constant(self, obj: object, hint: str | None = None) -> Source:
        """The name of obj, embedded as it is; one object has one name."""
        return Source(self._constant(obj, hint).name)

    def function(
        self, name: str, params: Sequence[str], result: object, label: str | None = None
    ) -> types.FunctionType:
        """The entry function; `result` is an object, or an expression as Source."""
        if type(result) is Source:
            self._pin_names_in(result)
        text = self._text((hole(result),))
        clash = set(params) & self._namespace.keys()
        if clash:
            raise ValueError(f"parameters have the names of constants: {', '.join(sorted(clash))}")
        lines = self._body.render(text)
        if self._block is not None:
            start = lines.index(self._block) + 1
            lines[start:] = [textwrap.indent(line, "    ") for line in lines[start:]]
        made = compile_function(name, params, lines, dict(self._namespace), label or name)
        made.__code__ = with_constants(made.__code__, self._literals)
        if audit.ENABLED and (missing := unknown_names(made)):
            raise InternalError(f"audit: an entry function uses names that nobody defines: {', '.join(missing)}")
        return made

    def enclose(self, header: str) -> None:
        """All that follows belongs to the block of this header; once."""
        self._block = header
        self.raw(header)

    def give_up(self, which: Callable[[Any], bool]) -> dict[str, Any]:
        """Constants that the function is to take as parameters instead, by name."""
        given = {name: obj for name, obj in self._namespace.items() if which(obj)}
        for name in given:
            del self._namespace[name]
        return given

    # What recipes ask.

    def resolved(self, obj: object) -> bool:
        return self._resolve(obj) is not None

    def traceback(self, obj: types.TracebackType) -> object:
        return self._chains.of(obj, self.resolved)

    def builds(self, address: int) -> bool:
        """Whether the object there is part of what was emitted."""
        return address in self._slots

    def shares(self, owner: object, namespace: object) -> bool:
        if id(namespace) in self._met or self._owners.setdefault(id(namespace), owner) is not owner:
            return True
        return self.resolved(namespace)

    # Naming.

    def _constant(self, obj: object, hint: str | None = None) -> Slot:
        slot = self._constants.get(id(obj))
        if slot is None:
            name = self._free_name(hint or _constant_name(obj))
            self._namespace[name] = obj
            slot = self._constants[id(obj)] = Slot(name, constant=True)
        return slot

    def _free_name(self, wanted: str) -> str:
        count = self._uses.get(wanted, 0)
        while True:
            count += 1
            name = wanted if count == 1 else f"{wanted}_{count}"
            if name not in self._namespace and name not in self._names:
                self._uses[wanted] = count
                return name

    def _pin_names_in(self, text: str) -> None:
        for name in re.findall(r"[A-Za-z_]\w*", text):
            if name in self._names:
                self._names[name].pinned = True

    def _existing(self, obj: object) -> Slot | None:
        """The slot of an object that needs no building."""
        text = self._resolve(obj)
        if text is not None:
            return self._names.get(text) or Slot(str(text))
        text = atoms.literal(obj)
        if text is not None and (self._literals.setdefault(text, obj) is obj or not isinstance(obj, (str, bytes))):
            return Slot(text, constant=True, literal=True)
        return self._constant(obj) if atoms.is_constant(obj, self.inside) else None

    # Building.

    def _slot(self, obj: object) -> Slot:
        slot = self._slots.get(id(obj))
        if slot is None:
            self._build(obj)
            slot = self._slots[id(obj)]
        return slot

    def _build(self, root: object) -> None:
        """Emit everything that root consists of, dependencies first."""
        plans, objects = self._discover(root)
        if not plans:
            return
        edges = {
            node: [id(p.obj) for p in parts_of(*plan.pieces()) if id(p.obj) in plans] for node, plan in plans.items()
        }
        for component in components([id(root)], edges.__getitem__):
            node = component[0]
            if len(component) == 1 and node not in edges[node]:
                self._emit(objects[node], plans[node])
                continue
            try:
                steps = Cycle(component[::-1], plans).ordered()
            except NoOrder:
                why = "it is part of a cycle of objects that cannot be created before each other"
                raise CannotRebuild(objects[node], why) from None
            for step in steps:
                if step.creates:
                    self._assign(objects[step.owner], step.source, inline=False)
                else:
                    self._body.add(Line(self._text(step.source, self._slots[step.owner])))

    def _discover(self, root: object) -> tuple[dict[int, Plan], dict[int, object]]:
        """Plans for all objects below root that are not built yet; the others get their slots."""
        plans: dict[int, Plan] = {}
        parents: dict[int, object] = {}
        objects: dict[int, object] = {}
        pending: list[tuple[object, object]] = [(root, None)]
        while pending:
            obj, parent = pending.pop()
            if id(obj) in self._slots or id(obj) in plans:
                continue
            self._keep.append(obj)
            self._met.add(id(obj))
            slot = self._existing(obj)
            if slot is not None:
                self._slots[id(obj)] = slot
                continue
            objects[id(obj)], parents[id(obj)] = obj, parent
            try:
                plan = build_instance_dict(self._owners[id(obj)]) if id(obj) in self._owners else plan_for(obj, self)
            except CannotRebuild as error:
                raise CannotRebuild(error.obj, error.why, [*error.within, *_chain(parent, parents)]) from None
            plans[id(obj)] = plan
            pending += [(part.obj, obj) for part in reversed([*parts_of(*plan.pieces())])]
        return plans, objects

    def _emit(self, obj: object, plan: Plan) -> None:
        parts = [(part, self._slots[id(part.obj)]) for part in parts_of(plan.make)]
        if plan.frozen and all(self._slots[id(part.obj)].constant for part in parts_of(*plan.pieces())):
            self._slots[id(obj)] = self._frozen(obj, plan)
            return
        make, inline = plan.make, plan.inline and not plan.fills
        if plan.bulk is not None and len(parts) >= FEWEST_FOR_BULK and all(slot.constant for _, slot in parts):
            make = plan.bulk
        elif any(part.contents and not slot.constant for part, slot in parts):
            inline = False
        slot = self._assign(obj, make, inline)
        for fill in plan.fills:
            self._body.add(Line(self._text(fill, slot)))

    def _frozen(self, obj: object, plan: Plan) -> Slot:
        """A tuple of literals is written out; a second equal one is embedded, as they would become one."""
        if type(obj) is tuple and all(self._slots[id(part.obj)].literal for part in parts_of(plan.make)):
            text = "".join(f if isinstance(f, str) else self._slots[id(f.obj)].name for f in _text_and_parts(plan.make))
            if len(text) <= atoms.LONGEST_LITERAL and self._literals.setdefault(text, obj) is obj:
                return Slot(text, constant=True, literal=True)
        return self._constant(obj)

    def _assign(self, obj: object, source: Piece, inline: bool) -> Slot:
        text = self._text(source)
        slot = Slot(f"v{self._locals}")
        self._locals += 1
        slot.inline = inline
        self._slots[id(obj)] = slot
        self._names[slot.name] = slot
        self._body.add(Line(text, target=slot))
        return slot

    def _text(self, source: Piece, owner: Slot | None = None) -> Text:
        text: list[str | Slot] = []
        for fragment in source:
            if isinstance(fragment, str):
                text.append(fragment)
            elif isinstance(fragment, Part):
                slot = self._slot(fragment.obj)
                slot.pinned = slot.pinned or fragment.held
                text.append(slot)
            elif isinstance(fragment, Const):
                self._keep.append(fragment.obj)
                text.append(self._constant(fragment.obj))
            elif isinstance(fragment, Self):
                assert owner is not None
                text.append(owner)
        return tuple(text)


def _text_and_parts(source: Piece) -> Iterator[str | Part]:
    return (fragment for fragment in source if isinstance(fragment, (str, Part)))


def _chain(obj: object, parents: dict[int, object]) -> list[object]:
    chain: list[object] = []
    while obj is not None and len(chain) < 8:
        chain.append(obj)
        obj = parents.get(id(obj))
    return chain


_NAMED: tuple[type, ...] = (types.BuiltinFunctionType, types.MethodWrapperType, types.FunctionType, types.ModuleType)


def _constant_name(obj: Any) -> str:
    """A readable name: builtins keep theirs, others get the prefix `c_`."""
    cls = type(obj)
    if raw.derives(cls, type):
        name = raw.class_name(obj)
    elif id(cls) in _DESCRIPTORS:
        name = f"{raw.class_name(obj.__objclass__)}_{obj.__name__.strip('_')}"
    elif any(cls is kind for kind in _NAMED):
        owner = getattr(obj, "__self__", None)
        name = f"{raw.class_name(owner)}_{obj.__name__.strip('_')}" if raw.is_a(owner, type) else obj.__name__
    else:
        name = raw.class_name(cls)
    if builtins.__dict__.get(name) is obj:
        return name
    return "c_" + (_NOT_A_NAME.sub("_", name).strip("_") or "object")


_DESCRIPTORS = frozenset(
    id(kind)
    for kind in (
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        types.ClassMethodDescriptorType,
    )
)
