"""The world of one capture: everything the interpreter asks about values that are not its own."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Container, Iterable
from typing import Any

from stator import _entry, _frames
from stator._frames import UNBOUND
from stator.code.decode import CodeInfo
from stator.code.hidden import is_hidden
from stator.errors import Location, StatorError, Unsupported, unsupported
from stator.frame import Frame, throw
from stator.guards import path as paths
from stator.guards.check import CODE_IS, EQ, IS, SAME, TYPE_IS, TYPE_VERSION, show
from stator.guards.guardset import GuardSet
from stator.guards.path import Path
from stator.world import closures
from stator.world.aliasing import VALUES, Identities
from stator.world.ambient import Ambient
from stator.world.audit import ENABLED as AUDITING
from stator.world.audit import Audit
from stator.world.class_contents import ClassContents
from stator.world.door import IMPORTERS, importer_for
from stator.world.hollow import DECLINED, Hollow
from stator.world.hollow import ROWS as HOLLOW
from stator.world.hollow_calls import HollowCalls as HollowCalls  # these register their rows
from stator.world.hollow_keyed import HollowDict as HollowDict
from stator.world.hollow_sequences import HollowList as HollowList
from stator.world.record import Namespace, Record, ShadowedNamespace
from stator.world.types import TypeInfo, descriptors_of, is_at_home


class World:
    """Records, namespaces, types and cells of one capture."""

    varying_types: frozenset[type] = frozenset()  # stand-ins for numbers
    number_types: frozenset[type] = frozenset()  # and for conditions
    texts: frozenset[type] = frozenset()  # stand-ins for texts
    bookkeeping = "torch._dynamo.mutation_guard"  # counts modules for another compiler; no part of any program

    def __init__(self) -> None:
        self.guards = GuardSet()
        self.ambient = Ambient()
        self.records: dict[int, Record] = {}
        self.namespaces: dict[int, Namespace] = {}
        self.types: dict[int, TypeInfo] = {}
        self.guarded_types: dict[int, type] = {}
        self.outside_cells: dict[int, Any] = {}  # all others are the program's
        self.plain_functions: dict[int, Any] = {}  # their frames start with nothing that comes from outside
        self.inside_functions: dict[int, weakref.ref[Any]] = {}  # which end when the program lets go of them
        self.twins: dict[int, tuple[Any, Any]] = {}  # by address: callbacks, and what is called instead (callbacks.py)
        self.inside_types: dict[int, type] = {}
        self.inside_namespaces: dict[int, Any] = {}
        self.watched: list[type] = []
        self.cells: dict[int, list[Any]] = {}  # outside cells: [cell, path, value before, value now]
        self.cell_ways: dict[tuple[int, int], Any] = {}  # by address and slot: functions whose cells are known
        self.changed: dict[int, Path] = {}  # containers that change in other ways than a shadow shows, by address
        self.touched: dict[int, Record] = {}  # outside instances written to, in first-write order
        self.shadow_fields: dict[int, tuple[Any, dict[Any, Any]]] = {}  # shadow -> (it, its attributes as imported)
        self.class_writes: dict[tuple[int, str], list[Any]] = {}
        self.watches_classes = False
        self.caller_handles: Any = None  # the exception being handled where the compiled function was called
        self.carried: tuple[Any, ...] = ()  # what came over the break behind which the capture starts
        self.gone_over: frozenset[int] = frozenset()  # addresses of dicts that a loop around the break goes over
        self.lazy = False  # whether values may be Lazy
        self.watched_ends: list[Any] = []  # what came over it and ends with code, see native/held.py
        self.departed = ""  # the type of an object whose last variable is gone, and whose end runs code
        self.driven: list[Any] = []  # generators in place of those from outside; they end with the capture, silently
        self.perishable: list[Any] = []  # generators that came over the break, and that the program has driven since
        self.finalizable: set[int] = set()  # addresses of objects with `__del__` that the program made, still alive
        self.refers_weakly = False  # whether the program has made weak references to objects of its own
        self.mourned: dict[int, Any] = {}  # by address: outside objects whose death calls back
        self.rounds = 0  # of loops, and frames started, since the machine last looked
        self.looks = 0  # how often it did
        self.patient = True  # whether a capture may last for as long as the program does
        self.draws_numbers = False  # whether random numbers are those of each call, not of the state they come from
        self.breakable = 0  # instructions counted by eval/forced.py
        self.hollow: dict[int, Hollow] = {}  # by identity of the inner object
        self.beneath: dict[int, tuple[Any, Path, Any]] = {}  # what hollow iterators go over: (object, path, which)
        self.streams: dict[int, Any] = {}  # outside files: native code that gets one may read it
        self.varying: Container[Any] = frozenset()  # what a session has learned of values that differ
        self.varied_ranges: dict[int, range] = {}  # by identity: those from outside that were others before
        self.light_paths: Container[Path] = frozenset()  # containers to be hollow although they are small
        self.waiting: Container[Path] = frozenset()  # arguments that changed: they enter where they are looked at
        self.whole_paths: Container[Path] = frozenset()  # containers and iterators that must not be hollow
        self.cells_seen = False  # the program got hold of cells: native code may compare what they hold
        self.machine: Any = None
        self.identities = Identities(self)
        self.described: dict[int, type] = {}  # classes whose descriptors have come in
        self.ordinary: dict[int, type] = {}  # classes without objects in place of special methods
        self.classes = ClassContents()
        self.audit = Audit(self) if AUDITING else None

    # ---- where we are ---------------------------------------------------------------------------

    # The user's instruction that made capture look: (code, unit) of the innermost frame.
    origin: Callable[[], Any] = staticmethod(_frames.top_place)

    def stack(self) -> list[Location]:
        """The user's frames, outermost first; the innermost frame in any case."""
        frame, places = _frames.top_frame(), []
        while frame is not None:
            places.append((frame.code, frame.lasti))
            frame = frame.outer
        shown = [place for place in places if not is_hidden(place[0])] or places[:1]
        return [Location(code, 2 * unit) for code, unit in reversed(shown)]

    def refuse(self, break_id: str, detail: str = "", **fields: Any) -> Unsupported:
        """An Unsupported that knows where the program is."""
        return unsupported(break_id, detail, stack=self.stack(), **fields)

    def located(self, error: StatorError) -> StatorError:
        """The error with the place where the program is."""
        error.stack = error.stack or tuple(self.stack())
        return error

    def begins_round(self, f: Frame) -> None:
        """A loop asks for the next item."""

    def may_leave(self, values: Iterable[Any]) -> bool:
        """Whether CPython may look up one of these, which would cost one compilation for each key."""
        return False

    def takes_numbers(self, function: Any) -> bool:
        """Whether scalars of numpy are numbers as others to a function."""
        return False

    def takes_whole(self, function: Any) -> bool:
        """Whether a function makes an index of what it is given."""
        return False

    def places(self, container: Any, index: Any) -> Any:
        """What a hollow list stands for as an index of a tensor; DECLINED elsewhere."""
        return DECLINED

    def begins_loop(self, f: Frame, source: Any, made: Any) -> None:
        """A loop over the entries of a hollow dict is about to begin: an iterator, or what will be asked for one."""

    def breaking_units(self, info: CodeInfo) -> Iterable[int]:
        """Instructions of a code object that CPython is to execute, where a break can go on behind them."""
        return ()

    def spelled_units(self, info: CodeInfo) -> Iterable[int]:
        """Calls of C functions that are spelt out, because there was a break below one."""
        return ()

    def twins_of(self, function: Any) -> Any:
        """What can spell out a C function."""
        return ()

    def spell(self, handler: Any, f: Frame, count: int) -> Any:
        """Executes such a call."""
        return handler(f, count)

    def left_to_python(self, f: Frame) -> Unsupported | None:
        """The break at such an instruction; None if there can be none, and it is captured like others."""
        return None

    def item_left_to_python(self, f: Frame) -> Unsupported | None:
        """The same where an item is read or written in code with such instructions."""
        return None

    def impatient(self) -> bool:
        """Whether a capture that has lasted long should be given up."""
        return not self.patient

    # ---- the door -------------------------------------------------------------------------------

    def enter(self, obj: Any, path: Path) -> Any:
        """The capture-side form of an outside value; its path gets the guards for what is observed."""
        record = self.records.get(id(obj))
        if record is not None:
            if record.hollow is not None:
                self.settled(record.inner)
            if record.inner is obj and record.obj is not obj:
                return obj
            if record.path is not path:
                self.guards.add(path, SAME, record.path, self.origin())
            return record.inner
        importer = IMPORTERS.get(id(type(obj)))
        if importer is None:
            importer = importer_for(type(obj))
        return importer(self, obj, path)

    def forget_since(self, count: int) -> None:
        """Undo an import that failed: what was registered after the first `count` records may be filled in part."""
        for key in list(self.records)[count:]:
            record = self.records.pop(key)
            self.hollow.pop(id(record.inner), None)
            self.shadow_fields.pop(id(record.inner), None)

    def light(self, obj: Any, path: Path) -> Any:
        """As `enter`, for a value that goes to a register of the interpreter: it may be hollow."""
        row = HOLLOW.get(id(type(obj)))
        if row is None:
            return self.enter(obj, path)
        record = self.records.get(id(obj))
        if record is not None:
            if (record.inner is not obj or record.obj is obj) and record.path is not path:
                self.guards.add(path, SAME, record.path, self.origin())
            return record.inner
        hollow = None if path in self.whole_paths else row(self, obj, path)
        if hollow is None:
            return self.enter(obj, path)
        hollow.record.hollow = self.hollow[id(hollow.inner)] = hollow
        if self.machine is not None:
            self.machine.be_careful()
        return hollow.inner

    def light_method(self, obj: Any, path: Path) -> Any:
        """A method of a container from outside, which may be hollow; None for other functions."""
        owner = obj.__self__
        if id(type(owner)) not in HOLLOW or getattr(owner, obj.__name__, None) != obj:  # or that of a base class
            return None
        self.guards.add(path, TYPE_IS, type(obj), self.origin())
        self.guards.add(path.get("__name__"), EQ, obj.__name__, self.origin())
        self.guards.add(path.part("code", _entry.method_code), EQ, _entry.method_code(obj), self.origin())
        receiver = self.light(owner, path.get("__self__"))
        hollow = self.hollow.get(id(receiver))
        if hollow is not None and obj.__name__ not in hollow.methods:
            self.settled(receiver)
        return self.bound(receiver, owner, obj.__name__)

    def bound(self, receiver: Any, owner: Any, name: str) -> Any:
        """A method of what stands for its owner, which may be a stand-in that C knows nothing of."""
        if type(receiver) is type(owner):
            return getattr(receiver, name)
        return self.load_attr(_frames.top_frame(), receiver, name)

    def settled(self, value: Any) -> Any:
        """The value as native code may see it: filled."""
        hollow = self.hollow.pop(id(value), None)
        if hollow is not None:
            hollow.record.hollow = None
            hollow.fill()
        return value

    def settle_all(self, held: Container[int] | None = None) -> None:
        """Native code is about to see registers, which hold the objects at these addresses."""
        for hollow in list(self.hollow.values()):
            if held is None or hollow.lasting or id(hollow.inner) in held:
                self.settled(hollow.inner)

    def leave_streams(self, values: Iterable[Any]) -> None:
        """Native code is about to get these: it must not read outside files, which cannot be undone."""
        for value in values:
            if id(value) in self.streams:
                name = type(value).__name__
                raise self.refuse("outside-iterator", f"{name} from outside, which native code may read", type=name)

    def is_reachable(self, obj: Any) -> bool:
        """Whether the program has got hold of an outside object."""
        return id(obj) in self.records or id(obj) in self.namespaces

    def register(self, obj: Any, path: Path, inner: Any = UNBOUND) -> Record:
        if id(obj) in self.changed:
            raise self.refuse(
                "native-effect", f"{self.changed[id(obj)]} has changed", function=str(self.changed[id(obj)])
            )
        record = Record(obj, path, obj if inner is UNBOUND else inner)
        self.records[id(obj)] = record
        if inner is not UNBOUND:
            self.records[id(inner)] = record
            if _frames.type_lookup(type(inner), "__del__") is not UNBOUND:
                _frames.silence(inner)  # the end of a copy is not the end of the object
        return record

    def register_shadow(self, obj: Any, path: Path, inner: Any) -> Any:
        self.register(obj, path, inner)
        return inner

    def record_of(self, obj: Any) -> Record:
        """The record of an outside object that may not have come through the door: pinned by identity."""
        record = self.records.get(id(obj))
        if record is None:
            path = paths.const(obj)
            if type(obj) is types.FunctionType:
                self.guards.add(path, CODE_IS, obj.__code__, self.origin())
            record = self.register(obj, path)
        return record

    def path_of(self, obj: Any) -> Path:
        record = self.records.get(id(obj))
        return paths.const(obj) if record is None else record.path

    def is_opaque(self, obj: Any) -> bool:
        """An outside object of a C type: only the policy's functions may work on it."""
        record = self.records.get(id(obj))
        return record is not None and record.inner is record.obj and not _frames.is_python_class(type(obj))

    def notice_builtin(self, function: Any) -> None:
        """A C function is about to be handed to the captured program."""

    def touch(self, record: Record) -> None:
        self.touched.setdefault(id(record.obj), record)

    # ---- what the host adds: behaviour of values --------------------------------------------------

    def call(self, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        raise NotImplementedError

    def load_attr(self, f: Frame, obj: Any, name: str) -> Any:
        raise NotImplementedError

    def missing_attribute(self, f: Frame, obj: Any, name: str) -> Any:
        raise NotImplementedError

    # ---- types ----------------------------------------------------------------------------------

    def type_info(self, cls: type) -> TypeInfo:
        info = self.types.get(id(cls))
        if info is None:
            info = self.types[id(cls)] = TypeInfo(self, cls)
        return info

    def is_inside_type(self, cls: type) -> bool:
        return id(cls) in self.inside_types

    def guard_type(self, cls: type) -> None:
        if id(cls) in self.guarded_types or cls.__module__ == self.bookkeeping:
            return
        self.guarded_types[id(cls)] = cls
        version = _entry.type_version(cls)
        if not version:
            raise self.refuse("outside-type", f"{show(cls)} has no version tag", type=cls.__name__)
        self.guards.add(paths.const(cls), TYPE_VERSION, version, self.origin())
        self.classes.note(cls, version)
        if _frames.watch_type(cls):
            self.watched.append(cls)
        for owner, name, value in descriptors_of(cls, self.described):
            self.enter(value, paths.const(owner).class_item(name))

    def refresh_types(self, cls: type) -> None:
        """The class was changed in a way that means nothing: guard the version it and its subclasses have now."""
        for known in self.guarded_types.values():
            if cls in type.mro(known):
                self.guards.replace(paths.const(known), TYPE_VERSION, _entry.type_version(known))

    def close(self) -> None:
        """The capture is over: classes get their own slots back, and nothing of the program is held any longer."""
        while self.watched:
            _frames.unwatch_type(self.watched.pop())
        if self.watches_classes:
            _frames.watch_classes(False)
        if self.audit is not None:
            self.audit.existed = None  # holds everything, itself included
        for cls in self.inside_types.values():
            if not is_at_home(cls):
                _frames.disown(cls)
        self.inside_types.clear()  # C holds this very dict
        for record in self.records.values():
            record.hollow = None  # which knows its record
        self.__dict__.clear()

    def watch_classes(self) -> None:
        """From now on C code, too, reads attributes of classes through the door."""
        if not self.watches_classes:
            self.watches_classes = True
            _frames.watch_classes(True)

    def class_overlay(self, cls: type, name: str) -> Any:
        """What capture wrote to an outside class along the MRO."""
        if not self.class_writes:
            return UNBOUND
        for base in cls.__mro__:
            write = self.class_writes.get((id(base), name))
            if write is not None:
                return write[2]
            if name in _frames.class_dict(base):
                return UNBOUND
        return UNBOUND

    def write_class(self, f: Frame, cls: type, name: str, value: Any) -> None:
        """Data and methods on an outside class; special methods would change what native code does."""
        key, on_meta = (id(cls), name), _frames.type_lookup(type(cls), name)
        plain = not _frames.descriptor_kind(type(value)) or type(value) in METHODS
        if name.startswith("__") or on_meta is not UNBOUND or not plain:
            raise self.refuse_class_write(cls, name)
        if _frames.type_lookup(type(cls), "__setattr__") is not type.__setattr__:
            raise self.refuse_class_write(cls, name)
        known = self.class_writes.get(key)
        if value is UNBOUND:
            if known is None or known[1] is not UNBOUND:
                raise self.refuse_class_write(cls, name)
            del self.class_writes[key]
            return
        before = known[1] if known else _frames.class_dict(cls).get(name, UNBOUND)
        if known is None and before is not UNBOUND and not _frames.descriptor_kind(type(before)):
            before = self.load_attr(f, cls, name)
        self.class_writes[key] = [cls, before, value]
        self.watch_classes()

    def refuse_class_write(self, cls: type, name: str) -> Unsupported:
        detail = f"assignment to attribute {name!r} of class {cls.__qualname__}"
        return self.refuse("outside-write", detail, target=f"{cls.__name__}.{name}")

    def class_namespace(self, cls: type) -> Any:
        """cls.__dict__ of an outside class."""
        from stator.world.types import class_value

        inner = {
            name: self.settled(class_value(self, cls, name, value)) for name, value in _frames.class_dict(cls).items()
        }
        inner.update({name: now for (_, name), (owner, _, now) in self.class_writes.items() if owner is cls})
        return types.MappingProxyType(inner)

    # ---- namespaces -----------------------------------------------------------------------------

    def namespace_of(self, record: Record, materialise: bool = False) -> Namespace:
        """The attributes of a registered outside object."""
        obj = record.obj
        real = _frames.instance_dict(obj)
        if real is None:
            real = object.__getattribute__(obj, "__dict__") if materialise else EMPTY
        key = id(real) if real is not EMPTY else -id(obj)
        namespace = self.namespaces.get(key)
        if namespace is None:
            known = self.records.get(id(real))
            if known is None or known.inner is real:
                namespace = Namespace(self, real, obj, record.path, by_attribute=True)
            else:
                self.guards.add(record.path.fields(), SAME, known.path, self.origin())
                namespace = ShadowedNamespace(self, known)
            self.namespaces[key] = namespace
        return namespace

    def has_dict(self, obj: Any) -> bool:
        return hasattr(type(obj), "__dict__") and type(obj).__dictoffset__ != 0

    def namespace(self, real: dict[Any, Any]) -> Namespace | None:
        """The namespace for a dict used as globals; None for one made inside."""
        namespace = self.namespaces.get(id(real))
        if namespace is None:
            if id(real) in self.inside_namespaces:
                return None
            record = self.records.get(id(real))
            if record is None or record.inner is real:
                namespace = Namespace(self, real, real, paths.const(real), by_attribute=False)
            else:
                namespace = ShadowedNamespace(self, record)
            self.namespaces[id(real)] = namespace
        return namespace

    def namespace_get(self, real: dict[Any, Any], name: str) -> Any:
        namespace = self.namespaces.get(id(real))
        return dict.get(real, name, UNBOUND) if namespace is None else namespace.get(name)

    def namespace_set(self, real: dict[Any, Any], name: str, value: Any) -> None:
        namespace = self.namespaces.get(id(real))
        if namespace is not None:
            namespace.set(name, value)
        elif value is UNBOUND:
            dict.__delitem__(real, name)
        else:
            dict.__setitem__(real, name, value)

    # ---- cells and functions --------------------------------------------------------------------

    inside_function = closures.inside_function
    is_inside_function = closures.is_inside_function
    as_held = closures.as_held
    know_cells = closures.know_cells
    load_cell = closures.load_cell
    store_cell = closures.store_cell
    outside_cell = closures.outside_cell
    cell_path = closures.cell_path
    know_closure = closures.know_closure
    enter_cell = closures.enter_cell
    frame_enters = closures.frame_enters
    function_enters = closures.function_enters
    enter_defaults = closures.enter_defaults
    enter_kwdefaults = closures.enter_kwdefaults
    function_part = closures.function_part
    load_global = closures.load_global

    def same(self, left: Any, right: Any) -> bool:
        if left is right:
            if type(left) in VALUES:
                self.identities.one_constant(left)
            return True
        if right is not None:
            self.ask_identity(left, right)
            self.identities.compared(left, right)
        return False

    def ask_identity(self, *values: Any) -> None:
        """Somebody wants to know which objects these are; overridden where that is not known."""

    def is_known(self, value: Any) -> bool:
        """Outside objects that are held by capture in other ways than by a record."""
        return id(value) in self.namespaces or id(value) in self.inside_namespaces

    def guard_slot_empty(self, record: Record, name: str, descriptor: Any) -> None:
        if type(descriptor) is not types.MemberDescriptorType:
            raise self.refuse("outside-type", f"{name!r} read, which raised", type=type(record.obj).__name__)
        path = record.path.part(f"slot {name}", types.MethodType(_frames.slot_get, descriptor))
        self.guards.add(path, IS, UNBOUND, self.origin())

    def fail(self, f: Frame, error: BaseException) -> Any:
        return throw(f, error)


EMPTY: dict[Any, Any] = {}
METHODS = frozenset({types.FunctionType, staticmethod, classmethod, property})  # what may be written to a class
__all__ = ["EQ", "World"]
