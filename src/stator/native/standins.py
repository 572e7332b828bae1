"""Stand-ins for C functions that read attributes, frames or output natively."""

from __future__ import annotations

import array
import builtins
import copyreg
import gc
import importlib
import inspect
import io
import operator
import pickle
import random
import re
import sys
import types
import weakref
from typing import Any

from stator import _entry, _frames
from stator._frames import FAILED, UNBOUND
from stator.code.finishing import initialize, is_made, refuse_result
from stator.eval.methods import setter
from stator.frame import RAISED, Frame, forget_tracebacks, native, throw
from stator.guards import path as paths
from stator.guards.check import EQ
from stator.native.callers import call_framed, call_lent, call_python
from stator.native.host import Host
from stator.native.rows import OVERRIDES, method_standin, passes_on, standin
from stator.world import attributes, writing
from stator.world.callbacks import TWINS
from stator.world.hollow_namespaces import as_dict
from stator.world.lazy import forced


@passes_on
@standin(getattr)
def stand_getattr(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or not 2 <= len(args) <= 3 or not isinstance(args[1], str):
        return call_python(host, f, function, args, kwargs)
    if len(args) == 2:
        f.finish, f.kept = "getattr", ((args[0], args[1]),)
        return host.load_attr(f, args[0], args[1])
    f.finish, f.kept = "getattr or default", (args[2],)
    return attribute_or(host, f, args[0], args[1], args[2])


def attribute_or(host: Host, f: Frame, obj: Any, name: str, default: Any, light: bool = False) -> Any:
    """The attribute (with `light` perhaps hollow), or the default when reading it raises AttributeError."""
    try:
        value = host.seek_attr(f, obj, name)
        return value if light or not host.hollow else host.settled(value)
    except BaseException as raised:
        if raised is not RAISED or not isinstance(f.error, AttributeError):
            raise
        forget_tracebacks()
        f.error = None
        return default


@passes_on
@standin(hasattr)
def stand_hasattr(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 2 or not isinstance(args[1], str):
        return call_python(host, f, function, args, kwargs)
    f.finish, f.kept = "hasattr", (False,)
    return attribute_or(host, f, args[0], args[1], UNBOUND) is not UNBOUND


@passes_on
@standin(initialize)
def stand_initialize(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A call of a class goes on behind its `__new__`."""
    cls, positional, keywords, instance = args[0]
    if not is_made(cls, instance):
        return instance
    host.type_info(type(instance))
    initializer = _frames.type_lookup(type(instance), "__init__")
    if initializer is object.__init__:
        return instance
    f.finish, f.kept = "init", (instance,)
    result = host.call(f, initializer, [instance, *positional], dict(keywords))
    return instance if result is None else call_python(host, f, refuse_result, [result], None)


@standin(setattr)
def stand_setattr(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 3 or not isinstance(args[1], str):
        return call_python(host, f, function, args, kwargs)
    f.called, f.finish = setter(type(args[0]), args[1], False), "setattr"
    host.store_attr(f, args[0], args[1], args[2])
    f.called = None
    return None


@standin(delattr)
def stand_delattr(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 2 or not isinstance(args[1], str):
        return call_python(host, f, function, args, kwargs)
    host.store_attr(f, args[0], args[1], UNBOUND)
    return None


@standin(type)
def stand_type(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        cls = host.class_of(args[0])
        host.type_info(cls)
        return cls
    return call_python(host, f, function, args, kwargs)


@standin(super)
def stand_super(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Without arguments it looks for them in the calling frame."""
    args = args or implied(host, f)
    return (call_python if args else call_framed)(host, f, function, args, kwargs)


def implied(host: Host, f: Frame) -> list[Any]:
    """`__class__` and the first argument of a method; nothing where there is not both."""
    code = f.code
    if not code.co_argcount or "__class__" not in code.co_freevars:
        return []
    cls = host.load_cell(f, f.info.slots.index("__class__"))
    first = host.load_cell(f, 0) if code.co_varnames[0] in code.co_cellvars else forced(host, f.locals[0])
    return [] if first is UNBOUND or not issubclass(type(cls), type) else [cls, first]


@standin(globals)
def stand_globals(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if args or kwargs:
        return call_python(host, f, function, args, kwargs)
    namespace = host.namespaces.get(id(f.globals))
    return f.globals if namespace is None else as_dict(namespace)


@standin(locals)
def stand_locals(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if f.names is not None and f.names is f.globals:
        return stand_globals(host, f, function, args, kwargs)
    found = call_lent(host, f, function, args, kwargs)
    if f.code.co_flags & inspect.CO_OPTIMIZED:  # else they are the variables themselves
        host.frame_dicts.append((f.code, found))
    return found


@standin(vars)
def stand_vars(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        return stand_locals(host, f, function, args, kwargs)
    found = attribute_or(host, f, args[0], "__dict__", UNBOUND, light=True)
    if found is UNBOUND:
        return throw(f, TypeError("vars() argument must have __dict__ attribute"))
    return found


def expose_names(host: Host, record: Any) -> None:
    """All attributes of an outside instance are about to be seen."""
    if _frames.instance_dict(record.obj) is not None or host.has_dict(record.obj):
        host.namespace_of(record).expose()


@standin(dir)
def stand_dir(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        record = host.records.get(id(args[0]))
        if record is not None and record.inner is record.obj and not issubclass(type(args[0]), type):
            expose_names(host, record)
        return call_python(host, f, function, args, kwargs)
    return call_lent(host, f, function, args, kwargs)


@standin(exec, eval)
def stand_exec(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Code in an explicit namespace sees that dict; without one, the frame's own."""
    if not args or len(args) > 3:
        return call_python(host, f, function, args, kwargs)
    if len(args) < 2 or args[1] is None:
        namespace = stand_globals(host, f, globals, [], None)
        names = args[2] if len(args) > 2 and args[2] is not None else stand_locals(host, f, locals, [], None)
        args = [args[0], namespace, names]
    for names in args[1:]:
        if type(names) is dict and id(names) not in host.namespaces:
            host.inside_namespaces[id(names)] = names
    if isinstance(args[1], dict):
        if not dict.__contains__(args[1], "__builtins__"):
            dict.__setitem__(args[1], "__builtins__", f.builtins)
        inside_globals(host, args[1])
    return call_python(host, f, function, args, kwargs)


def inside_globals(host: Host, namespace: dict[str, Any]) -> None:
    """A dict that the program made serves as globals, perhaps with builtins of its own."""
    for names in (namespace, dict.get(namespace, "__builtins__")):
        if id(names) not in host.namespaces and not isinstance(names, types.ModuleType):
            host.inside_namespaces[id(names)] = names


@standin(types.FunctionType)
def stand_function_type(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    made = call_python(host, f, function, args, kwargs)
    inside_globals(host, made.__globals__)
    host.inside_function(made)
    return made


@standin(sys._getframe)
def stand_getframe(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return call_framed(host, f, function, args, kwargs)


@standin(builtins.__import__)
def stand_import(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    names = ("name", "globals", "locals", "fromlist", "level")
    given = dict(zip(names, args, strict=False)) | (kwargs or {})
    name, fromlist, level = given.get("name", ""), given.get("fromlist", ()), given.get("level", 0)
    if type(name) is not str or len(given) < len(args) + len(kwargs or ()) or not given.keys() <= set(names):
        return call_python(host, f, function, args, kwargs)
    if level:
        raise host.refuse("native-unknown", "call of __import__ relative to a package", function="__import__")
    return host.import_module(f, name, fromlist, level)


@standin(importlib.import_module)
def stand_import_module(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The statement's way: its own body would read, and guard, all of sys.modules."""
    if kwargs or len(args) != 1 or type(args[0]) is not str or args[0][:1] in ("", "."):
        return call_python(host, f, function, args, kwargs)
    return host.import_module(f, args[0], ("__name__",), 0)


OPERATORS = tuple(
    getattr(operator, name)
    for name in [
        "lt",
        "le",
        "eq",
        "ne",
        "gt",
        "ge",
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "lshift",
        "rshift",
        "and_",
        "or_",
        "xor",
        "neg",
        "pos",
        "invert",
        "abs",
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "imatmul",
        "ilshift",
        "irshift",
        "iand",
        "ior",
        "ixor",
        "getitem",
        "setitem",
        "delitem",
        "contains",
    ]
)


@standin(*OPERATORS)
def stand_operator(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`operator.add(a, b)` is `a + b`."""
    if kwargs or not args:
        return call_python(host, f, function, args, kwargs)
    return host.operate(f, function, *args)


@standin(print)
def stand_print(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Output to an outside stream happens after the graph ran, in program order, with real values."""
    given = dict(kwargs or {})
    stream = given.pop("file", None)
    if given:
        options = {"file": io.StringIO(), **given}
        if _frames.native_apply(print, (), options) is FAILED:  # a bad option
            raise RAISED
    if stream is None:
        namespace = host.namespace(vars(sys))
        if namespace is None or "stdout" not in namespace.touched:  # whatever it is when the entry runs
            return host.defer(print, printed(host, f, args), given)
        stream = namespace.get("stdout")
        if stream is None:
            return None
    record = host.records.get(id(stream))
    if record is None or record.inner is not record.obj:
        return call_python(host, f, function, args, {**given, "file": stream})
    host.defer(print, printed(host, f, args), {**given, "file": stream})
    return None


def printed(host: Host, f: Frame, args: list[Any]) -> list[Any]:
    """The texts that `print` makes of its arguments."""
    texts = [arg if type(arg) is str or host.is_deferred(arg) else native(f, str, arg) for arg in args]
    for text in texts:
        if type(text) is str:
            host.know_text(text)
    return [host.snapshot(text) for text in texts]


@method_standin(type, "__subclasses__")
def stand_subclasses(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """The classes there are now are guarded; ones that the program makes come and go with each call."""
    if len(args) != 1 or kwargs or host.is_inside_type(args[0]):
        return call_python(host, f, function, args, kwargs)
    found = type.__subclasses__(args[0])
    if any(host.is_inside_type(cls) for cls in found):
        raise host.refuse("native-impure", "subclasses that were made during capture", function="__subclasses__")
    return host.enter(found, host.path_of(args[0]).part("subclasses", type.__subclasses__))


@method_standin(array.array, "buffer_info")
def stand_buffer_info(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """An address: the array of the running program lies elsewhere."""
    raise host.refuse("native-impure", "the address of an array", function="array.buffer_info")


@standin(gc.isenabled)
def stand_gc_isenabled(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if not host.gc_switched:
        path = paths.const(gc.isenabled).part("()", _entry.is_collecting)
        host.guards.add(path, EQ, host.gc_enabled, host.origin())
    return host.gc_enabled


@standin(gc.enable, gc.disable)
def stand_gc_switch(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    host.gc_enabled, host.gc_switched = function is gc.enable, True
    host.defer(function, [], None)


PICKLERS = {pickle.dumps: pickle._dumps, pickle.loads: pickle._loads,  # type: ignore[attr-defined]
            pickle.dump: pickle._dump, pickle.load: pickle._load}  # type: ignore[attr-defined]  # fmt: skip


@standin(*PICKLERS)
def stand_pickle(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """C reads the real sys.modules and copyreg's tables: after a change the twin in Python does the work."""
    if host.changed_modules() or changed_tables(host, f):
        return host.call(f, PICKLERS[function], args, kwargs)
    return call_python(host, f, function, args, kwargs)


def changed_tables(host: Host, f: Frame) -> bool:
    """Whether the program changed what copyreg keeps for pickle, which is guarded."""
    module, changed = host.enter_const(copyreg), False
    for name in ("dispatch_table", "_extension_registry", "_inverted_registry"):
        table = host.load_attr(f, module, name)
        record = host.records.get(id(table))
        changed |= record is None or record.before != list(table.items())
    return changed


C_RANDOM: Any = random.Random.__base__


@method_standin(C_RANDOM, "seed")
def stand_seed(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Without a seed, the operating system gives one."""
    if len(args) < 2 or args[1] is None:
        raise host.refuse("random-state", "a random generator is seeded by the operating system")
    if type(args[1]) in host.varying_types and host.may_break:
        raise host.refuse("random-state", "a random generator is seeded by a number that varies")
    return call_python(host, f, function, args, kwargs)


def call_bound(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Calls a method that may have its receiver already, which is the first argument in any case."""
    has_receiver = type(function) in (types.BuiltinFunctionType, types.MethodWrapperType)
    return call_python(host, f, function, args[1:] if has_receiver else args, kwargs)


def override_setattr(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) != 3 or kwargs or not isinstance(args[1], str):
        return call_bound(host, f, function, args, kwargs)
    return write_plainly(host, f, function, args[0], args[1], args[2])


def override_delattr(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) != 2 or kwargs or not isinstance(args[1], str):
        return call_bound(host, f, function, args, kwargs)
    return write_plainly(host, f, function, args[0], args[1], UNBOUND)


def write_plainly(host: Host, f: Frame, function: Any, obj: Any, name: str, value: Any) -> None:
    """What object.__setattr__ or object.__delattr__ does to something from outside."""
    if issubclass(type(obj), type):
        raise host.refuse("native-outside-object", "a write to a class by its slot", function=function.__name__)
    if issubclass(type(obj), types.ModuleType):
        return writing.write_module(host, f, obj, name, value)
    return writing.write_generic(host, f, host.records[id(obj)], name, value)


def override_getattribute(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) != 2 or kwargs or issubclass(type(args[0]), type) or not isinstance(args[1], str):
        return call_bound(host, f, function, args, kwargs)
    if issubclass(type(args[0]), types.ModuleType):
        if host.type_info(type(args[0])).has_getattr:  # which is not asked here
            raise host.refuse("native-outside-object", "an attribute of a module", function=function.__name__)
        return attributes.read_plain_module(host, f, args[0], args[1])
    return attributes.read_generic(host, f, args[0], args[1])


def override_dir(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if issubclass(type(args[0]), (type, types.ModuleType)):
        return call_bound(host, f, function, args, kwargs)
    expose_names(host, host.records[id(args[0])])
    return call_python(host, f, object.__dir__, args, kwargs)


OVERRIDES.update(
    __setattr__=override_setattr,
    __delattr__=override_delattr,
    __getattribute__=override_getattribute,
    __dir__=override_dir,
)

# Bookkeeping of weak collections: runs when some object dies, which may be one that has nothing to do with the capture.
for _function in (weakref.WeakValueDictionary.__init__, weakref.WeakKeyDictionary.__init__, weakref.WeakSet.__init__):
    for _constant in _function.__code__.co_consts:
        if isinstance(_constant, types.CodeType):
            TWINS[_constant] = _constant.replace()
            _frames.mark_code(_constant, _frames.SKIPPED)
_frames.mark_code(weakref.finalize.__call__.__code__, _frames.SKIPPED)

# Python code whose only effect is a cache of its own: CPython runs it, unobserved.
NATIVE_MODULES = ("re._parser", "re._compiler", "re._casefix", "linecache", "keyword")
NATIVE_FUNCTIONS: tuple[Any, ...] = (re._compile, re._subx, re._expand, re._compile_repl, re.escape)  # type: ignore[attr-defined]


def mark_native(code: types.CodeType) -> None:
    """Skip a function and those defined in it."""
    _frames.mark_code(code, _frames.SKIPPED)
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            mark_native(value)


def functions_of(module: types.ModuleType) -> Any:
    for value in vars(module).values():
        members = vars(value).values() if isinstance(value, type) and value.__module__ == module.__name__ else (value,)
        for member in members:
            member = getattr(member, "__wrapped__", member)
            if isinstance(member, types.FunctionType) and member.__module__ == module.__name__:
                yield member


for _name in NATIVE_MODULES:
    for _function in functions_of(importlib.import_module(_name)):
        mark_native(_function.__code__)
for _function in NATIVE_FUNCTIONS:
    mark_native(getattr(_function, "__wrapped__", _function).__code__)

__all__ = ["FAILED"]
