"""Graphs that are not worth a compilation, and stretches that need no break at all."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

import stator
from stator.graph.worth import is_one_kernel
from tests.breaks.test_counts import CALLS, graphs
from tests.harness import check

X = torch.arange(4.0)
I = torch.tensor([1, 0])


def test_one_kernel_between_breaks_is_not_compiled() -> None:
    def program(x: Any) -> Any:
        y = x.sin() + 1
        time.perf_counter()  # a break that nobody asked for
        z = y[1:] * 2
        time.perf_counter()
        return z.cos() + 1

    made, ran = graphs(lambda: program, CALLS[:3])
    assert made == 2 and ran == [2, 2, 2]
    told = stator.explain(program, backend="eager")(X)
    assert told.graph_count == 2 and [graph.ops[-1] for graph in told.uncompiled] == ["operator.mul"]
    assert "not worth a compilation" in str(told)


@pytest.mark.parametrize(("size", "number"), [(4, 2), (200_000, 3)])
def test_two_kernels_between_breaks_are_if_they_are_large(size: int, number: int) -> None:
    def program(x: Any) -> Any:
        y = x.sin() + 1
        time.perf_counter()  # a break that nobody asked for
        z = y.softmax(0) * 2
        time.perf_counter()
        return z.cos() + 1

    assert graphs(lambda: program, [(torch.arange(float(size)),)] * 2)[0] == number


def test_so_are_two_behind_the_only_break_in_a_loop() -> None:
    def program(x: Any) -> Any:
        found = []
        y = (x.sin() + 1) * 2 - x.cos()
        for row in y[None]:
            mask = row > 0
            if not mask.any():
                continue
            found.append(row[mask] * 2)
        return found, y

    assert graphs(lambda: program, CALLS[:1])[0] == 1


def test_attributes_that_are_views_are_no_kernels() -> None:
    def program(x: Any) -> Any:
        y = x[:, None].sin() + 1
        time.perf_counter()  # a break that nobody asked for
        first, second = y.data[0], y.T.mT.real
        time.perf_counter()
        return first, second

    assert graphs(lambda: program, CALLS[:2])[0] == 1


def test_arithmetic_on_numbers_is_no_kernel() -> None:
    def program(x: Any, n: int) -> Any:
        y = x.sin() + 1
        time.perf_counter()
        y = y * (n * 2 + x.shape[0])
        time.perf_counter()
        return y.shape

    assert graphs(lambda: program, [(torch.arange(k + 3.0), k) for k in (2, 3, 4)])[0] == 2


def test_tensors_like_others_before_a_break_are_not_compiled() -> None:
    def program(x: Any) -> Any:
        state, gate = x.new_zeros(4), torch.ones_like(x)
        time.perf_counter()
        return (state.sum() + gate * x).sin()

    assert graphs(lambda: program, CALLS[:3])[0] == 1


@pytest.mark.parametrize("work", [torch.sum, torch.argmax, lambda x: x.topk(2), lambda x: x.gather(0, I), len])
def test_so_are_reductions_and_searches(work: Any) -> None:
    def program(x: Any) -> Any:
        y = x.sin() + 1
        time.perf_counter()
        z = work(y)
        time.perf_counter()
        return z

    assert graphs(lambda: program, CALLS[:3])[0] == 1


def test_views_before_a_break_are_not_compiled() -> None:
    def program(x: Any) -> Any:
        rows = [row[None] for row in x.unbind()]
        time.perf_counter()
        return torch.cat(rows) + x.sin()

    assert graphs(lambda: program, CALLS[:3])[0] == 1


def test_one_kernel_is_not_compiled_a_second_time() -> None:
    def program(x: Any) -> Any:
        for i in range(4):
            x = x.sin() + i
            stator.graph_break()
            x = x * 2
        return x

    assert graphs(lambda: program, CALLS[:3])[0] == 2  # not what follows the last round


def test_nor_is_one_behind_a_loop() -> None:
    def program(x: Any) -> Any:
        for _ in range(6):
            x = x.sin() + x.cos() * 2
            if x.abs().max() > 2.5:
                break
        return x * 2

    assert graphs(lambda: program, CALLS[:3])[0] == 1


class Equal:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and bool((self.x == other.x).all())

    def __lt__(self, other: Any) -> bool:
        return bool(self.x.sum() < other.x.sum())


@pytest.mark.parametrize(
    "work",
    [
        lambda x: [Equal(x), Equal(x * 2)].index(Equal(x * 2)),
        lambda x: sorted([Equal(x + 1), Equal(x)])[0] == Equal(x),
        lambda x: len(list(filter(lambda y: y.sum() > 3, [x, x + 1]))),
    ],
)
def test_nor_are_a_few_kernels_that_only_decide(work: Any) -> None:
    def program(x: Any) -> Any:
        y = x.sin() + 1
        n = work(y)
        return y * n + 1

    made, _ = graphs(lambda: program, CALLS[:3])
    told = stator.explain(program, backend="eager")(X)
    assert made <= 3 and not any(graph.ops[-1].endswith("item") for graph in told.graphs)


def test_nor_are_views_around_a_search_or_a_decision() -> None:
    def program(x: Any) -> Any:
        rows = x[:, None].unbind()
        if rows[0].sum() > 1:
            return rows[1] * 2 + x
        return rows[1].sin() + 1

    assert graphs(lambda: program, CALLS[:1])[0] == 1

    def walk(x: Any) -> Any:
        near, seen, waiting = x[:, None] * x > 1, [0], [1]
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.append(at)
                waiting.extend(near[at].nonzero().flatten().tolist())
        return seen

    assert graphs(lambda: walk, CALLS[:4])[0] <= 3


def test_two_kernels_are() -> None:
    def program(x: Any) -> Any:
        y = x.sin() + 1
        time.perf_counter()  # a break that nobody asked for
        return y * 2 - 1

    assert graphs(lambda: program, CALLS[:3])[0] == 2


@pytest.mark.parametrize("work", [lambda x: x.softmax(0), lambda x: torch.mv(torch.eye(4), x), torch.sum])
def test_what_a_backend_may_do_better_is(work: Any) -> None:
    def program(x: Any) -> Any:
        y = x.sin() + 1
        time.perf_counter()  # a break that nobody asked for
        return work(y)

    assert graphs(lambda: program, CALLS[:3])[0] == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_go_through_it(backend: str) -> None:
    weight = torch.nn.Parameter(torch.ones(4))

    def program(x: Any) -> Any:
        y = (x + 1).sin() * weight
        time.perf_counter()  # a break that nobody asked for
        return y * weight

    expected = torch.autograd.grad(program(X).sum(), weight)
    assert torch.equal(torch.autograd.grad(stator.compile(program, backend=backend)(X).sum(), weight)[0], expected[0])


def test_a_requested_break_has_a_graph_on_both_sides() -> None:
    def program(x: Any) -> Any:
        y = x + 1
        stator.graph_break()
        return y * 2

    assert graphs(lambda: program, CALLS[:3])[0] == 2


class Measured:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __len__(self) -> int:
        return int((self.x > 2).sum())

    def __float__(self) -> float:
        return float(self.x.mean())

    def __int__(self) -> int:
        return int(self.x.sum())

    def __contains__(self, value: Any) -> Any:
        return (self.x == value).any()


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * len(Measured(x * 2)) + 1,
        lambda x: x * float(Measured(x * 2)) + 1,
        lambda x: x * int(Measured(x * 2)) + 1,
        lambda x: (3.0 in Measured(x), 3.0 not in Measured(x), x + 1),
    ],
)
def test_numbers_that_methods_make_of_data_are_no_breaks(program: Any) -> None:
    check(program, vary=CALLS[:4], expect_graphs=1)


class Odd:
    def __init__(self, x: Any, answer: Any, breaks: bool) -> None:
        self.x, self.answer, self.breaks = x, answer, breaks

    def asked(self) -> Any:
        if self.breaks:
            stator.graph_break()
        return int(self.x.sum()) - 10 if self.answer is None else self.answer

    __len__ = __float__ = __int__ = lambda self: self.asked()


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("answer", [None, 2, 2.5, -1, True, "text"])
@pytest.mark.parametrize("function", [len, float, int])
def test_answers_that_are_none(function: Any, answer: Any, breaks: bool) -> None:
    """A negative length, an int for a float: errors and warnings are eager's."""

    def program(x: Any) -> Any:
        try:
            return x * function(Odd(x * 2, answer, breaks)) + 1
        except (TypeError, ValueError) as error:
            return str(error)

    check(program, vary=CALLS[:3], fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_operators_on_a_tensor_go_on_inside_of_the_method() -> None:
    class Sum:
        def __init__(self) -> None:
            self.x: Any = 0

        def __iadd__(self, x: Any) -> Sum:
            self.x = self.x + x * 2
            stator.graph_break()
            return self

        def __mul__(self, x: Any) -> Any:
            y = self.x * x
            stator.graph_break()
            return y.sin() + 1

    def program(x: Any) -> Any:
        made = Sum()
        made += x.cos()
        return made * x

    assert graphs(lambda: program, CALLS[:2])[0] == 3
    told = stator.explain(program, backend="eager")(X)
    assert [graph.operations for graph in told.graphs] == [3, 1, 2]


def test_a_loop_that_data_ends_by_an_exception_is_not_unrolled() -> None:
    class Doubled:
        def __init__(self, x: Any) -> None:
            self.x = x + 1

        def __iter__(self) -> Doubled:
            return self

        def __next__(self) -> Any:
            self.x = self.x * 2
            if self.x.sum() > 100:
                raise StopIteration
            return self.x

    def program(x: Any) -> Any:
        for y in Doubled(x):
            x = x + y
        return x

    check(program, vary=CALLS[:3], fullgraph=False, expect_breaks=None, expect_recompiles=None)
    operations = [graph.operations for graph in stator.explain(program, backend="eager")(X).graphs]
    assert max(operations) < 10


def test_nor_one_that_another_exception_ends(monkeypatch: Any) -> None:
    monkeypatch.setattr("stator.runtime.assumptions.MOST_ROUNDS", 4)

    def program(x: Any) -> Any:
        try:
            while True:
                x = x * 2 + 1
                if x.sum() > 1000:
                    raise LookupError
        except LookupError:
            return x.sin()

    check(program, vary=CALLS[:3], fullgraph=False, expect_breaks=None, expect_recompiles=None)
    operations = [graph.operations for graph in stator.explain(program, backend="eager")(X).graphs]
    assert max(operations) < 20


def test_a_file_that_keeps_changing_is_read_by_python(tmp_path: Path) -> None:
    name = str(tmp_path / "number.txt")

    def program(x: Any, n: int) -> Any:
        with open(name, "w") as file:
            file.write(str(n))
        y = x + 1
        with open("".join([name])) as file:
            return y * float(file.read()) - 1

    made, _ = graphs(lambda: program, [(X, n) for n in range(1, 13)])
    assert made <= 5


class Held:
    def __init__(self) -> None:
        self.weight = torch.eye(4) * 2

    @functools.cached_property
    def inverse(self) -> Any:
        return torch.linalg.inv(self.weight).sin().cos()


def test_a_graph_that_cannot_be_is_not_compiled_first() -> None:
    """It may fail while the lock of the property is held."""
    made = []

    def backend(graph: Any, inputs: Any) -> Any:
        made.append(graph)
        return graph.forward

    held = Held()
    compiled = stator.compile(lambda x: (held.inverse @ x).sin() + 1, backend=backend)
    for _ in range(3):
        assert torch.allclose(compiled(X), ((torch.eye(4) / 2).sin().cos() @ X).sin() + 1)
    assert len(made) == 2


def switches(program: Any) -> int:
    """How often the graph of a program switches the grad mode."""
    (graph,) = stator.explain(program, backend="eager")(X).graphs
    return sum(name.endswith("_set_grad_enabled") for name in graph.ops)


def test_the_grad_mode_is_switched_where_something_runs() -> None:
    def unread(x: Any) -> Any:
        numbers = [x.sum().item(), x.mean().item()]
        return x * len(numbers)

    def modes(x: Any) -> Any:
        with torch.no_grad():
            x = x * 2
            with torch.enable_grad():
                pass
            with torch.inference_mode():
                y = x + 1
            x = x * 3
        with torch.no_grad():
            return x + 1, y.is_inference(), torch.is_grad_enabled()

    assert switches(unread) == 0
    for program in (unread, modes):
        check(program, X)


def aside(x: Any) -> Any:
    y = x + 1
    stator.graph_break()
    return y * 2


def test_little_behind_a_loop_is_not_compiled() -> None:
    def program(x: Any) -> Any:
        for _ in range(4):
            x = aside(x)
        return x.sum() + x.mean()

    assert graphs(lambda: program, CALLS[:3]) == (2, [4, 4, 4])
    assert graphs(lambda: program, [(torch.zeros(20_000) + k,) for k in range(3)]) == (3, [5, 5, 5])


def test_little_behind_a_while_is_not_compiled() -> None:
    def program(x: Any) -> Any:
        step = 1.0
        while (x.sin() * x.cos() * step).sum() > 0.1:
            step = step * 0.5
        return x * step - 1

    assert graphs(lambda: program, [CALLS[1], CALLS[1]])[0] == 2


def test_behind_hooks_there_is_no_loop_of_the_program() -> None:
    def make() -> Any:
        first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        first.register_forward_hook(lambda *_: stator.graph_break())
        second.register_forward_hook(lambda *_: stator.graph_break())
        return lambda x: second(first(x).tanh()).sin() + 1

    assert graphs(make, CALLS[:3]) == (3, [3, 3, 3])


def test_tensors_made_of_nothing_are_not_compiled() -> None:
    def program(edges: Any, x: Any) -> Any:
        seen = torch.zeros(4, dtype=torch.bool)
        seen[0] = True
        front = seen.clone()
        while front.any():
            front = (edges[front].sum(0) > 0) & ~seen
            seen, x = seen | front, (edges @ x).tanh()
        return seen, x

    edges = torch.tensor([[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]])
    assert graphs(lambda: program, [(edges, X), (edges.T.contiguous(), X)])[0] == 1


def test_what_is_drawn_or_measured_for_a_branch_is_not_compiled() -> None:
    def program(x: Any) -> Any:
        for _ in range(2):
            if torch.rand(()) < 0.5 or x.norm() > 100 or x.std() > 50:
                x = (x.sin() + 1) * 2
        return x

    assert graphs(lambda: program, CALLS[:3])[0] <= 1


def test_a_tensor_of_many_numbers_is_one_kernel() -> None:
    def program(x: Any) -> Any:
        kept = []
        while len(x):
            kept.append(x[0].item())
            if len(x) == 1:
                break
            x = x[1:][x[1:].sin() * 2 > -3]
        return torch.tensor(kept)

    assert graphs(lambda: program, [(torch.arange(float(n)),) for n in (7, 8, 9)])[0] == 2


def test_a_counter_next_to_a_condition_is_not_compiled() -> None:
    def program(x: Any) -> Any:
        count = torch.zeros(())
        while x.norm() > 0.5 and count < 8:
            x, count = torch.tanh(x) * 0.9, count + 1
        return x, count

    assert graphs(lambda: program, CALLS[1:4])[0] == 1


def test_a_number_that_becomes_a_tensor_is_no_kernel() -> None:
    graph = fx.Graph()
    table = graph.placeholder("table")
    number = graph.call_function(torch.tensor, (3,))
    graph.output((graph.call_function(torch.nn.functional.embedding, (number, table)),))
    assert is_one_kernel(fx.GraphModule(torch.nn.Module(), graph))


def test_numbers_of_an_array_are_looked_up_and_not_compiled() -> None:
    def words(array: Any) -> str:
        text = ""
        for i in range(len(array)):
            text += str(array[i]) + " "
            if array[i] == 0:
                break
        return text.strip()

    def program(x: Any) -> Any:
        rows = (x * 2).long().numpy()
        return [words(row) for row in rows]

    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 5.0]])
    assert graphs(lambda: program, [(x,), (x,), (x.flip(1),)])[0] == 0
    check(program, x, fullgraph=False, expect_recompiles=None, expect_breaks=None)
