"""What the captured program does to the world around it: buffers may change, nothing else may."""

from __future__ import annotations

import dis
import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from stator._frames import UNBOUND
from stator.emit import effects
from stator.emit.emitter import Emitter
from stator.emit.plan import Const
from stator.errors import ExportError
from stator.exporting.places import user_place
from stator.guards.mortal import alive
from stator.guards.path import ARG, CELL, ITEM, Path, describe_object
from stator.native import logs, warn
from stator.runtime.assemble import Assembly
from stator.runtime.tensor_host import TensorHost
from stator.tensors.traced import TracedTensor

RAISES = "the program raises an exception for data like this"


class Once:
    """A call that is made the first time only: messages of the program, while it is being exported."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] | None = function

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        function, self.function = self.function, None
        if function is not None:
            function(*args, **kwargs)


class ProgramAssembly(Assembly):
    """An entry function whose only effects are on buffers; `assign(name, tensor)` is what they become."""

    def __init__(
        self, host: TensorHost, buffers: dict[int, str], describe: Callable[[Path], str], assign: Callable[..., None]
    ) -> None:
        super().__init__(host)
        self.buffers = buffers  # by id of a module's dict of buffers: the prefix of their names
        self.describe = describe
        self.assign = assign
        self.assigned: dict[str, tuple[Any, Any]] = {}  # name of a buffer -> what it was and what it becomes
        self.said: list[Once] = []

    def write_effects(self, emitter: Emitter) -> None:
        if not self.said:
            self.said = [self._message(*effect) for effect in self.host.effects]
        self._check_scopes()
        if self.host.draws:
            raise refusal(DRAWS)
        if self.host.assumed is not None:
            emitter.statement("{0}({1}, {2})", Const(torch._assert_async), self.host.assumed, RAISES)
        for record in list(self.host.records.values()):
            if record.before is not None and id(record.obj) in self.buffers:
                self._dict_of_buffers(record)
        deferred, self.host.effects = self.host.effects, []
        self.host.through.clear()
        try:
            super().write_effects(emitter)
        finally:
            self.host.effects = deferred
        for name, (_, now) in self.assigned.items():
            emitter.statement("{0}({1}, {2})", Const(self.assign), name, now)
        for once, (_, args, kwargs) in zip(self.said, deferred, strict=True):
            holes = [f"{{{i}}}" for i in range(1, len(args) + 1)]
            holes += [f"{name}={{{i}}}" for i, name in enumerate(kwargs, len(args) + 1)]
            emitter.statement(f"{{0}}({', '.join(holes)})", Const(once), *args, *kwargs.values())

    def _check_scopes(self) -> None:
        """Variables of enclosing functions, classes and other objects."""
        host = self.host
        for _, path, before, now in host.cells.values():
            if now is not before:
                raise refusal(f"it sets `{self.describe(path)}`, a variable of an enclosing function", store_of(path))
        for (_, name), (cls, before, now) in host.class_writes.items():
            if now is not before:
                raise refusal(f"it sets the attribute {name!r} of class {cls.__qualname__}")
        for record in host.touched.values():
            for name, (before, now, _) in (record.extra or {}).items():
                if now is not before:
                    raise refusal(f"it sets {self.describe(record.path)}.{name}")

    def _dict_of_buffers(self, record: Any) -> None:
        """The dict of buffers of a module that was changed as a whole."""
        before = dict(record.before)
        for name, now in record.inner.items():
            if now is not before.get(name, UNBOUND):
                self._buffer(self.buffers[id(record.obj)] + name, before.get(name), now)
        if before.keys() - record.inner.keys():
            raise refusal(f"it deletes a buffer of {self.describe(record.path)}")
        record.before = effects.snapshot(record.inner)

    def _buffer(self, name: str, before: Any, now: Any) -> None:
        """A buffer that becomes another tensor."""
        if type(before) is not TracedTensor or type(now) is not TracedTensor:
            raise refusal(f"it sets buffer {name!r}, which must be a tensor before and after")
        old, new = before._meta, now._meta
        if tuple(old.size) != tuple(new.size) or old.dtype != new.dtype or old.device != new.device:
            raise refusal(
                f"buffer {name!r} becomes another kind of tensor: {_kind(old)} before, {_kind(new)} after; "
                f"the buffers of an exported program keep their shape and dtype"
            )
        self.assigned[name] = before, now

    def write_name(self, emitter: Emitter, namespace: Any, name: Any, value: Any) -> None:
        prefix = self.buffers.get(id(namespace.real))
        if prefix is not None:
            self._buffer(prefix + name, namespace.before.get(name), value)
            return
        if self._is_real(namespace.real.get(name, UNBOUND), value):
            return  # set, and set back
        owner, origin = namespace.owner, namespace.touched.get(name)
        if isinstance(owner, ModuleType) or owner is namespace.real:
            raise refusal(f"it sets the global variable {name!r} of {_module(namespace.real)}", origin)
        what = f"`{self.describe(namespace.path)}.{name}`"
        if isinstance(owner, torch.nn.Module) and type(value) is TracedTensor:
            raise refusal(
                f"it sets {what}, which is no buffer: register it with register_buffer({name!r}, ...)", origin
            )
        raise refusal(f"it sets {what}", origin)

    def _is_real(self, real: Any, value: Any) -> bool:
        record = self.host.records.get(id(value))
        return real is (record.obj if record is not None and record.inner is value else value)

    def changed(self, record: Any) -> None:
        if isinstance(record.obj, random.Random):
            raise refusal(DRAWS)
        kind = type(record.obj).__qualname__
        refused = refusal(f"it changes the {kind} `{self.describe(record.path)}`")
        refused.changed = record.path
        raise refused

    def _message(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Once:
        if not is_message(function):
            raise refusal(f"it leaves the state of the process changed, through {_name(function)}")
        if any(type(arg) is TracedTensor for arg in args):
            raise refusal(f"{_name(function)} shows a tensor, which has a value only when the program runs")
        return Once(function)


DRAWS = "it draws numbers with `random`, which would be the same in every run; use torch.rand"


def is_message(function: Any) -> bool:
    """Whether it only says something to people."""
    if function in (print, warn.show, logs.handle):
        return True
    return getattr(function, "__name__", "") == "write" and getattr(function, "__self__", None) in (
        sys.stderr,
        sys.stdout,
        sys.__stderr__,
        sys.__stdout__,
    )


def refusal(detail: str, origin: Any = None) -> ExportError:
    """Why the program cannot be exported."""
    return ExportError(detail, user_place(origin))


def describer(names: list[str]) -> Callable[[Path], str]:
    """Paths in the user's words: arguments by name, globals and variables of enclosing functions too."""

    def describe(path: Path) -> str:
        root, *rest = [step for step in path.chain() if step.key not in _HIDDEN]
        owner = alive(root.key)
        if root.accessor is ARG:
            text = names[root.key]
        elif isinstance(owner, dict) and rest and type(rest[0].key) is str:
            text, rest = rest[0].key, rest[1:]
        elif isinstance(owner, torch.nn.Module) or isinstance(getattr(owner, "__self__", None), torch.nn.Module):
            text = "self"
        elif (variable := variable_of(path)) is not None:
            text = variable[1]
            rest = rest[next(i for i, step in enumerate(rest) if step.accessor is ITEM) + 1 :]
        else:
            text = describe_object(owner)
        for step in rest:
            if step.accessor is not CELL:
                text = step.accessor.text.format(parent=text, key=step.key)
        return text

    return describe


_HIDDEN = ("_modules", "_parameters", "_buffers", "__self__", "__func__", "__dict__", "__closure__")


def variable_of(path: Path) -> tuple[Any, str] | None:
    """The function and the name of the variable of an enclosing function that a path goes through."""
    steps = path.chain()
    for step in steps:
        if step.accessor is ITEM and step.parent is not None and step.parent.key == "__closure__":
            owner = step.parent.parent
            function = alive(owner.key) if owner is not None and owner.parent is None else None
            code = getattr(getattr(function, "__func__", function), "__code__", None)
            return (code, code.co_freevars[step.key]) if code is not None else None
    return None


def store_of(path: Path) -> Any:
    """The instruction that sets a variable of an enclosing function."""
    found = variable_of(path)
    if found is not None:
        code, name = found
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_DEREF" and instruction.argval == name:
                return code, instruction.offset // 2
    return None


def _module(names: dict[str, Any]) -> str:
    return f"module {names.get('__name__', '?')}"


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _kind(meta: Any) -> str:
    return f"{meta.dtype} of shape {tuple(meta.size)}"
