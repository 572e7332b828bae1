"""Containers of another length on each call: what needs all of one is CPython's from the third length on."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict

import pytest
import torch

from tests.harness import check
from tests.shapes.places import most_per_place

LENGTHS = (2, 3, 4, 5, 7, 6, 9, 8, 10, 11)


def numbers(n):
    return [0.5 * ((3 * i) % n) for i in range(n)]


def ordered(values, x):
    low, *_, high = sorted(values)
    return x * low + high


def text_of(values, x):
    return (x * 2).sin() + len(str(values)), x + 1


def values_of(logs, x):
    return x * sum(value for value in logs.values())


@pytest.mark.parametrize(
    ("program", "made"),
    [(ordered, numbers), (text_of, numbers), (values_of, lambda n: {f"k{i}": 0.5 * i for i in range(n)})],
)
def test_a_third_length_is_the_last_that_is_compiled(program, made):
    calls = [(made(n), torch.ones(3)) for n in LENGTHS]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=9) == 0, report.counts
    assert report.gained("frames_skipped") == 0


def loop(tensors, x):
    for tensor in tensors:
        x = x + tensor.sin()
    return x


def numbered(tensors, x):
    for i, tensor in enumerate(tensors):
        x = x * tensor + i
    return x


@pytest.mark.parametrize("program", [loop, numbered])
def test_loops_over_lists_that_grow(program):
    calls = [([torch.ones(3) * i for i in range(n)], torch.ones(3)) for n in LENGTHS]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=4) == 0, report.counts


@pytest.mark.parametrize("method", ["values", "items", "keys"])
def test_loops_over_dicts_that_grow(method):
    def program(tensors, x):
        for entry in getattr(tensors, method)():
            x = x + (tensors[entry] if method == "keys" else entry[1] if method == "items" else entry).sin()
        return x

    calls = [({f"k{i}": torch.ones(3) * i for i in range(n)}, torch.ones(3)) for n in LENGTHS]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=7) == 0, report.counts


def test_as_many_parts_as_a_list_says():
    def program(sizes, x):
        return [part.sum() for part in x[: sizes[0] + sizes[1] + sizes[2]].split(sizes)]

    calls = [([n, n + 1, 2], torch.randn(30)) for n in LENGTHS[:5]]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None)
    assert report.gained("frames_captured") == 2, report.counts


def test_the_sum_of_a_few_numbers_that_vary():
    def program(sizes, x):
        return [part.sum() for part in x[: sum(sizes)].split(sizes)]

    calls = [([n, n + 1, 2], torch.randn(30)) for n in LENGTHS[:5]]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None)
    assert report.gained("frames_captured") == 2, report.counts


class Masks(torch.nn.Module):
    """A cache keyed by a size."""

    def __init__(self):
        super().__init__()
        self.masks = {}

    def forward(self, x):
        n = x.shape[0]
        if n not in self.masks:
            self.masks[n] = torch.ones(n, n).tril()
        return self.masks[n] @ x


class Tables(Masks):
    def forward(self, x):
        n = x.shape[0]
        table = self.masks.get((n))
        if table is None:
            table = self.masks[n] = torch.arange(n).float()
        return table[:, None] + x


class Grids(Masks):
    def forward(self, x):
        key = (*x.shape, x.device, x.dtype)
        if key not in self.masks:
            self.masks[key] = torch.arange(x.numel()).view(x.shape).to(x)
        return self.masks[key] + x


class Shapes(Masks):
    def forward(self, x):
        if x.shape not in self.masks:
            self.masks[x.shape] = torch.ones(x.shape)
        return self.masks[x.shape] + x


class Named(Masks):
    def forward(self, x):
        if f"{x.shape}" not in self.masks:
            self.masks[f"{x.shape}"] = torch.ones(x.shape)
        return self.masks[f"{x.shape}"] + x


class InACell(Masks):
    def __init__(self):
        super().__init__()
        masks = {}

        def look_up(n, kind):
            if (n, kind) not in masks:
                masks[n, kind] = torch.ones(n, n)
            return masks[n, kind]

        self.look_up = look_up

    def forward(self, x):
        return self.look_up(len(x), "mask") @ x


class Histogram(Masks):
    def forward(self, x):
        name = f"rows {x.shape[0]}"
        self.masks[name] = self.masks.get(name, 0) + 1
        return x * 2


@pytest.mark.parametrize("model", [Masks, Tables, Grids, Shapes, Named, InACell, Histogram])
def test_caches_keyed_by_a_size(model):
    calls = [(torch.ones(n, 3),) for n in (*LENGTHS, *LENGTHS)]
    report = check(model(), vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=4, last=len(LENGTHS)) == 0, report.counts
    assert report.gained("frames_captured") <= 6, report.counts
    assert report.gained("frames_skipped") == 0


def test_modules_chosen_by_a_number_are_one_graph_each():
    heads = {n: torch.nn.Linear(3, n) for n in (2, 3, 4)}

    def program(x, n):
        return heads[n](x)

    check(program, vary=[(torch.ones(2, 3), n) for n in (2, 3, 4, 2, 3)], fullgraph=False, expect_recompiles=None)


def test_the_last_write_is_read_back():
    def program(seen, x):
        n = x.shape[0]
        seen[n] = x + 1
        other = seen[n]
        return other * 2, n in seen, len(seen)

    calls = [({1: torch.ones(1)}, torch.ones(n)) for n in (2, 3, 4, 5)]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)


def places(numbers, x):
    return x[torch.tensor(numbers, dtype=torch.long)], x[numbers] * 2


def several(numbers, x):
    first, second = torch.tensor(numbers), torch.tensor(numbers)
    first += 1
    return first, second, first is second, x + torch.tensor(numbers, dtype=torch.float64).mean()


def other_default(numbers, x):
    torch.set_default_dtype(torch.float64)
    try:
        return torch.tensor(numbers) * 0.1, x + 1
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("program", [places, several, other_default])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tensors_of_lists(program, backend):
    kind = int if program is places else float
    calls = [([kind((3 * i) % n) for i in range(n)], torch.randn(12)) for n in LENGTHS[:6]]
    report = check(program, vary=calls, expect_recompiles=None, expect_graphs=2, fullgraph=False, backend=backend)
    assert report.gained("frames_captured") == 2, report.counts


def test_lists_that_hold_other_things_later():
    def program(values, x):
        return torch.tensor(values) + x

    calls = [[1.0, 2.0], [1.0, 2.0, 3.0], [1.0] * 4, [1, 2.0, 3, 4, 5], [True, 2.0], [1, 2, 3], [], [[1.0], [2.0]]]
    varied = [(values, torch.ones(())) for values in calls]
    check(program, vary=varied, expect_recompiles=None, expect_breaks=None, fullgraph=False)


def repeated(x):
    n, h, w = x.shape
    sizes = [(h, w)] * n
    a, b = sizes[0]
    return x.sin().view(-1, a * b) + 1, len(sizes)


def copies(x):
    return (x.sin(),) * len(x)


def sampled(x):
    return x.sin()[torch.tensor(random.sample(range(len(x)), 2))] + 1


def shuffled(x):
    order = list(range(len(x)))
    random.shuffle(order)
    return x.cos()[order].sin()


@pytest.mark.parametrize("program", [repeated, copies, sampled, shuffled])
def test_as_many_items_as_a_size_that_no_loop_goes_through(program):
    """CPython makes what has so many items, and draws from it: nothing is compiled from the fourth size on."""
    calls = [(torch.randn(n, n + 1, 3),) for n in LENGTHS]
    report = check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)
    assert report.gained("frames_captured", first=4) == 0, report.counts
    assert report.gained("frames_skipped") == 0


def counter():
    seen = Counter()

    def program(x, name, number):
        seen[name] += 1
        seen["all"] += number
        return x * seen["all"] + seen["nothing"], len(seen)

    return program


def ordered_dict():
    kept = OrderedDict(first=1)

    def program(x, name, number):
        kept[name] = x.sum()
        kept["first"] = number
        return x * kept["first"], kept.get("nothing", 3), "first" in kept, len(kept)

    return program


def least_recent():
    kept = OrderedDict()

    def program(x, name, number):
        kept[number] = x + number
        kept.move_to_end(number)
        if len(kept) > 3:
            kept.popitem(last=False)
        return x * number, list(kept)

    return program


def subclasses():
    class Rows(list):
        pass

    class Table(dict):
        pass

    rows, table = Rows(), Table()

    def program(x, name, number):
        rows.append(x.sum())
        table[number] = x * number
        return x * len(rows), len(table), rows[-1]

    return program


@pytest.mark.parametrize("make, most", [(counter, 3), (ordered_dict, 5), (least_recent, 4), (subclasses, 3)])
def test_other_containers_that_grow(make, most):
    names = "abcdefgh"
    assert most_per_place(make, [(torch.ones(3), names[i], 2 * i + 3) for i in range(8)]) <= most


def lengths_of_tuples(x, given):
    return x * len(given) + given[0]


def sums_of_tuples(x, given):
    return x * sum(given)


def of_bytes(x, given):
    return x * len(bytes(given)) + 1


@pytest.mark.parametrize("program", [lengths_of_tuples, sums_of_tuples, of_bytes])
def test_tuples_of_other_lengths(program):
    calls = [(torch.ones(3), tuple(range(2, 3 + i))) for i in range(8)]
    assert most_per_place(lambda: program, calls) <= 3


@pytest.mark.parametrize("kind", [complex, lambda n: bytes(n + 1), lambda n: frozenset(range(n + 1))])
def test_constants_that_no_symbol_stands_for(kind):
    def program(x, value):
        size = abs(value) if isinstance(value, complex) else len(value)
        return x.sin() * size + 1

    assert most_per_place(lambda: program, [(torch.ones(3), kind(i)) for i in range(8)]) <= 3


def made_into_tensors(x, given):
    return torch.tensor(given), torch.tensor(given, dtype=torch.float64) * 2, x[given] if 1 in given else x


def test_lists_of_other_kinds_of_numbers():
    """The type of a tensor follows from its numbers: other kinds of them are other entries."""
    calls = [[1, 2, 3], [1, 2], [1, 2, 0, 1], [1.5, 2.5], [2, 2.5, 3], [3], [True, False], [True, 2]]
    check(
        made_into_tensors, vary=[(torch.ones(4), given) for given in calls], fullgraph=False, expect_recompiles=None,
        expect_breaks=None,
    )  # fmt: skip


def of_flags(x, flags):
    return x * sum(flags) + torch.tensor(flags).float().sum()


def latest(x, flags):
    return x * flags[-1] + len(flags)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_lists_of_bools(backend):
    calls = [(torch.ones(3), [bool(i >> k & 1) for k in range(4)] + [True] * 2) for i in range(8)]
    assert most_per_place(lambda: of_flags, calls, backend=backend) == 2


def test_the_latest_of_a_list_that_grows():
    calls = [(torch.ones(3), [0.25 * k for k in range(3, i + 4)]) for i in range(8)]
    assert most_per_place(lambda: latest, calls) == 2


@pytest.mark.parametrize("kind", [Counter, OrderedDict])
def test_attributes_of_containers_that_grow(kind):
    def make():
        seen = kind()

        def program(x, number):
            seen[number] = number
            if number == 6:
                seen.label = number
            return x * seen[number], getattr(seen, "label", None), len(seen)

        return program

    assert most_per_place(make, [(torch.ones(3), 2 * i) for i in range(1, 8)]) <= 4
