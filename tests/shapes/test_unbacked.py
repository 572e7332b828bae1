"""Numbers and sizes that only the data of tensors tells: one graph, equal to eager for every value."""

from __future__ import annotations

import cProfile
import math

import pytest
import sympy
import torch
import torch.nn.functional as F

import stator
from stator.shapes.symbols import Symbols
from stator.shapes.unbacked import usually
from tests.harness import check

tensor = torch.tensor
FIVE = torch.arange(-2.0, 3.0)


def item(x, t):
    n = t.item()
    return x * n, n + 1, -n, n // 2, n % 3, n


def truth(x, t):
    positive = (t > 0).item()
    return x + positive, positive, bool(t)


def floats(x, t):
    mean = x.mean().item()
    return x * mean, mean + 1.0, float(t)


def numbers(x, t):
    first, second = torch.stack([t, t + 1]).tolist()
    return x[:first] * second, [first, second]


def sizes(x, t):
    n = int(t)
    return torch.zeros(n, 2), torch.arange(n) + 1, x.sum().expand(n), torch.ones(n * 2).view(n, 2), max(n, 1), min(n, 4)


def nonzero(x, t):
    found = (x > t).nonzero()
    return found, found.shape[0], len(found), found.shape, x[found[:, 0]].sum(), torch.where(x > t), torch.argwhere(x)


def masks(x, t):
    y = x.clone()
    y[y > t] = 0
    return x[x > t] * 2, torch.masked_select(x, x < t).sum(), y


def uniques(x, t):
    whole = (x / 2).long()
    return torch.unique(whole), torch.unique_consecutive(whole), torch.unique(whole, return_counts=True)


def repeats(x, t):
    return torch.repeat_interleave(x, torch.arange(5) + t.abs()), torch.bincount(torch.arange(5) + t.abs())


def splits(x, t):
    n = t.abs().item()
    head, tail = torch.split(x, [n, 5 - n])
    return head, tail, torch.narrow(x, 0, n, 5 - n)


def slices(x, t):
    n = t.item()
    return x[:n], x[t:], x[n : n + 2], x[: t + 1] * 2, x[None, n:, None]


def elements(x, t):
    rows = x.view(5, 1).expand(5, 3)
    return x[t], rows[t, 1], rows[:, t], rows[1:, t.item()], rows[t][:2]


def store(x, t):
    x[t] = 7
    x.view(5, 1)[t.item(), 0] += 1
    return x * 2


PROGRAMS = [
    item, truth, floats, numbers, sizes, nonzero, masks, uniques, repeats, splits, slices, elements, store,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_for_every_value(program, backend):
    calls = [(FIVE, tensor(n)) for n in (2, 1, 0, 3)]
    check(program, vary=calls, backend=backend, fullgraph=True, expect_graphs=1, strides=backend == "eager")


@pytest.mark.parametrize("program", [sizes, slices], ids=lambda program: program.__name__)
def test_values_that_no_assumption_holds_for(program):
    """CPython runs the call: bounds count from the end, lie outside, or are sizes that cannot be."""
    check(program, vary=[(FIVE, tensor(n)) for n in (2, -1, 9, -9, 2)], backend="eager", fullgraph=True)


def test_a_cache_is_written_through_tensor_bounds():
    def step(cache, new, start):
        stop = start + new.shape[1]
        cache[:, start:stop] = new
        return (cache[:, :stop] * 2).sum(1)

    cache = torch.zeros(2, 8, 3)
    calls = [(cache, torch.randn(2, 2, 3), tensor(n)) for n in (1, 4, 0, 6)]
    for backend in ("eager", "aot_eager"):
        check(step, vary=calls, backend=backend, fullgraph=True, expect_graphs=1)


def test_gradients():
    def program(w, x, n):
        kept = (x * w)[x > n]
        return (kept * kept.shape[0]).sum() / max(kept.numel(), 1) + w[: n.item()].sum()

    for backend in ("eager", "aot_eager"):
        calls = [(torch.randn(5, requires_grad=True), FIVE, tensor(n)) for n in (1, 0, 2)]
        check(program, vary=calls, backend=backend, fullgraph=True, backward=True, expect_graphs=1)


def branch(x, t):
    n = t.item()
    y = x * n
    if n > 1:
        return y + 1
    return y, n


def loop(x, t):
    total = x
    for i in range(t.item()):
        total = total + i
    return total


def listed(x, t):
    return x + [1.0, 2.0, 3.0, 4.0][t]


def shown(x, t):
    print(f"{t.item()} of {x.sum().item()}", t.item())
    return x + 1


@pytest.mark.parametrize("program", [branch, loop, listed, shown], ids=lambda program: program.__name__)
def test_what_needs_the_value_is_a_break(program):
    check(
        program,
        vary=[(FIVE, tensor(n)) for n in (2, 1, 0, 3)],
        backend="eager",
        fullgraph=False,
        expect_breaks=None,
        expect_recompiles=None,
    )


def test_the_branch_is_named():
    with pytest.raises(stator.Unsupported) as raised:
        stator.compile(lambda x, t: branch(x, t.sum()), backend="eager", fullgraph=True)(FIVE, tensor([2, 0]))
    error, line = raised.value, branch.__code__.co_firstlineno
    assert error.break_id == "data-dependent-branch"
    assert error.remedy.startswith(f"`n > 1` on line {line + 3} feeds `if`; ")


def test_numbers_live_on_behind_a_break():
    def program(x, t, seen):
        n, mean = t.item(), x.mean().item()
        rest = x[x > 0]
        size = rest.shape[0]
        stator.graph_break()
        seen.append(n)
        return x[:n] + mean, n, mean, rest * size, size

    calls = [(FIVE, tensor(n), []) for n in (2, 1, 3)]
    check(program, vary=calls, backend="eager", fullgraph=False, expect_breaks=1, expect_recompiles=None)


def marked(x, y):
    z = x * 2 + y
    return (
        z.sum(0),
        z.relu() @ torch.ones(3, 2),
        x.shape[0],
        torch.zeros(len(y)),
        x[:1],
        x.reshape(-1),
        torch.cat([x, y]),
    )


@pytest.mark.parametrize("mark", ["stator", "torch"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_marked_size_may_be_any(mark, backend):
    from torch._dynamo.decorators import mark_unbacked

    compiled = stator.compile(marked, backend=backend, fullgraph=True)
    for size in (0, 1, 5, 7, 1):
        x, y = torch.randn(size, 3), torch.randn(size, 3)
        for tensor in (x, y):
            (stator.mark_unbacked if mark == "stator" else mark_unbacked)(tensor, 0)
        torch.testing.assert_close(compiled(x, y), marked(x, y))
    assert len(compiled.entries()) == 1


def test_bounds_of_a_marked_size():
    compiled = stator.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(9, 2)
    stator.mark_unbacked(x, 0, max=8)
    with pytest.raises(stator.errors.ConstraintViolation):
        compiled(x)


def checked(x, t):
    n = t.item()
    torch._check(n >= 0)
    torch._check(n <= 5, lambda: "too many")
    if n < 7:
        return x[:n] * 2
    return x


NAMES = {}
exec(  # pytest would write the assertion anew
    """
def asserted(x, t):
    assert t > -1, "negative"
    n = t.item()
    if n > 5:
        raise ValueError(f"{n} is too large")
    return x * n
""",
    NAMES,
)
asserted = NAMES["asserted"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [checked, asserted], ids=lambda program: program.__name__)
def test_assertions_of_the_program(program, backend):
    calls = [(FIVE, tensor(n)) for n in (2, 0, 6, -1, 5)]
    check(program, vary=calls, backend=backend, fullgraph=True, expect_graphs=1)


def test_floats_from_data():
    def program(x, t):
        n, mean = t.item(), x.mean().item()
        half = n / 2
        scaled = x * (1.0 - mean) / (abs(mean) + 0.5)
        return scaled, x * half, half + mean, torch.ones(int(x.abs().sum())), math.ceil(half), 7 // n, 10 / n

    check(program, vary=[(FIVE, tensor(n)) for n in (2, 3, 1)], backend="eager", fullgraph=True, expect_graphs=1)
    check(program, vary=[(FIVE, tensor(n)) for n in (2, 0)], backend="eager", fullgraph=True, expect_graphs=1)


def test_tensors_where_numbers_are_taken():
    def program(x, t):
        made = torch.arange(t), torch.zeros(t, 2), torch.ones((2, t)), x.new_zeros((t,)), x[:2].repeat(t)
        return made, x.narrow(0, t, 2), torch.narrow(x, 0, t, 1)

    check(program, vary=[(FIVE, tensor(n)) for n in (2, 3, 0)], backend="eager", fullgraph=True, expect_graphs=1)


def test_tensors_as_numbers_of_classes_and_steps():
    def program(x, t):
        held = torch.reshape(input=t, shape=(1,)), F.one_hot(input=t, num_classes=5)
        return held, F.one_hot(t, t + 1), F.one_hot(x.abs().long(), num_classes=t + 5), torch.linspace(0, 1, t), t * 2

    check(program, vary=[(FIVE, tensor(n)) for n in (2, 3, 1)], backend="eager", fullgraph=True, expect_graphs=1)


def test_what_was_assumed_is_wrong_after_a_write():
    """CPython takes over with inputs as they were."""

    def early(x, t):
        part = x[: t.item()]
        x += 1
        return part * 2

    check(early, vary=[(FIVE, tensor(n)) for n in (2, -1, 9)], backend="eager", fullgraph=True, expect_graphs=1)

    def late(x, t):
        x += 1
        return x[: t.item()] * 2

    check(late, vary=[(FIVE, tensor(n)) for n in (2, -1, 9)], backend="eager", fullgraph=True, expect_graphs=1)


def test_cost_is_linear():
    """Twice as many numbers: about twice as many nodes and function calls."""

    def program(x, t):
        total = x.sum()
        for n in t.tolist():
            total = total + torch.ones(n).sum()
        return total

    def calls(count):
        profile = cProfile.Profile()
        compiled = stator.compile(program, backend="eager", fullgraph=True)
        arguments = torch.ones(3), torch.ones(count, dtype=torch.int64)
        profile.enable()
        compiled(*arguments)
        profile.disable()
        guards = len(stator.explain(program)(*arguments).guards[0].sentences)
        return sum(row.callcount for row in profile.getstats()), guards

    calls(4)
    (few, guards), (many, more_guards) = calls(16), calls(32)
    assert many < 2.5 * few and more_guards == guards


def test_what_compilers_ask():
    """The extent of a slice between two numbers is neither 1 nor small by accident."""
    from torch.utils._sympy.functions import Max

    symbols = Symbols(lambda: None, unbacked=True)
    first, second = (symbols.env.create_unbacked_symint().node.expr for _ in range(2))
    extent = Max(1, second - first)
    assert usually(symbols.env, sympy.Eq(extent, 1)) is False
    assert usually(symbols.env, sympy.Lt(second, first)) is None


def test_numbers_that_a_compiler_merges():
    """Two masks that are equal become one: what the old numbers were called is one number, too."""
    env = Symbols(lambda: None, unbacked=True).env
    old, older, new = (env.create_unbacked_symint().node.expr for _ in range(3))
    env._rename_unbacked_to(new, old)
    env._rename_unbacked_to(new, older)
    assert env.replace(older) == env.replace(new) == old


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_of_a_leaf_cannot_be_written_to(backend):
    def program(cache, at):
        cache[:, at : at + 2].mul_(2)
        return cache.sum()

    compiled = stator.compile(program, backend=backend)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        compiled(torch.zeros(2, 5, requires_grad=True), tensor(1))
    with torch.no_grad():
        assert compiled(torch.ones(2, 5, requires_grad=True), tensor(1)) == 14


def test_compilers_that_fail_do_not_warn(recwarn):
    """AOTAutograd cannot trace the backward of packed sequences; the program hears nothing of that."""
    lengths, x = tensor([3, 1]), torch.ones(2, 3, 2, requires_grad=True)

    def program(x, lengths):
        return torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data * 2

    stator.compile(program, backend="aot_eager")(x, lengths).sum().backward()
    assert x.grad is not None and not recwarn.list
