"""Each accessor loads the same in C and in Python, and makes the guard fail where it leads nowhere."""

from __future__ import annotations

import array
import collections
import functools
import operator
import types
from typing import Any

import pytest
import torch

from stator.guards import GuardSet, Missing, Path, arg, const
from stator.guards.check import PRESENT


class Plain:
    """Attributes live inline until somebody asks for the dict."""


class Slotted:
    __slots__ = ("x", "y")


class DictChild(dict):
    pass


class ListChild(list):
    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("user code ran")


class TupleChild(tuple):
    pass


class DequeChild(collections.deque):
    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("user code ran")


class Proud:
    """Its attribute look-up is user code."""

    def __getattribute__(self, name: str) -> Any:
        if name == "x":
            raise AssertionError("user code ran")
        return object.__getattribute__(self, name)


class HashedInPython:
    asked = 0

    def __hash__(self) -> int:
        HashedInPython.asked += 1
        return 3


def plain(**fields: Any) -> Plain:
    value = Plain()
    for name, field in fields.items():
        setattr(value, name, field)
    return value


def materialised(**fields: Any) -> Plain:
    value = plain(**fields)
    assert value.__dict__ is not None
    return value


def slotted(x: Any) -> Slotted:
    value = Slotted()
    value.x = x
    return value


def cell(*contents: Any) -> types.CellType:
    return types.CellType(*contents)


def with_closure() -> Any:
    seen = object()

    def function(a: int = 1, *, b: int = 2) -> Any:
        return seen

    return function


MARK = object()
BELONGS: list[tuple[str, Path, Any, Any]] = [
    ("attr inline", arg(0).attr("x"), plain(x=MARK), plain(y=MARK)),
    ("attr materialised", arg(0).attr("x"), materialised(x=MARK), materialised(y=MARK)),
    ("attr of a module", arg(0).attr("MARK"), types.SimpleNamespace(MARK=MARK), types.ModuleType("empty")),
    ("attr without dict", arg(0).attr("x"), plain(x=MARK), 3),
    ("attr shadows nothing", arg(0).attr("real"), plain(real=MARK), 3),
    ("attr of a class", arg(0).attr("x"), type("A", (), {"x": MARK}), type("B", (), {})),
    ("attr past __getattribute__", arg(0).attr("y"), Proud(), plain()),
    ("dict", arg(0).fields().entry("x"), plain(x=MARK), plain()),
    ("dict of nothing", arg(0).fields(), plain(), 3),
    ("dict of a class", arg(0).fields(), plain(), Plain),
    ("getattr slot", arg(0).get("x"), slotted(MARK), Slotted()),
    ("getattr of a getset", arg(0).get("__defaults__"), with_closure(), 3),
    ("getattr closure", arg(0).get("__closure__").item(0), with_closure(), plain),
    ("getattr self", arg(0).get("__self__"), [].append, 3),
    ("getattr mro", arg(0).get("__mro__"), Plain, plain()),
    ("getattr grad", arg(0).get("grad"), torch.zeros(2), 3),
    ("type", arg(0).cls(), 3, None),
    ("classdict", arg(0).class_item("x"), type("A", (), {"x": MARK}), type("B", (type("A", (), {"x": MARK}),), {})),
    ("classdict of no class", arg(0).class_item("x"), type("A", (), {"x": MARK}), plain(x=MARK)),
    ("item of list", arg(0).item(1), [0, MARK], [0]),
    ("item of tuple", arg(0).item(1), (0, MARK), (0,)),
    ("item of list child", arg(0).item(1), ListChild([0, MARK]), ListChild([0])),
    ("item of tuple child", arg(0).item(1), TupleChild([0, MARK]), TupleChild([0])),
    ("item of torch.Size", arg(0).item(1), torch.Size([7, 8]), {1: MARK}),
    ("key", arg(0).entry("k"), {"k": MARK}, {"j": MARK}),
    ("key of child", arg(0).entry("k"), DictChild(k=MARK), DictChild()),
    ("key number", arg(0).entry(3), {1: 1, 3: MARK}, {"3": MARK}),
    ("key float for int", arg(0).entry(3.0), {3: MARK}, {4: MARK}),
    ("key tuple", arg(0).entry((1, "a")), {(1, "a"): MARK}, {(1, "b"): MARK}),
    ("key object", arg(0).entry(MARK), {MARK: 1}, {object(): 1}),
    ("key of no dict", arg(0).entry(0), {0: 1}, [1]),
    ("key at", arg(0).key_at(1), {"a": 1, MARK: 2}, {"a": 1}),
    ("key at ordered", arg(0).key_at(1), collections.OrderedDict([("a", 1), (MARK, 2)]), collections.OrderedDict()),
    ("seq", arg(0).seq(1), collections.deque([0, MARK]), collections.deque([0])),
    ("seq child", arg(0).seq(1), DequeChild([0, MARK]), DequeChild([0])),
    ("seq array", arg(0).seq(1), array.array("i", [5, 6]), array.array("i", [5])),
    ("seq of none", arg(0).seq(1), collections.deque([0, MARK]), 3),
    ("iter at", arg(0).iter_at(0), {MARK}, set()),
    ("iter at frozen", arg(0).iter_at(0), frozenset({MARK}), frozenset()),
    ("iter at of no set", arg(0).iter_at(0), {MARK}, [MARK]),
    ("cell", arg(0).cell(), cell(MARK), cell()),
    ("cell of none", arg(0).cell(), cell(MARK), MARK),
    ("part", arg(0).part("func", operator.attrgetter("func")), functools.partial(print), 3),
    ("long", arg(0).attr("a").entry("b").item(0).attr("x"), plain(a={"b": [plain(x=MARK)]}), plain(a={"b": [plain()]})),
]
Proud.__dict__  # noqa: B018
BELONGS[6][2].y = MARK


@pytest.mark.parametrize("path, good, bad", [row[1:] for row in BELONGS], ids=[row[0] for row in BELONGS])
def test_loads(path: Path, good: Any, bad: Any) -> None:
    guards = GuardSet()
    program = guards.compile([path, arg(0)])
    for _ in range(3):
        loaded = program.run((good,))
        assert isinstance(loaded, list)
        wanted = path.load((good,))
        assert loaded[0] is wanted or (type(loaded[0]) is type(wanted) and loaded[0] == wanted)
        if type(bad) is not type(None):
            assert isinstance(program.run((bad,)), int)
            with pytest.raises(Missing):
                path.load((bad,))
            failure = guards.first_failure((bad,), loads=[path])
            assert failure is not None and failure.check is PRESENT


def test_inline_attributes_stay_inline() -> None:
    import sys

    one, two = plain(x=1), plain(x=1)
    program = GuardSet().compile([arg(0).attr("x")])
    before = sys.getsizeof(one)
    for _ in range(3):
        assert program.run((one,)) == [1]
    assert sys.getsizeof(one) == before == sys.getsizeof(two)


def test_user_code_does_not_run() -> None:
    ran = []

    class Nosy:
        @property
        def x(self) -> int:
            ran.append("property")
            return 1

        def __getattr__(self, name: str) -> int:
            ran.append(name)
            return 1

    class Key:
        def __hash__(self) -> int:
            return hash("k")

        def __eq__(self, other: object) -> bool:
            ran.append("eq")
            return True

    tests: list[tuple[Path, Any]] = [
        (arg(0).get("x"), Nosy()),
        (arg(0).get("y"), Nosy()),
        (arg(0).attr("y"), Nosy()),
        (arg(0).entry("k"), {Key(): 1}),
    ]
    for path, value in tests:
        assert isinstance(GuardSet().compile([path]).run((value,)), int)
    hashed = HashedInPython()
    ordered = collections.OrderedDict([(hashed, 1)])
    HashedInPython.asked = 0
    program = GuardSet().compile([arg(0).key_at(0)])
    program.twin = None
    assert program.run((ordered,)) == [hashed]
    assert ran == [] and HashedInPython.asked == 0


def test_const_is_the_object_itself() -> None:
    thing = plain(x=1)
    assert const(thing) is const(thing)
    assert GuardSet().compile([const(thing), const(thing).attr("x")]).run(()) == [thing, 1]


def test_deep_paths() -> None:
    depth = 5000
    path, value = arg(0), [MARK]
    for _ in range(depth):
        path, value = path.item(0), [value]  # type: ignore[list-item]
    assert GuardSet().compile([path.item(0)]).run((value,)) == [MARK]
    assert path.load((value,)) == [MARK]
    assert path.describe(["x"]) == "x" + "[0]" * depth
