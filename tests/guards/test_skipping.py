"""What is known by the tags of dicts is never wrong: replaced objects, reused addresses, re-entry."""

from __future__ import annotations

import collections
import operator
import threading
from typing import Any

import torch

from stator._entry import Compiled
from stator.guards import GuardSet, Path, TensorSpec, arg, const
from stator.guards.check import EQ, IS, KEYS, LEN, NO_ATTR, NO_KEY, TENSOR, TYPE_IS


class Box:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class OtherBox(Box):
    pass


def test_replaced_objects_at_the_same_address() -> None:
    """A new object may lie where the old one lay; what was known of the old one must not be believed of it."""
    guards = GuardSet()
    inner = arg(0).attr("inner")
    guards.add(inner, TYPE_IS, Box)
    guards.add(inner.attr("x"), EQ, 1)
    program = guards.compile([])
    outer = Box(inner=Box(x=1))
    reused = 0
    for x in [1, 2] * 200:
        address = id(outer.inner)
        del outer.inner
        outer.inner = Box(x=x)
        reused += id(outer.inner) == address
        assert (program.run((outer,)) == []) == (x == 1)
    assert reused > 50


def test_list_items_at_the_same_address() -> None:
    guards = GuardSet()
    guards.add(arg(0).item(0).attr("x"), EQ, 1)
    program = guards.compile([])
    values: list[Any] = [Box(x=1)]
    for x in [1, 2] * 200:
        values.clear()
        values.append(Box(x=x))
        assert (program.run((values,)) == []) == (x == 1)


def test_failure_in_the_middle_of_a_block() -> None:
    """A block that fails half-way has replaced some values; the next run must load all of them again."""
    guards = GuardSet()
    guards.add(arg(0).attr("a"), TYPE_IS, list)
    guards.add(arg(0).attr("b"), EQ, "b")
    program = guards.compile([arg(0).attr("a"), arg(0).attr("b")])
    good, bad = Box(a=["good"], b="b"), Box(a=["bad"], b="x")
    for _ in range(3):
        assert program.run((good,)) == [["good"], "b"]
        assert program.run((bad,)) == 1
        assert program.run((good,)) == [["good"], "b"]
        bad.b = "b"
        assert program.run((bad,)) == [["bad"], "b"]
        bad.b = "x"


def test_instance_dict_replaced() -> None:
    guards = GuardSet()
    guards.add(arg(0).attr("x"), EQ, 1)
    program = guards.compile([])
    box = Box(x=1)
    assert program.run((box,)) == []
    box.__dict__ = {"x": 2}
    assert program.run((box,)) == 0
    box.__dict__ = {"x": 1}
    assert program.run((box,)) == []


def test_class_of_an_unchanged_instance() -> None:
    guards = GuardSet()
    guards.add(arg(0).entry("b"), TYPE_IS, Box)
    guards.add(arg(0).entry("b").attr("x"), EQ, 1)
    program = guards.compile([])
    holder = {"b": Box(x=1)}
    assert program.run((holder,)) == []
    holder["b"].__class__ = OtherBox
    assert program.run((holder,)) == 0
    holder["b"].__class__ = Box
    assert program.run((holder,)) == []


def test_alternating_arguments() -> None:
    guards = GuardSet()
    guards.add(arg(0).attr("x"), EQ, 1)
    guards.add(arg(0).attr("y").attr("z"), EQ, 2)
    program = guards.compile([arg(0).attr("y")])
    boxes = [Box(x=1, y=Box(z=2)), Box(x=1, y=Box(z=3)), Box(x=1, y=Box(z=2)), Box(x=2, y=Box(z=2))]
    for _ in range(3):
        outcomes = [program.run((box,)) for box in boxes]
        assert outcomes == [[boxes[0].y], 1, [boxes[2].y], 0]


def test_tuples_hold_their_items() -> None:
    guards = GuardSet()
    pair = arg(0).attr("pair")
    guards.add(pair, TYPE_IS, tuple)
    guards.add(pair.item(0), EQ, 1)
    guards.add(pair.item(1), TYPE_IS, list)
    guards.add(pair.item(1), LEN, 1)
    guards.add(pair.item(1).item(0), EQ, "x")
    program = guards.compile([pair.item(1)])
    box = Box(pair=(1, ["x"]))
    for _ in range(2):
        assert program.run((box,)) == [["x"]]
    box.pair[1][0] = "y"
    assert program.run((box,)) == 4
    box.pair[1][0] = "x"
    box.pair[1].append("z")
    assert program.run((box,)) == 3
    box.pair = (2, ["x"])
    assert program.run((box,)) == 1


def test_order_of_keys() -> None:
    for kind in (dict, collections.OrderedDict):
        keys = [Box(), Box(), Box()]
        holder = {"d": kind((key, i) for i, key in enumerate(keys))}
        guards = GuardSet()
        where = arg(0).entry("d")
        guards.add(where, TYPE_IS, kind)
        guards.add(where, LEN, 3)
        for i, key in enumerate(keys):
            guards.add(where.key_at(i), IS, key)
        program = guards.compile([where.key_at(2)])
        for _ in range(3):
            assert program.run((holder,)) == [keys[2]]
        holder["d"][keys[0]] = holder["d"].pop(keys[0])
        assert isinstance(program.run((holder,)), int)
    ordered = collections.OrderedDict(a=1, b=2)
    guards = GuardSet()
    guards.add(arg(0), TYPE_IS, collections.OrderedDict)
    guards.add(arg(0), KEYS, ("a", "b"))
    guards.add(arg(0).key_at(0), EQ, "a")
    program = guards.compile([])
    assert program.run((ordered,)) == []
    ordered.move_to_end("a")
    assert program.run((ordered,)) == 1


def test_every_dict_method_is_noticed() -> None:
    def start() -> dict[str, int]:
        return {"a": 1, "b": 2}

    changes: list[Any] = [
        lambda d: d.__setitem__("a", 3), lambda d: d.pop("a"), lambda d: d.popitem() and d.popitem(),
        lambda d: d.clear(),
        lambda d: d.update(a=3), lambda d: d.__ior__({"a": 3}), lambda d: operator.delitem(d, "a"),
        lambda d: (d.pop("a"), d.setdefault("a", 3)), lambda d: d.update([("a", 3)]), lambda d: d.__init__(a=3),
    ]  # fmt: skip
    guards = GuardSet()
    guards.add(arg(0), TYPE_IS, dict)
    guards.add(arg(0).entry("a"), EQ, 1)
    guards.add(arg(0), NO_KEY, "z")
    program = guards.compile([])
    for change in changes:
        subject = start()
        assert program.run((subject,)) == []
        change(subject)
        assert isinstance(program.run((subject,)), int)
    subject = start()
    assert program.run((subject,)) == []
    subject["z"] = 1
    assert program.run((subject,)) == 2


def test_every_way_to_set_an_attribute_is_noticed() -> None:
    changes: list[Any] = [
        lambda b: setattr(b, "x", 2), lambda b: b.__dict__.update(x=2), lambda b: object.__setattr__(b, "x", 2),
        lambda b: vars(b).__setitem__("x", 2), lambda b: delattr(b, "x"), lambda b: b.__init__(x=2),
        lambda b: b.__setstate__({"x": 2}) if hasattr(b, "__setstate__") else setattr(b, "x", 2),
    ]  # fmt: skip

    def store(box: Any) -> None:
        for _ in range(50):  # long enough for the specialising interpreter
            box.x = 1
        box.x = 2

    guards = GuardSet()
    guards.add(arg(0).entry(0).attr("x"), EQ, 1)
    guards.add(arg(0).entry(0), NO_ATTR, "y")
    program = guards.compile([])
    for change in [*changes, store]:
        for box in (Box(x=1), Box.__new__(Box)):
            box.x = 1
            holder = {0: box}
            for _ in range(2):
                assert program.run((holder,)) == []
            change(box)
            assert program.run((holder,)) == 0
            box.x = 1
            assert program.run((holder,)) == []
            box.y = 1
            assert program.run((holder,)) == 1


def test_constants_are_pinned_but_not_frozen() -> None:
    table = {"x": 1, "m": Box(v=1)}
    guards = GuardSet()
    guards.add(const(table).entry("x"), EQ, 1)
    guards.add(const(table).entry("m").attr("v"), EQ, 1)
    program = guards.compile([])
    for _ in range(3):
        assert program.run(()) == []
    table["m"].v = 2
    assert program.run(()) == 1
    table["m"] = Box(v=1)
    assert program.run(()) == []
    table["x"] = 2
    assert program.run(()) == 0


def test_finalizer_of_the_old_value() -> None:
    """A specialised assignment releases the old value before it changes the tag; what runs then sees the new one."""
    seen: list[bool] = []
    box = Box(x=None)
    box.__dict__ = {"x": None}

    class Last:
        def __del__(self) -> None:
            for program, argument in programs:
                loaded = program.run((argument,))
                seen.append(isinstance(loaded, list) and loaded[0] is box.x)

    def assign() -> None:
        for _ in range(100):
            box.x = Last()
            for program, argument in programs:
                assert program.run((argument,)) == [box.x]

    programs = []
    for path, argument in (
        (arg(0).attr("x"), box),
        (arg(0).entry("b").attr("x"), {"b": box}),
        (arg(0).fields().entry("x"), box),
    ):
        guards = GuardSet()
        guards.add(path, TYPE_IS, Last)
        programs.append((guards.compile([path]), argument))
    assign()
    assert len(seen) > 200 and all(seen)


def guard_module(guards: GuardSet, path: Path, module: torch.nn.Module, loads: list[Path]) -> None:
    guards.add(path, TYPE_IS, type(module))
    guards.add(path.attr("training"), EQ, module.training)
    for name, parameter in module._parameters.items():
        loads.append(path.attr("_parameters").entry(name))
        guards.add(loads[-1], TENSOR, TensorSpec.of(parameter))
    for name, child in module._modules.items():
        assert child is not None
        guard_module(guards, path.attr("_modules").entry(name), child, loads)


def test_module_changes() -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    )
    guards, loads = GuardSet(), []
    guard_module(guards, arg(0), net, loads)
    guards.distinct(loads)
    program = guards.compile(loads)

    def hit() -> bool:
        outcome = program.run((net,))
        agrees = guards.first_failure((net,)) is None
        assert agrees == isinstance(outcome, list)
        if isinstance(outcome, list):
            assert all(a is b for a, b in zip(outcome, net.parameters(), strict=True))
        return agrees

    assert hit() and hit()
    net.eval()
    assert not hit()
    net.train()
    assert hit()
    net[1][0].weight = torch.nn.Parameter(torch.zeros(3, 3))
    assert hit()
    net[1][0].weight.requires_grad_(False)
    assert not hit()
    net[1][0].weight.requires_grad_(True)
    assert hit()
    net[1][0].bias = net[1][1].bias
    assert not hit()
    net[1][0].bias = torch.nn.Parameter(torch.zeros(3))
    assert hit()
    net[1] = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    assert hit()
    net.double()
    assert not hit()
    net.float()
    assert hit()


def test_reentry_through_a_part() -> None:
    """A program entered again while it runs is not disturbed, even if a part is less pure than promised."""
    depth = [0]
    guards = GuardSet()
    runs: list[Any] = []

    def nosy(value: Any) -> Any:
        if depth[0] < 2:
            depth[0] += 1
            runs.append(program.run((Box(x=depth[0] + 10),)))
        return value

    guards.add(arg(0), TYPE_IS, Box)
    program = guards.compile([arg(0).part("again", nosy), arg(0).attr("x")])
    box = Box(x=1)
    assert program.run((box,)) == [box, 1]
    assert [run[1] for run in runs] == [12, 11]


def test_threads() -> None:
    guards, loads = GuardSet(), []
    guard_module(guards, arg(0), torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(20))), loads)
    guards.add(arg(1).part("self", operator.itemgetter(0)), EQ, 1)
    compiled = Compiled(print, lambda args, kwargs: "miss")
    compiled.append(guards.compile([*loads, arg(0)]), lambda *values: values[-1])
    wrong: list[Any] = []

    def work(number: int) -> None:
        net = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(20)))
        for i in range(300):
            if compiled(net, (1,)) is not net or compiled(net, (2,)) != "miss":
                wrong.append(number)
            if i % 10 == 0:
                net[i % 20].weight = torch.nn.Parameter(torch.zeros(2, 2))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
