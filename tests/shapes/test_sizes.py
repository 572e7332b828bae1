"""Sizes that change become symbols: at most two compilations for each, and results as in eager."""

from __future__ import annotations

import math

import pytest
import torch

import stator
from tests.harness import check

SIZES = (4, 5, 6, 7, 9, 30)


def rows(*sizes: int) -> list[tuple[torch.Tensor]]:
    return [(torch.arange(3.0 * n).reshape(n, 3),) for n in sizes or SIZES]


def sweep(fn, recompiles: int = 1, **options):
    graphs = recompiles + 1
    check(fn, vary=rows(), expect_recompiles=recompiles, expect_graphs=graphs, **options)


def test_metadata():
    def program(x):
        same = x.shape == x.size(), x.shape[0] == len(x)
        return (
            x.sum(),
            x.shape,
            x.size(0),
            x.numel(),
            len(x),
            x.shape.numel(),
            x.shape[:1],
            list(x.shape),
            x.nbytes,
            same,
        )

    sweep(program)


def test_what_an_int_is():
    def program(x):
        n = x.shape[0]
        return (
            x + 1,
            isinstance(n, int),
            isinstance(n, bool),
            type(n) is int,
            n.__class__ is int,
            isinstance(n, torch.SymInt),
        )

    sweep(program)


def test_views_and_factories():
    def program(x):
        n = x.shape[0]
        y = x.reshape(-1).view(n, -1).expand(2, n, 3).permute(1, 0, 2).reshape(n * 2, 3)
        return y, torch.zeros(n + 1), torch.full((n,), n), x.new_ones(n, n), torch.arange(n), x.t().contiguous()

    sweep(program)


def test_indexing():
    def program(x):
        n = x.shape[0]
        y = x.clone()
        y[0] = n
        return x[: n // 2], x[n - 1], x[-1], x[1:], y, x.narrow(0, 1, n - 2)

    sweep(program)


def test_arithmetic_with_tensors():
    def program(x):
        return x / x.shape[0], x * len(x) + x.numel(), -x.size(0) + x.mean(), x.sum() // x.shape[0], x**2 % len(x)

    sweep(program)


def test_arithmetic_on_ints():
    def program(x):
        n = x.shape[0]
        m = (n * 2 - 1) // 2 + n % 1000 + n**2 - -n
        return x.sum(), m, sum(x.shape), math.prod(x.shape), max(n, 1), min(n, 1000), abs(n), +n, int(n), round(n)

    sweep(program)


def test_strides_follow_sizes():
    def program(x):
        return x.t().contiguous() @ x, x.stride(), x.t().stride(), x.is_contiguous()

    check(program, vary=[(torch.randn(3, n).t(),) for n in SIZES], expect_recompiles=1, expect_graphs=2)
    check(program, vary=[(torch.randn(2, n)[:, :3],) for n in (3, 8)], expect_recompiles=1, expect_graphs=2)


def test_a_branch_on_a_size_is_guarded_at_its_line():
    def program(x):
        if x.shape[0] > 6:
            return x + 1
        return x - 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for (x,) in rows():
        assert torch.equal(compiled(x), program(x))
    assert len(compiled.entries()) == 3  # one with constants, one for each way


def test_two_sizes_that_must_agree():
    def program(x, y):
        return x + y

    pairs = [(torch.randn(n), torch.randn(n)) for n in SIZES]
    check(program, vary=pairs, expect_recompiles=1, expect_graphs=2)
    broadcast = [(torch.randn(n, 1), torch.randn(1, n)) for n in SIZES]
    check(program, vary=broadcast, expect_recompiles=1, expect_graphs=2)


def test_sizes_that_change_one_after_the_other():
    def program(x):
        return torch.softmax(x, -1) @ x.transpose(0, 1)

    shapes = [(4, 5), (6, 5), (6, 7), (8, 9), (3, 11)]
    check(program, vary=[(torch.randn(s),) for s in shapes], expect_recompiles=1, expect_graphs=2, tolerance=1e-6)


def test_zero_is_a_constant_and_one_is_none():
    def program(x):
        return x.sum(0), x.shape[0]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for n in (4, 5, 1, 0, 6, 1, 0, 7):
        x = torch.randn(n, 3)
        got, want = compiled(x), program(x)
        assert torch.equal(got[0], want[0]) and got[1] == want[1]
    assert len(compiled.entries()) == 3


def test_native_code_gets_a_guarded_number():
    def program(x):
        n = x.shape[0]
        total = 0
        for i in range(n):
            total += i
        table = {n: "n", (n, 1): "t"}
        return (
            x + total,
            [0] * n,
            f"{n:03d} {x.shape}",
            "%d" % n,
            hash(n),
            table,
            n in [4, 6],
            str(n),
            n / 2,
            2**n,
            n << 1,
        )

    check(program, vary=rows(4, 5, 6, 4), expect_recompiles=2, expect_graphs=3)


def test_ints_escape_into_outside_objects():
    class Holder:
        pass

    holder = Holder()

    def program(x, seen):
        holder.rows = x.shape[0] * 2
        seen.append(x.shape[0])
        seen.append(x.shape)
        return {"n": x.shape[0], "nested": [(x.shape[0] + 1,)]}

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for (x,) in rows():
        seen: list[object] = []
        result = compiled(x, seen)
        assert holder.rows == 2 * len(x) and type(holder.rows) is int
        assert seen == [len(x), x.shape] and type(seen[1]) is torch.Size
        assert result == {"n": len(x), "nested": [(len(x) + 1,)]}
    assert len(compiled.entries()) == 2


def test_dynamic_true_is_symbolic_at_once():
    check(lambda x: x.reshape(-1) * x.shape[0], vary=rows(), expect_recompiles=0, expect_graphs=1, dynamic=True)


def test_dynamic_true_keeps_parameters():
    model = torch.nn.Linear(3, 4)
    compiled = stator.compile(model, backend="eager", fullgraph=True, dynamic=True)
    for (x,) in rows():
        assert torch.equal(compiled(x), model(x))
    assert stator.stats()["graphs"] == 1


def test_dynamic_false_never_is():
    check(lambda x: x.reshape(-1), vary=rows(4, 5, 6, 7), expect_recompiles=3, expect_graphs=4, dynamic=False)


def test_marks():
    def program(x):
        return x * 2

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for (x,) in rows():
        stator.mark_dynamic(x, 0)
        assert torch.equal(compiled(x), x * 2)
    assert len(compiled.entries()) == 1
    stator.reset()
    for (x,) in rows():
        stator.maybe_mark_dynamic(x, -2)
        compiled(x)
    assert len(compiled.entries()) == 1
    stator.reset()
    for (x,) in rows(4, 5, 6):
        stator.mark_static(x, 0)
        compiled(x)
    assert len(compiled.entries()) == 3


def test_torchs_marks():
    compiled = stator.compile(lambda x: x * 2, backend="eager", fullgraph=True)
    for (x,) in rows():
        torch._dynamo.mark_dynamic(x, 0, min=2, max=100)
        compiled(x)
    assert len(compiled.entries()) == 1


def test_bounds():
    compiled = stator.compile(lambda x: x * 2, backend="eager", fullgraph=True)
    (x,) = rows(4)[0]
    stator.mark_dynamic(x, 0, min=3, max=6)
    compiled(x)
    for n in (5, 6, 7, 2):
        assert compiled(torch.ones(n, 3)).shape == (n, 3)
    assert len(compiled.entries()) == 2
    (x,) = rows(9)[0]
    stator.mark_dynamic(x, 0, min=3, max=6)
    stator.reset()
    with pytest.raises(stator.ConstraintViolation, match="within 3 and 6"):
        compiled(x)


def test_a_marked_size_that_becomes_a_constant_is_an_error():
    def program(x):
        return x * len([0] * x.shape[0])

    (x,) = rows(4)[0]
    stator.mark_dynamic(x, 0)
    with pytest.raises(stator.ConstraintViolation, match="works for 4 only") as caught:
        stator.compile(program, backend="eager")(x)
    assert "len([0] * x.shape[0])" in str(caught.value)


def test_inputs_that_share_memory():
    def program(x, y):
        x.add_(1)
        return x + y

    def pair(n):
        base = torch.randn(n, 3)
        return base, base.view(n, 3)

    for backend in ("eager", "aot_eager"):
        vary = [pair(n) for n in (4, 5, 6)]
        check(program, vary=vary, expect_recompiles=None, expect_graphs=2, backend=backend)


def test_a_capture_that_fails_with_symbols_is_tried_without():
    import pickle

    def program(x):
        return x + 1, pickle.dumps([x.shape[0]])

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for (x,) in rows(4, 5, 6):
        assert compiled(x)[1] == pickle.dumps([len(x)])


def test_numbers_drawn_without_a_generator():
    """`generator=None` is what a library passes on."""
    sweep(
        lambda x: (
            torch.randn(x.shape, generator=None, layout=torch.strided),
            torch.randint(0, 4, x.shape, generator=None),
            torch.randperm(len(x), generator=None),
        )
    )


def test_writes_and_indices():
    """Statistics are written before an index that may be out of range: sizes are not looked at for that."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x, index):
            y = x[index]
            return self.norm(x)[index] + y

    calls = [(torch.randn(n, 3), torch.randint(n, (m,))) for n, m in ((4, 6), (5, 6), (7, 8), (6, 3), (9, 4))]
    check(Model(), vary=calls, expect_recompiles=1, expect_graphs=2)
