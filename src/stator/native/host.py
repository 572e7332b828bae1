"""How the captured program meets native code: operators, iteration, calls and attribute access by kind of object."""

from __future__ import annotations

import functools
import gc
import operator
import os
import re
import sys
import threading
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from stator import _frames
from stator._frames import FAILED, UNBOUND
from stator._frames import native as run_native
from stator.frame import RAISED, Frame, Raised, native
from stator.guards.check import IS, KEYS
from stator.native import policy
from stator.world import attributes
from stator.world.door import by_identity, is_free
from stator.world.hollow import ABSENT
from stator.world.lazy import forced
from stator.world.thread_local import read_thread_local, write_thread_local
from stator.world.world import World

Function, Method, Builtin = types.FunctionType, types.MethodType, types.BuiltinFunctionType
LruCache: Any = type(functools.lru_cache(len))
BuiltinOfClass: Any = type(re.compile("").match)  # C methods that know the class defining them
Caller = Callable[["Host", Frame, Any, list[Any], "dict[str, Any] | None"], Any]
STANDINS: dict[Any, Caller] = {}  # functions whose native form must not run: same arguments, same meaning
OUTSIDE_METHODS: dict[tuple[int, str], Caller] = {}  # (id of the C type, name): bound methods of outside objects
OVERRIDES: dict[str, Caller] = {}  # method-wrappers of `object` by name, called on an outside receiver


METHODS: dict[
    str, list[tuple[type, Caller]]
] = {}  # C methods by name: called on an instance of the class, bound or not


def method_standin(cls: type, name: str) -> Callable[[Caller], Caller]:
    """Register caller(host, frame, method, [receiver, *args], kwargs) in place of a method of a C class."""

    def register(caller: Caller) -> Caller:
        METHODS.setdefault(name, []).append((cls, caller))
        return caller

    return register


def method_row(name: str, receiver: Any) -> Caller | None:
    return next((row for cls, row in METHODS.get(name, ()) if isinstance(receiver, cls)), None)


def standin(*functions: Any) -> Callable[[Caller], Caller]:
    """Register caller(host, frame, function, args, kwargs) in place of these functions."""

    def register(caller: Caller) -> Caller:
        for function in functions:
            STANDINS[function] = caller
        return caller

    return register


ITEM_OPERATORS = {operator.getitem, operator.setitem, operator.delitem, operator.contains}


class Host(World):
    """The world as the interpreter's opcodes use it."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: dict[int, tuple[Any, Caller]] = {}
        self.effects: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.patterns_purged = False  # re.purge() was called
        self.registered: set[tuple[int, int]] = set()  # (abstract class, class) whose relation is guarded
        self.gc_enabled = gc.isenabled()
        self.recorder: Any = None
        self.locks: dict[int, Any] = {}  # outside locks that the program took
        self.held: dict[int, int] = {}  # how often it has to give them back
        self.locks_break = False  # taking a lock is a break
        self.watched_functions: list[Any] = []
        self.checked_classes: dict[int, type] = {}
        self.displaying = False  # C is rendering a traceback

    def close(self) -> None:
        while self.watched_functions:
            _frames.unwatch_function(self.watched_functions.pop())
        super().close()

    def defer(self, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> None:
        """An effect that the entry function performs after the graph ran."""
        self.effects.append((function, tuple(args), kwargs or {}))

    def is_deferred(self, value: Any) -> bool:
        return False

    def snapshot(self, value: Any) -> Any:
        return value

    def class_of(self, obj: Any) -> type:
        return type(obj)

    def notice_builtin(self, function: Any) -> None:
        """A C function entered: where native code calls it, the call comes back unless it may simply run."""
        if not may_run(self, function) and _frames.watch_function(function):
            self.watched_functions.append(function)

    def for_native(self, value: Any) -> Any:
        """A value that C code asked for, as it may see it."""
        return value

    # ---- operators ------------------------------------------------------------------------------

    def operate(self, f: Frame, function: Any, *args: Any) -> Any:
        kinds = {type(args[0])} if function in ITEM_OPERATORS else {type(arg) for arg in args}
        if not kinds.isdisjoint(self.tensor_types) and (function in ITEM_OPERATORS or kinds <= self.operand_types):
            return self.record(f, function, args, None)
        if not kinds.isdisjoint(self.array_types):
            return self.operate_array(f, function, args)
        if function is operator.contains and id(args[1]) in self.records:
            self.identities.matters(type(args[1]))
        result = run_native(function, *args)
        if result is FAILED:
            raise RAISED
        return result

    passing: frozenset[Caller] = frozenset()  # callers that hand arguments on to frames as they are
    tensor_types: frozenset[type] = frozenset()
    operand_types: frozenset[type] = frozenset()
    array_types: frozenset[type] = frozenset()

    def operate_array(self, f: Frame, function: Any, args: tuple[Any, ...]) -> Any:
        """Set where numpy is installed: an operator with an array among its operands."""
        raise NotImplementedError

    def record(self, f: Frame, function: Any, args: Any, kwargs: Any) -> Any:
        """Set by the tensor side: record a torch call."""
        raise NotImplementedError

    def truth_of(self, value: Any) -> Any:
        return bool

    def iterate(self, f: Frame, value: Any) -> Any:
        return native(f, iter, self.whole(value))

    def whole(self, value: Any) -> Any:
        """A value as native code may iterate it."""
        return value

    def unpackable(self, f: Frame, value: Any) -> Any:
        return value

    def mapping_get(self, f: Frame, mapping: Any, name: str) -> Any:
        result = run_native(operator.getitem, mapping, name)
        if result is FAILED:
            if isinstance(f.error, KeyError):
                f.error = None
                return UNBOUND
            raise RAISED
        return result

    # ---- attributes -----------------------------------------------------------------------------

    def reader(self, cls: type) -> attributes.Reader:
        found = READERS.get(id(cls))
        if found is None:
            if issubclass(cls, types.ModuleType):
                found = attributes.read_module
            elif issubclass(cls, type):
                found = attributes.read_class
            elif _frames.is_heap_type(cls):
                found = attributes.read_instance
            else:
                found = attributes.read_native
        return found

    def load_attr(self, f: Frame, obj: Any, name: str) -> Any:
        value = self.read_attr(f, obj, name)
        return self.settled(value) if self.hollow else value

    def read_attr(self, f: Frame, obj: Any, name: str) -> Any:
        """As `load_attr`, for a register: the value may be hollow."""
        cls = type(obj)
        return (READERS.get(id(cls)) or self.reader(cls))(self, f, obj, name)

    def load_method(self, f: Frame, obj: Any, name: str) -> tuple[Any, Any]:
        reader = READERS.get(id(type(obj))) or self.reader(type(obj))
        if reader is attributes.read_instance:
            return attributes.read_method(self, f, obj, name)
        return reader(self, f, obj, name), UNBOUND

    def store_attr(self, f: Frame, obj: Any, name: str, value: Any) -> None:
        cls = type(obj)
        writer = WRITERS.get(id(cls))
        if writer is None:
            if issubclass(cls, types.ModuleType):
                writer = attributes.write_module
            elif issubclass(cls, type):
                writer = attributes.write_class
            elif _frames.is_heap_type(cls):
                writer = attributes.write_instance
            else:
                writer = write_c_object
        writer(self, f, obj, name, value)

    def missing_attribute(self, f: Frame, obj: Any, name: str) -> Any:
        """The class's __getattr__."""
        hook = _frames.type_lookup(type(obj), "__getattr__")
        return self.call(f, hook, [obj, name], None) if type(hook) is Function else native(f, hook, obj, name)

    # ---- calls ----------------------------------------------------------------------------------

    def call(self, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        kind = type(function)
        if kind is Method:
            function, args = function.__func__, [function.__self__, *args]
            kind = type(function)
        elif kind is Builtin and type(function.__self__) in CONTENT_TYPES and function.__name__[0] != "_":
            return call_python(self, f, function, args, kwargs)
        known = self.callers.get(id(function))
        if known is not None and known[0] is function:
            return known[1](self, f, function, args, kwargs)
        caller = self.caller(function)
        if is_free(function.__self__) if kind is Builtin else kind in HASHED_BY_IDENTITY or issubclass(kind, type):
            self.callers[id(function)] = (function, caller)
        return caller(self, f, function, args, kwargs)

    def caller(self, function: Any) -> Caller:
        kind = type(function)
        try:
            row = STANDINS.get(function) if kind in HASHED_BY_IDENTITY or issubclass(kind, type) else None
        except TypeError:
            row = None
        if row is not None:
            return row if row in PASSES_ON else partial(decisive, row)
        if self.recorder is not None and may_be_torch(kind) and self.recorder.takes(function):
            return call_torch
        row = CALLERS.get(id(kind))
        if row is None:
            row = call_class if issubclass(kind, type) else call_object if _frames.is_heap_type(kind) else call_c_object
        return row

    # ---- imports --------------------------------------------------------------------------------

    def import_name(self, f: Frame, name: str, fromlist: Any, level: int) -> Any:
        import builtins

        importer = self.namespace_get(f.builtins, "__import__")
        if importer is not builtins.__import__:
            names = f.names
            return self.call(f, importer, [name, f.globals, names, fromlist, level], None)
        return self.import_module(f, name, fromlist, level)

    def changed_modules(self) -> dict[str, Any]:
        """Entries of sys.modules that the captured program set or removed (UNBOUND)."""
        record = self.records.get(id(sys.modules))
        if record is not None and record.hollow is not None:
            return {name: UNBOUND if value is ABSENT else value for name, value in record.hollow.now.items()}
        if record is None or record.before is None:
            return {}
        before, now = dict(record.before), record.inner
        changed = {name: now.get(name, UNBOUND) for name in {**before, **now}}
        return {name: module for name, module in changed.items() if before.get(name, UNBOUND) is not module}

    def settle_modules(self) -> None:
        """Modules that were loaded for the first time during the capture are no change of sys.modules."""
        record = self.records.get(id(sys.modules))
        if record is not None and self.guards.has(record.path, KEYS):
            self.guards.replace(record.path, KEYS, tuple(sys.modules))

    def import_module(self, f: Frame, name: str, fromlist: Any, level: int) -> Any:
        """Import, with sys.modules as the program has left it."""
        changed = self.changed_modules()
        if any(name == other or name.startswith(other + ".") for other in changed) and not level:
            module = changed.get(name, UNBOUND)
            if module is UNBOUND or module is None or (not fromlist and "." in name):
                raise self.refuse(
                    "native-effect", f"import of {name} after sys.modules was changed", function="__import__"
                )
            return module
        return self.enter_const(self.imported(f, name, fromlist, level))

    def imported(self, f: Frame, name: str, fromlist: Any, level: int) -> Any:
        """Import for real, unobserved: loading a module is not an effect of the program being captured."""
        try:
            return __import__(name, f.globals, None, fromlist, level)
        except BaseException as error:
            error.__traceback__ = None
            return self.fail(f, error)

    def enter_const(self, obj: Any) -> Any:
        """An outside object reached by name of the interpreter itself: pinned by identity."""
        from stator.guards import path as paths

        record = self.records.get(id(obj))
        return record.inner if record is not None else self.enter(obj, paths.const(obj))

    def import_from(self, f: Frame, module: Any, name: str) -> Any:
        try:
            return self.load_attr(f, module, name)
        except BaseException as raised:
            if raised is not RAISED or not isinstance(f.error, AttributeError):
                raise
        f.error = None
        package = self.load_attr(f, module, "__name__")
        full = f"{package}.{name}"
        if full in sys.modules:
            return self.enter_const(sys.modules[full])
        origin = getattr(module, "__file__", None)
        text = f"cannot import name {name!r} from {package!r} ({origin or 'unknown location'})"
        return self.fail(f, ImportError(text, name=package, path=origin))

    def import_star(self, f: Frame, module: Any) -> None:
        record = self.records.get(id(module))
        names = self.namespace_of(record).expose() if record is not None else vars(module)
        public = names.get("__all__")
        for name in public if public is not None else [n for n in names if n[:1] != "_"]:
            value = self.load_attr(f, module, name)
            if type(f.names) is dict:
                self.namespace_set(f.names, name, value)
            else:
                native(f, operator.setitem, f.names, name, value)

    def lend_frames(self, f: Frame) -> list[Frame]:
        """Let CPython's frames show the interpreter's locals."""
        lent, frame = [], f
        while frame is not None:
            if self.lazy:
                frame.locals[:] = [forced(self, value) for value in frame.locals]
            lent.append(frame)
            frame = frame.outer
        self.settle_all()
        for frame in lent:
            frame.put(frame.locals, [])
        return lent


PASSES_ON: set[Caller] = set()  # stand-ins whose result is that of the Python function they call last


def passes_on(row: Caller) -> Caller:
    PASSES_ON.add(row)
    return row


def decisive(row: Caller, host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A stand-in: what it calls is no part of the user's frames that a break could go on in."""
    f.tail = -1
    return row(host, f, function, args, kwargs)


def may_be_torch(kind: type) -> bool:
    """Whether objects of this type can be torch operations."""
    return kind in HASHED_BY_IDENTITY or str(type.__dict__["__module__"].__get__(kind)).startswith("torch")


def call_python(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A Python function: CPython binds the arguments, and the frame arrives in the hook."""
    f.called = function if f.tail == f.lasti else None
    if host.hollow:
        settle_arguments(host, function, args, kwargs)
    if host.audit is not None:
        host.audit.check(function, args)
    result = _frames.native_apply(function, tuple(args), kwargs) if kwargs else run_native(function, *args)
    if result is FAILED:
        raise RAISED
    return result


def settle_arguments(host: World, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> None:
    """Hollow values may become arguments of frames, but nothing that is packed or read by native code."""
    packed: list[Any] = [*args, *(kwargs or {}).values()]
    if type(function) is Function and not function.__code__.co_filename.startswith(OWN_FOLDER):
        code = function.__code__
        packed = args[code.co_argcount :] if code.co_flags & CO_VARARGS else []
        if kwargs and code.co_flags & CO_VARKEYWORDS:
            packed = [*packed, *kwargs.values()]
    for value in packed:
        host.settled(value)


CO_VARARGS, CO_VARKEYWORDS = 0x04, 0x08
OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


def call_framed(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A C function that looks at the calling frame."""
    lent = host.lend_frames(f)
    try:
        return call_python(host, f, function, args, kwargs)
    finally:
        for frame in lent:
            frame.drop()


def call_torch(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    return host.record(f, function, args, kwargs)


def call_builtin(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A C function or a bound method of a C type."""
    owner = function.__self__
    if not is_free(owner):
        row = OUTSIDE_METHODS.get((id(type(owner)), function.__name__))
        if row is not None and id(owner) in host.records:
            return row(host, f, function, args, kwargs)
        record = host.records.get(id(owner))
        if record is not None and record.inner is record.obj and function.__name__ in OVERRIDES:
            return OVERRIDES[function.__name__](host, f, function, [owner, *args], kwargs)
        check_receiver(host, function, owner)
        row = method_row(function.__name__, owner)
        if row is not None:
            return row(host, f, unbound(function, owner), [owner, *args], kwargs)
        return call_python(host, f, function, args, kwargs)
    return decided(host, f, function, args, kwargs)


def unbound(function: Any, owner: Any) -> Any:
    """The descriptor that a bound C method came from, which a subclass may override."""
    for base in type.__dict__["__mro__"].__get__(type(owner)):
        found = _frames.class_dict(base).get(function.__name__)
        if type(found) is types.MethodDescriptorType and found.__get__(owner) == function:
            return found
    return function


def may_run(host: Host, function: Any) -> bool:
    """Whether native code may call a C function by itself."""
    owner = function.__self__
    if is_free(owner):
        return function not in STANDINS and policy.decide(function) == "run"
    record = host.records.get(id(owner))
    return record is None or record.inner is not record.obj or never_changes(owner) or only_reads(function, owner)


VALUE_TYPES = (int, float, complex, str, bytes, tuple, frozenset)


def never_changes(obj: Any) -> bool:
    """Whether the C part of an outside object is the same for ever."""
    return isinstance(obj, VALUE_TYPES) or any(
        f"{base.__module__}.{base.__name__}" in policy.IMMUTABLE_OUTSIDE
        for base in type.__dict__["__mro__"].__get__(type(obj))
    )


def only_reads(function: Any, owner: Any) -> bool:
    """Whether a method of an outside C object depends on nothing that changes."""
    return (f"{type(owner).__module__}.{type(owner).__name__}", function.__name__) in policy.READING_METHODS


def check_receiver(host: Host, function: Any, owner: Any) -> None:
    """Bound methods of outside C objects run only where the object never changes."""
    record = host.records.get(id(owner))
    if record is None or record.inner is not record.obj:
        return
    cls = type(owner)
    if not never_changes(owner) and not only_reads(function, owner):
        name = f"{cls.__name__}.{function.__name__}"
        raise host.refuse("native-outside-object", f"call of {name} on an outside object", function=name)


def decided(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """What the policy table says."""
    decision = policy.decide(function)
    if decision == "run":
        return call_python(host, f, function, args, kwargs)
    if decision == "frames":
        return call_framed(host, f, function, args, kwargs)
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"
    raise host.refuse(decision, f"call of {name}", function=name)


def call_descriptor(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`list.append(x, 1)`, `object.__setattr__(x, …)`: an unbound C method."""
    if args:
        receiver = args[0]
        record = host.records.get(id(receiver))
        if record is not None and record.inner is record.obj:
            row = OVERRIDES.get(function.__name__)
            if row is not None:
                return row(host, f, function, args, kwargs)
            if type(function) is types.MethodDescriptorType and not isinstance(receiver, type):
                check_receiver(host, function, receiver)
        row = method_row(function.__name__, receiver)
        if row is not None:
            return row(host, f, function, args, kwargs)
    return decided(host, f, function, args, kwargs)


def call_wrapper(host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A bound slot method such as `super().__setattr__`."""
    record = host.records.get(id(function.__self__))
    if record is not None and record.inner is record.obj:
        row = OVERRIDES.get(function.__name__)
        if row is not None:
            return row(host, f, function, [function.__self__, *args], kwargs)
    if isinstance(function.__self__, type):
        row = STANDINS.get(type.__dict__.get(function.__name__))
        if row is not None:
            return row(host, f, type.__dict__[function.__name__], [function.__self__, *args], kwargs)
    return call_python(host, f, function, args, kwargs)


def call_class(host: Host, f: Frame, cls: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """Making an instance."""
    if _frames.is_heap_type(cls):
        host.type_info(cls)
        check_bases(host, cls)
        return call_python(host, f, cls, args, kwargs)
    return decided(host, f, cls, args, kwargs)


def check_bases(host: Host, cls: type) -> None:
    """The classes made in C that an instance is built from must be on the list."""
    if id(cls) in host.checked_classes:
        return
    for base in type.__dict__["__mro__"].__get__(cls):
        if not _frames.is_python_class(base):
            decision = policy.decide_class(base)
            if decision != "run":
                name = f"{base.__module__}.{base.__qualname__}"
                raise host.refuse(decision, f"making an instance of {name}", function=name)
    host.checked_classes[id(cls)] = cls


def call_object(host: Host, f: Frame, obj: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """An instance with __call__."""
    host.type_info(type(obj))
    method = _frames.type_lookup(type(obj), "__call__")
    if type(method) is Function:
        return host.call(f, method, [obj, *args], kwargs)
    if type(obj) is LruCache:
        check_cache(host, obj)
    else:
        check_called(host, obj)
    return call_python(host, f, obj, args, kwargs)


def check_called(host: Host, obj: Any) -> None:
    """An outside object that C code calls (Cython functions are such): only where it never changes anything."""
    record = host.records.get(id(obj))
    if record is None or record.inner is not record.obj or never_changes(obj):
        return
    mro = type.__dict__["__mro__"].__get__(type(obj))
    definer = next((base for base in mro if "__call__" in _frames.class_dict(base)), None)
    if definer is not None and not _frames.is_python_class(definer):
        name = getattr(obj, "__qualname__", None) or type(obj).__qualname__
        raise host.refuse("native-unknown", f"call of {name}, an outside {definer.__name__}", function=name)


def check_cache(host: Host, wrapper: Any) -> None:
    """What an outside lru_cache holds cannot be seen or put back: only caches of immutable values may be used."""
    home = wrapper.__wrapped__.__module__
    if id(wrapper) in host.records and home not in policy.VALUE_CACHES:
        raise host.refuse("native-outside-object", f"call of a function of {home} with lru_cache", function="lru_cache")


def call_c_object(host: Host, f: Frame, obj: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """partial, itemgetter, lru_cache wrappers, and things that cannot be called."""
    if not callable(obj):
        return call_python(host, f, obj, args, kwargs)
    record = host.records.get(id(obj))
    if record is not None and record.inner is record.obj:
        cls = type(obj)
        if f"{cls.__module__}.{cls.__name__}" not in policy.IMMUTABLE_OUTSIDE:
            raise host.refuse("native-outside-object", f"call of an outside {cls.__name__}", function=cls.__name__)
    return call_python(host, f, obj, args, kwargs)


def write_c_object(host: World, f: Frame, obj: Any, name: str, value: Any) -> None:
    record = host.records.get(id(obj))
    if record is not None and record.inner is record.obj:
        raise host.refuse("outside-write", f"attribute {name!r} of an outside {type(obj).__name__}", target=name)
    attributes.write_native(host, f, obj, name, value)


def read_frame(host: Any, f: Frame, frame: Any, name: str) -> Any:
    """Attributes of frame objects: CPython's frames are brought in step first."""
    if name == "f_globals":
        namespace = host.namespace(frame.f_globals)
        return frame.f_globals if namespace is None else namespace.expose()
    if name != "f_locals":
        return attributes.read_native(host, f, frame, name)
    lent = host.lend_frames(f)
    try:
        return native(f, getattr, frame, name)
    finally:
        for one in lent:
            one.drop()


def read_traceback(host: Any, f: Frame, traceback: Any, name: str) -> Any:
    """An outside traceback is pinned once somebody looks into it."""
    record = host.records.get(id(traceback))
    if record is not None:
        host.guards.add(record.path, IS, traceback, host.origin())
    return attributes.read_native(host, f, traceback, name)


Host.passing = frozenset({call_python, call_object})

# Builtin types whose instances are constants, shadows or made inside: their methods work on nothing else.
CONTENT_TYPES = frozenset({list, dict, set, tuple, str, bytes, int, float, frozenset, bytearray, bool, complex})
HASHED_BY_IDENTITY = {
    Function,
    Builtin,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
}
READERS: dict[int, attributes.Reader] = by_identity(
    {
        types.ModuleType: attributes.read_module,
        Function: attributes.read_function,
        type: attributes.read_class,
        types.FrameType: read_frame,
        types.TracebackType: read_traceback,
        super: attributes.read_super,
        types.CellType: attributes.read_cell,
        threading.local: read_thread_local,
    }
)
WRITERS: dict[int, Any] = by_identity(
    {
        types.ModuleType: attributes.write_module,
        Function: attributes.write_function,
        type: attributes.write_class,
        types.CellType: attributes.write_cell,
        threading.local: write_thread_local,
    }
)
CALLERS: dict[int, Caller] = by_identity(
    {
        Function: call_python,
        Builtin: call_builtin,
        BuiltinOfClass: call_builtin,
        types.MethodDescriptorType: call_descriptor,
        types.WrapperDescriptorType: call_descriptor,
        types.ClassMethodDescriptorType: call_descriptor,
        types.MethodWrapperType: call_wrapper,
    }
)


def frame_below_native() -> Any:
    """The frame whose instruction runs native code: the result of what that calls is not the instruction's."""
    f = _frames.top_frame()
    f.tail = -1
    return f


def read_for_native(obj: Any, name: str) -> Any:
    """C code reads an attribute of an outside object."""
    f = frame_below_native()
    try:
        value = f.world.load_attr(f, obj, name)
    except Raised:
        return FAILED
    if type(value) is Builtin:
        f.world.notice_builtin(value)
    return f.world.for_native(value)


def write_for_native(obj: Any, name: str, value: Any) -> Any:
    """C code writes an attribute of an outside object."""
    f = frame_below_native()
    try:
        f.world.store_attr(f, obj, name, value)
    except Raised:
        return FAILED
    return None


def call_for_native(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """C code calls a watched C function."""
    f = frame_below_native()
    try:
        return f.world.for_native(f.world.settled(f.world.call(f, function, list(args), kwargs or None)))
    except Raised:
        return FAILED


_frames.set_callbacks(read_for_native, write_for_native)
_frames.set_call_callback(call_for_native)
