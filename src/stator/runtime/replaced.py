"""Functions of the interpreter that the program has replaced: what works while capturing would call them as well.

stator, torch and the library look them up where the program puts its own (a counter in place of `__import__`, a clock
that gives prepared times). Those that were in place when the function was compiled are taken for everybody's.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import copy
import dis
import functools
import gc
import inspect
import itertools
import linecache
import logging
import math
import operator
import os
import posixpath
import sys
import threading
import time
import traceback
import types
import warnings
import weakref
from typing import Any

from stator._entry import dict_version, type_version
from stator.errors import StatorError, unsupported
from stator.runtime.tensor_methods import Methods

OWNERS: tuple[Any, ...] = (
    *(builtins, collections, contextlib, copy, dis, functools, gc, inspect, itertools, linecache, logging, math, os),
    *(operator, posixpath, sys, threading, time, traceback, types, warnings, weakref, logging.Logger),
)
# What programs alone call, or what is there to be replaced.
PROGRAMS = frozenset({"_", "breakpoint", "exit", "help", "input", "print", "quit", "formatwarning", "showwarning"})
PRIVATE = frozenset({"__import__", "__build_class__", "_getframe"})


class Functions:
    """The functions of the interpreter, and methods of tensors, at one time."""

    def __init__(self) -> None:
        self.known = [(at, owner, vars(owner), functions(owner)) for at, owner in enumerate(OWNERS)]
        self.versions = [*map(version, OWNERS)]
        self.methods = Methods()

    def replaced(self) -> str | None:
        """One that is another now; nothing here calls what it may be."""
        if (name := self.methods.replaced()) is not None:
            return name
        for at, owner, namespace, values in self.known:
            if (now := version(owner)) != self.versions[at]:
                for name, value in values:
                    if name not in namespace or namespace[name] is not value:
                        return f"{owner.__name__}.{name}"
                self.versions[at] = now
        return None


def version(owner: Any) -> int:
    """A number that is another one once the contents are."""
    return type_version(owner) if owner is logging.Logger else dict_version(owner.__dict__)


def functions(owner: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(owner).items() if callable(value) and is_called(name)]


def is_called(name: str) -> bool:
    """Whether what works while capturing may call a function of this name."""
    return name in PRIVATE or not (name[0] == "_" or name.endswith("hook") or name in PROGRAMS)


def found() -> Functions:
    """The functions as they are now, shared by all who find the same."""
    global _last
    if _last.replaced() is not None:
        _last = Functions()
    return _last


def refusal(name: str) -> StatorError:
    """Why nothing is captured."""
    return unsupported("interpreter-watched", f"{name} was replaced", function=f"the new {name}")


_last = Functions()
