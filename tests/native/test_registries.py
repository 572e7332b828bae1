"""What C keeps on classes: registrations, attributes behind a metaclass, lazily made annotations."""

import abc
import codecs
import collections.abc
import datetime
import enum
import functools
import typing

import pytest
import torch

import stator


def compiled(fn):
    return stator.compile(fn, backend="eager", fullgraph=True)


def test_registration_is_guarded():
    class Late:
        pass

    def program(x):
        return isinstance(x, collections.abc.Sequence)

    fn, late = compiled(program), Late()
    assert not fn(late)
    collections.abc.Sequence.register(Late)
    assert fn(late)


def test_registration_of_an_outside_class_is_refused():
    class Mine:
        pass

    def program():
        collections.abc.Sequence.register(Mine)

    with pytest.raises(stator.errors.Unsupported):
        compiled(program)()


def test_class_is_inside_from_the_start():
    class Base:
        def __init_subclass__(cls):
            cls.marked = cls.__name__

    def program():
        class Mine(Base):
            pass

        class Color(enum.Enum):
            RED = 1

        return Mine.marked, Color.RED.name, not hasattr(Base, "marked")

    fn = compiled(program)
    assert fn() == fn() == ("Mine", "RED", True)


class Guarded(type):
    def __setattr__(cls, name, value):
        if name == "fixed":
            raise AttributeError(name)
        super().__setattr__(name, value)


class Holder(metaclass=Guarded):
    fixed = 1


def test_metaclass_intercepts_writes():
    def program():
        try:
            Holder.fixed = 2
        except AttributeError as error:
            return str(error)

    fn = compiled(program)
    assert fn() == fn() == "fixed"
    assert Holder.fixed == 1


def test_write_past_the_metaclass_stays_inside():
    def program():
        type.__setattr__(Holder, "fixed", 2)

    with pytest.raises(stator.errors.Unsupported):
        compiled(program)()
    assert Holder.fixed == 1


def test_protocol_check_is_a_hit_the_second_time():
    @typing.runtime_checkable
    class Sized(typing.Protocol):
        def __len__(self): ...

    def program(x):
        return isinstance(x, Sized)

    fn = compiled(program)
    stator.reset()
    assert fn([1]) and fn([1])
    assert stator.stats()["frames_captured"] == 1


@functools.lru_cache
def store():
    return {}


def test_outside_cache_of_a_mutable():
    fn = compiled(lambda: store().setdefault("a", len(store())))
    assert [fn(), fn(), fn()] == [0, 0, 0] and store() == {"a": 0}


def test_keys_that_are_no_constants():
    kind = enum.Enum("kind", "A B")
    table = {datetime.date(2020, 1, 1): [1], kind.A: 2, (kind.B, 3): 4}

    def program():
        table[datetime.date(2020, 1, 1)].append(len(table))
        table[kind.A] += 1
        return table[kind.B, 3]

    fn = compiled(program)
    assert fn() == fn() == 4
    assert table == {datetime.date(2020, 1, 1): [1, 3, 3], kind.A: 4, (kind.B, 3): 4}


def test_property_called_name():
    def program():
        class Named:
            @property
            def __name__(self):
                return "me"

        return Named()

    fn = compiled(program)
    assert fn().__name__ == fn().__name__ == "me"


def test_codecs_are_objects_from_outside():
    codec = codecs.lookup("quopri")

    def program(x, mark):
        found = codecs.lookup("quopri")
        found.mark = mark
        stator.graph_break()
        seen = codecs.lookup("quopri").mark
        del found.mark
        return x + len(seen), found is codec, "a".encode("utf-8"), codecs.lookup_error("strict") is codecs.strict_errors

    fn = stator.compile(program, backend="eager")
    for mark in ("a", "bc", "def", "a"):
        assert fn(1, mark) == program(1, mark)
        assert not hasattr(codec, "mark")


def test_unknown_codec():
    def program(x):
        try:
            return codecs.lookup("no such codec")
        except LookupError as error:
            return x + 1, str(error)

    assert compiled(program)(1) == program(1)


def registers_own_class(x):
    class Made:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return range(3)[index]

    before = isinstance(Made(), collections.abc.Sequence)
    collections.abc.Sequence.register(Made)
    match Made():
        case [a, b, c]:
            x = x + a + b + c
    return x, before, issubclass(Made, collections.abc.Sequence), Made


def test_own_class_with_outside_abc():
    """The class that comes out is registered, whichever call made it; no other class is affected."""
    fn = compiled(registers_own_class)
    made = []
    for _ in range(3):
        y, before, after, cls = fn(torch.ones(1))
        assert (y.item(), before, after) == (4.0, False, True)
        assert issubclass(cls, collections.abc.Sequence)
        match cls():
            case [_, _, _]:
                made.append(cls)
    assert len({*made}) == 3
    assert not issubclass(type("Other", (), {}), collections.abc.Sequence)
    assert stator.stats()["graph_breaks"] == 0


def registers_with_token(x):
    class Made: ...

    collections.abc.Sized.register(Made)
    return x + 1


def test_token_moves():
    """Caches that ask for the token of registrations know that there was one."""
    fn = compiled(registers_with_token)
    fn(torch.ones(1))
    before = abc.get_cache_token()
    fn(torch.ones(1))
    assert abc.get_cache_token() != before
