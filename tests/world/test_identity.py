"""Addresses and the order of sets: both follow from where real objects lie."""

from __future__ import annotations

import copy
import random
from functools import partial
from typing import Any

import pytest
import torch

import stator
from tests.harness import check


class Holder:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Marked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.marked = set(map(id, self.a.parameters()))
        self.calls: dict[int, int] = {}

    def forward(self, x: Any) -> Any:
        self.calls[id(x)] = self.calls.get(id(x), 0) + 1
        names = [name for name, p in self.named_parameters() if id(p) in self.marked]
        return names, self.calls[id(x)], list(map(id, [x])) == list(self.calls), self.a(x)


def test_addresses_of_tensors_are_those_of_the_program() -> None:
    module, x = Marked(), torch.zeros(2)
    compiled = stator.compile(module, backend="eager", fullgraph=True)
    for number in (1, 2):
        assert compiled(x)[:3] == (["a.weight", "a.bias"], number, True)


def test_addresses_that_differ_from_call_to_call() -> None:
    names = ["l"]

    def program(x, l):
        return id(x), hash(x), id(l), id(names), x + 1

    compiled = stator.compile(program, backend="eager")
    for _ in range(4):
        x, l = torch.zeros(2), [1]
        assert compiled(x, l)[:4] == (id(x), id(x), id(l), id(names))
    assert stator.stats()["recompiles"] <= 5


def test_addresses_of_what_the_program_made() -> None:
    def program(holder, x):
        holder.tensor = x * 2
        holder.key = id(holder.tensor)
        holder.made = Holder()
        holder.table = {id(holder.made): holder.made}
        return holder.tensor.sum()

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        holder = Holder()
        compiled(holder, torch.ones(2))
        assert holder.key == id(holder.tensor)
        assert [key == id(value) for key, value in holder.table.items()] == [True]


def test_addresses_that_stay_inside_cost_nothing() -> None:
    def program(x):
        seen: set[int] = set()
        unique = []
        for y in (x.sin(), x.cos()) * 2:
            if id(y) not in seen:
                seen.add(id(y))
                unique.append(y)
        return unique

    check(program, torch.ones(2))


def thinned(*kept: Any) -> set[Any]:
    """A set whose table shows that it held more once."""
    made = {*range(100), *kept}
    for item in list(made):
        if item not in kept:
            made.discard(item)
    return made


def test_order_of_sets_from_outside() -> None:
    tensors = [torch.zeros(size) for size in range(1, 13)]
    holder = Holder(x=thinned(1, 8, 17), y=frozenset(thinned(16, 1)), z=set(tensors), w=frozenset(tensors))

    def program():
        return list(holder.x), list(holder.y), [t.shape[0] for t in holder.z], [t.shape[0] for t in holder.w]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert compiled() == program()


def test_equal_frozensets_in_another_order() -> None:
    check(lambda x: list(x), vary=[frozenset([0, 8]), frozenset([8, 0])], expect_recompiles=1)


def test_order_of_sets_that_come_out() -> None:
    def program(x):
        made = set(range(40))
        for item in range(40):
            if item not in (3, 8, 33):
                made.remove(item)
        return made, x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        ours, theirs = compiled(torch.ones(1))[0], program(torch.ones(1))[0]
        for item in (16, 0, 65):
            ours.add(item)
            theirs.add(item)
        assert list(ours) == list(theirs)


STEPS = {
    "add": lambda s, a: s.add(a), "discard": lambda s, a: s.discard(a), "pop": lambda s, a: s.pop() if s else None,
    "update": lambda s, a: s.update([a, a + 8, a + 64]), "list": lambda s, a: list(s), "clear": lambda s, a: s.clear(),
    "without": lambda s, a: s.difference_update([a, a + 8]), "or": lambda s, a: s.__ior__({a, a + 16}) and None,
}  # fmt: skip


def test_order_of_sets_after_random_changes(monkeypatch) -> None:
    monkeypatch.setattr("stator.world.world.AUDITING", False)
    draw = random.Random(5)
    for _ in range(40):
        steps = [(STEPS[draw.choice(sorted(STEPS))], draw.randrange(40)) for _ in range(draw.randrange(1, 8))]
        start = [draw.randrange(60) for _ in range(draw.choice([3, 8, 70]))]

        def program(holder, steps=steps):
            return [step(holder.x, a) for step, a in steps]

        ours, theirs = (Holder(x=thinned(*start)) for _ in range(2))
        compiled = stator.compile(program, backend="eager")
        for _ in range(3):
            assert compiled(ours) == program(theirs)
            assert list(ours.x) == list(theirs.x)


def test_keywords_of_an_outside_partial() -> None:
    """They are the partial's own, and changes of them last."""
    part = partial(torch.mul, other=2.0)

    def program(x):
        part.keywords["other"] += 1.0
        return part(x), part.keywords

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for scale in (3.0, 4.0):
        product, keywords = compiled(torch.ones(1))
        assert product == scale and keywords is part.keywords and keywords == {"other": scale}


def test_copies_of_objects_that_are_others_on_every_call() -> None:
    def program(x, holder):
        copied, pair = copy.deepcopy(holder), copy.deepcopy([holder, holder])
        return x + copied.n, copied.me is copied, copied.items is holder.items, pair[0] is pair[1], pair[0].n

    compiled = stator.compile(program, backend="eager")
    for n in range(5):
        holder = Holder(n=n, items=[n])
        holder.me = holder
        assert compiled(torch.ones(1), holder) == (torch.ones(1) + n, True, False, True, n)
    assert stator.stats()["recompiles"] == 1
    assert stator.stats()["graph_breaks"] == 0


@pytest.mark.parametrize("known", [False, True])
def test_the_memo_of_copies_has_the_addresses_of_this_call(known: bool) -> None:
    def program(x, holder, items):
        memo = {id(holder): "known"} if known else {}
        first, second = {}, copy.deepcopy(items, memo)
        copied = copy.deepcopy([holder, second], memo)
        copy.deepcopy(items, first)
        return x + 1, copied[0] if known else copied[0].n, memo, list(first)

    compiled = stator.compile(program, backend="eager")
    kept = []
    for n in range(5):
        holder, items = Holder(n=n), [n]
        kept += [holder, items]
        _, copied, memo, first = compiled(torch.ones(1), holder, items)
        assert first[0] == id(items)
        assert copied == ("known" if known else n)
        assert id(items) in memo
        assert id(holder) in memo


def test_a_memo_from_outside() -> None:
    memo: dict[int, Any] = {}

    def program(x, items):
        return x + len(copy.deepcopy(items, memo))

    compiled = stator.compile(program, backend="eager")
    kept = []
    for n in range(4):
        items = list(range(n))
        kept.append(items)
        assert compiled(torch.ones(1), items).item() == n + 1
        assert id(items) in memo
    memo[id(kept[0])] = [0] * 7
    assert compiled(torch.ones(1), kept[0]).item() == 8
