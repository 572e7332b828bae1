"""What was seen to change, by name, in a file: the next process makes symbols of it at once."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any

import torch

Name = tuple[str, str, int]  # where, kind, detail


class Profile:
    """The names of one file, by function."""

    def __init__(self, file: str) -> None:
        self.file = os.path.abspath(file)
        self.names: dict[str, set[Name]] = {}
        self.read()

    def read(self) -> None:
        """Takes in what the file says; no file yet, or one that is no profile, says nothing."""
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            with open(self.file, encoding="utf-8") as stream:
                content = json.load(stream)
            for function, rows in content["changed"].items():
                self.names.setdefault(function, set()).update((str(a), str(b), int(c)) for a, b, c in rows)

    def add(self, function: str, names: set[Name]) -> None:
        """Notes names and writes the file, with what other processes have put there meanwhile."""
        if names <= self.names.get(function, set()):
            return
        self.read()
        self.names.setdefault(function, set()).update(names)
        self.write()

    def write(self) -> None:
        """Replaces the file in one step."""
        content = {"changed": {name: sorted(rows) for name, rows in sorted(self.names.items())}}
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(self.file), prefix=".profile")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
        os.replace(temporary, self.file)


class _Current:
    profile: Profile | None = None


def current() -> Profile | None:
    """The profile in use."""
    return _Current.profile


def profile_dynamic(path: str | os.PathLike[str] | None) -> None:
    """Remembers in this file which sizes, ints and floats were seen to change, and uses what it remembers.

    With such a file the next process compiles them as symbols at the first call. None ends it.
    """
    _Current.profile = None if path is None else Profile(os.fspath(path))


def name_of(function: Any) -> str:
    """The name under which a function is remembered; empty for what has none of its own."""
    owner, function = getattr(function, "__self__", None), getattr(function, "__func__", function)
    if isinstance(owner, torch.nn.Module) and function is torch.nn.Module._wrapped_call_impl:
        function = type(owner).forward  # a module is called as its class says
    module = getattr(function, "__module__", None)
    if module is None or module.startswith("stator."):
        return ""
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"
