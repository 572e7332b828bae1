"""Operations that fail on data after the graph has written to inputs: the state afterwards is eager's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator.report import events
from tests.harness import check

GOOD, BAD = torch.tensor([0, 1]), torch.tensor([1, 5])


def uncaught(x: Any, i: Any, log: Any) -> Any:
    log.append("before")
    print(log)
    x.add_(1)
    y = x[i]
    x.mul_(2)
    log.append("after")
    return y


def caught(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        y = x[i]
        x.add_(100)
    except IndexError:
        log.append("caught")
        y = x * 2
    x.sub_(3)
    return y


def half_written(x: Any, i: Any, log: Any) -> Any:
    log.append(x.sum())
    x.index_add_(0, i, torch.ones(2, 3))
    return x


def through_a_view(x: Any, i: Any, log: Any) -> Any:
    row = x[0]
    row.zero_()
    log.append(row)
    y = x.index_select(0, i)
    row.add_(1)
    return y


def random_data(x: Any, i: Any, log: Any) -> Any:
    x.add_(torch.rand(2, 3))
    log.append(torch.rand(1))
    return torch.nn.functional.embedding(i, x)


def behind_a_break(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        stator.graph_break()
        x.add_(1)
        log.append("behind")
        return x[i]
    except IndexError:
        return x.mul_(3)


PROGRAMS = (uncaught, caught, half_written, through_a_view, random_data, behind_a_break)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_writes_are_undone(fn: Callable[..., Any], backend: str) -> None:
    inputs = [(torch.arange(6.0).reshape(2, 3), i, []) for i in (GOOD, BAD, GOOD)]
    check(fn, vary=inputs, calls=3, fullgraph=False, expect_breaks=None, expect_recompiles=None, backend=backend)


ON_DATA: dict[str, Callable[[Any], Any]] = {
    "histc": torch.histc,
    "quantile": lambda x: torch.quantile(torch.ones(3), x),
    "searchsorted": lambda x: torch.searchsorted(torch.ones(2), 1.0, sorter=x.long()),
    "istft": lambda x: torch.istft(torch.ones(5, 3, dtype=torch.complex64), 8, window=(x > 2).float().repeat(4)),
    "segment_reduce": lambda x: torch.segment_reduce(torch.ones(2), "sum", lengths=x.long()),
    "fake_quantize": lambda x: torch.fake_quantize_per_channel_affine(torch.ones(2), x, x.int(), 0, 0, 1),
    "select": lambda x: x[x > 2].select(0, 0),
}


@pytest.mark.parametrize("name", ON_DATA)
def test_errors_are_raised_where_the_program_expects_them(name: str) -> None:
    def program(x: Any) -> Any:
        try:
            ON_DATA[name](x)
        except (RuntimeError, IndexError) as error:
            return x * 2, str(error)
        return x + 1

    inputs = [torch.tensor([1.0, 1.0]), torch.tensor([5.0, float("nan")]), torch.tensor([0.0, 0.0])]
    check(program, vary=inputs, fullgraph=False, expect_breaks=None, expect_recompiles=None, expect_graphs=None)


def source(fn: Callable[..., Any], *args: Any) -> str:
    with events.recording("code") as seen:
        stator.compile(fn, backend="eager")(*args)
    return "".join(event.fields["text"]() for event in seen)


def copied_into(big: Any, i: Any) -> Any:
    big.mul_(2)
    big.index_copy_(1, i + 1, torch.ones(2, 2))
    return big[0, i].sum(), torch.nn.functional.embedding(i, big.t()).sum()


def assigned(big: Any, i: Any) -> Any:
    big.mul_(2)
    big[..., i] = 5.0
    return torch.nn.functional.cross_entropy(big[:, :8], i, ignore_index=7)


def decomposed(big: Any, i: Any) -> Any:
    big.add_(1)
    return torch.linalg.cholesky(torch.eye(2) * (3.0 - i)) + big.sum()


@pytest.mark.parametrize(("fn", "looks"), [(copied_into, True), (assigned, True), (decomposed, False)])
def test_large_inputs(fn: Callable[..., Any], looks: bool) -> None:
    """A backend that writes when it likes: the indices are looked at before, or copies are made."""
    calls = []

    def backend(graph: Any, inputs: Any) -> Any:
        return lambda *args: calls.append(1) or graph.forward(*args)

    compiled = stator.compile(fn, backend=backend)
    for i in (torch.tensor([0, 7]), torch.tensor([1, 2**18]), torch.tensor([3, 1])):
        expected, found = torch.ones(2, 2**18), torch.ones(2, 2**18)
        outcomes = []
        for run, big in ((fn, expected), (compiled, found)):
            try:
                outcomes.append(str(run(big, i)))
            except (IndexError, RuntimeError) as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1] and torch.equal(expected, found)
    assert len(calls) == (2 if looks else 3)


def test_nothing_is_saved_where_nothing_fails_late() -> None:
    def cached(keys: Any, values: Any, at: Any, x: Any) -> Any:
        keys[at] = x
        values[at] = x * 2
        return keys[at] + values.sum()

    def fails_first(table: Any, i: Any) -> Any:
        found = table[i]
        table.add_(1)
        return found

    at, x = torch.tensor([1]), torch.ones(1, 3)
    assert "before" not in source(cached, torch.zeros(4, 3), torch.zeros(4, 3), at, x)
    assert "before" not in source(fails_first, torch.zeros(4, 3), at)
    assert "before" in source(uncaught, torch.zeros(2, 3), GOOD, [])
    moved = lambda k, v, at, x: (k.index_copy_(0, at, x), at.add_(1), v.index_copy_(0, at, x))  # noqa: E731
    assert "before" in source(moved, torch.zeros(4, 3), torch.zeros(4, 3), at.clone(), x)


LOCK, SECOND = threading.Lock(), threading.RLock()


def locked(x: Any, i: Any, log: Any) -> Any:
    log.append("before")
    with LOCK:
        return x[i]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_locks_are_given_back(fullgraph: bool) -> None:
    compiled = stator.compile(locked, backend="eager", fullgraph=fullgraph)
    x, log = torch.ones(2), []
    assert compiled(x, GOOD, log).tolist() == [1.0, 1.0]
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x, BAD, log)
        assert not LOCK.locked()
    assert len(log) == (1 if fullgraph else 3)


def one_after_the_other(x: Any) -> Any:
    with LOCK:
        y = x + 1
    with SECOND:
        return y * 2


def test_locks_held_at_once_do_not_block() -> None:
    """Another thread that takes them in the other order: whoever waits for one holds none."""
    compiled = stator.compile(one_after_the_other, backend="eager")
    compiled(torch.ones(1))
    at_second, done = threading.Event(), []

    def nested() -> None:
        with SECOND:
            at_second.set()
            time.sleep(0.05)
            with LOCK:
                done.append("nested")

    threads = [
        threading.Thread(target=nested, daemon=True),
        threading.Thread(target=lambda: at_second.wait() and done.append(compiled(torch.ones(1)).item()), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(done) == {"nested", 4.0}


def written_with_history(x: Any, w: Any) -> Any:
    print("before")
    w.mul_(x)
    try:
        return w[torch.tensor([7])]
    except IndexError as error:
        assert error.__traceback__ is not None
        return w * 2, error.__traceback__.tb_lineno


def test_errors_behind_writes_that_cannot_be_undone() -> None:
    x, w = torch.ones(3, requires_grad=True), torch.ones(3)
    check(written_with_history, x, w, fullgraph=False, expect_breaks=None, expect_recompiles=None)
