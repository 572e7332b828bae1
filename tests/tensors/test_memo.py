"""The propagation memo: what counts as the same call, and what it keeps alive."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F

from stator.tensors.memo import Memo, memo
from stator.tensors.propagate import quiet
from stator.tensors.recorder import Recorder
from tests.tensors.capturing import record


@pytest.fixture(autouse=True)
def empty_memo():
    memo.clear()


def make():
    return {"x": torch.ones(4, 6), "y": torch.ones(4, 6), "w": torch.nn.Parameter(torch.ones(6, 6))}


def misses(program, inputs=None):
    """How many propagations a program needs."""
    before = memo.misses
    record(program, inputs or make())
    return memo.misses - before


def test_repeated_operations_are_propagated_once():
    def program(x, y, w):
        for _ in range(10):
            x = F.relu(x + y)
        return x

    assert misses(program) == 2
    assert misses(program) == 0


def test_operators_and_methods_share_entries():
    assert misses(lambda x, y, w: (x + y, x.add(y), torch.Tensor.__add__(x, y), y + x)) == 1


def test_types_of_constants_matter():
    def program(x, y, w):
        i = x.long()
        assert (i + 1).dtype is torch.int64
        assert (i + 1.0).dtype is torch.float32
        assert (i + True).dtype is torch.int64
        assert (i * 1j).dtype is torch.complex64

    assert misses(program) == 5


def test_keywords_are_not_positions():
    def program(x, y, w):
        return x.sum(1), x.sum(dim=1), x.sum(0), x.sum(dim=0)

    assert misses(program) == 4


@pytest.mark.parametrize(
    "other",
    [
        lambda: torch.ones(6, 4).t(),
        lambda: torch.ones(4, 6, dtype=torch.float64),
        lambda: torch.ones(4, 6, requires_grad=True),
        lambda: torch.ones(4, 6, requires_grad=True) * 1,
        lambda: torch.ones(4, 6, device="meta"),
        lambda: torch.ones(4, 1).expand(4, 6),
    ],
)
def test_metadata_matters(other):
    assert misses(lambda x: x.exp(), {"x": torch.ones(4, 6)}) == 1
    assert misses(lambda x: x.exp(), {"x": other()}) == 1
    assert misses(lambda x: x.exp(), {"x": torch.zeros(4, 6)}) == 0


def test_where_a_tensor_begins_matters_for_views_only():
    def program(x):
        return [x[i].softmax(0) for i in range(4)], [x[i].view(2, 3) for i in range(4)]

    assert misses(program, {"x": torch.ones(4, 6)}) == 4 + 1 + 4
    assert misses(lambda x: x.softmax(0), {"x": torch.ones(3, 6)[2]}) == 0


def test_state_matters():
    def program(x, y, w):
        a = x @ w
        with torch.no_grad():
            b = x @ w
        with torch.autocast("cpu"):
            c = x @ w
        with torch.inference_mode():
            d = x @ w
        assert [t.requires_grad for t in (a, b, c, d)] == [True, False, True, False]
        assert [t.dtype for t in (a, b, c, d)] == [torch.float32, torch.float32, torch.bfloat16, torch.float32]
        assert [t.is_inference() for t in (a, b, c, d)] == [False, False, False, True]

    assert misses(program) == 4


def test_results_are_new_objects_each_time():
    def program(x, y, w):
        a, b = x.split(2), x.split(2)
        assert a is not b
        assert a[0] is not b[0]
        assert type(a) is tuple
        first, second = torch.unbind(x), torch.unbind(x)
        assert first[0] is not second[0]

    record(program, make())


def test_no_tensor_is_kept_alive():
    inputs = make()
    captured = record(lambda x, y, w: F.linear(x, w) + y, inputs)
    dead = [weakref.ref(tensor) for tensor in (*inputs.values(), *captured.traced.values(), captured.result)]
    del inputs, captured
    gc.collect()
    assert [ref() for ref in dead] == [None] * len(dead)


def test_bounded():
    small = Memo(limit=3)
    for i in range(10):
        small.add(i, None)  # type: ignore[arg-type]
    assert len(small.plans) <= 3


def test_failures_are_not_remembered():
    def program(x, y, w):
        with pytest.raises(Exception, match="raised RuntimeError"):
            x @ y

    record(program, make())
    assert memo.misses == 0


def test_a_full_table_of_metadata_only_costs_propagations(monkeypatch):
    from stator.tensors import meta

    monkeypatch.setattr(meta, "_LIMIT", 2)
    monkeypatch.setattr(meta, "_interned", {})

    def program(x, y, w):
        for i in range(1, 5):
            x = x[:, i:] if x.shape[1] > i else x + 1
        return x * 2

    record(program, make())
    record(program, make())


def test_threads_have_recorders_of_their_own():
    from concurrent.futures import ThreadPoolExecutor

    def program(x):
        return torch.nn.functional.layer_norm(x * 2, x.shape)

    def work(i):
        captured = record(program, {"x": torch.ones(i + 1, 3)})
        return torch.equal(captured.module(*captured.inputs)[0], program(torch.ones(i + 1, 3)))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(16)))
    assert Recorder().inputs == []


def test_propagation_leaves_warnings_to_the_program() -> None:
    """What torch says once would be used up, so it is told to say it always, for that span."""
    assert not torch.is_warn_always_enabled()
    with quiet(torch.relu):
        assert torch.is_warn_always_enabled()
    assert not torch.is_warn_always_enabled()
