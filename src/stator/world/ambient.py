"""State that C code reads without being handed it: context variables, and the decimal context that arithmetic uses.

Each capture runs in a copy of the caller's `contextvars.Context`, so that what it sets there stays with it. Values of
outside variables come through the door when they are first read; what is set at the end becomes an effect.
"""

from __future__ import annotations

import contextvars
import decimal
import operator
from typing import TYPE_CHECKING, Any

from stator.errors import unsupported
from stator.guards import path as paths
from stator.guards.check import EQ, IS, TYPE_IS

if TYPE_CHECKING:
    from stator.guards.path import Path
    from stator.world.world import World

MISSING = object()
VAR_VALUE = operator.methodcaller("get", MISSING)  # of a context variable; MISSING if it is not set
Context: Any = decimal.Context
CONTEXT_STATE = Context.__repr__  # all of a decimal context, as text
TEMPLATES = frozenset({"DefaultContext", "BasicContext", "ExtendedContext"})  # C tells them apart by identity


class Ambient:
    """The ambient state of one capture."""

    def __init__(self) -> None:
        self.context = contextvars.copy_context()
        self.variables: dict[int, tuple[Any, Any]] = {}  # id -> (variable, value when capture first looked)
        self.defaults: dict[int, Any] = {}  # id -> default value of a variable that is not set
        self.decimal: Any = None  # the shadow of the current decimal context, once decimals matter

    def enter_variable(self, world: World, var: Any) -> None:
        """The value of an outside context variable comes through the door, once."""
        if id(var) in self.variables:
            return
        path = world.path_of(var).part("value", VAR_VALUE)
        value = VAR_VALUE(var)
        if value is MISSING:
            world.guards.add(path, IS, MISSING, world.origin())
            self.enter_default(world, var)
        else:
            inner = world.enter(value, path)
            if inner is not value:
                var.set(inner)
            value = inner
        self.variables[id(var)] = (var, value)

    def enter_default(self, world: World, var: Any) -> None:
        try:
            default = contextvars.ContextVar.get(var)
        except LookupError:
            return
        self.defaults[id(var)] = world.enter(default, world.path_of(var).part("default", contextvars.ContextVar.get))

    def use_decimal(self, world: World) -> None:
        """From here on C arithmetic may look at the current decimal context: a shadow of it takes its place."""
        if self.decimal is not None:
            return
        path = paths.const(decimal.getcontext).part("()", operator.call)
        real = decimal.getcontext()
        self.decimal = real
        self.decimal = world.enter(real, path)
        guard_context(world, Context(), paths.const(Context).part("()", operator.call))  # made from a template C keeps
        decimal.setcontext(self.decimal)

    def changes(self) -> list[tuple[Any, list[Any]]]:
        """Calls that bring the caller's context up to date."""
        calls: list[tuple[Any, list[Any]]] = []
        for var, before in self.variables.values():
            now = self.context.run(VAR_VALUE, var)
            if now is MISSING and before is not MISSING:
                raise unsupported("native-effect", "a context variable is unset", function="ContextVar.reset")
            if now is not before:
                calls.append((contextvars.ContextVar.set, [var, now]))
        if self.decimal is not None:
            now = self.context.run(decimal.getcontext)
            if now is not self.decimal:
                calls.append((decimal.setcontext, [now]))
        return calls


def guard_context(world: World, obj: Any, path: Path) -> None:
    world.guards.add(path, TYPE_IS, Context, world.origin())
    world.guards.add(path.part("state", CONTEXT_STATE), EQ, CONTEXT_STATE(obj), world.origin())


def enter_decimal_context(world: World, obj: Any, path: Path) -> Any:
    """A decimal context: a copy of it; templates stay themselves and cannot be changed."""
    if type(obj) is not Context:
        raise world.refuse("outside-type", "an instance of a subclass of decimal.Context", type=type(obj).__name__)
    guard_context(world, obj, path)
    if path.key in TEMPLATES:
        world.guards.add(path, IS, obj, world.origin())
        world.register(obj, path)
        return obj
    inner = obj.copy()
    world.register(obj, path, inner).before = context_state(obj)
    world.ambient.use_decimal(world)
    return inner


def context_state(obj: Any) -> tuple[Any, ...]:
    return (*(getattr(obj, name) for name in CONTEXT_FIELDS), dict(obj.flags), dict(obj.traps))


CONTEXT_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def enter_decimal(world: World, obj: Any, path: Path) -> Any:
    """A decimal number: guarded by value."""
    world.guards.add(path, TYPE_IS, type(obj), world.origin())
    if type(obj) is not decimal.Decimal:
        world.type_info(type(obj))
    value = path.part("as_tuple()", decimal.Decimal.as_tuple)
    for i, part in enumerate(decimal.Decimal.as_tuple(obj)):
        world.guards.add(value.item(i), EQ, part, world.origin())
    world.register(obj, path)
    world.ambient.use_decimal(world)
    return obj


def refuse_signals(world: World, obj: Any, path: Path) -> Any:
    raise world.refuse("native-outside-object", "flags or traps of an outside context", function="SignalDict")


def notice_class(world: World, cls: type) -> None:
    """A class entered: decimal numbers can be made by it."""
    if any(base is decimal.Decimal or base is Context for base in type.__dict__["__mro__"].__get__(cls)):
        world.ambient.use_decimal(world)


def notice_function(world: World, function: Any) -> None:
    """A C function entered: it may work on the current decimal context."""
    if function.__module__ == "decimal":
        world.ambient.use_decimal(world)
