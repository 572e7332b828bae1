"""Tables of what stands in for C functions and methods, and how other files fill them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator.frame import Frame

if TYPE_CHECKING:
    from stator.native.host import Host

Caller = Callable[["Host", Frame, Any, list[Any], "dict[str, Any] | None"], Any]
STANDINS: dict[Any, Caller] = {}  # functions whose native form must not run: same arguments, same meaning
EVERYWHERE: dict[Any, Caller] = {}  # those of Python functions whose frames must not run either
NAMED_METHODS: dict[tuple[str, str], Caller] = {}  # (name of the type, name): methods that Cython has made
OUTSIDE_METHODS: dict[tuple[int, str], Caller] = {}  # (id of the C type, name): bound methods of outside objects
OVERRIDES: dict[str, Caller] = {}  # method-wrappers of `object` by name, called on an outside receiver
METHODS: dict[str, list[tuple[type, Caller]]] = {}  # C methods by name: on an instance of the class, bound or not
PASSES_ON: set[Caller] = set()  # stand-ins whose result is that of the Python function they call last


def standin(*functions: Any, everywhere: bool = False) -> Callable[[Caller], Caller]:
    """Register caller(host, frame, function, args, kwargs) in place of these functions.

    `everywhere`: also where C code calls them (`partial`, `map`); they are Python functions that the caller never runs.
    """

    def register(caller: Caller) -> Caller:
        for function in functions:
            STANDINS[function] = caller
            if everywhere:
                EVERYWHERE[function] = caller
        return caller

    return register


def method_standin(cls: type, name: str) -> Callable[[Caller], Caller]:
    """Register caller(host, frame, method, [receiver, *args], kwargs) in place of a method of a C class."""

    def register(caller: Caller) -> Caller:
        METHODS.setdefault(name, []).append((cls, caller))
        return caller

    return register


def method_row(name: str, receiver: Any) -> Caller | None:
    return next((row for cls, row in METHODS.get(name, ()) if issubclass(type(receiver), cls)), None)


def passes_on(row: Caller) -> Caller:
    PASSES_ON.add(row)
    return row


def decisive(row: Caller, host: Host, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """A stand-in: what it calls is no part of the user's frames that a break could go on in."""
    f.tail = -1
    return row(host, f, function, args, kwargs)
