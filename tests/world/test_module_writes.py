"""Attributes of modules: what their classes and `types.ModuleType` itself do with them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

import stator

LOG: list[Any] = []


class Logged(ModuleType):
    def __getattribute__(self, name: str) -> Any:
        LOG.append(("get", name))
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        LOG.append(("set", name))
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        LOG.append(("del", name))
        ModuleType.__delattr__(self, name)


class Other(ModuleType):
    size = 1


def writes(x: Any, m: Any) -> Any:
    m.foo = 12
    y = m.foo
    del m.foo
    m.bar = 3
    return x + y


def plain_writes(x: Any, m: Any) -> Any:
    ModuleType.__setattr__(m, "foo", 12)
    y = ModuleType.__getattribute__(m, "foo")
    ModuleType.__delattr__(m, "foo")
    ModuleType.__setattr__(m, "bar", 3)
    return x + y


def another_class(x: Any, m: Any) -> Any:
    m.__class__ = Other
    found = m.__class__ is Other, hasattr(m, "size")
    m.__class__ = ModuleType
    return x + 1, found, hasattr(m, "size")


def no_such_name(x: Any, m: Any) -> Any:
    try:
        del m.foo
    except AttributeError as error:
        return x + 1, str(error), error.name, error.obj
    return None


CASES = [(writes, Logged), (plain_writes, Logged), (plain_writes, ModuleType), (another_class, ModuleType),
         (no_such_name, ModuleType), (no_such_name, Logged)]  # fmt: skip


@pytest.mark.parametrize(("f", "kind"), CASES)
def test_modules(f: Callable[..., Any], kind: Any) -> None:
    def seen(function: Callable[..., Any]) -> list[Any]:
        found = []
        for _ in range(3):
            module = kind("m")
            LOG.clear()
            result = function(torch.ones(2), module)
            found.append((str(result), list(LOG), sorted(ModuleType.__getattribute__(module, "__dict__"))))
        return found

    assert seen(stator.compile(f, backend="eager")) == seen(f)


def test_deleting_what_is_not_there() -> None:
    class Plain:
        pass

    def f(x: torch.Tensor, o: Any) -> Any:
        try:
            del o.foo
        except AttributeError as error:
            return x + 1, str(error), error.name, error.obj
        return None

    assert str(stator.compile(f, backend="eager", fullgraph=True)(torch.ones(1), Plain())) == str(
        f(torch.ones(1), Plain())
    )
