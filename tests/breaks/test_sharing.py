"""Graphs that are compiled once though the program comes to them several times, and stretches that need none."""

from __future__ import annotations

import functools
import gc
import random
import weakref
from typing import Any

import torch

import stator
from tests.breaks.test_counts import CALLS, graphs
from tests.harness import check


def test_a_loop_on_data_has_one_graph_for_its_rounds() -> None:
    def program(x: Any) -> Any:
        while (x.abs() > 0.1).any():
            x = x * 0.5
        return x.sin() + 1

    made, ran = graphs(lambda: program, [(torch.ones(3) * k,) for k in (1, 4, 2)])
    assert made == 1 and ran == [4, 6, 5]  # the first test is no graph, nor is the little that follows


def test_python_that_differs_shares_the_graph() -> None:
    def make() -> Any:
        seen: list[int] = []

        def program(x: Any) -> Any:
            y = x.sin() + 1
            stator.graph_break()

            class Held:
                z = y * 2

            seen.append(len(seen))
            return Held.z.cos()

        return program

    made, ran = graphs(make)
    assert made == 2 and ran == [2] * 12


def test_what_is_used_in_another_order_shares_the_graph() -> None:
    def make() -> Any:
        calls: list[int] = []

        def program(x: Any) -> Any:
            stator.graph_break()
            first, second = x.sin() * 2, x.cos() * 2
            calls.append(0)
            return (first, second) if len(calls) % 2 else (second, first)

        return program

    made, _ = graphs(make, CALLS[:4])
    assert made == 1


def test_memory_that_is_only_read_may_be_the_same() -> None:
    """Rows of one table, and tensors that lie apart."""

    def program(x: Any, y: Any, kind: str) -> Any:
        stator.graph_break()
        z = (x + y).sin() * 2
        return z.cos(), kind == "rows"

    table = torch.arange(12.0).view(4, 3)
    made, _ = graphs(lambda: program, [(table[0], table[1], "rows"), (table[0].clone(), table[1].clone(), "apart")])
    assert made == 1


def test_memory_that_is_written_to_may_not() -> None:
    def program(x: Any, y: Any) -> Any:
        stator.graph_break()
        x.add_(1).mul_(2)
        return (y * x).sin()

    def calls() -> list[tuple[Any, ...]]:
        one, two = torch.arange(4.0), torch.arange(4.0)
        return [(one, two), (one, one), (two, one)]

    made, _ = graphs(lambda: program, calls())
    assert made == 2


def test_other_inputs_and_other_states_do_not() -> None:
    def program(x: Any, n: int) -> Any:
        y = x @ x
        stator.graph_break()
        return (y.sin() if n == 1 else y.cos()) + 1

    made, _ = graphs(lambda: program, [(torch.eye(3), 1), (torch.eye(3, requires_grad=True), 1)])
    assert made == 4
    made, _ = graphs(lambda: program, [(torch.eye(3), 1), (torch.eye(3).double(), 1), (torch.eye(3), 2)])
    assert made == 5

    def constants(x: Any, n: Any) -> Any:
        return x * n

    made, _ = graphs(lambda: constants, [(torch.eye(3), n) for n in (0.0, -0.0, True, 1)])
    assert made >= 3


def test_a_shared_graph_goes_when_nobody_uses_it() -> None:
    kept: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            return graph.forward(*args)

        kept.append(weakref.ref(run))
        return run

    compiled = stator.compile(lambda x: x.sin() + 1, backend=backend)
    compiled(torch.ones(2))
    assert kept[0]() is not None
    stator.reset()
    gc.collect()
    assert kept[0]() is None


def test_numbers_that_are_only_read_need_no_graph() -> None:
    def flag(x: Any, on: Any) -> Any:
        return x.sin() + 1 if on.item() else x.cos() * 2

    calls = [(torch.ones(2), torch.tensor(on)) for on in (True, False, True)]
    assert graphs(lambda: flag, calls) == (2, [1, 1, 1])

    def drawn(x: Any) -> Any:
        return x.sin() + 1 if random.random() < 0.5 else x.cos() * 2

    made, ran = graphs(lambda: drawn)
    assert made == 2 and ran == [1] * 12


class Made:
    def __new__(cls, x: Any, k: int = 2) -> Any:
        made = object.__new__(cls)
        made.x = x + 1
        stator.graph_break()
        made.y = made.x * k
        return made


class Both(Made):
    def __init__(self, x: Any, k: int = 2) -> None:
        self.z = self.y + x
        stator.graph_break()
        self.w = self.z * k


class Elsewhere(Both):
    def __new__(cls, x: Any, k: int = 2) -> Any:
        made = super().__new__(Made if k == 5 else cls, x, k)
        stator.graph_break()
        return made


class Single:
    one: Any = None

    def __new__(cls, x: Any) -> Any:
        if cls.one is None:
            cls.one = object.__new__(cls)
            cls.one.n = 0
        stator.graph_break()
        return cls.one

    def __init__(self, x: Any) -> None:
        self.n += 1
        self.x = x + 1


class Wrong(Made):
    __init__ = lambda self, x: 3  # type: ignore # noqa: E731


def test_a_break_inside_of_new_goes_on_there() -> None:
    assert graphs(lambda: lambda x: Made(x * 2, k=3).y + 1)[1] == [2] * 12
    assert graphs(lambda: lambda x: Both(x * 2, k=3).w + 1)[1] == [3] * 12

    def elsewhere(x: Any) -> Any:
        one, two = Elsewhere(x), Elsewhere(x, 5)
        return one.w + 1, type(two).__name__, sorted(vars(two)), two.y

    def single(x: Any) -> Any:
        one, two = Single(x), Single(x * 2)
        n, Single.one = one.n, None
        return one is two, n, one.x

    for program in (elsewhere, single, lambda x: Wrong(x)):
        check(program, torch.ones(3), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_a_break_inside_of_a_mapped_function_goes_on_there() -> None:
    def mapped(x: Any) -> Any:
        z = x * 2
        stator.graph_break()
        return z + 1

    def program(x: Any) -> Any:
        for y in map(mapped, [x + i for i in range(12)]):
            x = x + y
        return x

    made, ran = graphs(lambda: program)
    assert made == 2 and ran == [12] * 12  # the little behind the loop is no graph

    def twice(x: Any) -> Any:
        for y in map(mapped, map(mapped, [x, x * 2])):
            x = x + y
        items = map(mapped, [x], [x])
        try:
            next(items)
        except TypeError:
            return x, next(map(mapped, [x])), next(map(mapped, []), None)

    check(twice, torch.ones(3), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_stop_iteration_of_a_mapped_function_ends_the_loop() -> None:
    def mapped(x: Any) -> Any:
        if len(x) == 3:
            raise StopIteration
        return x * 2

    def program(x: Any) -> Any:
        items = map(mapped, [x[:1], x[:2], x[:3], x[:1]])
        stator.graph_break()
        total = x.sum()
        for item in items:
            total = total + item.sum()
        return total, len(list(items))

    check(program, torch.ones(4), fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_a_search_that_follows_data_runs_as_it_is() -> None:
    """LBFGS, whose history grows: the function that it minimizes is the graph."""

    def make() -> Any:
        w = torch.zeros(4, requires_grad=True)
        optimizer = torch.optim.LBFGS([w], max_iter=3)

        def program(x: Any) -> Any:
            def closure() -> Any:
                optimizer.zero_grad()
                loss = ((w - x) ** 2).sum()
                loss.backward()
                return loss

            return optimizer.step(closure).item()

        return program

    assert graphs(make, CALLS[:6])[0] == 1


def test_a_recurrent_layer_that_is_left_to_eager_is_whole() -> None:
    layer = torch.nn.RNN(4, 5)
    made, ran = graphs(lambda: lambda x: layer(x)[0].sin() * 2, [(torch.ones(3, 2, 4) * k,) for k in range(3)])
    assert made == 1 and ran == [1, 1, 1]
    check(torch.nn.LSTM(4, 5), torch.ones(3, 2, 4), expect_graphs=1)


def test_numbers_of_a_list_need_no_graph() -> None:
    def program(x: Any) -> Any:
        groups: dict[int, list[int]] = {0: [], 1: []}
        for i, v in enumerate(x.tolist()):
            groups[int(v > 0)].append(i)
        return (x[groups[1]].sin() + 1).sum()

    made, ran = graphs(lambda: program, [(torch.tensor([1.0, -1.0, 2.0]) * k,) for k in (1, 2, 3)])
    assert made == 1 and ran == [1, 1, 1]


def test_a_graph_that_fills_a_cache_is_not_compiled() -> None:
    """The next call finds the table there."""

    def make(room: int | None) -> Any:
        @functools.lru_cache(room)
        def table(n: int) -> Any:
            return torch.arange(float(n)) * 2

        return lambda x, n: x + table(n)

    assert graphs(lambda: make(None), [(torch.ones(4), 4)] * 3) == (1, [0, 1, 1])
    numbers = [(torch.ones(n), n) for n in (4, 1, 4, 1)]
    assert graphs(lambda: make(1), numbers) == (
        1,
        [0, 1, 0, 1],
    )  # it lets go of one for the other


def test_a_search_alone_is_not_compiled() -> None:
    def program(x: Any) -> Any:
        found = []
        for value in torch.unique(x):
            found.append((x == value).sum())
        return found

    assert graphs(lambda: program, CALLS[:2]) == (1, [1, 1])


def by_number(x: Any) -> Any:
    found = {}
    for i in range(4):
        y = x + i
        stator.graph_break()
        found[i] = y * 2 + 1
    return found


def test_the_same_is_known_of_symbols() -> None:
    made, _ = graphs(lambda: by_number, CALLS[:2])
    assert made == 2  # the key is another one in each round, the graph is not; the rest is not worth one


def test_a_backend_that_decides_something_of_symbols_keeps_its_graph() -> None:
    made = 0

    def backend(graph: Any, inputs: Any) -> Any:
        nonlocal made
        made += 1
        few = [bool(value < 3) for value in inputs if type(value) is torch.SymInt]
        assert len(few) < 2
        return graph.forward

    compiled = stator.compile(by_number, backend=backend)
    for (x,) in CALLS[:2]:
        assert repr(compiled(x)) == repr(by_number(x))
    assert made > 3


def test_where_a_part_that_is_only_read_begins_does_not_matter() -> None:
    """Batches are views of one tensor; the weight is written to."""

    def make() -> Any:
        weight, noted = torch.ones(2), []

        def program(x: Any) -> Any:
            for step, batch in enumerate(x.split(2)):
                loss = ((batch * weight).sin() - 1).sum()
                if loss.item() > 1000:
                    break
                weight.sub_(0.1 * batch.mean(0))
                if step % 2:
                    noted.append(step)
            return weight.clone(), noted

        return program

    made, _ = graphs(make, [(torch.arange(24.0).view(12, 2),)] * 2)
    assert made == 3  # the first round, the others, the end


def test_nor_does_it_with_sizes_that_vary() -> None:
    def program(x: Any, k: int) -> Any:
        rows = x[k : k + 2]
        stator.graph_break()
        return (rows.sin() + 1).cos(), "odd" if k % 2 else "even"

    made, _ = graphs(lambda: program, [(torch.arange(6.0 * n).view(6, n), k) for n in (3, 4, 5) for k in (0, 1, 3)])
    assert made == 2


def test_what_the_program_found_out_about_other_sizes_does_not_matter() -> None:
    """Two tensors have one size, and so have what a mask picks of both."""

    def program(a: Any, b: Any, kind: str) -> Any:
        stator.graph_break()
        mask = a > 0
        return (a[mask] + b[mask]).sin() * 2, (a * b).cos(), kind == "x"

    sizes = [(4, "x"), (6, "x"), (7, "x"), (8, "y"), (9, "z")]
    made, _ = graphs(lambda: program, [(torch.arange(float(n)) - 2, torch.arange(float(n)).cos(), k) for n, k in sizes])
    assert made == 2
