"""Recipes for instances and exceptions: all state comes back, no user code runs."""

import collections
import math
import types

import pytest
import torch

from stator.emit import CannotRebuild
from tests.emit.heap import emit, rebuild
from tests.emit.samples import Box, Color, Frozen, T, source_of

# Instances.


def test_instances():
    rebuild(Box(T, [1, T]), T)
    rebuild(Frozen([T]), T)
    rebuild(object())
    source = "def entry(l0):\n    v1 = c_object_new(c_Box)\n    v1.item = l0\n    v1.tags = []\n    return v1\n"
    assert source_of(Box(T), T) == source


def test_module_with_setattr():
    module = torch.nn.Module()
    module.child = torch.nn.ReLU()
    module.number = 3
    copy = rebuild(module)
    assert copy.child.inplace is False and copy.number == 3


def test_unusual_instance_dicts():
    box = Box(1)
    box.__dict__ = collections.OrderedDict(item=[T])
    assert type(rebuild(box, T).__dict__) is collections.OrderedDict
    box = Box(1)
    box.__dict__["not a name"] = T
    box.__dict__[5] = T
    rebuild(box, T)

    class Shadowed:
        item = property(lambda self: 1 / 0)

    shadowed = Shadowed()
    shadowed.__dict__["item"] = T
    rebuild(shadowed, T)

    class Hidden:
        __dict__ = property(lambda self: 1 / 0)

    with pytest.raises(CannotRebuild, match="hides"):
        emit(Hidden())


def test_instance_and_its_dict_share():
    box = Box([1])
    rebuild([box, vars(box)])
    rebuild([vars(box), box])
    copy = rebuild({"d": vars(box), "b": box})
    copy["b"].item = 5
    assert copy["d"]["item"] == 5


def test_instances_with_one_dict():
    first, second = Box(1), Box(2)
    second.__dict__ = first.__dict__
    copies = rebuild([first, second])
    assert copies[0].__dict__ is copies[1].__dict__
    rebuild([first, second, vars(first)])
    rebuild([vars(first), first, second])
    knot = Box(1)
    knot.item = vars(knot)
    rebuild(knot)
    rebuild(vars(knot))


def test_names_the_parser_would_change():
    box = Box(1)
    for name in ("\ufb01", "\u212a", "__debug__", "class", "é"):
        box.__dict__[name] = name
    assert vars(rebuild(box)) == vars(box)


def test_emitting_does_not_hash():
    class Counted:
        count = 0

        def __hash__(self):
            Counted.count += 1
            return 1

    key = Counted()
    heap = [{key: 1}, {key}, frozenset([key])]
    Counted.count = 0
    entry = emit(heap)
    assert Counted.count == 0
    assert len(entry()[0]) == 1


def test_private_and_inherited_slots():
    class Base:
        __slots__ = ("__hidden", "plain")

    class Derived(Base):
        __slots__ = ("plain",)

    obj = Derived()
    Base.__dict__["_Base__hidden"].__set__(obj, [1])
    Base.__dict__["plain"].__set__(obj, T)
    obj.plain = "derived"
    copy = rebuild(obj, T)
    assert Base.__dict__["plain"].__get__(copy) is T and copy.plain == "derived"


def test_enum_members_and_modules_are_constants():
    assert emit([Color.RED])()[0] is Color.RED
    assert emit([math])()[0] is math


# Exceptions.


class Custom(Exception):
    def __new__(cls, *args):
        raise AssertionError

    __init__ = __setattr__ = __new__


def raised(make):
    try:
        make()
    except BaseException as error:
        return error.with_traceback(None)


def custom():
    error = Exception.__new__(Custom, "a", T)
    BaseException.__dict__["__dict__"].__get__(error)["detail"] = [T]
    return error


EXCEPTIONS = {
    "plain": ValueError("text", T),
    "key": KeyError(T),
    "empty": RuntimeError(),
    "stop": StopIteration(T),
    "exit": SystemExit(3),
    "os": FileNotFoundError(2, "gone", "file", None, "other"),
    "os odd": OSError("one"),
    "blocking": BlockingIOError(1, "x", 7),
    "import": ImportError("m", name="n", path="p"),
    "attribute": raised(lambda: (1).nope),
    "name": raised(lambda: undefined),  # noqa: F821
    "syntax": raised(lambda: compile("a b", "f", "exec")),
    "unicode": raised(lambda: b"\xff".decode()),
    "encode": raised(lambda: "é".encode("ascii")),
    "custom": custom(),
    "group": ExceptionGroup("g", [ValueError(T), KeyError(1)]),
    "linalg": torch.linalg.LinAlgError("x"),
}


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_exceptions(kind):
    error = EXCEPTIONS[kind]
    copy = rebuild(error, T)
    assert type(copy) is type(error)
    for cls in type(error).__mro__:
        for name, field in vars(cls).items():
            if type(field) in (types.MemberDescriptorType, types.GetSetDescriptorType) and name not in (
                "__weakref__",
                "__dict__",
                "exceptions",
                "args",
            ):  # noqa: E501
                try:
                    expected = field.__get__(error)
                except AttributeError:
                    expected = None
                assert expected is None or field.__get__(copy) == expected
    assert str(error) == str(copy)


def test_exception_links():
    error = ValueError("outer")
    error.__cause__ = KeyError("cause")
    error.__context__ = error.__cause__
    error.add_note("note")
    copy = rebuild(error)
    assert copy.__cause__ is copy.__context__ and copy.__suppress_context__ and copy.__notes__ == ["note"]
    error.__suppress_context__ = False
    assert rebuild(error).__suppress_context__ is False
    other = ValueError()
    other.__context__ = TypeError()
    other.__suppress_context__ = True
    assert rebuild(other).__suppress_context__ is True


def test_exception_cycles_and_tracebacks():
    error = ValueError()
    error.args = ([error],)
    error.__context__ = KeyError(error)
    copy = rebuild(error)
    assert copy.args[0][0] is copy and copy.__context__.args == (copy,)
    try:
        raise ValueError
    except ValueError as caught:
        traceback = caught.__traceback__
        rebuilt = emit(caught)().__traceback__
        assert rebuilt is not traceback and rebuilt.tb_frame.f_code is traceback.tb_frame.f_code
        assert (rebuilt.tb_lineno, rebuilt.tb_lasti) == (traceback.tb_lineno, traceback.tb_lasti)
        assert emit(caught, [traceback])(traceback).__traceback__ is traceback
