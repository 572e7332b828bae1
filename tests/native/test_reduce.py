"""copy and pickle of outside instances: what they read is guarded, and the program's own changes count."""

import copy
import copyreg
import pickle

import pytest
import torch

from tests.harness import check


class Plain:
    def __init__(self, x):
        self.x = x
        self.items = [x]


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x


class WithArguments:
    def __new__(cls, *args):
        self = object.__new__(cls)
        self.args = args
        return self

    def __getnewargs__(self):
        return self.args


def values(obj):
    return {name: getattr(obj, name) for name in ("x", "y", "items", "args") if hasattr(obj, name)}


def each(program):
    for cls in (Plain, Slotted, WithArguments):
        check(program, vary=[(cls(1),), (cls(1),), (cls(2),)], expect_recompiles=1)


def test_pickle_sees_the_instance_of_this_call():
    each(lambda obj: pickle.dumps(obj))


def test_old_protocol():
    check(lambda obj: pickle.dumps(obj, 0), vary=[(Plain(1),), (Plain(2),)], expect_recompiles=1)


def test_copies():
    each(lambda obj: values(copy.copy(obj)))


def test_deep_copy():
    check(lambda obj: values(copy.deepcopy(obj)), vary=[(Plain(1),), (Plain(2),)], expect_recompiles=1)


def test_shallow_copy_shares():
    def program(obj):
        twin = copy.copy(obj)
        twin.items.append(5)
        return twin

    check(program, Plain(1))


def test_copy_after_a_write():
    def program(obj):
        obj.x = obj.x + 1
        obj.new = "new"
        return vars(copy.copy(obj)), pickle.dumps(obj)

    check(program, Plain(1))


def test_parts():
    each(lambda obj: (obj.__reduce_ex__(2)[1:], obj.__reduce_ex__(4)[0].__name__, obj.__getstate__()))


def test_reducer_registered_by_the_program():
    def program(x):
        before = dict(copyreg.dispatch_table)
        copyreg.pickle(Plain, lambda obj: (str, ("reduced",)))
        try:
            return pickle.loads(pickle.dumps(Plain(x))), copy.copy(Plain(x))
        finally:
            copyreg.dispatch_table.clear()
            copyreg.dispatch_table.update(before)

    check(program, 1)


def test_reducer_registered_between_calls():
    def program():
        return pickle.loads(pickle.dumps(Slotted(1)))

    import stator

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert type(compiled()) is Slotted
    copyreg.pickle(Slotted, lambda obj: (str, ("reduced",)))
    try:
        assert compiled() == "reduced"
    finally:
        del copyreg.dispatch_table[Slotted]


def test_empty_and_deleted_slots():
    def program(obj):
        present = hasattr(obj, "y"), hasattr(obj, "x")
        if present[1]:
            del obj.x
        try:
            del obj.y
        except AttributeError as error:
            return present, str(error)
        return present

    full = Slotted(1)
    full.y = 2
    check(program, vary=[(Slotted(1),), (Slotted(1),), (full,)], expect_recompiles=1)


class Text(str):
    pass


class Whole(int):
    pass


class Row(tuple):
    pass


class Bag(frozenset):
    pass


@pytest.mark.parametrize("made", [Text("ab"), Whole(3), Row("ab"), Bag("ab")])
def test_attributes_of_values(made):
    def f(obj, x):
        obj.more = [1]
        parts = obj.__reduce_ex__(4)
        again, twin = pickle.loads(pickle.dumps(obj)), copy.copy(obj)
        return again.more, twin.more, again == obj, twin is obj, parts[2], x + 1

    check(f, made, torch.ones(2))
