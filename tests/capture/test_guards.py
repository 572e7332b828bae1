"""Every outside value that was read is guarded; values that were not read may change freely."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

import stator

X = torch.ones(3)


class Layer:
    factor = 2.0

    def __init__(self) -> None:
        self.weight = 3.0
        self.unused = 1
        self.options = {"act": "mul", "other": 0, "nested": {"deep": [1, {"k": 5.0}]}}
        self.child: Any = None
        self.names = ["a", "b"]

    def scale(self) -> float:
        return self.weight * self.factor

    @property
    def shift(self) -> float:
        return self.weight + 1


SCALE = 2.0
UNREAD = 1
TABLE = {"a": 1.0, "b": 2.0}


def program(layer: Layer, x: torch.Tensor, k: int = 4, *, flag: bool = True) -> torch.Tensor:
    y = x * layer.scale() + layer.shift + SCALE * TABLE["a"]
    if layer.options["act"] == "mul":
        y = y * layer.options["nested"]["deep"][1]["k"]
    if flag:
        y = y + k
    if layer.child is not None:
        y = y - 100
    return y + helper(len(layer.names))


def helper(n: int, extra: list[int] = [1]) -> int:  # noqa: B006
    return n + extra[0]


def setter(name: str, value: Any) -> Any:
    return lambda layer: setattr(layer, name, value)


def swap_global(name: str, value: Any) -> Any:
    def change(layer: Layer) -> None:
        globals()[name] = value

    return change


def replace_class_attribute(layer: Layer) -> None:
    Layer.factor = 7.0


def replace_method(layer: Layer) -> None:
    Layer.scale = lambda self: 11.0  # type: ignore[method-assign]


def shadow_method(layer: Layer) -> None:
    layer.scale = lambda: 13.0  # type: ignore[method-assign]


def replace_default(layer: Layer) -> None:
    helper.__defaults__ = ([50],)


def change_default(layer: Layer) -> None:
    helper.__defaults__[0][0] = 9  # type: ignore[index]


def replace_function(layer: Layer) -> None:
    globals()["helper"] = lambda n, extra=(0,): -n


def other_class(layer: Layer) -> None:
    layer.__class__ = type("Other", (Layer,), {"factor": 0.5})


READ = {
    "attribute": setter("weight", 4.0),
    "attribute type": setter("weight", 3),
    "none attribute": setter("child", 1),
    "deep item": lambda layer: layer.options["nested"]["deep"][1].__setitem__("k", 6.0),
    "replaced dict": lambda layer: layer.options.__setitem__("nested", {"deep": [0, {"k": 1.0}]}),
    "item": lambda layer: layer.options.__setitem__("act", "add"),
    "length": lambda layer: layer.names.append("c"),
    "global": swap_global("SCALE", 5.0),
    "global dict": lambda layer: TABLE.__setitem__("a", 4.0),
    "class attribute": replace_class_attribute,
    "method": replace_method,
    "instance attribute in front of a method": shadow_method,
    "default": replace_default,
    "contents of a default": change_default,
    "function": replace_function,
    "class": other_class,
}
NOT_READ = {
    "attribute": setter("unused", 5),
    "new attribute": setter("brand_new", 5),
    "global": swap_global("UNREAD", 6),
}


@pytest.fixture
def restore() -> Any:
    """Put module state back after a test."""
    names = {name: globals()[name] for name in ("SCALE", "UNREAD", "TABLE", "helper")}
    table, factor, scale, defaults = dict(TABLE), Layer.factor, Layer.scale, helper.__defaults__
    yield
    globals().update(names)
    TABLE.clear()
    TABLE.update(table)
    Layer.factor, Layer.scale = factor, scale  # type: ignore[method-assign]
    helper.__defaults__ = defaults
    helper.__defaults__[0][0] = 1  # type: ignore[index]


@pytest.mark.parametrize("change", READ.values(), ids=READ)
@pytest.mark.usefixtures("restore")
def test_value_that_was_read(change: Any) -> None:
    layer = Layer()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(layer, X), program(layer, X))
    assert torch.equal(compiled(layer, X), program(layer, X))
    assert stator.stats()["recompiles"] == 0
    change(layer)
    expected = program(layer, X)
    assert torch.equal(compiled(layer, X), expected)
    assert stator.stats()["recompiles"] == 1
    assert torch.equal(compiled(layer, X), expected)
    assert stator.stats()["recompiles"] == 1


@pytest.mark.parametrize("change", NOT_READ.values(), ids=NOT_READ)
@pytest.mark.usefixtures("restore")
def test_value_that_was_not_read(change: Any) -> None:
    layer = Layer()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    compiled(layer, X)
    change(layer)
    assert torch.equal(compiled(layer, X), program(layer, X))
    assert stator.stats()["recompiles"] == 0


def test_another_instance_of_the_same_kind_is_a_hit() -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    compiled(Layer(), X)
    compiled(Layer(), X)
    assert stator.stats()["recompiles"] == 0


@pytest.mark.parametrize(
    "other",
    [torch.ones(4), torch.ones(3, dtype=torch.float64), torch.ones(3, requires_grad=True), torch.ones(6)[::2]],
    ids=["size", "dtype", "requires_grad", "stride"],
)
def test_tensor_metadata(other: torch.Tensor) -> None:
    compiled = stator.compile(lambda x: x * 2, backend="eager", fullgraph=True)
    compiled(X)
    assert torch.equal(compiled(other), other * 2)
    assert stator.stats()["recompiles"] == 1


def test_call_shape() -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    layer = Layer()
    for args, kwargs in [
        ((layer, X), {}),
        ((layer, X, 5), {}),
        ((layer, X), {"k": 5}),
        ((layer,), {"flag": False, "x": X}),
    ]:
        assert torch.equal(compiled(*args, **kwargs), program(*args, **kwargs))


def test_closure_cells() -> None:
    def make(n: float) -> Any:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x * n

        def change(value: float) -> None:
            nonlocal n
            n = value

        return inner, change

    inner, change = make(2.0)
    compiled = stator.compile(inner, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    change(5.0)
    assert torch.equal(compiled(X), X * 5)


def test_aliasing_of_arguments() -> None:
    def f(a: list[int], b: list[int]) -> int:
        a.append(1)
        return len(b)

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    assert compiled([], []) == 0
    same: list[int] = []
    assert compiled(same, same) == 1
    assert compiled([], []) == 0


def test_identity_of_arguments() -> None:
    def f(a: Any, b: Any, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if a is b else x - 1

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    one, two = Layer(), Layer()
    assert torch.equal(compiled(one, two, X), X - 1)
    assert torch.equal(compiled(one, one, X), X + 1)
    assert torch.equal(compiled(one, two, X), X - 1)


def test_same_tensor_twice() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a + b

    compiled = stator.compile(f, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2), torch.ones(2)), torch.full((2,), 3.0))
    same = torch.ones(2)
    assert torch.equal(compiled(same, same), torch.full((2,), 4.0))


def test_torch_state() -> None:
    def f(x: torch.Tensor) -> tuple[bool, torch.dtype]:
        return torch.is_grad_enabled(), torch.zeros(2).dtype

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    assert compiled(X) == (True, torch.float32)
    with torch.no_grad():
        assert compiled(X) == (False, torch.float32)
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(X) == (True, torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)


def test_function_argument_is_known_by_its_code() -> None:
    def apply(f: types.FunctionType, x: torch.Tensor) -> torch.Tensor:
        return f(x)

    def make(n: int) -> Any:
        return lambda x: x + n

    compiled = stator.compile(apply, backend="eager", fullgraph=True)
    assert torch.equal(compiled(make(1), X), X + 1)
    assert torch.equal(compiled(make(1), X), X + 1)
    assert stator.stats()["recompiles"] == 0
    assert torch.equal(compiled(make(2), X), X + 2)


def test_one_code_in_two_namespaces():
    """Functions with the same code are not the same function."""
    names = [{"K": 2}, {"K": 3}]
    exec(compile("def scaled(x): return x * K", "shared.py", "exec"), names[0])
    first = names[0]["scaled"]
    second = types.FunctionType(first.__code__, names[1], "scaled")
    compiled = stator.compile(lambda x, function: function(x) + 1, backend="eager", fullgraph=True)
    for factor, function in ((2, first), (3, second), (2, first)):
        assert torch.equal(compiled(torch.ones(2), function), torch.full((2,), factor + 1.0))


LEAF = torch.ones(2, 3, requires_grad=True)
MADE = LEAF * 2
ROWS = torch.arange(12.0).reshape(4, 3)
with torch.inference_mode():
    INFERENCE = torch.ones(2, 3)

# What the program reads of a tensor, and two tensors that differ in nothing else.
PARTS: dict[str, tuple[Any, torch.Tensor, torch.Tensor]] = {
    "is_leaf": (lambda x: (x.is_leaf, x.cos()), LEAF, MADE),
    "grad_fn": (lambda x: (x.grad_fn is None, x.cos()), LEAF, MADE),
    "storage_offset": (lambda x: (x.storage_offset(), x.cos()), ROWS[:2], ROWS[2:]),
    "offset of a view": (lambda x: (x[1:].t().storage_offset(), x.cos()), ROWS[:2], ROWS[2:]),
    "is_inference": (lambda x: (torch.is_inference(x), x.cos()), ROWS[:2], INFERENCE),
}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_tensors_that_are_read(name: str, order: int) -> None:
    program, *tensors = PARTS[name]
    compiled = stator.compile(program, backend="eager")
    for tensor in tensors[::order] * 2:
        assert compiled(tensor)[0] == program(tensor)[0]
        assert torch.equal(compiled(tensor)[1], program(tensor)[1])


def test_writes_to_leaves_raise_where_others_do_not() -> None:
    def program(x: torch.Tensor) -> str:
        try:
            x.mul_(2)
        except RuntimeError as error:
            return str(error)
        return "written"

    compiled = stator.compile(program, backend="eager")
    for make in (lambda: LEAF * 1, lambda: torch.ones(2, 3, requires_grad=True)):
        assert compiled(make()) == program(make())


def test_where_memory_begins_is_free_unless_it_is_read() -> None:
    compiled = stator.compile(lambda x: x.cos(), backend="eager", fullgraph=True)
    stator.reset()
    for tensor in (ROWS[:2], ROWS[2:]):
        compiled(tensor)
    assert stator.stats()["recompiles"] == 0


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (torch.get_num_threads, torch.set_num_threads),
        (torch.is_warn_always_enabled, torch.set_warn_always),
        (
            lambda: torch.utils.deterministic.fill_uninitialized_memory,
            lambda value: setattr(torch.utils.deterministic, "fill_uninitialized_memory", value),
        ),
    ],
)
def test_settings_that_are_only_read(read: Any, write: Any) -> None:
    compiled = stator.compile(lambda x: (read(), x * 2), backend="eager", fullgraph=True)
    before = read()
    try:
        for value in (before, 3 if type(before) is int else not before, before):
            write(value)
            assert compiled(X)[0] == read()
    finally:
        write(before)


def test_what_metaclasses_say() -> None:
    class Meta(type):
        pass

    class Thing(metaclass=Meta):
        pass

    programs = [lambda x: (isinstance(3, Thing), x * 2), lambda x: (Thing() is None, x * 2)]
    compiled = [stator.compile(program, backend="eager") for program in programs]
    assert [function(X)[0] for function in compiled] == [False, False]
    Meta.__instancecheck__ = lambda cls, obj: True  # type: ignore[attr-defined]
    Meta.__call__ = lambda cls: None  # type: ignore[attr-defined, method-assign]
    assert [function(X)[0] for function in compiled] == [True, True]
