"""Comparing heaps: is one object graph a copy of another, with the same sharing, and what do two of them share?"""

import collections
import gc
import sys
import types

import torch

from stator.emit import Emitter

SHAREABLE = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    type(None),
    type(...),
    type(NotImplemented),
    range,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FunctionType,
    types.CellType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    torch.Tensor,
    torch.dtype,
    torch.device,
)


def slots_of(obj):
    for cls in type.mro(type(obj)):
        for name, member in cls.__dict__.items():
            if type(member) is types.MemberDescriptorType and cls.__flags__ & (1 << 9):
                try:
                    yield name, member.__get__(obj)
                except AttributeError:
                    yield name, None


def dict_of(obj):
    for cls in type.mro(type(obj)):
        found = cls.__dict__.get("__dict__")
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return found.__get__(obj)
    return None


FUNCTION = (
    "__code__ __globals__ __name__ __qualname__ __doc__ __module__ "
    "__defaults__ __kwdefaults__ __annotations__ __closure__"
)
FIELDS = {
    types.FunctionType: FUNCTION.split(),
    types.MethodType: ["__func__", "__self__"],
    types.MethodWrapperType: ["__self__", "__name__"],
    types.BuiltinFunctionType: ["__self__", "__name__"],
    BaseException: ["args", "__cause__", "__context__", "__suppress_context__"],
    property: ["fget", "fset", "fdel", "__doc__"],
    classmethod: ["__func__"],
    staticmethod: ["__func__"],
    slice: ["start", "stop", "step"],
}
CONTENTS = {
    list: list.__iter__,
    tuple: tuple.__iter__,
    collections.OrderedDict: lambda d: (x for pair in collections.OrderedDict.items(d) for x in pair),
    dict: lambda d: (x for pair in dict.items(d) for x in pair),
    collections.deque: lambda d: (collections.deque.__dict__["maxlen"].__get__(d), *collections.deque.__iter__(d)),
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    bytearray: lambda b: iter(bytes(b)),
}


def parts(obj):
    """What obj consists of, in a fixed order."""
    cls = type(obj)
    if cls is types.CellType:
        try:
            yield obj.cell_contents
        except ValueError:
            yield "empty"
        return
    for base, read in CONTENTS.items():
        if base in type.mro(cls):
            yield from read(obj)
            break
    if collections.defaultdict in type.mro(cls):
        yield collections.defaultdict.__dict__["default_factory"].__get__(obj)
    for base, names in FIELDS.items():
        if base in type.mro(cls):
            yield from (
                base.__dict__[name].__get__(obj) if name in base.__dict__ else getattr(obj, name) for name in names
            )
    for _, value in slots_of(obj):
        yield value
    namespace = dict_of(obj)
    if namespace is not None and type not in type.mro(cls):
        yield namespace
    known = any(base in type.mro(cls) for base in (*CONTENTS, *FIELDS))
    if not known and not (cls.__flags__ & (1 << 9)):
        yield from gc.get_referents(obj)


def is_shareable(obj, depth=0):
    if type(obj) is dict and "__name__" in obj:
        return sys.modules[obj["__name__"]].__dict__ is obj
    if type(obj) in (tuple, frozenset, torch.Size) and depth < 20:
        return all(is_shareable(item, depth + 1) for item in obj)
    return any(base in SHAREABLE for base in type.mro(type(obj))) or (
        not gc.is_tracked(obj) and type(obj) not in (dict, bytearray)
    )


def compare(left, right, known=()):
    """Assert that right is a copy of left; return the objects they share."""
    forth, back, shared = {}, {}, []
    ids = {id(obj) for obj in known}
    pending = [(left, right, "result")]
    keep = []
    while pending:
        a, b, where = pending.pop()
        keep.append((a, b))
        if a is b:
            if id(a) not in ids:
                shared.append(a)
            continue
        assert type(a) is type(b) or type.__dict__["__name__"].__get__(type(a)) == type.__dict__["__name__"].__get__(
            type(b)
        ), where
        if id(a) in forth or id(b) in back:
            if type(a) in (str, int, float, complex, bytes):
                continue
            assert forth.get(id(a)) == id(b) and back.get(id(b)) == id(a), f"sharing differs at {where}"
            continue
        if type(a) in (str, int, float, complex, bytes):
            assert a == b or a != a, where
            continue
        forth[id(a)], back[id(b)] = id(b), id(a)
        xs, ys = [*parts(a)], [*parts(b)]
        if set in type.mro(type(a)) or frozenset in type.mro(type(a)):
            xs, ys = in_set_order(xs, ys)
        assert len(xs) == len(ys), f"{where}: {len(xs)} parts against {len(ys)}"
        name = type.__dict__["__name__"].__get__(type(a))
        pending += [(x, y, f"{where}/{name}[{i}]") for i, (x, y) in enumerate(zip(xs, ys))]
    return shared


def in_set_order(xs, ys):
    """Members of sets whose hash is their address come in any order; the tests give them a `rank`."""
    rank = lambda x: getattr(x, "rank", None) if getattr(x, "rank", None) is not None else None  # noqa: E731
    if any(rank(x) is not None for x in xs):
        return sorted(xs, key=rank), sorted(ys, key=rank)
    return xs, ys


def emit(obj, known=(), inside=lambda obj: False):
    """The entry function that rebuilds obj, with the objects in known as parameters."""
    names = {id(item): f"l{index}" for index, item in enumerate(known)}
    emitter = Emitter(lambda item: names.get(id(item)), inside)
    return emitter.function("entry", [*names.values()], obj)


def rebuild(obj, *known, inside=lambda obj: False):
    """Emit, run twice, check both copies against obj and against each other; give the first copy."""
    entry = emit(obj, known, inside)
    first, second = entry(*known), entry(*known)
    compare(obj, first, known)
    compare(obj, second, known)
    for item in compare(first, second, known):
        assert is_shareable(item), f"two runs share {item!r}\n{entry.__stator_source__}"
    return first
