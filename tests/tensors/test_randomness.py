"""Seeds, states and generators inside of compiled functions: the numbers and the state after are those of eager."""

import pytest
import torch

import stator
from tests.harness import check

ANY = {"expect_breaks": None, "expect_graphs": None, "expect_recompiles": None}
KEPT = torch.Generator().manual_seed(5)


def seeded(x):
    torch.manual_seed(3)
    return x + torch.rand(3), torch.randperm(4)


def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        inner = torch.rand(3)
    return x + inner, torch.rand(2)


def put_back(x):
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return x + first, torch.rand(3), torch.equal(state, state)


def own_generator(x):
    generator = torch.Generator()
    generator.manual_seed(4)
    a = torch.randn(3, generator=generator)
    state = generator.get_state()
    b = torch.randint(0, 9, (3,), generator=generator)
    generator.set_state(state)
    return x + a, b, torch.randint(0, 9, (3,), generator=generator), torch.empty(3).normal_(generator=generator)


def chained(x, seed):
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.bernoulli(torch.full((4,), 0.5), generator=generator), isinstance(generator, torch.Generator)


def not_random(x):
    generator = None
    return x + torch.zeros_like(torch.rand(3, generator=generator))


@pytest.mark.parametrize("program", [seeded, forked, put_back, own_generator, not_random], ids=lambda p: p.__name__)
def test_one_graph(program):
    check(program, torch.ones(3), **ANY)  # torch itself replaces `manual_seed` when it imports more of itself


def test_seeds_of_each_call():
    check(chained, torch.ones(3), 7)


def test_a_generator_from_outside():
    def program(x):
        return x + torch.rand(3, generator=KEPT)

    compiled = stator.compile(program, fullgraph=True, backend="eager")
    expected = [program(torch.zeros(3)) for _ in range(3)]
    KEPT.manual_seed(5)
    assert all(torch.equal(compiled(torch.zeros(3)), one) for one in expected)


def test_an_outside_generator_is_seeded():
    def program(x, generator):
        generator.manual_seed(9)
        return x + torch.rand(3, generator=generator)

    compiled = stator.compile(program, fullgraph=True, backend="eager")
    mine, theirs = torch.Generator(), torch.Generator()
    for _ in range(2):
        assert torch.equal(compiled(torch.zeros(3), mine), program(torch.zeros(3), theirs))
        assert torch.equal(mine.get_state(), theirs.get_state())


def test_a_failure_puts_generators_back():
    def program(x, index):
        first = torch.rand(3, generator=KEPT)
        try:
            picked = x[index]
        except IndexError:
            picked = None
        return first, picked, torch.rand(2, generator=KEPT)

    compiled = stator.compile(program, backend="eager")
    found = []
    for run in (program, compiled):
        KEPT.manual_seed(3)
        found.append([str(run(torch.ones(3), torch.tensor([index]))) for index in (1, 7, 1)])
    assert found[0] == found[1]


def escapes(x):
    generator = torch.Generator().manual_seed(2)
    return torch.rand(2, generator=generator), generator.initial_seed()


def returned(x):
    generator = torch.Generator().manual_seed(2)
    return x + torch.rand(3, generator=generator), generator


def of_default(x):
    return x, torch.manual_seed(11).initial_seed(), torch.initial_seed()


def wrong_seed(x):
    try:
        torch.manual_seed("no")
    except (ValueError, TypeError, RuntimeError) as error:
        return type(error).__name__
    return x


@pytest.mark.parametrize("program", [escapes, of_default, wrong_seed], ids=lambda p: p.__name__)
def test_what_cannot_be_in_a_graph_runs_in_python(program):
    check(program, torch.ones(3), fullgraph=False, **ANY)


def test_a_generator_that_is_returned():
    found, generator = stator.compile(returned, backend="eager")(torch.zeros(3))
    expected, theirs = returned(torch.zeros(3))
    assert torch.equal(found, expected) and torch.equal(generator.get_state(), theirs.get_state())


@pytest.mark.parametrize("program", [seeded, own_generator], ids=lambda p: p.__name__)
def test_backends_that_trace_break(program):
    check(program, torch.ones(3), backend="aot_eager", fullgraph=False, **ANY)


@pytest.mark.parametrize(("rate", "saved"), [(0.0, False), (0.5, True)])
def test_attention_saves_the_random_state_only_with_dropout(rate, saved, monkeypatch):
    """A graph that may fail puts random state back, unless it draws nothing."""
    calls = []
    real = torch.get_rng_state
    monkeypatch.setattr(torch, "get_rng_state", lambda: calls.append(1) or real())
    table = torch.randn(7, 8)

    def program(ids):
        x = torch.nn.functional.embedding(ids, table)[None]
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=rate)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    ids = torch.tensor([1, 2, 3])
    for _ in range(2):
        torch.manual_seed(0)
        expected = program(ids)
        torch.manual_seed(0)
        assert torch.equal(compiled(ids), expected)
    assert bool(calls) is saved
    with pytest.raises(IndexError):
        compiled(torch.tensor([1, 2, 9]))
