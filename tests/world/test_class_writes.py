"""Attributes and methods that the program writes to outside classes: seen at once, written after the graph."""

import pytest
import torch

import stator


def classes():
    class Base:
        count = 0

        def scaled(self, x):
            return x * 2

        @property
        def offset(self):
            return 1

        @classmethod
        def made(cls):
            cls.count += 1
            return cls()

    class Derived(Base):
        def scaled(self, x):
            return super().scaled(x) + 1

    return Base, Derived


def counting(base, derived, x):
    base.count += 1
    made = derived.made()
    return x + base.count + made.count, "count" in vars(derived)


def patched_method(base, derived, x):
    base.scaled = lambda self, x: x * 5
    return base().scaled(x), base.scaled(base(), x), [base.__dict__["scaled"] is base.scaled]


def patched_for_a_while(base, derived, x):
    old = base.scaled

    def twice(self, x):
        return old(self, old(self, x))

    base.scaled = twice
    try:
        y = base().scaled(x)
    finally:
        base.scaled = old
    return y + base().scaled(x)


def descriptors(base, derived, x):
    base.offset = property(lambda self: 7)
    base.tripled = staticmethod(lambda x: x * 3)
    base.named = classmethod(lambda cls: cls.__name__)
    return x + base().offset, derived().tripled(x), derived.tripled(x), derived().named(), base.named()


def added_and_removed(base, derived, x):
    base.extra = 3
    x = x + derived().extra
    del base.extra
    return x, hasattr(derived, "extra")


PROGRAMS = (counting, patched_method, patched_for_a_while, descriptors, added_and_removed)


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph_and_what_eager_leaves(program):
    eager, compiled = classes(), classes()
    expected = program(*eager, torch.ones(2))
    found = stator.compile(program, fullgraph=True, backend="eager")(*compiled, torch.ones(2))
    assert str(found) == str(expected)
    for mine, theirs in zip(compiled, eager, strict=True):
        assert list(vars(mine)) == list(vars(theirs))
        assert mine.count == theirs.count and mine().offset == theirs().offset
        assert torch.equal(mine().scaled(torch.ones(2)), theirs().scaled(torch.ones(2)))


def test_patched_for_a_while_is_compiled_once():
    base, derived = classes()
    stator.reset()
    compiled = stator.compile(lambda x: patched_for_a_while(base, derived, x), fullgraph=True, backend="eager")
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [6, 6]
    assert stator.stats()["graphs"] == 1 and stator.stats()["recompiles"] == 0


def test_a_method_patched_from_outside_is_noticed():
    base, _ = classes()
    compiled = stator.compile(lambda x: base().scaled(x), fullgraph=True, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    base.scaled = lambda self, x: x * 9
    assert compiled(torch.ones(2)).tolist() == [9, 9]


def through_super(base, derived, x):
    base.scaled = lambda self, x: x * 5
    return derived().scaled(x)


def special_method(base, derived, x):
    base.__call__ = lambda self, x: x * 5
    return base()(x)


@pytest.mark.parametrize("program", [through_super, special_method])
def test_what_native_code_would_miss_is_a_break(program):
    base, derived = classes()
    expected = program(*classes(), torch.ones(2))
    assert torch.equal(stator.compile(program, backend="eager")(base, derived, torch.ones(2)), expected)
    with pytest.raises(stator.Unsupported, match="outside-write"):
        stator.compile(program, fullgraph=True, backend="eager")(*classes(), torch.ones(2))


def test_what_pickling_notes_in_a_class_is_no_change():
    class Settings:
        scale = 2.0

        def __init__(self):
            self.bias = 1.0

    settings = Settings()
    compiled = stator.compile(lambda x: x * settings.scale + settings.bias, backend="eager")
    compiled(torch.ones(2))
    settings.__reduce_ex__(2)
    torch.ones(2).__reduce_ex__(2)
    assert "__slotnames__" in vars(Settings)
    compiled(torch.ones(2))
    assert stator.stats()["frames_captured"] == 1
