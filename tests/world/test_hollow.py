"""Hollow shadows: outside containers of which only what is touched gets guarded."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

BIG = 200
SOME = 70  # hollow at once
T = torch.arange(3.0)


def outcome(function: Any, *args: Any) -> Any:
    try:
        return "returned", function(*args)
    except Exception as error:
        return "raised", type(error), str(error)


def differ(program: Any, make: Any, calls: int = 3) -> Any:
    """Eager and compiled give the same results and leave the same behind; the compiled function."""
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    ours, theirs = make(), make()
    for _ in range(calls):
        mine, expected = outcome(compiled, *ours), outcome(program, *theirs)
        assert repr(mine) == repr(expected)
        assert repr(ours) == repr(theirs)
    return compiled


def guards_of(compiled: Any, entry: int = -1) -> list[str]:
    return compiled.miss.__self__.entries[entry].guards.describe()


def entries_of(compiled: Any) -> int:
    return len(compiled.miss.__self__.entries)


class Holder:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"Holder({self.__dict__})"


# ---- when ---------------------------------------------------------------------------------------------------------


class Logging:
    def __init__(self) -> None:
        self.log: list[Any] = []
        self.seen: dict[Any, Any] = {}
        self.names: set[Any] = set()
        self.recent: deque[Any] = deque(maxlen=3)

    def append(self, x: Any) -> Any:
        self.log.append(x + 1)
        return x * 2

    def extend(self, x: Any) -> Any:
        self.log.extend([x, x + 1])
        self.log += (x,)
        return self.log[-1]

    def remember(self, x: Any, key: Any) -> Any:
        self.recent.append(x)
        self.recent.appendleft(x + 1)
        return x


@pytest.mark.parametrize("method", [Logging.append, Logging.extend])
def test_a_growing_list_costs_two_compilations(method):
    report = check(method.__get__(Logging()), T, calls=10, expect_recompiles=1)
    assert report.gained("frames_captured") == 2


def test_a_deque_that_is_written_to():
    check(Logging().remember, T, None, calls=6, expect_recompiles=None)


def test_a_dict_that_gains_keys():
    def program(holder, x):
        holder.counts["last"] = x
        return x + holder.counts["scale"]

    holder = Holder(counts={"scale": 2})
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for number in range(6):
        assert torch.equal(compiled(holder, T), T + 2)
        holder.counts[f"other{number}"] = number
        assert holder.counts["last"] is T
    assert entries_of(compiled) == 2


def test_an_item_that_changes_but_is_not_read():
    def program(items, x):
        return x * items[0]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    items = [2, 0, 0]
    for number in range(6):
        items[1] = number
        assert torch.equal(compiled(items, T), T * 2)
    assert entries_of(compiled) == 2
    items[0] = 3
    assert torch.equal(compiled(items, T), T * 3)
    assert entries_of(compiled) == 3


def test_nested_containers_that_change():
    def program(config, x):
        return x * config["a"]["scale"][0]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    config: dict[str, Any] = {"a": {"scale": [2, 0], "other": 0}, "b": 1}
    for number in range(8):
        config["a"]["scale"].append(number)
        config["a"]["other"] = number
        config[f"new{number}"] = number
        assert torch.equal(compiled(config, T), T * 2)
    assert entries_of(compiled) <= 4


def test_a_large_dict_needs_few_guards():
    config = {f"key{i}": i for i in range(10_000)}

    def program(config, x):
        return x * config["key5"] if "key6" in config and "nokey" not in config else x

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(config, T), T * 5)
    assert len(guards_of(compiled)) < 12
    config["key7"] = -1
    config["key6"] = -1
    config["another"] = -1
    assert torch.equal(compiled(config, T), T * 5)
    assert entries_of(compiled) == 1
    config["key5"] = 7
    assert torch.equal(compiled(config, T), T * 7)
    assert entries_of(compiled) == 2
    del config["key6"]
    assert torch.equal(compiled(config, T), T)
    assert entries_of(compiled) == 3


def test_paths_are_forgotten_with_the_entries():
    logging = Logging()
    compiled = stator.compile(logging.append, backend="eager")
    for _ in range(3):
        compiled(T)
    assert compiled.miss.__self__.learned.light
    stator.reset()
    assert not compiled.miss.__self__.learned.light


# ---- reading ------------------------------------------------------------------------------------------------------


def test_items_from_both_ends():
    def program(items):
        return items[0], items[-1], items[3], items[-BIG]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    items: list[Any] = list(range(BIG))
    assert compiled(items) == program(items)
    items.insert(100, "new")
    assert compiled(items) == program(items)
    items[0] = "first"
    assert compiled(items) == program(items)


def test_the_last_item_does_not_pin_the_length():
    def program(items):
        return items[-1]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    items = [torch.ones(2) * i for i in range(BIG)]
    for number in range(5):
        assert compiled(items) is items[-1]
        items.append(torch.ones(2) * number)
    assert entries_of(compiled) == 1


def test_emptiness():
    def program(items, x):
        return x + 1 if items else x - 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    items = list(range(BIG))
    for _ in range(4):
        assert torch.equal(compiled(items, T), T + 1)
        items.append(0)
    assert entries_of(compiled) == 1
    assert "NOT_EMPTY items" in guards_of(compiled)
    items.clear()
    assert torch.equal(compiled(items, T), T - 1)


def test_length_is_guarded():
    def program(items):
        items.append(1)
        return len(items)

    differ(program, lambda: [list(range(BIG))])


@pytest.mark.parametrize("make", [list, set, dict.fromkeys, deque])
def test_truth_in_expressions(make):
    def program(items):
        return bool(items), not items, (items or None) is items, (items and 1)

    differ(program, lambda: [make(range(BIG))])


def test_membership_of_a_set():
    def program(names, x):
        return x + 1 if "n5" in names and "zzz" not in names else x

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    names = {f"n{i}" for i in range(BIG)}
    assert torch.equal(compiled(names, T), T + 1)
    names.add("other")
    names.discard("n6")
    assert torch.equal(compiled(names, T), T + 1)
    assert entries_of(compiled) == 1
    names.add("zzz")
    assert torch.equal(compiled(names, T), T)
    names.discard("n5")
    names.discard("zzz")
    assert torch.equal(compiled(names, T), T)
    assert entries_of(compiled) >= 2


# ---- the same exceptions --------------------------------------------------------------------------------------------

WRONG = [
    (lambda x: x[1000], list), (lambda x: x[-1000], list), (lambda x: x["a"], list), (lambda x: x.pop(1000), list),
    (lambda x: x.append(), list), (lambda x: x.nothing, list), (lambda x: x(), list), (lambda x: x + 1, list),
    (lambda x: x["a"], dict.fromkeys), (lambda x: x.pop("a"), dict.fromkeys), (lambda x: x[[]], dict.fromkeys),
    (lambda x: x.__delitem__("a"), dict.fromkeys), (lambda x: x.get(), dict.fromkeys),
    (lambda x: x.remove("a"), set), (lambda x: x.add([]), set), (lambda x: x[0], set),
    (lambda x: x[1000], deque), (lambda x: x.append(1, 2), deque), (lambda x: next(x), list),
    (lambda x: x.extend(5), list), (lambda x: len(x, x), list),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "make"), WRONG)
def test_errors(wrong, make):
    def program(items):
        try:
            wrong(items)
        except Exception as error:
            return type(error), str(error), repr(error.args), repr(error.__context__)

    differ(program, lambda: [make(range(BIG))])


def test_deleting_what_is_not_there():
    def program(items):
        del items["a"]

    differ(program, lambda: [dict.fromkeys(range(BIG))])


# ---- order of reads and writes ------------------------------------------------------------------------------------


def test_reads_see_writes():
    def program(d, x):
        before = d["a"]
        d["a"] = x
        d["new"] = 1
        del d["b"]
        seen = [d["a"], d.get("b", "gone"), "b" in d, d.setdefault("b", 3), d.setdefault("c", 4), d["b"], len(d)]
        d["a"] = before
        return seen, d.pop("new"), d.pop("new", None), d.pop("c")

    def make():
        return [{"a": 1, "b": 2, "c": 3, **dict.fromkeys(range(BIG))}, 5]

    differ(program, make)


def test_the_order_of_keys_after_deleting_and_setting():
    def program(d):
        del d[0]
        d[0] = "again"
        d["x"] = 1
        d[5] = "five"

    compiled = differ(program, lambda: [dict.fromkeys(range(BIG))], calls=1)
    assert entries_of(compiled) == 1


def test_popping_from_the_end():
    def program(items, x):
        last = items.pop()
        items.append(x)
        again = items.pop(-1)
        other = items.pop()
        items.append(x + 1)
        return last, again is x, other, items[-1], items[-2]

    def make():
        return [list(range(BIG)), T]

    compiled = differ(program, make, calls=3)
    assert not any(row.startswith("LEN items ") for row in guards_of(compiled, 0))


def test_sets():
    def program(s):
        s.add("a")
        s.discard(0)
        s.add(0)
        s.remove(1)
        s.discard("nothing")
        return "a" in s, 0 in s, 1 in s, len(s)

    differ(program, lambda: [set(range(BIG))])


def test_deques():
    def program(d, x):
        first = d[0], d[-1]
        d.append(x)
        return first, d[-1], d[-2], len(d)

    differ(program, lambda: [deque(range(BIG)), 1])
    differ(program, lambda: [deque(range(BIG), BIG), 1])


# ---- aliasing -----------------------------------------------------------------------------------------------------


def test_two_names_of_one_list():
    def program(a, b):
        a.append(1)
        b.append(2)
        return a is b, b[-2], a[-1]

    def make():
        items = list(range(BIG))
        return [items, items]

    compiled = differ(program, make)
    one, two = list(range(BIG)), list(range(BIG))
    assert compiled(one, two) == (False, BIG - 1, 1)
    assert one[-1] == 1 and two[-1] == 2


def test_lists_that_become_one():
    def program(a, b):
        a.append(1)
        return b[-1]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    one, two = list(range(BIG)), list(range(BIG))
    assert compiled(one, two) == BIG - 1
    assert compiled(one, one) == 1


def test_an_item_that_is_the_list_itself():
    def program(items):
        items.append(items[0])
        return items[0] is items, len(items)

    def make():
        items: list[Any] = list(range(BIG))
        items[0] = items
        return [items]

    differ(program, make)


# ---- where it must be filled ----------------------------------------------------------------------------------------


def use_star(items: list[Any]) -> Any:
    return (lambda *args: args)(*items)


def use_packed(items: list[Any]) -> Any:
    return (lambda *args: args)(items)[0][-1]


def use_keywords(items: list[Any]) -> Any:
    return (lambda **names: names)(a=items)["a"][-1]


def use_attribute(items: list[Any]) -> Any:
    holder = Holder()
    holder.items = items
    return sorted(holder.items)[-1]


def use_closure(items: list[Any]) -> Any:
    def inner() -> Any:
        items.append(-5)
        return items[-1], len(items)

    return inner(), min(map(lambda _: items[-1], [1]))


def use_generator(items: list[Any]) -> Any:
    def inner(values: Any) -> Any:
        values.append(-7)
        yield values
        yield values[-1]

    return [list(part) if isinstance(part, list) else part for part in inner(items)]


def use_cell_contents(items: list[Any]) -> Any:
    def inner() -> Any:
        return items

    other = [1]

    def second() -> Any:
        return other

    return inner.__closure__[0].cell_contents == [1], inner.__closure__ == second.__closure__


def use_key_function(items: list[Any]) -> Any:
    return sorted([2, 1], key=lambda _: items)


def use_returned(items: list[Any]) -> Any:
    def get() -> Any:
        return items

    return get()[-1], list(map(lambda _: get(), [0]))[0] == items


def use_locals(items: list[Any]) -> Any:
    return len(locals()["items"])


def use_loop(items: list[Any]) -> Any:
    return [value for value in items][-1]


def use_exception(items: list[Any]) -> Any:
    try:
        raise ValueError(items)
    except ValueError as error:
        return error.args[0][-1], len(str(error))


def use_match(items: list[Any]) -> Any:
    match items:
        case [first, *rest]:
            return first, len(rest)


def use_bound_method(items: list[Any]) -> Any:
    add = items.append
    list(map(add, [7, 8]))
    return items[-2:]


USES = [
    lambda items: sorted(items)[-1], lambda items: tuple(items), lambda items: f"{items}", lambda items: items == [1],
    lambda items: [1] < items, lambda items: items + [1], lambda items: items * 2, lambda items: [items][0][-1],
    lambda items: {"a": items}["a"][-1], lambda items: items[-3:], lambda items: items.index(-1),
    lambda items: sum(items), lambda items: list(reversed(items))[0], lambda items: [*items, 1],
    lambda items: str(items), lambda items: (len(items), items.count(-1)), lambda items: items.copy(),
    lambda items: copy.copy(items), lambda items: list(zip(items, items))[-1], lambda items: -1 in items,
    lambda items: isinstance(items, list) and type(items) is list, lambda items: max(items, default=3),
    lambda items: items.sort(), lambda items: items.insert(0, 5), lambda items: items.extend(x for x in [1, 2]),
    lambda items: items.extend(items), lambda items: items.append(items[:]), lambda items: "%s" % items,
    lambda items: any(items), lambda items: items.__len__(), lambda items: getattr(items, "append")(3),
    lambda items: list.append(items, 3), lambda items: (items, 1)[0][-1], lambda items: id(items) == id(items),
    use_star, use_packed, use_keywords, use_attribute, use_closure, use_generator, use_cell_contents, use_key_function,
    use_returned, use_locals, use_loop, use_exception, use_match, use_bound_method,
]  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=range(len(USES)))
def test_a_list_appended_to_and_then_used(use):
    def program(holder):
        holder.items.append(-1)
        found = use(holder.items)
        holder.items.append(-2)
        return found

    differ(program, lambda: [Holder(items=list(range(SOME)))], calls=2)


DICT_USES = [
    lambda d: sorted(d, key=str), lambda d: {**d}, lambda d: dict(d), lambda d: list(d.items()), lambda d: d == {},
    lambda d: d | {1: 2}, lambda d: (lambda **k: k)(**{str(key): 1 for key in d}), lambda d: d.keys() & {1, 2},
    lambda d: next(iter(d)), lambda d: d.popitem(), lambda d: d.clear(), lambda d: d.update(a=1), lambda d: f"{d}",
    lambda d: d.update({"q": 1, 3: 4}), lambda d: d.update([("z", 1)]), lambda d: d.get(1.0), lambda d: d[True],
    lambda d: d.copy(), lambda d: [k for k in d], lambda d: d.setdefault("w", []).append(1), lambda d: len(d),
]  # fmt: skip


@pytest.mark.parametrize("use", DICT_USES, ids=range(len(DICT_USES)))
def test_a_dict_written_to_and_then_used(use):
    def program(holder):
        holder.d["a"] = 1
        del holder.d[0]
        found = use(holder.d)
        holder.d[0] = "zero"
        holder.d["b"] = 2
        return found

    differ(program, lambda: [Holder(d={key: -key for key in range(SOME)})], calls=2)


def test_tensors():
    def program(items, x):
        items.append(x + 1)
        return torch.stack(items).sum(), items[-1] * items[0]

    def make():
        return [[torch.ones(3) * i for i in range(70)], T]

    differ(program, make)


def test_returning_and_storing_the_container_itself():
    def program(holder, items):
        items.append(1)
        holder.kept = items
        holder.kept.append(2)
        return items

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for size in (BIG, BIG + 7):
        holder, items = Holder(kept=None), list(range(size))
        assert compiled(holder, items) is items is holder.kept
        assert items[-2:] == [1, 2]
    assert entries_of(compiled) == 1


def test_a_stored_container_seen_by_native_code():
    def program(holder, items):
        holder.kept = items
        holder.kept.append(3)
        return sorted(vars(holder).items()), str(holder)

    differ(program, lambda: [Holder(kept=None), list(range(BIG))])


def test_through_python_functions_and_modules():
    class Inner(torch.nn.Module):
        def forward(self, x, cache):
            cache["x"] = x
            return x + cache["scale"]

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, cache):
            return self.inner(x, cache=cache) + self.inner(x, cache)

    outer = Outer()

    def program(x, cache):
        return outer(x, cache)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    cache: dict[Any, Any] = {"scale": 2, **{i: i for i in range(BIG)}}
    for number in range(4):
        cache[f"extra{number}"] = number
        assert torch.equal(compiled(T, cache), 2 * T + 4)
        assert cache["x"] is T
    assert entries_of(compiled) == 1


def test_default_arguments_and_globals():
    cache: dict[Any, Any] = {}

    def program(x, kept=cache):
        kept["last"] = x
        return x + kept.get("bias", 1)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for number in range(6):
        assert torch.equal(compiled(T), T + 1)
        cache[number] = number
    assert entries_of(compiled) == 2


def test_a_raised_error_leaves_no_half_done_writes():
    def program(items, x):
        items.append(1)
        if len(items) % 2:
            raise ValueError("odd")
        return x

    differ(program, lambda: [list(range(BIG)), 1], calls=4)


@pytest.mark.parametrize("size", [2, SOME])
def test_static_first_and_then_hollow(size):
    def program(holder, x):
        holder.items.append(x)
        holder.d[len(holder.d)] = x
        holder.s.add(x)
        return holder.items[0], holder.d.get(0), x in holder.s, holder.items[-1]

    def make():
        return [Holder(items=list(range(size)), d=dict.fromkeys(range(size)), s=set(range(size))), -1]

    differ(program, make, calls=4)


def test_elements_of_sets_lie_where_they_lay():
    def program(elements, x):
        return elements.pop(), x + 1

    for start in ({9, 17, 1, -3, 5, 33}, {2**40, 8, 0.5, "a", (1, 2), 16}):
        compiled = stator.compile(program, backend="eager", fullgraph=True, options={"recompile_limit": 20})
        ours, theirs = start.copy(), start.copy()
        for _ in range(len(start)):
            assert compiled(ours, T)[0] == program(theirs, T)[0]
            assert list(ours) == list(theirs)
