"""Recipes for functions, cells, methods and the C objects that wrap callables."""

from __future__ import annotations

import builtins
import functools
import operator
import sys
import types
from collections.abc import Iterable
from typing import Any

from . import atoms, raw
from .plan import SELF, CannotRebuild, Const, Heap, Part, Piece, Plan, dict_of, keywords_of, listing, piece, tuple_of
from .recipes_containers import create

# Functions.


def build_function(obj: types.FunctionType, solid: type, heap: Heap) -> Plan:
    code, closure = obj.__code__, obj.__closure__
    arguments: list[object] = [Const(code), globals_of(obj, heap)]
    if closure:
        arguments += [obj.__name__, obj.__defaults__, closure]
    elif obj.__defaults__ is not None:
        arguments += [obj.__name__, obj.__defaults__]
    elif obj.__name__ != code.co_name:
        arguments += [obj.__name__]
    make = piece("{0}({1})", Const(types.FunctionType), listing(arguments))
    attributes = _function_attributes(obj, made_inside(obj.__globals__, heap))
    fills = [piece(f"{{0}}.{name} = {{1}}", SELF, value) for name, value in attributes]
    return Plan(make, fills)


def globals_of(function: types.FunctionType, heap: Heap) -> object:
    """What stands for the globals where a function with them is made."""
    namespace = function.__globals__
    is_made = made_inside(namespace, heap)
    if is_made and namespace.get("__builtins__") is not builtins.__dict__:
        # A function takes its builtins from the globals when it is made.
        return Part(namespace, contents="__builtins__" in namespace)
    return namespace if is_made or heap.resolved(namespace) else Const(namespace)


def made_inside(namespace: dict[str, Any], heap: Heap) -> bool:
    """Globals are nearly always a module's real dict; for others the caller says whether capture made them."""
    return not atoms.is_module_namespace(namespace) and heap.inside(namespace)


def _function_attributes(obj: types.FunctionType, is_made: bool) -> Iterable[tuple[str, object]]:
    """Attributes that differ from what FunctionType derives from code and globals."""
    code = obj.__code__
    documented = code.co_consts[0] if code.co_consts and isinstance(code.co_consts[0], str) else None
    if obj.__qualname__ != code.co_qualname:
        yield "__qualname__", obj.__qualname__
    if obj.__doc__ is not documented:
        yield "__doc__", obj.__doc__
    if is_made or obj.__module__ != obj.__globals__.get("__name__"):
        yield "__module__", obj.__module__
    if obj.__kwdefaults__ is not None:
        yield "__kwdefaults__", obj.__kwdefaults__
    if obj.__annotations__:
        yield "__annotations__", obj.__annotations__


def build_cell(obj: types.CellType, solid: type, heap: Heap) -> Plan:
    bare = piece("{0}()", Const(types.CellType))
    try:
        contents = obj.cell_contents
    except ValueError:
        return Plan(bare)
    rest = [piece("{0}.cell_contents = {1}", SELF, contents)]
    return Plan(piece("{0}({1})", Const(types.CellType), contents), bare=bare, rest=rest)


# Methods.


def build_method(obj: types.MethodType, solid: type, heap: Heap) -> Plan:
    function, owner = (types.MethodType.__dict__[name].__get__(obj) for name in ("__func__", "__self__"))
    return Plan(piece("{0}({1}, {2})", Const(types.MethodType), function, owner))


def build_builtin_method(obj: Any, solid: type, heap: Heap) -> Plan:
    """`[].append`: the C descriptor of that name, bound to the rebuilt owner."""
    owner = obj.__self__
    if raw.class_name(type(owner)).startswith("pybind11_detail_function_record"):  # a function of a module
        return Plan(piece("{0}", Const(obj)))
    for step in raw.mro(type(owner)):
        descriptor = raw.class_dict(step).get(obj.__name__)
        if type(descriptor) is types.MethodDescriptorType and descriptor.__get__(owner) == obj:
            return Plan(piece("{0}({1})", Const(descriptor.__get__), owner))
    for step in raw.mro(owner) if raw.is_a(owner, type) else ():
        descriptor = raw.class_dict(step).get(obj.__name__)
        if type(descriptor) is types.ClassMethodDescriptorType:
            return Plan(piece("{0}(None, {1})", Const(descriptor.__get__), owner))
    raise CannotRebuild(obj, f"no method {obj.__name__!r} of C code is found on its owner's class")


def build_method_wrapper(obj: types.MethodWrapperType, solid: type, heap: Heap) -> Plan:
    if obj.__self__ is None:  # `__get__` would take it for no object
        return Plan(piece("{0}(None, {1})", Const(getattr), obj.__name__))
    descriptor = raw.class_dict(obj.__objclass__)[obj.__name__]
    return Plan(piece("{0}({1})", Const(descriptor.__get__), obj.__self__))


def build_descriptor(obj: Any, solid: type, heap: Heap) -> Plan:
    """Slots and C methods of a class that is rebuilt."""
    return Plan(piece("{0}({1})[{2}]", Const(raw.class_dict), obj.__objclass__, obj.__name__))


def build_super(obj: Any, solid: type, heap: Heap) -> Plan:
    fields = [super.__dict__[name].__get__(obj) for name in ("__thisclass__", "__self__")]
    # super(type, obj) only walks the MRO of type(obj); a class with `__class__` tricks is out of reach.
    bound = fields if fields[1] is not None else fields[:1]
    if type(obj) is super and fields[0] is not None:
        return Plan(piece("{0}({1})", Const(super), listing(bound)))
    filled = [piece("{0}({1}, {2})", Const(super.__init__), SELF, listing(bound))] if fields[0] is not None else []
    return Plan(create(super, obj), filled)


# Descriptors that wrap functions.


def build_wrapper(obj: Any, solid: type, heap: Heap) -> Plan:
    """classmethod and staticmethod; `__init__` copies attributes of the function, which the state then overwrites."""
    wrapped = solid.__dict__["__func__"].__get__(obj)
    start = solid.__dict__["__init__"]
    if type(obj) is solid:
        make = piece("{0}({1})", Const(solid), wrapped)
        return Plan(make, bare=create(solid, obj), rest=[piece("{0}({1}, {2})", Const(start), SELF, wrapped)])
    return Plan(create(solid, obj), [piece("{0}({1}, {2})", Const(start), SELF, wrapped)])


def build_property(obj: Any, solid: type, heap: Heap) -> Plan:
    accessors = [property.__dict__[name].__get__(obj) for name in ("fget", "fset", "fdel", "__doc__")]
    if type(obj) is property:
        return Plan(piece("{0}({1})", Const(property), listing(accessors)))
    return Plan(create(property, obj), [piece("{0}({1}, {2})", Const(property.__init__), SELF, listing(accessors))])


# Functools and operator.


def build_partial(obj: Any, solid: type, heap: Heap) -> Plan:
    function, arguments, keywords = (
        functools.partial.__dict__[name].__get__(obj) for name in ("func", "args", "keywords")
    )
    # A partial of a partial would be flattened by the constructor, so its state is set afterwards.
    simple = not raw.is_a(function, functools.partial) and all(map(raw.is_name, keywords))
    if type(keywords) is dict and sys.getrefcount(keywords) > HELD_ALONE:  # the program has them, too
        return Plan(_blank_partial(obj), [_partial_state(function, arguments, keywords, shared=True)])
    if type(obj) is functools.partial and simple:
        make = piece(
            "{0}({1}{2})", Const(functools.partial), listing([function, *arguments]), keywords_of(keywords.items())
        )
        return Plan(make, bare=_blank_partial(obj), rest=[_partial_state(function, arguments, keywords)])
    return Plan(_blank_partial(obj), [_partial_state(function, arguments, keywords)])


def _blank_partial(obj: Any) -> Piece:
    return create(functools.partial, obj, Const(len))


HELD_ALONE = 3  # references to the keywords of a partial: its own, that of a variable, that of an argument


def _partial_state(
    function: object, arguments: tuple[object, ...], keywords: dict[str, object], shared: bool = False
) -> Piece:
    set_state = functools.partial.__dict__["__setstate__"]
    return piece(
        "{0}({1}, ({2}, {3}, {4}, None))",
        Const(set_state),
        SELF,
        function,
        tuple_of(arguments),
        keywords if shared else dict_of(keywords.items()),
    )


def build_getter(obj: Any, solid: type, heap: Heap) -> Plan:
    """itemgetter, attrgetter: their reduction is the call that made them."""
    maker, arguments = obj.__reduce__()
    return Plan(piece("{0}({1})", Const(maker), listing(arguments)))


def build_methodcaller(obj: Any, solid: type, heap: Heap) -> Plan:
    maker, arguments = obj.__reduce__()
    if maker is operator.methodcaller:
        return Plan(piece("{0}({1})", Const(maker), listing(arguments)))
    # With keywords the reduction is partial(methodcaller, name, **keywords)(*arguments).
    positional = listing([*maker.args, *arguments])
    return Plan(piece("{0}({1}{2})", Const(operator.methodcaller), positional, keywords_of(maker.keywords.items())))


def build_lru_cache(obj: Any, solid: type, heap: Heap) -> Plan:
    counts = solid.__dict__["cache_info"](obj)
    if counts.hits or counts.misses or counts.currsize:
        raise CannotRebuild(obj, "a cache that has been used holds its results where they cannot be read")
    namespace = raw.instance_dict(obj)[0]
    parameters = namespace.get("cache_parameters")
    if type(parameters) is not types.FunctionType or parameters.__globals__ is not functools.__dict__:
        raise CannotRebuild(obj, "the parameters of its cache cannot be read")
    names = dict(zip(parameters.__code__.co_freevars, parameters.__closure__ or (), strict=True))
    limits = [names[name].cell_contents for name in ("maxsize", "typed")]
    arguments = [namespace["__wrapped__"], *limits, Const(type(counts))]
    return Plan(piece("{0}({1})", Const(solid), listing(arguments)))


ROWS: dict[type, Any] = {
    types.FunctionType: build_function,
    types.CellType: build_cell,
    types.MethodType: build_method,
    types.BuiltinFunctionType: build_builtin_method,
    types.MethodWrapperType: build_method_wrapper,
    types.MethodDescriptorType: build_descriptor,
    types.WrapperDescriptorType: build_descriptor,
    types.GetSetDescriptorType: build_descriptor,
    types.MemberDescriptorType: build_descriptor,
    types.ClassMethodDescriptorType: build_descriptor,
    super: build_super,
    classmethod: build_wrapper,
    staticmethod: build_wrapper,
    property: build_property,
    functools.partial: build_partial,
    operator.itemgetter: build_getter,
    operator.attrgetter: build_getter,
    operator.methodcaller: build_methodcaller,
    functools._lru_cache_wrapper: build_lru_cache,
}
