"""Random structures, random guards, random mutations: C and the Python twin must always agree."""

from __future__ import annotations

import collections
import types
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stator._entry import type_version
from stator.guards import GuardSet, Path, TensorSpec, arg, const, is_constant
from stator.guards.check import (
    EMPTY_CELL,
    EQ,
    IS,
    KEYS,
    LEN,
    NO_ATTR,
    NO_KEY,
    SAME,
    TENSOR,
    TYPE_IS,
    TYPE_VERSION,
)  # fmt: skip
from stator.guards.guardset import _Twin

NAMES = ("a", "b", "c", "d")


class Box:
    """Attributes live inline."""


class Chest(Box):
    """Has its dict made at once."""

    def __init__(self) -> None:
        self.__dict__["made"] = True


class Slots:
    __slots__ = NAMES


class Table(dict):
    pass


class Builder:
    """Makes a random structure of everything a path can go through."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.made: list[Any] = []

    def value(self, depth: int) -> Any:
        kinds = ["constant", "tensor"] if depth == 0 else list(self.KINDS)
        if self.made and self.draw(st.integers(0, 9)) == 0:
            return self.draw(st.sampled_from(self.made))
        made = self.KINDS[self.draw(st.sampled_from(kinds))](self, depth - 1)
        self.made.append(made)
        return made

    def several(self, depth: int) -> list[Any]:
        return [self.value(depth) for _ in range(self.draw(st.integers(0, 3)))]

    def constant(self, depth: int) -> Any:
        return self.draw(
            st.sampled_from([0, 1, True, 1.0, -0.0, 0.0, "a", "b", b"x", None, (1, 2), (1.0, 2), frozenset({1})])
        )

    def tensor(self, depth: int) -> torch.Tensor:
        shape = self.draw(st.sampled_from([(), (2,), (2, 3), (1, 1, 1, 1, 1, 2)]))
        return torch.zeros(shape, requires_grad=self.draw(st.booleans()))

    def box(self, depth: int) -> Any:
        made = self.draw(st.sampled_from([Box, Chest, Slots]))()
        for name in self.draw(st.sets(st.sampled_from(NAMES))):
            setattr(made, name, self.value(depth))
        return made

    def table(self, depth: int) -> dict[Any, Any]:
        made = self.draw(st.sampled_from([dict, Table, collections.OrderedDict]))()
        for key in self.draw(st.lists(st.sampled_from(["a", "b", 1, (1, "a"), 2.5]), unique=True, max_size=4)):
            made[key] = self.value(depth)
        return made

    KINDS: dict[str, Any] = {
        "constant": constant,
        "tensor": tensor,
        "box": box,
        "table": table,
        "list": lambda self, depth: self.several(depth),
        "tuple": lambda self, depth: tuple(self.several(depth)),
        "deque": lambda self, depth: collections.deque(self.several(depth)),
        "set": lambda self, depth: {1, "a", self.constant(0)},
        "cell": lambda self, depth: types.CellType(*self.several(depth)[:1]),
        "class": lambda self, depth: type("C", (Box,), {"a": self.value(depth)}),
    }


def children(path: Path, value: Any) -> list[tuple[Path, Any]]:
    """The paths one step below, with their values."""
    found: list[tuple[Path, Any]] = [(path.cls(), type(value))]
    if isinstance(value, list | tuple):
        found += [(path.item(i), item) for i, item in enumerate(value)]
    elif isinstance(value, dict):
        found += [(path.entry(key), item) for key, item in value.items()]
        found += [(path.key_at(i), key) for i, key in enumerate(value)]
    elif isinstance(value, collections.deque):
        found += [(path.seq(i), item) for i, item in enumerate(value)]
    elif isinstance(value, set | frozenset):
        found += [(path.iter_at(i), item) for i, item in enumerate(value)]
    elif isinstance(value, types.CellType):
        found += [(path.cell(), value.cell_contents)] if len(str(value)) and "empty" not in repr(value) else []
    elif isinstance(value, Slots):
        found += [(path.get(name), getattr(value, name)) for name in NAMES if hasattr(value, name)]
    elif isinstance(value, type):
        found += [(path.class_item("a"), value.__dict__["a"])] if "a" in value.__dict__ else []
    elif isinstance(value, Box):
        found += [(path.attr(name), item) for name, item in list(value.__dict__.items())]
    return found


def checks_for(value: Any) -> list[tuple[Any, Any]]:
    """The checks that this value fulfils."""
    found: list[tuple[Any, Any]] = [(TYPE_IS, type(value)), (IS, value), (NO_ATTR, "nowhere")]
    if is_constant(value):
        found.append((EQ, value))
    if isinstance(value, torch.Tensor):
        found.append((TENSOR, TensorSpec.of(value)))
    if isinstance(value, list | tuple | dict | set | collections.deque):
        found.append((LEN, len(value)))
    if isinstance(value, dict):
        found += [(KEYS, tuple(value)), (NO_KEY, "nowhere")]
    if isinstance(value, type):
        found.append((TYPE_VERSION, type_version(value)))
    if isinstance(value, types.CellType) and "empty" in repr(value):
        found.append((EMPTY_CELL, None))
    return found


def mutate(draw: Any, value: Any, new: Any) -> None:
    """Changes an object in place, in a way that fits it."""
    if isinstance(value, list | collections.deque):
        if value and draw(st.booleans()):
            value[draw(st.integers(0, len(value) - 1))] = new
        else:
            value.append(new)
    elif isinstance(value, dict):
        key = draw(st.sampled_from([*value, "nowhere", "a"]))
        if key in value and draw(st.booleans()):
            value[key] = value.pop(key)
        elif isinstance(value, collections.OrderedDict) and key in value and draw(st.booleans()):
            value.move_to_end(key, last=False)
        else:
            value[key] = new
    elif isinstance(value, set):
        value.discard("a") if "a" in value else value.add("a")
    elif isinstance(value, types.CellType):
        value.cell_contents = new
    elif isinstance(value, torch.Tensor) and value.is_leaf:
        value.requires_grad_(not value.requires_grad)
    elif type(value) is Chest and draw(st.booleans()):
        value.__class__ = Box
    elif isinstance(value, Box | Slots):
        name = draw(st.sampled_from(NAMES))
        if hasattr(value, name) and draw(st.booleans()):
            delattr(value, name)
        else:
            setattr(value, name, new)
    elif isinstance(value, type) and issubclass(value, Box):
        value.a = new  # type: ignore[attr-defined]


def reachable(root: Any) -> list[Any]:
    """All objects below the root, the root first."""
    seen: dict[int, Any] = {}
    work = [root]
    while work:
        value = work.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            work += [child for _, child in children(arg(0), value) if child is not type(value)]
    return list(seen.values())


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_c_agrees_with_the_twin(data: st.DataObject) -> None:
    draw = data.draw
    builder = Builder(draw)
    root = [builder.value(4), builder.value(3)]
    base = const(root) if draw(st.booleans()) else arg(0)
    guards = GuardSet()
    loads: list[Path] = []
    visited: list[Path] = []
    work = [(base, root)]
    while work:
        path, value = work.pop(draw(st.integers(0, len(work) - 1)))
        visited.append(path)
        for check, key in checks_for(value):
            if draw(st.integers(0, 2)) == 0:
                guards.add(path, check, key)
        if draw(st.integers(0, 3)) == 0:
            loads.append(path)
        work += [child for child in children(path, value) if draw(st.integers(0, 4))]
        if len(visited) > 60:
            break
    values = [path.load((root,)) for path in visited]
    apart = list({id(value): path for path, value in zip(visited, values, strict=True)}.values())
    if draw(st.booleans()):
        guards.distinct(apart)
    if draw(st.booleans()) and len(visited) > 1:
        one, two = draw(st.sampled_from(visited)), draw(st.sampled_from(visited))
        if one.load((root,)) is two.load((root,)):
            guards.add(one, SAME, two)
    program = guards.compile(loads)
    program.twin = _Twin(guards, tuple(loads))
    outcome = program.run((root,))
    assert isinstance(outcome, list)
    for _ in range(draw(st.integers(1, 6))):
        mutate(draw, draw(st.sampled_from(reachable(root))), builder.value(1))
        for _ in range(2):
            outcome = program.run((root,))
            if isinstance(outcome, list):
                for have, path in zip(outcome, loads, strict=True):
                    assert have is path.load((root,)) or isinstance(have, type(path.load((root,))))
