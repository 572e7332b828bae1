"""Access paths: how a running program reaches an outside value again."""

from __future__ import annotations

import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from stator import _entry
from stator._entry import OPCODES
from stator.guards.constant import PLAIN, is_comparable, is_plain
from stator.guards.mortal import GONE, alive, held
from stator.weak_values import WeakValues

IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE

Loader = Callable[[Any, Any], Any]


class Missing(Exception):
    """A path leads nowhere now."""


@dataclass(frozen=True, slots=True, eq=False)
class Accessor:
    """One step of a path: the C instruction, its Python twin, its text."""

    name: str
    opcode: int
    load: Loader
    text: str
    through: str | None = None  # the hidden step in front: FIELDS, CLASSFIELDS, DICT (the value itself) or ORDER

    def __repr__(self) -> str:
        return self.name


def instance_dict(value: Any) -> Any:
    """The instance `__dict__` itself, whatever the class says about attributes."""
    if issubclass(type(value), type):
        return type.__getattribute__(value, "__dict__")
    return object.__getattribute__(value, "__dict__")


def immutable_base(cls: type) -> type:
    """The nearest base whose slots no Python code can have replaced."""
    return next(base for base in cls.__mro__ if base.__flags__ & IMMUTABLE_TYPE)


def _load_arg(args: Any, index: int) -> Any:
    return args[index]


def _load_const(_: Any, key: Any) -> Any:
    value = alive(key)
    if value is GONE:
        raise ReferenceError("the object is gone")
    return value


def _load_attr(value: Any, name: str) -> Any:
    return instance_dict(value)[name]


def _load_dict(value: Any, _: Any) -> Any:
    if issubclass(type(value), type):
        raise TypeError("a class has no instance dict of its own")
    return instance_dict(value)


_BINDS_IN_C = (
    types.MemberDescriptorType, types.GetSetDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, types.FunctionType, staticmethod,
)  # fmt: skip
_ABSENT = object()


def _class_attribute(cls: type, name: str) -> Any:
    """The attribute as it lies in the class or a base; raises if binding it could run user code."""
    for base in cls.__mro__:
        if name in base.__dict__:
            found = base.__dict__[name]
            if hasattr(type(found), "__get__") and not issubclass(type(found), _BINDS_IN_C):
                raise AttributeError(name)
            return found
    return _ABSENT


def _load_getattr(value: Any, name: str) -> Any:
    attribute = _class_attribute(type(value), name)
    if issubclass(type(attribute), types.MemberDescriptorType | types.GetSetDescriptorType):
        return attribute.__get__(value, type(value))
    if issubclass(type(value), type):
        _class_attribute(value, name)
        default: Any = type
    else:
        default = object
    if type(value).__getattribute__ is not default.__getattribute__ or hasattr(type(value), "__getattr__"):
        raise AttributeError(name)
    return getattr(value, name)


def _load_type(value: Any, _: Any) -> Any:
    return type(value)


def _load_classdict(value: Any, name: str) -> Any:
    return type.__getattribute__(value, "__dict__")[name]


def _load_item(value: Any, index: int) -> Any:
    return (list if issubclass(type(value), list) else tuple).__getitem__(value, index)


def key_is_safe(value: Any, key: Any) -> bool:
    """False if only user code could tell whether a key of the dict, or an element of the set, equals this one."""
    kind: Any = set if issubclass(type(value), set) else frozenset if issubclass(type(value), frozenset) else dict
    if is_plain(key) and PLAIN.issuperset(map(type, kind.__iter__(value))):  # large dicts are asked about many keys
        return True
    number, comparable = hash(key), is_comparable(key)
    return not any(
        stored is not key and other == number and not (comparable and is_comparable(stored))
        for stored, other in _entry.stored_hashes(value)
    )


def _load_key(value: Any, key: Any) -> Any:
    if not key_is_safe(value, key):
        raise KeyError(key)
    found = dict.get(value, key, _ABSENT)  # an item of a subclass would be what `__missing__` says
    if found is _ABSENT:
        raise KeyError(key)
    return found


def _load_key_at(value: Any, index: int) -> Any:
    if issubclass(type(value), OrderedDict):  # its iterator would hash the keys
        return _entry.stored_hashes(value)[index][0]
    return next(islice(dict.__iter__(value), index, None))


def _load_seq(value: Any, index: int) -> Any:
    base: Any = immutable_base(type(value))
    return base.__getitem__(value, index)


def _load_iter_at(value: Any, index: int) -> Any:
    if issubclass(type(value), dict):
        return _load_key_at(value, index)
    order: Any = set if issubclass(type(value), set) else frozenset
    return next(islice(order.__iter__(value), index, None))


def _load_cell(value: Any, _: Any) -> Any:
    return types.CellType.cell_contents.__get__(value)


def _load_part(value: Any, key: tuple[str, Callable[[Any], Any]]) -> Any:
    return key[1](value)


def _load_upcoming(value: Any, start: int) -> Any:
    return _entry.upcoming(start, value)


def _load_beneath(value: Any, _: Any) -> Any:
    return _entry.beneath(value)


ARG = Accessor("ARG", OPCODES["ARG"], _load_arg, "{key}")
CONST = Accessor("CONST", -1, _load_const, "{key}")
ATTR = Accessor("ATTR", OPCODES["ATTR"], _load_attr, "{parent}.{key}", "FIELDS")
DICT = Accessor("DICT", OPCODES["DICT"], _load_dict, "{parent}.__dict__")
GETATTR = Accessor("GETATTR", OPCODES["GETATTR"], _load_getattr, "{parent}.{key}")
TYPE = Accessor("TYPE", OPCODES["TYPE"], _load_type, "type({parent})")
CLASSDICT = Accessor("CLASSDICT", OPCODES["CLASSITEM"], _load_classdict, "{parent}.__dict__[{key!r}]", "CLASSFIELDS")
ITEM = Accessor("ITEM", OPCODES["ITEM"], _load_item, "{parent}[{key!r}]")
KEY = Accessor("KEY", OPCODES["KEY"], _load_key, "{parent}[{key!r}]", "DICT")
KEYAT = Accessor("KEYAT", OPCODES["ITEM"], _load_key_at, "list({parent})[{key!r}]", "ORDER")
SEQ = Accessor("SEQ", OPCODES["SEQ"], _load_seq, "{parent}[{key!r}]")
ITERAT = Accessor("ITERAT", OPCODES["ITEM"], _load_iter_at, "list({parent})[{key!r}]", "ORDER")
CELL = Accessor("CELL", OPCODES["CELL"], _load_cell, "{parent}.cell_contents")
PART = Accessor("PART", OPCODES["PART"], _load_part, "{parent}.{key[0]}")
UPCOMING = Accessor("UPCOMING", OPCODES["UPCOMING"], _load_upcoming, "{parent}.upcoming({key})")
BENEATH = Accessor("BENEATH", OPCODES["BENEATH"], _load_beneath, "{parent}.beneath")

ACCESSORS: dict[str, Accessor] = {
    row.name: row
    for row in (
        ARG, CONST, ATTR, DICT, GETATTR, TYPE, CLASSDICT, ITEM, KEY, KEYAT, SEQ, ITERAT, CELL, PART, UPCOMING, BENEATH,
    )
}  # fmt: skip


class Path:
    """A root and a chain of accessors; equal paths are one object for as long as one of them lives."""

    __slots__ = ("__weakref__", "_children", "accessor", "key", "parent")

    accessor: Accessor
    parent: Path | None
    key: Any
    _children: dict[tuple[Accessor, Any], Path] | None

    def __init__(self, accessor: Accessor, parent: Path | None, key: Any) -> None:
        self.accessor = accessor
        self.parent = parent
        self.key = key
        self._children = None

    def child(self, accessor: Accessor, key: Any = None) -> Path:
        """The path one step further."""
        children = self._children
        if children is None:
            children = self._children = {}
        ident = (accessor, key)
        found = children.get(ident)
        if found is None:
            found = children[ident] = Path(accessor, self, key)
        return found

    def attr(self, name: str) -> Path:
        """ATTR: the item of the instance dict."""
        return self.child(ATTR, name)

    def fields(self) -> Path:
        """DICT: the instance dict."""
        return self.child(DICT)

    def get(self, name: str) -> Path:
        """GETATTR: what a C descriptor answers."""
        return self.child(GETATTR, name)

    def cls(self) -> Path:
        """TYPE: the type."""
        return self.child(TYPE)

    def class_item(self, name: str) -> Path:
        """CLASSDICT: the item of this very class's dict."""
        return self.child(CLASSDICT, name)

    def item(self, index: int) -> Path:
        """ITEM: the item of a list or tuple."""
        return self.child(ITEM, index)

    def entry(self, key: Any) -> Path:
        """KEY: the item of a dict."""
        return self.child(KEY, key)

    def key_at(self, index: int) -> Path:
        """KEYAT: the i-th key of a dict."""
        return self.child(KEYAT, index)

    def seq(self, index: int) -> Path:
        """SEQ: the item of another sequence."""
        return self.child(SEQ, index)

    def iter_at(self, index: int) -> Path:
        """ITERAT: the i-th element of a set."""
        return self.child(ITERAT, index)

    def cell(self) -> Path:
        """CELL: the contents of a cell."""
        return self.child(CELL)

    def part(self, label: str, function: Callable[[Any], Any]) -> Path:
        """PART: what a pure C function makes of the value."""
        return self.child(PART, (label, function))

    def upcoming(self, start: int) -> Path:
        """UPCOMING: some of the elements that an iterator gives after the next `start`."""
        return self.child(UPCOMING, start)

    def beneath(self) -> Path:
        """BENEATH: the iterators and mutable containers that an iterator goes over."""
        return self.child(BENEATH)

    def chain(self) -> list[Path]:
        """All steps, root first."""
        steps: list[Path] = []
        at: Path | None = self
        while at is not None:
            steps.append(at)
            at = at.parent
        steps.reverse()
        return steps

    def load(self, args: Sequence[Any], memo: dict[Path, Any] | None = None) -> Any:
        """The value now, found in Python; raises Missing."""
        memo = {} if memo is None else memo
        value: Any = args
        for step in self.chain():
            if step in memo:
                value = memo[step]
                continue
            try:
                value = memo[step] = step.accessor.load(value, step.key)
            except Exception as error:
                raise Missing(step) from error
        return value

    def describe(self, arg_names: Sequence[str] = ()) -> str:
        """The path as people would write it, `self.layers[3].cfg['act']`."""
        text = ""
        for step in self.chain():
            if step.accessor is ARG:
                text = arg_names[step.key] if step.key < len(arg_names) else f"arg{step.key}"
            elif step.accessor is CONST:
                text = describe_object(alive(step.key))
            elif step.key == "__self__" and step.parent is not None and step.parent.accessor is CONST:
                text = "self"
            elif step.accessor is CELL and (name := _variable(step, text)) is not None:
                text = name
            else:
                text = step.accessor.text.format(parent=text, key=step.key)
        return text

    def __repr__(self) -> str:
        return f"<path {self.describe()}>"


def _variable(cell: Path, text: str) -> str | None:
    """The variable that a cell holds: of a frame behind a break, or one of those that a function closes over."""
    holder = cell.parent
    if holder is None or holder.accessor is ARG:
        return text
    closure = holder.parent
    if holder.accessor is not ITEM or closure is None or closure.key != "__closure__":
        return None
    function = closure.parent
    found = alive(function.key) if function is not None and function.accessor is CONST else None
    return found.__code__.co_freevars[holder.key] if type(found) is types.FunctionType else None


def describe_object(value: Any) -> str:
    """A short name for an object people may know."""
    if issubclass(type(value), types.ModuleType):
        return str(instance_dict(value).get("__name__"))
    if value is GONE:
        return repr(value)
    if value is sys.modules:
        return "sys.modules"
    if issubclass(type(value), dict) and isinstance(value.get("__name__"), str):
        return f"globals of {value['__name__']}"
    kind = type(value)
    asks_nobody = type(kind.__getattribute__) is types.WrapperDescriptorType and not hasattr(kind, "__getattr__")
    name = getattr(value, "__qualname__", None) if asks_nobody else None
    if isinstance(name, str):
        return name
    if issubclass(type(value), int | float | complex | str | bytes | None):
        return repr(value)
    return f"<{type(value).__qualname__}>"


_ARGS: WeakValues[int, Path] = WeakValues()
_CONSTS: WeakValues[int, Path] = WeakValues()


def is_length(path: Path) -> bool:
    """Whether it tells how many elements a container has."""
    return path.accessor is PART and path.key[1] is len


def is_summary(path: Path) -> bool:
    """Whether it tells something about all of a value: how many elements, their sum or extremes, which number it is."""
    return path.accessor is PART and (path.key[1] is len or path.key[0] in SUMMARIES)


SUMMARIES = frozenset({"sum", "min", "max", "number"})


def is_pairs(path: Path) -> bool:
    """Whether it is a step to the pairs of a dict whose keys are no constants."""
    return path.accessor is PART and path.key[0] in PAIRS


PAIRS = frozenset({"items()", "list"})


def is_inner(path: Path) -> bool:
    """Whether it is a step to what a generator, `zip` or `enumerate` holds."""
    return path.accessor is PART and path.key[0] in INNER


INNER = frozenset({"frame", "parts", "count"})


def is_thread_local(path: Path) -> bool:
    """Whether it is a step to the attributes that a thread-local object has in this thread."""
    return path.accessor is PART and path.key[0] == "__dict__"


def is_frame(path: Path) -> bool:
    """Whether it is a step to the variables of a suspended generator."""
    return path.accessor is PART and path.key[0] == "frame"


def arg(index: int) -> Path:
    """Root: the i-th value of the call, positionals first."""
    found = _ARGS.get(index)
    if found is None:
        found = _ARGS[index] = Path(ARG, None, index)
    return found


def const(value: Any) -> Path:
    """Root: this very object; it is kept alive only if nobody could tell of its death."""
    found = _CONSTS.get(id(value))
    if found is None or alive(found.key) is not value:  # perhaps of an object that was there before
        found = _CONSTS[id(value)] = Path(CONST, None, held(value))
    return found
