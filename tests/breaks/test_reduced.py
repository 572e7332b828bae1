"""Programs that random tests or CPython's own found to differ, made small."""

from __future__ import annotations

import codecs
import copy
import datetime
import functools
import io
import sys
import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import stator
from stator.report.events import recording
from tests.harness import check


@stator.disable
def opaque(value: Any) -> Any:
    return value


def test_frames_with_empty_cells_are_shown() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        name = sys._getframe().f_code.co_name
        value = 3

        def late() -> int:
            return value

        return y * late(), name

    check(f, torch.ones(2))


class Open(dict):  # type: ignore[type-arg]
    """Attributes are items."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.__dict__ = self


class Items(list):  # type: ignore[type-arg]
    """A list with attributes."""


def test_attributes_that_are_items() -> None:
    def f(x: torch.Tensor, k: int, o: Any) -> Any:
        o.n = k
        return x * 2, o["n"], o.__dict__ is o

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    for k in range(1, 4):
        want, got = Open({"n": 0, "old": 1}), Open({"n": 0, "old": 1})
        assert str(compiled(torch.ones(2), k, got)) == str(f(torch.ones(2), k, want))
        assert str(got) == str(want)
        assert got.__dict__ is got


def with_attributes(kind: Any, *args: Any) -> Any:
    made = kind(*args)
    made.n = 0
    return made


KINDS: list[Callable[[], Any]] = [
    lambda: with_attributes(SimpleNamespace),
    lambda: with_attributes(Items),
    lambda: with_attributes(KeyError),
    lambda: with_attributes(functools.partial, int),
]


def writes_fields(x: torch.Tensor, k: int, o: Any) -> Any:
    fields, update = o.__dict__, o.__dict__.update
    y = x + 1
    stator.graph_break()
    fields["n"] = k
    update(m=y)
    read = o.n, o.m
    o.n += 1
    return y * 2, read, fields["n"], fields is o.__dict__


def test_fields_of_copied_objects_across_a_break() -> None:
    """What stands for a container or exception from outside has a `__dict__` that stands for its own."""
    for make in KINDS:
        check(
            writes_fields,
            vary=lambda k: (torch.ones(2), k, make()),  # noqa: B023
            fullgraph=False,
            expect_breaks=None,
            expect_recompiles=None,
            expect_graphs=None,
        )


def test_fields_of_a_namespace_made_inside() -> None:
    def f(k: int) -> Any:
        made = SimpleNamespace(n=0)
        fields = made.__dict__
        stator.graph_break()
        fields["n"] = k
        return made.n, fields is made.__dict__

    compiled = stator.compile(f, backend="eager")
    assert [compiled(k) for k in range(3)] == [f(k) for k in range(3)]


class Named:
    """Equal by name."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.names == other.names


def test_texts_that_vary_are_compared_with_each_other() -> None:
    def f(x: torch.Tensor, s: str, n: int) -> Any:
        kept = [Named([s + "q"]) for _ in range(n)]
        stator.graph_break()
        return x * 2, kept[0] == Named([s + "q"]), [s + "q"] == [s + "q"], kept[-1].names == [s + "q"]

    compiled = stator.compile(f, backend="eager")
    for s, n in (("ab", 2), ("a", 3), ("xyz7", 4), ("12", 5)):
        assert compiled(torch.ones(2), s, n)[1:] == (True, True, True)


COUNTING = compile("def count():\n    global a\n    a += 1\n    yield a", "<counting>", "exec")


def test_generators_of_functions_with_globals_of_their_own() -> None:
    def f(function: Any) -> Any:
        made = function()
        stator.graph_break()
        return list(made), function.__globals__["a"]

    compiled = stator.compile(f, backend="eager")
    for a in range(3):
        names: dict[str, Any] = {"a": a}
        exec(COUNTING, names)
        assert compiled(names["count"]) == ([a + 1], a + 1)


def test_methods_of_what_varies_across_a_break() -> None:
    def f(w: torch.Tensor, s: str) -> Any:
        try:
            raise KeyError(opaque(w.numel() % 4))
        except KeyError:
            return w * 2, int(s) if s.isdigit() else s

    compiled = stator.compile(f, backend="eager")
    with recording("error", "skip") as seen:
        for n, s in ((2, "ab"), (3, "a"), (5, "xyz7"), (3, "12")):
            assert compiled(torch.ones(n, 3), s)[1] == (12 if s == "12" else s)
    assert not seen


def test_scopes_of_torch_end_with_a_failed_capture() -> None:
    """Printing a tensor is done in a scope that a frame holds; the next attempt begins outside of it."""

    def f(w: torch.Tensor, s: str, items: list[Any]) -> None:
        try:
            raise KeyError(opaque(w.numel() % 4))
        except KeyError:
            _ = int(s) if s.isdigit() else s
            raise ValueError(f"{items!s:.9}") from None

    compiled = stator.compile(f, backend="eager")
    with recording("error") as seen:
        for n, s in ((2, "ab"), (3, "a"), (5, "xyz7"), (3, "12")):
            with pytest.raises(ValueError, match=r"\[1, tens"):
                compiled(torch.ones(n, 3), s, [1, torch.ones(3)])
    assert not [event for event in seen if "does not accept" in event.text]


class Removing:
    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.removed = name


class Storing:
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        super().__setattr__("stored", name)


def test_classes_with_only_one_of_setattr_and_delattr() -> None:
    """One slot in C stands for both: the capture wrote to the real objects."""
    removing, storing = Removing(), Storing()
    removing.size, storing.size, storing.gone = 1, 1, 2  # type: ignore[attr-defined]

    def f(x: torch.Tensor, removing: Any, storing: Any) -> Any:
        removing.size += 1
        storing.size += 1
        removing.more = x
        del removing.more
        storing.gone = x
        del storing.gone
        return x + removing.size

    compiled = stator.compile(f, backend="eager")
    with recording("error", "skip") as seen:
        for size in (2, 3, 4, 5):
            assert compiled(torch.ones(1), removing, storing) == 1 + size
            assert vars(removing) == {"size": size, "removed": "more"}
            assert vars(storing) == {"size": size, "stored": "gone"}
    assert not seen


class Zone(datetime.tzinfo):
    """Made in Python, so that times in it are no constants."""

    def utcoffset(self, when: Any) -> datetime.timedelta:
        return datetime.timedelta(hours=2 - when.fold)

    dst = utcoffset


def test_times_that_come_twice_know_which_they_are() -> None:
    """Pickling did not tell it before the protocol 4."""

    def f(x: torch.Tensor, zone: Any) -> Any:
        late = datetime.datetime(2020, 1, 1, tzinfo=zone, fold=1)
        clock = datetime.time(1, 2, fold=1, tzinfo=zone)
        x = opaque(x + 1)
        return x * 2, late.fold, late.tzinfo is zone, late.isoformat(), clock.fold

    check(f, torch.ones(2), Zone(), calls=1, fullgraph=False, expect_breaks=1, expect_graphs=2)


class Counting:
    """A descriptor with state of its own."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.reads = 0

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        self.reads += 1
        return vars(owner)["kept"]

    def __set__(self, owner: Any, value: Any) -> None:
        self.log.append(value)
        vars(owner)["kept"] = value

    def __delete__(self, owner: Any) -> None:
        self.log.append("deleted")


class Counted:
    size = Counting()

    def __init__(self, size: int) -> None:
        self.size = size


class CountedBelow(Counted):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class CountedWhenWritten(Counted):
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class CountedWhenRead(Counted):
    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


@pytest.mark.parametrize("cls", [Counted, CountedBelow, CountedWhenWritten, CountedWhenRead])
def test_descriptors_that_change_serve_new_instances(cls: Any) -> None:
    """C hands the descriptor to its methods: the capture wrote to it, once for each attempt."""

    def f(x: torch.Tensor) -> Any:
        made = cls(3)
        read = made.size
        del made.size
        return opaque(x + read)

    state = Counted.__dict__["size"]
    state.__init__()
    compiled = stator.compile(f, backend="eager")
    for calls in (1, 2, 3):
        assert compiled(torch.ones(1)) == 4
        assert state.reads == calls
        assert state.log == [3, "deleted"] * calls


def test_attributes_that_a_base_in_c_keeps() -> None:
    """A C class may name the method that reads attributes anew: the stream was used while capturing."""

    def f(x: torch.Tensor, reader: Any) -> Any:
        reader.seek(0, 0)
        return x + len(reader.read())

    kind: Any = codecs.getreader("big5")
    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        reader = kind(io.BytesIO(b"abc"))
        for _ in range(4):
            assert compiled(torch.zeros(1), reader) == 3


class Breaking:
    def __deepcopy__(self, memo: Any) -> Any:
        opaque(memo)
        return Breaking()


def test_copies_know_objects_again_behind_a_break() -> None:
    """They know them by address: what the program made before the break lies elsewhere behind it."""

    def f(x: torch.Tensor) -> Any:
        part = [x]
        made = copy.deepcopy([part, Breaking(), part, {"part": part}])
        return made[0] is made[2] is made[3]["part"], x + 1

    check(f, torch.ones(2), fullgraph=False, calls=1, expect_breaks=None, expect_graphs=None)


class Taken:
    def __init__(self, size: int) -> None:
        self.size = size

    def __getnewargs__(self) -> tuple[int]:
        return (opaque(self.size),)

    def __new__(cls, size: int) -> Any:
        return super().__new__(cls)


def test_a_break_in_a_method_that_copying_asks() -> None:
    """Its answer is not what __reduce_ex__ gives."""

    def f(x: torch.Tensor, taken: Any) -> Any:
        return copy.copy(taken).size, x + 1

    check(f, torch.ones(2), Taken(3), fullgraph=False, calls=1, expect_breaks=None, expect_graphs=None)


def test_names_of_generators_that_a_renamed_function_makes() -> None:
    def counting() -> Any:
        yield 1

    def f(x: torch.Tensor, function: Any) -> Any:
        function.__name__ = "other"
        return function().__name__, x + 1

    check(f, torch.ones(2), counting, fullgraph=False, calls=1, expect_breaks=1, expect_graphs=None)


LOG: list[str] = []


class Watched:
    def __init__(self) -> None:
        self.size = 1

    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        LOG.append(name)
        super().__setattr__(name, value)


class WatchedModule(types.ModuleType):
    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("made", [Watched(), WatchedModule("made")])
def test_nobody_else_asks_for_attributes(made: Any) -> None:
    """`isinstance` of stator's own would ask the program for `__class__`."""

    def f(x: torch.Tensor, made: Any) -> Any:
        made.size = 3
        size = made.size
        made = opaque(made)
        made.more = size
        return x + made.more

    want: list[str] = []
    for function in (f, stator.compile(f, backend="eager")):
        for _ in range(2):
            LOG.clear()
            assert function(torch.ones(1), made) == 4
            want = want or list(LOG)
            assert want == LOG


class Unset:
    __slots__ = ("value",)

    def __getattr__(self, name: str) -> Any:
        return [name]


def test_getattr_answers_for_slots_without_a_value() -> None:
    def f(x: torch.Tensor) -> Any:
        made = Unset()
        return x + 1, made.value, hasattr(made, "value"), getattr(made, "value", 3)

    check(f, torch.ones(2))


def test_an_instance_that_is_a_special_method_of_its_class() -> None:
    class Own:
        pass

    Own.__call__ = Own()  # type: ignore[method-assign]

    def f(x: torch.Tensor, o: Any) -> Any:
        o.seen = True
        return o.seen, type(o).__name__, x + 1

    check(f, torch.ones(1), Own())


def test_attributes_that_a_base_in_c_does_not_let_change() -> None:
    class Static(staticmethod):  # type: ignore[type-arg]
        pass

    def f(x: torch.Tensor, o: Any) -> Any:
        try:
            o.__func__ = None
        except AttributeError as error:
            return str(error), x + 1
        return None

    compiled, static = stator.compile(f, backend="eager"), Static(len)
    for _ in range(2):
        assert compiled(torch.ones(1), static)[0] == "readonly attribute"


def test_classes_named_by_texts_that_vary() -> None:
    def f(x: torch.Tensor, name: str) -> Any:
        try:
            return type(name, (), {}).__name__, x + 1
        except TypeError as error:
            return str(error), x + 1

    names = [(torch.ones(1), name) for name in ("A", "B", "C", "D", "E")]
    check(f, vary=names, expect_recompiles=None, expect_graphs=None)
