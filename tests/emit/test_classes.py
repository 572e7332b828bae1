"""Classes made during capture: rebuilt with their functions, without running metaclass code or hooks again."""

import abc
import collections
import dataclasses
import enum
import functools
import gc
import types
import typing

import pytest
import torch

from stator.emit import CannotRebuild
from tests.emit.heap import emit


def made_by(make):
    """Call make, and say which classes, functions, cells and namespaces it made."""
    gc.disable()
    before = {id(obj) for obj in gc.get_objects()}
    result = make()
    fresh = [obj for obj in gc.get_objects() if id(obj) not in before]
    gc.enable()
    kinds = (type, types.FunctionType, types.CellType, types.ModuleType, dict)
    ids = {id(obj): obj for obj in fresh if issubclass(type(obj), kinds)}
    return result, lambda obj: id(obj) in ids


def rebuild(make, *known):
    result, inside = made_by(make)
    entry = emit(result, known, inside)
    first, second = entry(*known), entry(*known)
    return result, first, second


def test_plain_class():
    def make():
        class C:
            """Doc."""

            x: int = 1
            items = []

            def method(self):
                return self.x

            @classmethod
            def build(cls):
                return cls()

            @staticmethod
            def static():
                return 7

            @property
            def double(self):
                return self.x * 2

        return C, C()

    (cls, _), (copy, instance), (other, _) = rebuild(make)
    assert copy is not cls and copy is not other and type(instance) is copy
    assert copy.__name__ == "C" and copy.__qualname__ == cls.__qualname__ and copy.__doc__ == "Doc."
    assert copy.items is not cls.items and copy.method is not cls.method
    assert copy.__module__ == __name__ and copy.__annotations__ == {"x": int}
    assert [*vars(copy)] == [*vars(cls)]
    assert type(copy.build()) is copy and copy().double == 2 and copy.static() == 7


def test_class_cell_and_super():
    def make():
        class A:
            def who(self):
                return ["A"]

        class B(A):
            def who(self):
                return ["B", *super().who(), __class__]

        return A, B

    (a, b), (copy_a, copy_b), _ = rebuild(make)
    assert copy_b.__mro__ == (copy_b, copy_a, object)
    assert copy_b().who() == ["B", "A", copy_b]


def test_slots_and_self_reference():
    def make():
        class Node:
            __slots__ = ("next", "__hidden")
            registry = []

        Node.registry.append(Node)
        Node.last = Node()
        Node.last.next = Node
        return Node

    cls, copy, _ = rebuild(make)
    assert copy.registry == [copy] and copy.last.next is copy and type(copy.last) is copy
    assert not hasattr(copy.last, "__dict__") and [*vars(copy)] == [*vars(cls)]
    member = emit(cls.next, inside=lambda obj: obj is cls)()
    assert type(member) is types.MemberDescriptorType and member.__objclass__ is not cls


def test_instances_of_guarded_inside_classes():
    def make():
        class Guarded:
            __slots__ = ("__hidden", "seen", "__dict__")

            def __setattr__(self, name, value):
                raise AssertionError

            __getattribute__ = __setattr__

            def __hash__(self):
                return object.__getattribute__(self, "seen")

        obj = object.__new__(Guarded)
        object.__setattr__(obj, "seen", 5)
        object.__setattr__(obj, "_Guarded__hidden", [obj])
        object.__setattr__(obj, "extra", {obj})
        return obj

    _, copy, _ = rebuild(make)
    assert object.__getattribute__(copy, "_Guarded__hidden")[0] is copy
    assert copy in object.__getattribute__(copy, "extra")


def test_hooks_do_not_run_again():
    calls = []

    class Named:
        def __set_name__(self, owner, name):
            calls.append(name)

    class Meta(type):
        def __new__(meta, *args):
            calls.append("new")
            return super().__new__(meta, *args)

        def __init__(cls, *args):
            calls.append("init")

        def __setattr__(cls, name, value):
            raise AssertionError

        def __call__(cls):
            raise AssertionError

    def make():
        class C(metaclass=Meta):
            field = Named()
            other = 2

        return C

    (cls, inside) = made_by(make)
    count = len(calls)
    copy = emit(cls, inside=inside)()
    assert len(calls) == count
    assert type(copy) is Meta and type(copy.field) is Named and copy.field is not cls.field
    assert [*vars(copy)] == [*vars(cls)]


def test_init_subclass_is_refused():
    class Base:
        def __init_subclass__(cls):
            pass

    class Derived(Base):
        pass

    with pytest.raises(CannotRebuild, match="__init_subclass__ of Base"):
        emit(Derived, inside=lambda obj: obj is Derived)


def test_enums():
    def make():
        class Color(enum.Enum):
            RED = 1
            BLUE = [2]

            def hi(self):
                return self.name

        class Bits(enum.IntFlag):
            A = 1
            B = 2

        return Color, Bits, Color.RED

    (original, _, _), (color, bits, red), _ = rebuild(make)
    assert color is not original and [*color] == [color.RED, color.BLUE] and color(1) is red is color["RED"]
    assert red.hi() == "RED" and isinstance(red, color) and color.BLUE.value == [2]
    assert repr(bits.A | bits.B) == "<Bits.A|B: 3>"


def test_abstract_classes():
    def make():
        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self): ...

        class Square(Shape):
            def area(self):
                return 1

        return Shape, Square

    _, (shape, square), _ = rebuild(make)
    assert shape.__abstractmethods__ == {"area"} and square().area() == 1 and isinstance(square(), shape)
    with pytest.raises(TypeError):
        shape()


def test_abstract_methods_are_those_that_were_found():
    def make():
        class Shape(abc.ABC):
            @classmethod
            @abc.abstractmethod
            def area(cls):
                return __class__

            @abc.abstractmethod
            def gone(self): ...

        del Shape.gone
        return Shape

    _, shape, _ = rebuild(make)
    assert shape.__abstractmethods__ == {"area", "gone"} and shape.area() is shape
    with pytest.raises(TypeError):
        shape()


def test_dataclasses_and_namedtuples():
    def make():
        @dataclasses.dataclass(order=True)
        class Point:
            x: int
            tags: list = dataclasses.field(default_factory=list)

        Pair = collections.namedtuple("Pair", "left right")
        return Point, Pair, Pair(Point(1), 2)

    _, (point, pair, value), _ = rebuild(make)
    assert point(3) == point(3, []) and point(1) < point(2) and repr(point(1)).endswith("Point(x=1, tags=[])")
    assert type(value) is pair and type(value.left) is point and value._replace(right=5).right == 5
    assert dataclasses.fields(point)[1].default_factory is list


def test_generic_classes():
    X = typing.TypeVar("X")

    def make():
        class Stack(typing.Generic[X]):
            def push(self, item):
                return item

        return Stack

    cls, copy, _ = rebuild(make)
    assert copy[int].__origin__ is copy and copy.__parameters__ == (X,)


def test_classes_of_builtin_layout():
    def make():
        class L(list):
            pass

        class E(ValueError):
            pass

        class T(typing.NamedTuple):
            a: int

        items = L([1])
        items.owner = L
        return L, E, items, E("x")

    _, (cls, error, items, raised), _ = rebuild(make)
    assert type(items) is cls and items == [1] and items.owner is cls
    assert type(raised) is error and raised.args == ("x",) and issubclass(error, ValueError)


def test_modules_and_cached_properties():
    def make():
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.k = 2

            def forward(self, x):
                return x * self.k

            @functools.cached_property
            def slow(self):
                return 5

        return M, M()

    _, (cls, module), _ = rebuild(make)
    assert isinstance(module, cls) and module(torch.ones(2)).tolist() == [2.0, 2.0] and cls().k == 2
    assert cls().slow == 5


def test_modules_made_in_capture():
    def make():
        module = types.ModuleType("made")
        module.value = [1]
        return module

    original, copy, other = rebuild(make)
    assert type(copy) is types.ModuleType and copy.__name__ == "made" and copy.value is not original.value
