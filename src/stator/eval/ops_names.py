"""Stack shuffling, constants, locals, cells, names and globals."""

from __future__ import annotations

import operator
from types import CellType
from typing import Any

from stator.eval.opcodes import op
from stator.frame import UNBOUND, Frame, Raised, native, throw

SETITEM, DELITEM = operator.setitem, operator.delitem


@op("NOP", "RESUME", "CACHE", "PRECALL")
def nop(f: Frame, arg: Any) -> None:
    pass


@op("POP_TOP")
def pop_top(f: Frame, arg: Any) -> None:
    del f.stack[-1]


@op("PUSH_NULL")
def push_null(f: Frame, arg: Any) -> None:
    f.stack.append(UNBOUND)


@op("COPY")
def copy(f: Frame, depth: int) -> None:
    f.stack.append(f.stack[-depth])


@op("SWAP")
def swap(f: Frame, depth: int) -> None:
    stack = f.stack
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


@op("LOAD_CONST")
def load_const(f: Frame, value: Any) -> None:
    f.stack.append(value)


@op("LOAD_FAST")
def load_fast(f: Frame, slot: int) -> None:
    value = f.locals[slot]
    if value is UNBOUND:
        unbound_local(f, slot)
    f.stack.append(value)


@op("LOAD_CLOSURE")
def load_closure(f: Frame, slot: int) -> None:
    f.stack.append(f.locals[slot])


@op("STORE_FAST")
def store_fast(f: Frame, slot: int) -> None:
    f.locals[slot] = f.stack.pop()


@op("DELETE_FAST")
def delete_fast(f: Frame, slot: int) -> None:
    if f.locals[slot] is UNBOUND:
        unbound_local(f, slot)
    f.locals[slot] = UNBOUND


def unbound_local(f: Frame, slot: int) -> None:
    name = f.info.slots[slot]
    throw(f, UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value"))


@op("MAKE_CELL")
def make_cell(f: Frame, slot: int) -> None:
    value = f.locals[slot]
    cell = CellType() if value is UNBOUND else CellType(value)
    f.locals[slot] = cell


@op("COPY_FREE_VARS")
def copy_free_vars(f: Frame, count: int) -> None:
    f.locals[len(f.locals) - count :] = f.function.__closure__
    f.world.know_cells(f)


@op("LOAD_DEREF")
def load_deref(f: Frame, slot: int) -> None:
    value = f.world.load_cell(f, slot)
    if value is UNBOUND:
        unbound_cell(f, slot)
    f.stack.append(value)


@op("LOAD_CLASSDEREF")
def load_classderef(f: Frame, slot: int) -> None:
    value = lookup(f, f.names, f.info.slots[slot])
    if value is UNBOUND:
        return load_deref(f, slot)  # type: ignore[return-value]
    f.stack.append(value)
    return None


@op("STORE_DEREF")
def store_deref(f: Frame, slot: int) -> None:
    f.world.store_cell(f, slot, f.stack.pop())


@op("DELETE_DEREF")
def delete_deref(f: Frame, slot: int) -> None:
    if f.world.load_cell(f, slot) is UNBOUND:
        unbound_cell(f, slot)
    f.world.store_cell(f, slot, UNBOUND)


def unbound_cell(f: Frame, slot: int) -> None:
    name = f.info.slots[slot]
    if slot < f.info.first_free:
        unbound_local(f, slot)
    text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
    throw(f, NameError(text, name=name))


def lookup(f: Frame, namespace: Any, name: str) -> Any:
    """namespace[name] of a class body or of exec'd code; UNBOUND if absent."""
    if type(namespace) is dict:
        return f.world.namespace_get(namespace, name)
    return f.world.mapping_get(f, namespace, name)


@op("LOAD_NAME")
def load_name(f: Frame, name: str) -> None:
    value = UNBOUND
    if f.names is not None:
        value = lookup(f, f.names, name)
    if value is UNBOUND:
        value = f.world.namespace_get(f.globals, name)
    if value is UNBOUND:
        value = lookup(f, f.builtins, name)
    if value is UNBOUND:
        throw(f, NameError(f"name '{name}' is not defined", name=name))
    f.stack.append(value)


@op("STORE_NAME")
def store_name(f: Frame, name: str) -> None:
    value = f.stack.pop()
    namespace = f.names
    if namespace is None:
        throw(f, SystemError(f"no locals found when storing '{name}'"))
    if type(namespace) is dict:
        f.world.namespace_set(namespace, name, value)
    else:
        native(f, SETITEM, namespace, name, value)


@op("DELETE_NAME")
def delete_name(f: Frame, name: str) -> None:
    namespace = f.names
    if type(namespace) is dict:
        if f.world.namespace_get(namespace, name) is UNBOUND:
            throw(f, NameError(f"name '{name}' is not defined", name=name))
        f.world.namespace_set(namespace, name, UNBOUND)
    else:
        try:
            native(f, DELITEM, namespace, name)
        except Raised:  # CPython replaces whatever error it was
            throw(f, NameError(f"name '{name}' is not defined", name=name))


@op("LOAD_GLOBAL")
def load_global(f: Frame, arg: tuple[str, int]) -> None:
    name, null = arg
    value = f.world.load_global(f, name) if type(f.globals) is dict is type(f.builtins) else unusual_global(f, name)
    if value is UNBOUND:
        throw(f, NameError(f"name '{name}' is not defined", name=name))
    if null:
        f.stack.append(UNBOUND)
    f.stack.append(value)


def unusual_global(f: Frame, name: str) -> Any:
    """A global of code whose globals or builtins are no plain dict: both are asked with their own `__getitem__`."""
    value = lookup(f, f.globals, name)
    return lookup(f, f.builtins, name) if value is UNBOUND else value


@op("STORE_GLOBAL")
def store_global(f: Frame, name: str) -> None:
    f.world.namespace_set(f.globals, name, f.stack.pop())


@op("DELETE_GLOBAL")
def delete_global(f: Frame, name: str) -> None:
    if f.world.namespace_get(f.globals, name) is UNBOUND:
        throw(f, NameError(f"name '{name}' is not defined", name=name))
    f.world.namespace_set(f.globals, name, UNBOUND)
