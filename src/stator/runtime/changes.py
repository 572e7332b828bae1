"""What brings outside objects up to date once the graph has run: in which order, and by which statements."""

from __future__ import annotations

import _warnings
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stator import _entry, _frames
from stator._frames import UNBOUND
from stator.emit import effects
from stator.emit.emitter import Emitter
from stator.emit.plan import CannotRebuild, Const, Source
from stator.emit.raw import ABSENT
from stator.guards.check import EQ
from stator.world.hollow_calls import HollowEnumerate
from stator.world.hollow_iterators import HollowIterator
from stator.world.hollow_keyed import constant_of
from stator.world.shadows import fields_of

TRACEBACK: Any = vars(BaseException)["__traceback__"]


def hashes(cls: type) -> bool:
    """Whether the hash of an object is what code of the program says."""
    return type(_frames.type_lookup(cls, "__hash__")) is types.FunctionType


class Changes:
    """Writes the net effects of one capture into its entry function."""

    def __init__(self, assembly: Any, emitter: Emitter) -> None:
        self.assembly = assembly
        self.host = assembly.host
        self.emitter = emitter

    def write(self) -> None:
        for step in STEPS:
            step(self)

    @contextmanager
    def noting(self, record: Any) -> Iterator[None]:
        """Notes the record as written to if the block adds statements."""
        before = len(self.emitter._body.lines)
        yield
        if len(self.emitter._body.lines) > before:
            self.assembly.changed(record)

    def iterators(self) -> None:
        """What was taken from iterators was there before anything changed."""
        for hollow in self.host.hollow.values():
            if isinstance(hollow, HollowIterator):
                with self.noting(hollow.record):
                    effects.advance(self.emitter, hollow.inner, hollow.taken, hollow.ended)
            elif isinstance(hollow, HollowEnumerate) and hollow.number is not None:
                with self.noting(hollow.record):
                    self.emitter.statement("{0}({1}, {2})", Const(_entry.recount), hollow.inner, hollow.number)

    def hashed_instances(self) -> None:
        """Instances whose class has a `__hash__` of its own: a container that gets such an object asks it."""
        self.namespaces(hashed=True)
        self.fields(hashed=True)
        self.slots(hashed=True)

    def containers(self) -> None:
        for record in {id(record): record for record in self.host.records.values()}.values():
            if record.hollow is not None:
                with self.noting(record):
                    operations = record.hollow.operations()
                    effects.operations(self.emitter, record.inner, type(record.inner), operations)
            elif record.before is not None:
                with self.noting(record):
                    self.contents(record)
        self.fields(hashed=False)

    def contents(self, record: Any) -> None:
        """Brings an outside container up to date."""
        if issubclass(type(record.inner), deque) and record.inner.maxlen != record.obj.maxlen:
            raise CannotRebuild(record.inner, "it was given another length that it may have")
        if not issubclass(type(record.inner), set):
            effects.contents(self.emitter, record.inner, record.before, record.inner, record.was_stirred())
            return
        now = self.with_constants(record.inner)
        if effects.table(self.emitter, record.inner, record.before, record.obj, now):
            layout = record.path.part("layout", _entry.set_layout)
            self.host.guards.add(layout, EQ, _entry.set_layout(record.obj), None)

    def with_constants(self, elements: set[Any]) -> set[Any]:
        """The same table; numbers that vary were hashed, which made constants of them."""
        items = [*set.__iter__(elements)]
        plain = [constant_of(self.host, item) for item in items]
        if all(map(operator.is_, items, plain)):
            return elements
        made: set[Any] = set.__new__(type(elements))
        _entry.set_like(made, elements, plain)
        return made

    def tracebacks(self) -> None:
        records = self.host.records.values()
        for record in {id(r): r for r in records if issubclass(type(r.inner), BaseException)}.values():
            traceback = TRACEBACK.__get__(record.inner)
            if record.inner is not record.obj and traceback is not record.traceback:
                now = None if traceback is None else self.emitter.traceback(traceback)
                self.emitter.statement("{0}({1}, {2})", Const(TRACEBACK.__set__), record.inner, now)

    def other_namespaces(self) -> None:
        self.namespaces(hashed=False)

    def cells(self) -> None:
        for _, path, before, now in self.host.cells.values():
            if now is not before:
                effects.cell(self.emitter, Source(self.assembly.load(path)), ABSENT if now is UNBOUND else now)

    def classes(self) -> None:
        for (_, name), (cls, before, now) in self.host.class_writes.items():
            if now is not before:
                effects.attribute(self.emitter, cls, name, now)

    def tensors(self) -> None:
        """Gradients and attributes of tensors that the graph gives."""
        recorder, outputs = self.host.recorder, self.assembly.outputs
        for leaf, grad in recorder.inner_grads.values():
            if id(leaf) in outputs:
                self.emitter.statement("{0}.grad = {1}", leaf, grad)
        for reference in recorder.adorned:
            if (adorned := reference()) is not None and id(adorned) in outputs:
                for name, value in adorned.__dict__.items():
                    effects.attribute(self.emitter, adorned, name, value, adorned._stands_for)

    def other_slots(self) -> None:
        self.assembly.written.extend(self.host.touched.values())
        self.slots(hashed=False)

    def deferred_calls(self) -> None:
        for function, args, kwargs in self.deferred():
            holes = [f"{{{i}}}" for i in range(1, len(args) + 1)]
            holes += [f"{name}={{{i}}}" for i, name in enumerate(kwargs, len(args) + 1)]
            self.emitter.statement(f"{{0}}({', '.join(holes)})", function, *args, *kwargs.values())

    def counted_calls(self) -> None:
        """Caches are asked for what the graph has calculated by itself."""
        for wrapper, args, kwargs, *_ in self.host.through:
            holes = [f"{{{i}}}" for i in range(1, len(args) + 1)]
            holes += [f"{name}={{{i}}}" for i, name in enumerate(kwargs, len(args) + 1)]
            self.emitter.statement(f"{{0}}({', '.join(holes)})", wrapper, *args, *kwargs.values())

    def deferred(self) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        """What was printed before the program exchanged `sys.stdout` goes to the one before."""
        if self.host.filters_mutated:  # no filter changes behind a warning that is deferred
            yield _warnings._filters_mutated, (), {}  # type: ignore[attr-defined]
        namespace = self.host.namespaces.get(id(vars(sys)))
        if namespace is None or "stdout" not in namespace.touched:
            yield from self.host.effects
            return
        for function, args, kwargs in self.host.effects:
            if function is print and "file" not in kwargs:
                kwargs = {**kwargs, "file": Source(self.assembly.load(namespace.path_of("stdout")))}
            yield function, args, kwargs

    def namespaces(self, hashed: bool) -> None:
        """Namespaces of instances whose class has a `__hash__` of its own, or all others."""
        changed = (n for n in self.host.namespaces.values() if n.full or n.touched)
        for namespace in {id(n): n for n in changed}.values():
            if hashes(type(namespace.owner)) is hashed:
                for name, value in namespace.changes():
                    self.assembly.write_name(self.emitter, namespace, name, ABSENT if value is UNBOUND else value)

    def slots(self, hashed: bool) -> None:
        """Slots and the like of outside instances, in the same manner."""
        for record in self.host.touched.values():
            if hashes(type(record.obj)) is hashed:
                for name, (before, now, _) in (record.extra or {}).items():
                    if now is not before:
                        effects.attribute(self.emitter, record.obj, name, ABSENT if now is UNBOUND else now)

    def fields(self, hashed: bool) -> None:
        """Attributes and slots set on the shadows of container subclasses, in the same manner."""
        for shadow, before in self.host.shadow_fields.values():
            if hashes(type(shadow)) is not hashed:
                continue
            with self.noting(self.host.records[id(shadow)]):
                now = fields_of(shadow)
                for name in (name for name in before if name not in now):
                    effects.attribute(self.emitter, shadow, name)
                for name, value in now.items():
                    if value is not before.get(name, ABSENT):
                        effects.attribute(self.emitter, shadow, name, value)


STEPS: list[Callable[[Changes], None]] = [
    Changes.iterators,
    Changes.hashed_instances,
    Changes.containers,
    Changes.tracebacks,
    Changes.other_namespaces,
    Changes.cells,
    Changes.classes,
    Changes.tensors,
    Changes.other_slots,
    Changes.deferred_calls,
    Changes.counted_calls,
]
