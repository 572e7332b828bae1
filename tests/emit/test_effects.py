"""Net effects: an outside object gets from its old contents to its new ones by few statements and no user code."""

import collections
import decimal
import random
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stator.emit import CannotRebuild, Emitter, Source, effects


class Item:
    """Compared by identity only."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        raise AssertionError("user code ran")

    __hash__ = object.__hash__

    def __repr__(self):
        return f"<{self.name}>"


ITEMS = [Item(name) for name in "abcdef"]
VALUES = [*ITEMS, 1, 2, "x", None, 1.0, True, (1, 2)]


def fail(self, *args, **kwargs):
    raise AssertionError("user code ran")


OVERRIDES = dict.fromkeys(
    "append extend __setitem__ __delitem__ __iter__ __len__ __getitem__ clear update add discard pop insert remove "
    "difference_update keys items values appendleft extendleft __init__ __eq__ __setattr__".split(),
    fail,
)


class MyList(list):
    vars().update(OVERRIDES)


class MyDict(dict):
    vars().update(OVERRIDES)


class MyOrdered(collections.OrderedDict):
    vars().update(OVERRIDES)


class MyDefault(collections.defaultdict):
    vars().update(OVERRIDES)


class MySet(set):
    vars().update(OVERRIDES)


class MyDeque(collections.deque):
    vars().update(OVERRIDES)


class MyBytes(bytearray):
    vars().update(OVERRIDES)


def fill(cls, items):
    """A container of this class, through the builtin type's methods."""
    base = next(
        b
        for b in (list, collections.OrderedDict, collections.defaultdict, dict, set, collections.deque, bytearray)
        if issubclass(cls, b)
    )
    obj = base.__new__(cls)
    if base is collections.OrderedDict:
        base.__init__(obj)
        for key, value in items:
            base.__setitem__(obj, key, value)
    elif issubclass(base, dict):
        dict.update(obj, items)
    elif base in (list, collections.deque):
        base.extend(obj, items)
    elif base is set:
        base.update(obj, items)
    else:
        base.extend(obj, bytes(items))
    return obj


def statements(target, old, new):
    """The statements that turn target from old to new, as lines of source, and the function."""
    emitter = Emitter(lambda obj: "target" if obj is target else names.get(id(obj)))
    names = {id(item): f"i{index}" for index, item in enumerate(ITEMS)}
    effects.contents(emitter, target, old, new)
    params = ["target", *names.values()]
    function = emitter.function("entry", params, None)
    lines = [line.strip() for line in function.__stator_source__.splitlines()[1:] if line.strip() != "return None"]
    return lines, lambda: function(target, *ITEMS)


def check(cls, before, after):
    target, shadow = fill(cls, before), fill(cls, before)
    old = effects.snapshot(shadow)
    new = fill(cls, after)
    lines, run = statements(target, old, new)
    run()
    expected, found = effects.snapshot(new), effects.snapshot(target)
    if issubclass(cls, set):
        assert {effects.token(x) for x in expected} == {effects.token(x) for x in found}
    else:
        assert repr(expected) == repr(found), lines
    return lines


sequences = st.lists(st.sampled_from(VALUES), max_size=7)
mappings = st.lists(st.tuples(st.sampled_from([*ITEMS, 1, 2, "x", None]), st.sampled_from(VALUES)), max_size=7).map(
    lambda pairs: [*{effects.token(key): (key, value) for key, value in pairs}.values()]
)


@pytest.mark.parametrize("cls", [list, MyList, collections.deque, MyDeque])
@settings(max_examples=150, deadline=None)
@given(before=sequences, after=sequences, cut=st.integers(0, 7))
def test_sequences(cls, before, after, cut):
    check(cls, before, after)
    check(cls, before, [*before[:cut], *after])
    check(cls, before, [*after, *before[cut:]])
    check(cls, before, [*before[:cut], *after, *before[cut:]])
    check(cls, before, [*before[:cut], *before[cut + 1 :]])


@pytest.mark.parametrize("cls", [dict, MyDict, collections.OrderedDict, MyOrdered, collections.defaultdict, MyDefault])
@settings(max_examples=150, deadline=None)
@given(before=mappings, after=mappings, cut=st.integers(0, 7))
def test_mappings(cls, before, after, cut):
    check(cls, before, after)
    check(cls, before, before[cut:])
    merged = {effects.token(key): (key, value) for key, value in [*before, *after]}
    check(cls, before, [*merged.values()])
    check(cls, before, before[::-1])


@pytest.mark.parametrize("cls", [set, MySet])
@settings(max_examples=150, deadline=None)
@given(
    before=st.sets(st.sampled_from([*ITEMS[:3], 1, 2, "x"])), after=st.sets(st.sampled_from([*ITEMS[:3], 1, 2, "x"]))
)
def test_sets(cls, before, after):
    check(cls, before, after)


@pytest.mark.parametrize("cls", [bytearray, MyBytes])
@settings(max_examples=150, deadline=None)
@given(before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_bytes(cls, before, after):
    check(cls, before, after)
    check(cls, before, before + after)


A, B, C = ITEMS[:3]
MINIMAL = [
    (list, [A], [A], []),
    (list, [A], [A, B], ["target.append(i1)"]),
    (list, [A], [A, B, C], ["target.extend((i1, i2))"]),
    (list, [A, B, C], [A, B], ["del target[2]"]),
    (list, [A, B, C], [A], ["del target[1:]"]),
    (list, [A, B, C], [C], ["del target[:2]"]),
    (list, [A, B, C], [], ["del target[:]"]),
    (list, [A, B, C], [A, C, C], ["target[1] = i2"]),
    (list, [A, B, C], [B, A, C], ["target[:2] = (i1, i0)"]),
    (list, [1, A], [True, A], ["target[0] = True"]),
    (MyList, [A], [A, B], ["c_list_append(target, i1)"]),
    (dict, [("a", A)], [("a", A), ("b", B)], ["target['b'] = i1"]),
    (dict, [("a", A), ("b", B)], [("b", B)], ["del target['a']"]),
    (dict, [("a", A), ("b", B)], [("a", B), ("b", A)], ["target.update({'a': i1, 'b': i0})"]),
    (dict, [("a", A), ("b", B)], [("b", B), ("a", A)], ["target.clear()", "target.update({'b': i1, 'a': i0})"]),
    (MyDict, [("a", A)], [("a", B)], ["c_dict_setitem(target, 'a', i1)"]),
    (set, [A], [B], ["target.discard(i0)", "target.add(i1)"]),
    (collections.deque, [A], [B, A], ["target.appendleft(i1)"]),
    (collections.deque, [A], [A, B, C], ["target.extend((i1, i2))"]),
    (bytearray, b"ab", b"abc", ["target.extend(b'c')"]),
    (bytearray, b"abc", b"ax", ["target[1:] = b'x'"]),
]


@pytest.mark.parametrize(("cls", "before", "after", "lines"), MINIMAL)
def test_few_statements(cls, before, after, lines):
    assert check(cls, before, after) == lines


def test_bounded_deque():
    for before, after in (([A, B, C], [B, C, A]), ([A], [A, B]), ([A, B, C], [C])):
        target, new = collections.deque(before, 3), collections.deque(after, 3)
        lines, run = statements(target, effects.snapshot(collections.deque(before, 3)), new)
        run()
        assert [*target] == after and target.maxlen == 3


def test_default_factory():
    target, new = collections.defaultdict(list), collections.defaultdict(set, {"a": 1})
    lines, run = statements(target, effects.snapshot(target), new)
    run()
    assert target.default_factory is set and target == {"a": 1}


def test_random_state():
    target, shadow = random.Random(1), random.Random(1)
    old = effects.snapshot(shadow)
    shadow.random()
    lines, run = statements(target, old, shadow)
    run()
    assert target.getstate() == shadow.getstate() and len(lines) == 1
    assert statements(target, effects.snapshot(shadow), shadow)[0] == []


def test_new_objects_in_contents():
    target, shadow = [], []
    knot = {"inner": shadow}
    shadow.append(knot)
    emitter = Emitter(lambda obj: "target" if obj is target or obj is shadow else None)
    effects.contents(emitter, target, [], shadow)
    entry = emitter.function("entry", ["target"], None)
    entry(target)
    assert target[0]["inner"] is target and target[0] is not knot


def test_known_differences():
    target = {"a": 1, "b": 2}
    emitter = Emitter(lambda obj: None)
    effects.items(emitter, Source("target"), dict, ["a"], {"c": 3})
    emitter.function("entry", ["target"], None)(target)
    assert target == {"b": 2, "c": 3}


def test_no_row():
    with pytest.raises(CannotRebuild):
        effects.contents(Emitter(lambda obj: None), Source("target"), [], object())


# Attributes, cells, globals.


class Plain:
    pass


class Slotted:
    __slots__ = ("a",)


class Guarded:
    __slots__ = ("s", "__dict__")
    shadowed = property(fail)
    __setattr__ = __getattribute__ = __delattr__ = fail


class Meta(type):
    __setattr__ = __delattr__ = fail


class Owner(metaclass=Meta):
    gone = 1


def apply(target, *changes):
    """Apply attribute changes and give the source."""
    emitter = Emitter(lambda obj: "target" if obj is target else None)
    for change in changes:
        effects.attribute(emitter, target, *change)
    entry = emitter.function("entry", ["target"], None)
    entry(target)
    return entry.__stator_source__


def test_instance_attributes():
    plain = Plain()
    plain.gone = 1
    source = apply(plain, ("a", [1]), ("gone",))
    assert vars(plain) == {"a": [1]} and "target.a = [1]" in source and "del target.gone" in source
    slotted = Slotted()
    apply(slotted, ("a", 1))
    assert slotted.a == 1
    apply(slotted, ("a",))
    assert not hasattr(slotted, "a")


def test_attributes_of_guarded_instances():
    guarded = object.__new__(Guarded)
    apply(guarded, ("s", 1), ("x", 2), ("shadowed", 3), ("y", 4), ("y",))
    assert Guarded.__dict__["s"].__get__(guarded) == 1
    assert Guarded.__dict__["__dict__"].__get__(guarded) == {"x": 2, "shadowed": 3}


def test_class_module_function_and_cell():
    apply(Owner, ("made", 5), ("gone",))
    assert Owner.made == 5 and not hasattr(Owner, "gone")
    module = types.ModuleType("m")
    apply(module, ("x", 1))
    assert module.x == 1

    def function():
        return value

    value = 1
    apply(function, ("__defaults__", (1,)), ("note", 2))
    assert function.__defaults__ == (1,) and function.note == 2
    (cell,) = function.__closure__
    emitter = Emitter(lambda obj: "cell" if obj is cell else None)
    effects.cell(emitter, cell, [3])
    emitter.function("entry", ["cell"], None)(cell)
    assert value == [3]
    emitter = Emitter(lambda obj: "cell" if obj is cell else None)
    effects.cell(emitter, cell)
    emitter.function("entry", ["cell"], None)(cell)
    with pytest.raises(NameError):
        function()


def test_globals():
    namespace = {"old": 1}
    emitter = Emitter(lambda obj: "space" if obj is namespace else None)
    effects.global_name(emitter, namespace, "new", [2])
    effects.global_name(emitter, namespace, "old")
    emitter.function("entry", ["space"], None)(namespace)
    assert namespace == {"new": [2]}


def test_no_place_for_an_attribute():
    with pytest.raises(CannotRebuild, match="no place"):
        apply(object.__new__(Slotted), ("nope", 1))


def test_decimal_context():
    target, shadow = decimal.Context(prec=5), decimal.Context(prec=5)
    old = effects.snapshot(shadow)
    shadow.prec = 9
    shadow.divide(decimal.Decimal(1), decimal.Decimal(3))
    lines, run = statements(target, old, shadow)
    run()
    assert target.prec == 9 and target.flags == shadow.flags and target.flags[decimal.Inexact]
