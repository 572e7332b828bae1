"""Checks: conditions on the value at a path, one row each."""

from __future__ import annotations

import enum
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from stator import _entry
from stator._entry import OPCODES
from stator.guards import state
from stator.guards.constant import same
from stator.guards.mortal import GONE
from stator.guards.path import Path, describe_object, immutable_base, instance_dict, key_is_safe
from stator.guards.relation import Relation
from stator.guards.tensor_spec import TensorSpec, fits

HOOK_DICTS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One kind of condition: the C instruction, its Python twin, the sentence for people."""

    name: str
    opcode: int
    holds: Callable[[Any, Any], bool]
    sentence: str  # of path, old and new
    old: Callable[[Any], str]  # of the key
    new: Callable[[Any, Any], str]  # of the value and the key
    pinned: str = ""  # what vouches for the outcome, see tree.py: OBJECT, TYPE, DICT, FIELDS, SIZE, KEYS or nothing
    many: bool = False  # one path may have several, told apart by the key
    weak: bool = False  # the key is an object that need not be kept alive

    def __repr__(self) -> str:
        return self.name


SHOWN = frozenset({
    int, float, bool, complex, str, bytes, type(None), tuple, frozenset, range, slice,
    torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format,
})  # fmt: skip


def show(value: Any, limit: int = 60) -> str:
    """A short text for a value; builtin values in full, others by kind, so that no user code runs."""
    if value is GONE:
        return repr(value)
    if issubclass(type(value), enum.Enum):
        return f"{type(value).__qualname__}.{vars(value).get('_name_', '?')}"  # one that is being made has no name
    if issubclass(type(value), type | types.FunctionType | types.ModuleType):
        return describe_object(value)
    if type(value) in SHOWN:
        try:
            text = repr(value)
        except ValueError:  # an int with more digits than `sys.get_int_max_str_digits` allows
            return f"a large {type(value).__qualname__}"
        return text if len(text) <= limit else text[: limit - 3] + "..."
    return f"a {type(value).__qualname__}"


def length_of(value: Any) -> int:
    """Length by the C type's own slot."""
    base: Any = immutable_base(type(value))
    return int(base.__len__(value)) if hasattr(base, "__len__") else -1


def keys_in_order(value: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys as iteration gives them, also of an OrderedDict that was reordered."""
    order = OrderedDict if issubclass(type(value), OrderedDict) else dict
    return tuple(order.__iter__(value))


def _type_is(value: Any, key: Any) -> bool:
    return type(value) is key


def _type_version(value: Any, key: Any) -> bool:
    return issubclass(type(value), type) and key != 0 and _entry.type_version(value) == key


def _is(value: Any, key: Any) -> bool:
    return value is key


def _len(value: Any, key: Any) -> bool:
    return length_of(value) == key


def _not_empty(value: Any, _: Any) -> bool:
    return length_of(value) > 0


def _set_of(value: Any, key: Any) -> Any:
    """Membership by the builtin type; raises where only user code could tell."""
    if not issubclass(type(value), set | frozenset) or not key_is_safe(value, key):
        raise KeyError(key)
    return set if issubclass(type(value), set) else frozenset


def _has_element(value: Any, key: Any) -> bool:
    return bool(_set_of(value, key).__contains__(value, key))


def _no_element(value: Any, key: Any) -> bool:
    return not _set_of(value, key).__contains__(value, key)


def _keys(value: Any, key: Any) -> bool:
    if not issubclass(type(value), dict):
        return False
    now = keys_in_order(value)
    return len(now) == len(key) and all(same(have, want) for have, want in zip(now, key, strict=True))


def _no_key(value: Any, key: Any) -> bool:
    return issubclass(type(value), dict) and key_is_safe(value, key) and not dict.__contains__(value, key)


def _no_attr(value: Any, key: Any) -> bool:
    try:
        fields = instance_dict(value)
    except AttributeError:
        return True
    return (issubclass(type(value), type) or key_is_safe(fields, key)) and key not in fields


def _tensor(value: Any, key: Any) -> bool:
    return fits(key, value)


def _code_is(value: Any, key: Any) -> bool:
    return type(value) is types.FunctionType and value.__code__ is key


def _no_hooks(value: Any, _: Any) -> bool:
    fields = instance_dict(value)
    return all(isinstance(fields[name], dict) and not dict.__len__(fields[name]) for name in HOOK_DICTS)


def _empty_cell(value: Any, _: Any) -> bool:
    if type(value) is not types.CellType:
        return False
    try:
        value.cell_contents  # noqa: B018 - only whether it raises matters
    except ValueError:
        return True
    return False


def _alive(value: Any, key: Any) -> bool:
    reference = value if key is None else key
    if not issubclass(type(reference), weakref.ref):
        return False
    target = weakref.ref.__call__(reference)
    return target is not None and (key is None or target is value)


def _state(_: Any, key: Any) -> bool:
    return state.holds(key)


def _never(_: Any, __: Any) -> bool:
    raise AssertionError("decided by the guard set")


def _nothing(*_: Any) -> str:
    return ""


def _show_value(value: Any, _: Any) -> str:
    return show(value)


def _show_type(value: Any, _: Any) -> str:
    return show(type(value))


def _show_version(value: Any, _: Any) -> str:
    return str(_entry.type_version(value)) if issubclass(type(value), type) else show(value)


def _show_len(value: Any, _: Any) -> str:
    return str(length_of(value))


def _show_keys(value: Any, _: Any) -> str:
    return show(keys_in_order(value)) if issubclass(type(value), dict) else show(value)


def _show_tensor(value: Any, key: TensorSpec) -> str:
    return "; ".join(key.differences(value))


def _show_code(value: Any, _: Any) -> str:
    code = getattr(value, "__code__", None)
    return _code_place(code) if issubclass(type(code), types.CodeType) else show(value)


def _code_place(code: Any) -> str:
    if code is GONE:
        return repr(code)
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


def _show_hooks(value: Any, _: Any) -> str:
    fields = instance_dict(value)
    return ", ".join(name for name in HOOK_DICTS if fields.get(name)) or "no hook dicts"


def _show_state(_: Any, key: state.StateSnapshot) -> str:
    return "; ".join(state.differences(key, state.snapshot()))


def _describe_relation(key: Relation) -> str:
    return key.describe()


def _row(
    name: str,
    holds: Callable[[Any, Any], bool],
    sentence: str,
    old: Any,
    new: Any,
    pinned: str = "",
    many: bool = False,
    weak: bool = False,
) -> Check:
    return Check(name, OPCODES.get(name, -1), holds, sentence, old, new, pinned, many, weak)


TYPE_IS = _row("TYPE_IS", _type_is, "type of {path} is {old}, now {new}", show, _show_type, "TYPE", weak=True)
TYPE_VERSION = _row(
    "TYPE_VERSION", _type_version, "class {path} is unchanged, now modified ({old}, {new})", str, _show_version
)
IS = _row("IS", _is, "{path} is {old} itself, now {new}", show, _show_value, "OBJECT", weak=True)
EQ = _row("EQ", same, "{path} is {old}, now {new}", show, _show_value, "OBJECT")
LEN = _row("LEN", _len, "length of {path} is {old}, now {new}", str, _show_len, "SIZE")
KEYS = _row("KEYS", _keys, "keys of {path} are {old}, now {new}", show, _show_keys, "KEYS")
NO_KEY = _row("NO_KEY", _no_key, "{path} has no key {old}, now it has", show, _nothing, "DICT", many=True)
NOT_EMPTY = _row("NOT_EMPTY", _not_empty, "{path} is not empty, now it is", _nothing, _nothing, "SIZE")
HAS_ELEMENT = _row("HAS_ELEMENT", _has_element, "{path} holds {old}, now it does not", show, _nothing, many=True)
NO_ELEMENT = _row("NO_ELEMENT", _no_element, "{path} does not hold {old}, now it does", show, _nothing, many=True)
NO_ATTR = _row(
    "NO_ATTR", _no_attr, "{path} has no own attribute {old}, now it has", show, _nothing, "FIELDS", many=True
)
TENSOR = _row("TENSOR", _tensor, "{path} is {old}: {new}", str, _show_tensor)
CODE_IS = _row("CODE_IS", _code_is, "code of {path} is {old}, now {new}", _code_place, _show_code, weak=True)
NO_HOOKS = _row("NO_HOOKS", _no_hooks, "{path} has no hooks, now {new}", _nothing, _show_hooks)
EMPTY_CELL = _row("EMPTY_CELL", _empty_cell, "cell {path} is empty, now filled", _nothing, _nothing)
SAME = _row("SAME", _never, "{path} is the same object as {old}, now another one", Path.describe, _nothing, many=True)
ALIVE = _row("ALIVE", _alive, "{path} is alive, now gone or another object", _nothing, _nothing, many=True)
PRESENT = _row("PRESENT", _never, "{path} exists, now there is nothing", _nothing, _nothing)
DISTINCT = _row("DISTINCT", _never, "{path} and {old} are different objects, now one", Path.describe, _nothing)
RELATION = _row("RELATION", _never, "{old}, now {new}", _describe_relation, _nothing)
STATE = _row("STATE", _state, "torch's state: {new}", _nothing, _show_state)
CALL_SHAPE = _row("CALL_SHAPE", _never, "the call has {old}, now {new}", str, _show_value)

CHECKS: dict[str, Check] = {
    row.name: row
    for row in (
        TYPE_IS, TYPE_VERSION, IS, EQ, LEN, KEYS, NO_KEY, NO_ATTR, TENSOR, CODE_IS, NO_HOOKS, EMPTY_CELL, SAME, ALIVE,
        PRESENT, DISTINCT, RELATION, STATE, CALL_SHAPE, NOT_EMPTY, HAS_ELEMENT, NO_ELEMENT,
    )
}  # fmt: skip
