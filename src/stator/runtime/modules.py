"""The compiled form of an `nn.Module`: a module around the original one, whose calls go to compiled code."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from ..errors import unsupported
from ..report.events import emit

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

# Dicts of the wrapper that decide whether a call needs nn.Module's own protocol around it.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

_DECISIVE = frozenset((*_HOOKS, "_compiled_call_impl"))

# Special methods are looked up on the class, so the wrapper has those that the original class has.
_FORWARDED = (
    "__len__",
    "__iter__",
    "__getitem__",
    "__setitem__",
    "__delitem__",
    "__contains__",
    "__reversed__",
    "__enter__",
    "__exit__",
)


class _HookDict(OrderedDict[int, Callable[..., Any]]):
    """Hooks of a wrapper; it is told when the first one comes or the last one goes."""

    changed: Callable[[], None] = staticmethod(lambda: None)

    def __setitem__(self, key: int, hook: Callable[..., Any]) -> None:
        super().__setitem__(key, hook)
        self.changed()

    def __delitem__(self, key: int) -> None:
        super().__delitem__(key)
        self.changed()

    def pop(self, *args: Any) -> Any:
        hook = super().pop(*args)
        self.changed()
        return hook

    def clear(self) -> None:
        super().clear()
        self.changed()


class _Forward:
    """`forward`: what calls of a wrapper go to; of its class a function that looks like that of the original class."""

    def __get__(self, module: CompiledModule | None, cls: type[CompiledModule]) -> Callable[..., Any]:
        if module is not None:
            return module.__dict__["_compiled"]

        def forward(self: CompiledModule, *args: Any, **kwargs: Any) -> Any:
            return self.forward(*args, **kwargs)

        original = cls._original_class()
        return forward if original is None else functools.wraps(original.forward)(forward)

    def __set__(self, module: CompiledModule, function: Callable[..., Any]) -> None:
        module.__dict__["_compiled"] = function
        module._choose()


class CompiledModule(nn.Module):
    """Behaves as the original module (`_orig_mod`) in everything but how it is called."""

    forward: Any = _Forward()
    _original_class: Callable[[], type[nn.Module] | None] = staticmethod(lambda: None)  # the class, held weakly

    # The slot holds what a call goes to, so a call without hooks costs no Python frame.
    __slots__ = ("__call__",)

    def __init__(self, module: nn.Module, wrap: Wrap) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module
        own = self.__dict__
        own["_wrap"] = wrap
        own["_compiled"] = wrap(module.__call__)
        for name in _HOOKS:
            own[name] = self._hook_dict()
        _copy_signature(module.forward, own["_compiled"])
        self._choose()

    def _hook_dict(self, hooks: Mapping[int, Callable[..., Any]] | None = None) -> _HookDict:
        made = _HookDict(hooks or {})
        me = weakref.ref(self)
        made.changed = lambda: this._choose() if (this := me()) is not None else None
        return made

    def _is_own(self, name: str) -> bool:
        """Whether an attribute is the wrapper's; all others belong to the original module."""
        return name in self.__dict__ or hasattr(CompiledModule, name)

    def _choose(self) -> None:
        """Points calls to the compiled code, or around it where something has to happen first."""
        own = self.__dict__
        target = own["_compiled"]
        if _is_lazy(self._orig_mod):
            target = self._first_call
        elif own.get("_compiled_call_impl") is not None or any(own[name] for name in _HOOKS):
            target = super().__call__
        object.__setattr__(self, "__call__", target)

    def _first_call(self, *args: Any, **kwargs: Any) -> Any:
        """Lets a lazy module make its parameters, in eager."""
        name = type(self._orig_mod).__name__
        error = unsupported("lazy-module", f"{name} has no parameters yet", type=name)
        emit("skip", code=getattr(self._orig_mod.forward, "__code__", None), **error.report())
        result = self._orig_mod(*args, **kwargs)
        self._choose()
        return result

    @property
    def training(self) -> bool:
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "_modules" in self.__dict__:  # not the default that nn.Module.__init__ sets
            self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__["_modules"]["_orig_mod"]
        return original if name == "_orig_mod" else getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod":
            self._modules[name] = value
            self.forward = self._wrap(value.__call__)
        elif self._is_own(name):
            object.__setattr__(self, name, self._hook_dict(value) if name in _HOOKS else value)
            if name in _DECISIVE:
                self._choose()
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            object.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *super().__dir__()})

    def __reduce__(self) -> tuple[Any, ...]:
        return compiled_module, (self._orig_mod, self._wrap)


def _forwarder(name: str) -> Callable[..., Any]:
    def forward(self: CompiledModule, *args: Any) -> Any:
        return getattr(self._orig_mod, name)(*args)

    forward.__name__ = name
    return forward


_classes: weakref.WeakKeyDictionary[type, type[CompiledModule]] = weakref.WeakKeyDictionary()


def _class_for(original: type[nn.Module]) -> type[CompiledModule]:
    """The wrapper class with the container methods and the signature that the original class has."""
    if original not in _classes:
        body: dict[str, Any] = {name: _forwarder(name) for name in _FORWARDED if hasattr(original, name)}
        body |= {"__slots__": (), "__module__": __name__, "__qualname__": CompiledModule.__qualname__}
        body["_original_class"] = staticmethod(weakref.ref(original))
        _classes[original] = type(CompiledModule.__name__, (CompiledModule,), body)
    return _classes[original]


def compiled_module(module: nn.Module, wrap: Wrap) -> CompiledModule:
    """A module around `module` whose calls go through `wrap(module.__call__)`."""
    return _class_for(type(module))(module, wrap)


def _is_lazy(module: nn.Module) -> bool:
    return any(nn.parameter.is_lazy(parameter) for parameter in (*module.parameters(), *module.buffers()))


def _copy_signature(source: Callable[..., Any], target: Any) -> None:
    """Lets `inspect.signature(compiled.forward)` say what the module takes."""
    try:
        target.__signature__ = inspect.signature(source)
    except (AttributeError, TypeError, ValueError):
        pass
