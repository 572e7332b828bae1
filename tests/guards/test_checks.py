"""Each check holds and fails in C exactly where its Python twin does."""

from __future__ import annotations

import collections
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stator import _entry
from stator.guards import GuardSet, TensorSpec, arg
from stator.guards.check import (
    ALIVE,
    CODE_IS,
    EMPTY_CELL,
    EQ,
    HAS_ELEMENT,
    IS,
    KEYS,
    LEN,
    NO_ATTR,
    NO_ELEMENT,
    NO_HOOKS,
    NO_KEY,
    NOT_EMPTY,
    SAME,
    TENSOR,
    TYPE_IS,
    TYPE_VERSION,
    Check,
)  # fmt: skip


class A:
    pass


class B:
    pass


class IntChild(int):
    pass


def one() -> int:
    return 1


def two() -> int:
    return 2


def hooked(name: str) -> torch.nn.Module:
    module = torch.nn.Linear(1, 1)
    getattr(module, name)(lambda *args: None)
    return module


def with_field(name: str) -> A:
    value = A()
    setattr(value, name, 1)
    return value


def reordered() -> Any:
    value = collections.OrderedDict([("a", 1), ("b", 2)])
    value.move_to_end("a")
    return value


NAN, OTHER_NAN = float("nan"), -float("nan")
TARGET, OTHER = A(), A()
T = torch.zeros(2, 3)
ROWS: list[tuple[Check, Any, list[Any], list[Any]]] = [
    (TYPE_IS, int, [3, 10**30], [True, 3.0, IntChild(3)]),
    (TYPE_IS, A, [A()], [B(), A]),
    (TYPE_VERSION, _entry.type_version(A), [A], [B, A(), 3]),
    (IS, TARGET, [TARGET], [OTHER]),
    (IS, None, [None], [0]),
    (EQ, 3, [3, int("3")], [True, 3.0, 4, IntChild(3), None]),
    (EQ, 10**30, [10**30], [10**30 + 1]),
    (EQ, True, [True], [1, False]),
    (EQ, 0.0, [0.0], [-0.0, 0, 1.0, False]),
    (EQ, NAN, [NAN, float("nan")], [OTHER_NAN, 1.0]),
    (EQ, 1j, [1j, complex(0, 1)], [complex(-0.0, 1), 1]),
    (EQ, "text", ["text", "".join(["te", "xt"])], ["texT", b"text"]),
    (EQ, b"x", [b"x"], [bytearray(b"x"), "x"]),
    (EQ, (1, (2.0, "x")), [(1, (2.0, "x"))], [(1, (2, "x")), [1, (2.0, "x")], (1,), (True, (2.0, "x"))]),
    (EQ, frozenset({1, 2}), [frozenset({2, 1})], [frozenset({True, 2}), frozenset({1}), {1, 2}]),
    (EQ, frozenset([0, 8]), [frozenset([0, 8])], [frozenset([8, 0])]),  # in another order
    (EQ, slice(1, None, 2), [slice(1, None, 2)], [slice(1, None, 3), slice(1, 5, 2)]),
    (EQ, range(0, 3, 2), [range(0, 3, 2)], [range(0, 4, 2), range(3)]),
    (EQ, torch.device("cpu"), [torch.device("cpu")], [torch.device("meta"), "cpu"]),
    (EQ, torch.float32, [torch.float32], [torch.float64]),
    (EQ, torch.Size([2, 3]), [T.size()], [(2, 3), torch.Size([2, 4])]),
    (EQ, TARGET, [TARGET], [OTHER]),
    (LEN, 2, [[1, 2], (1, 2), {1: 1, 2: 2}, {1, 2}, collections.deque([1, 2])], [[1], (), {}, 3, A(), frozenset({1})]),
    (KEYS, ("a", "b"), [{"a": 1, "b": 2}, collections.OrderedDict(a=1, b=2)], [
        {"b": 2, "a": 1}, {"a": 1}, {}, ["a", "b"], reordered(),
    ]),
    (KEYS, (1, (2, 3)), [{1: 0, (2, 3): 0}], [{True: 0, (2, 3): 0}, {1.0: 0, (2, 3): 0}]),
    (KEYS, (), [{}], [{1: 1}, []]),
    (NO_KEY, "a", [{}, {"b": 1}, {1: 1}], [{"a": 1}, []]),
    (NO_KEY, 1, [{2: 1}], [{1: 1}, {True: 1}, {1.0: 1}]),
    (NOT_EMPTY, None, [[1], {1: 2}, {1}, (1,), collections.deque([1])], [[], {}, set(), (), collections.deque(), 3]),
    (HAS_ELEMENT, 1, [{1, 2}, {True}, frozenset([1.0]), set(range(1000))], [set(), {2}, {"1"}, [1], {1: 1}]),
    (HAS_ELEMENT, "k777", [{f"k{i}" for i in range(1000)}], [{f"k{i}" for i in range(777)}]),
    (NO_ELEMENT, "k777", [{f"k{i}" for i in range(777)}, set()], [{f"k{i}" for i in range(1000)}, {}, []]),
    (NO_ATTR, "x", [A(), with_field("y"), 3], [with_field("x")]),
    (TENSOR, TensorSpec.of(T), [T, torch.ones(2, 3)], [
        torch.zeros(3, 2), torch.zeros(2, 3, dtype=torch.float64), 3, torch.nn.Parameter(T),
    ]),
    (CODE_IS, one.__code__, [one, types.FunctionType(one.__code__, {})], [two, one.__code__, len]),
    (NO_HOOKS, None, [torch.nn.Linear(1, 1), torch.nn.Sequential()], [
        hooked("register_forward_hook"), hooked("register_forward_pre_hook"), hooked("register_full_backward_hook"),
        hooked("register_full_backward_pre_hook"), A(), 3,
    ]),
    (EMPTY_CELL, None, [types.CellType()], [types.CellType(1), types.CellType(None), 3]),
    (ALIVE, None, [weakref.ref(TARGET)], [weakref.ref(A()), 3]),
    (ALIVE, weakref.ref(TARGET), [TARGET], [OTHER, None]),
]  # fmt: skip


@pytest.mark.parametrize("check, key, good, bad", ROWS, ids=[f"{row[0].name}-{i}" for i, row in enumerate(ROWS)])
def test_holds(check: Check, key: Any, good: list[Any], bad: list[Any]) -> None:
    guards = GuardSet()
    guards.add(arg(0), check, key, origin="line 3")
    program = guards.compile([])
    for _ in range(2):
        for value in good:
            assert program.run((value,)) == []
            assert guards.first_failure((value,)) is None
        for value in bad:
            assert program.run((value,)) == 0, value
            guards.names = ["x"]
            failure = guards.first_failure((value,))
            assert failure is not None
            assert failure.check is check and failure.origin == "line 3" and failure.path is arg(0)
            assert "x" in failure.sentence


@pytest.mark.parametrize("check, key, good, bad", ROWS, ids=[f"{row[0].name}-{i}" for i, row in enumerate(ROWS)])
def test_holds_below_a_dict(check: Check, key: Any, good: list[Any], bad: list[Any]) -> None:
    """The same behind a tag: every replaced value is noticed."""
    guards = GuardSet()
    guards.add(arg(0), TYPE_IS, dict)
    guards.add(arg(0).entry("x"), check, key)
    program = guards.compile([arg(0).entry("x")])
    holder: dict[str, Any] = {}
    for _ in range(2):
        for value in good:
            holder["x"] = value
            for _ in range(2):
                assert program.run((holder,)) == [value]
        for value in bad:
            holder["x"] = value
            for _ in range(2):
                assert program.run((holder,)) == 1, value


def test_same() -> None:
    guards = GuardSet()
    guards.add(arg(0), SAME, arg(1).item(0))
    program = guards.compile([])
    thing = object()
    assert program.run((thing, [thing])) == []
    assert program.run((thing, [object()])) == 0
    guards.names = ["x", "y"]
    failure = guards.first_failure((thing, [object()]))
    assert failure is not None and failure.sentence == "x is the same object as y[0], now another one"


@pytest.mark.parametrize("count", [2, 5, 40, 300])
def test_distinct(count: int) -> None:
    holder = {i: object() for i in range(count)}
    paths = [arg(0).entry(i) for i in range(count)]
    guards = GuardSet()
    guards.distinct([*paths, arg(1), arg(2)])
    program = guards.compile([])
    one, two = object(), object()
    for _ in range(3):
        assert program.run((holder, one, two)) == []
        assert program.run((holder, one, one)) == 0
        assert program.run((holder, holder[count - 1], two)) == 0
    kept = holder[0]
    holder[0] = holder[count - 1]
    assert program.run((holder, one, two)) == 0
    guards.names = ["d"]
    failure = guards.first_failure((holder, one, two))
    assert failure is not None and failure.sentence == f"d[{count - 1}] and d[0] are different objects, now one"
    assert program.run((holder, one, two)) == 0
    holder[0] = kept
    assert program.run((holder, one, two)) == []


def test_distinct_of_many_arguments() -> None:
    guards = GuardSet()
    guards.distinct([arg(0).item(i) for i in range(50)])
    program = guards.compile([])
    values = [object() for _ in range(50)]
    assert program.run((values,)) == []
    values[7] = values[30]
    assert program.run((values,)) == 0
    values[7] = object()
    assert program.run((values,)) == []


def test_call_shape() -> None:
    guards = GuardSet()
    guards.call_shape(1, ("b", "c"))
    guards.add(arg(2), EQ, 5)
    program = guards.compile([arg(1)])
    assert program.run((1, 2, 5), ("b", "c")) == [2]
    assert program.run((1, 2, 5), ("".join("b"), "".join("c"))) == [2]
    assert program.run((1, 2, 5), ("c", "b")) == 0
    assert program.run((1, 2, 5)) == 0
    assert program.run((1, 2, 6), ("b", "c")) == 1
    failure = guards.first_failure((1, 2, 5), ("c", "b"))
    assert failure is not None and "('b', 'c')" in failure.old and "('c', 'b')" in failure.new


def test_too_few_arguments() -> None:
    assert GuardSet().compile([arg(1)]).run((1,)) == 0
    assert GuardSet().compile([arg(1)]).run((1, 2)) == [2]


def test_type_version() -> None:
    class Base:
        pass

    class Child(Base):
        pass

    tag = _entry.type_version(Child)
    assert tag and tag == _entry.type_version(Child) and tag != _entry.type_version(Base)
    guards = GuardSet()
    guards.add(arg(0), TYPE_VERSION, tag)
    program = guards.compile([])
    assert program.run((Child,)) == []
    Base.x = 1  # type: ignore[attr-defined]
    assert program.run((Child,)) == 0
    assert _entry.type_version(Child) != tag
    assert program.run((Child,)) == 0
    assert _entry.type_version(int)
    with pytest.raises(TypeError):
        _entry.type_version(3)  # type: ignore[arg-type]


def test_add_is_deduplicated() -> None:
    guards = GuardSet()
    for _ in range(3):
        guards.add(arg(0), TYPE_IS, dict)
        guards.add(arg(0), NO_KEY, "a")
        guards.add(arg(0), NO_KEY, "b")
    assert len(guards) == 3
    guards.names = ["d"]
    assert guards.describe() == ["TYPE_IS d dict", "NO_KEY d 'a'", "NO_KEY d 'b'"]


MUTATIONS: list[tuple[str, Callable[[], Any], Check, Any, Callable[[Any], Any]]] = [
    ("class", A, TYPE_IS, A, lambda x: setattr(x, "__class__", B)),
    (
        "code",
        lambda: types.FunctionType(one.__code__, {}),
        CODE_IS,
        one.__code__,
        lambda x: setattr(x, "__code__", two.__code__),
    ),
    ("list length", lambda: [1], LEN, 1, lambda x: x.append(1)),
    ("set length", lambda: {1}, LEN, 1, lambda x: x.add(2)),
    ("keys", lambda: {"a": 1}, KEYS, ("a",), lambda x: x.update(b=1)),
    ("order", lambda: collections.OrderedDict(a=1, b=2), KEYS, ("a", "b"), lambda x: x.move_to_end("a")),
    ("new key", dict, NO_KEY, "a", lambda x: x.update(a=1)),
    ("new attribute", A, NO_ATTR, "a", lambda x: setattr(x, "a", 1)),
    ("new inline dict", A, NO_ATTR, "a", lambda x: x.__dict__.update(a=1)),
    ("new dict", A, NO_ATTR, "a", lambda x: setattr(x, "__dict__", {"a": 1})),
    ("hook", lambda: torch.nn.Linear(1, 1), NO_HOOKS, None, lambda x: x.register_forward_hook(print)),
    ("cell", types.CellType, EMPTY_CELL, None, lambda x: setattr(x, "cell_contents", 1)),
    ("resize", lambda: torch.zeros(2), TENSOR, TensorSpec.of(torch.zeros(2)), lambda x: x.resize_(3)),
    ("requires grad", lambda: torch.zeros(2), TENSOR, TensorSpec.of(torch.zeros(2)), lambda x: x.requires_grad_()),
    (
        "data",
        lambda: torch.zeros(2),
        TENSOR,
        TensorSpec.of(torch.zeros(2)),
        lambda x: setattr(x, "data", torch.zeros(2).double()),
    ),
    ("transpose", lambda: torch.zeros(2, 2), TENSOR, TensorSpec.of(torch.zeros(2, 2)), lambda x: x.t_()),
]


@pytest.mark.parametrize("make, check, key, mutate", [row[1:] for row in MUTATIONS], ids=[row[0] for row in MUTATIONS])
@pytest.mark.parametrize("where", ["argument", "dict", "instance", "tuple", "const"])
def test_mutation_is_noticed(make: Any, check: Check, key: Any, mutate: Any, where: str) -> None:
    """The object stays, its holder stays, something in it changes."""
    from stator.guards import const

    value = make()
    holder = A()
    holder.x = value  # type: ignore[attr-defined]
    holder.t = (0, value)  # type: ignore[attr-defined]
    paths = {
        "argument": (arg(0), value),
        "dict": (arg(0).entry("x"), {"x": value}),
        "instance": (arg(0).attr("x"), holder),
        "tuple": (arg(0).attr("t").item(1), holder),
        "const": (const(value), None),
    }
    path, outer = paths[where]
    guards = GuardSet()
    if where == "tuple":
        guards.add(arg(0).attr("t"), TYPE_IS, tuple)
    guards.add(path, TYPE_IS, type(value))
    guards.add(path, check, key)
    program = guards.compile([path])
    for _ in range(3):
        assert program.run((outer,)) == [value]
    mutate(value)
    for _ in range(2):
        assert isinstance(program.run((outer,)), int)
        assert guards.first_failure((outer,)) is not None
