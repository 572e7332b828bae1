"""Branches on data of which one side only raises are no breaks: the graph tells, and eager raises."""

import pytest
import torch
import torch.distributions as D

import stator
from tests.breaks.asserting import asserting, behind_a_break, handled, number, trained, with_effects, writing
from tests.harness import check

GOOD, BAD = torch.linspace(0.1, 0.9, 4), -torch.linspace(0.1, 0.9, 4)


@pytest.mark.parametrize("program", [asserting, number, handled])
@pytest.mark.parametrize("x", [GOOD, BAD], ids=["good", "bad"])
def test_one_graph(program, x):
    check(program, x, expect_graphs=1)


@pytest.mark.parametrize("x", [GOOD, BAD], ids=["good", "bad"])
def test_effects_happen_once(x):
    check(with_effects, x, [], expect_graphs=1)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_other_backends_tell_too(backend):
    compiled = stator.compile(asserting, fullgraph=True, backend=backend)
    assert torch.equal(compiled(GOOD), GOOD * 2)
    with pytest.raises(AssertionError, match="not positive"):
        compiled(BAD)


def test_behind_a_break():
    check(behind_a_break, vary=[(GOOD,), (BAD,), (GOOD,)], fullgraph=False, expect_breaks=1, expect_graphs=2)


@pytest.mark.parametrize("x", [GOOD, BAD], ids=["good", "bad"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_little_that_was_written_is_put_back(x, backend):
    check(writing, x, torch.zeros(4), backend=backend, expect_graphs=1)


@pytest.mark.parametrize("x", [GOOD, BAD], ids=["good", "bad"])
def test_a_graph_that_writes_much_breaks(x):
    check(writing, x, torch.zeros(70_000, 4), fullgraph=False, expect_breaks=1, expect_graphs=None)


@pytest.mark.parametrize("sizes, breaks", [((4, 3), 0), ((4, 300_000), 1), ((300_000, 300_000), 1)])
def test_checks_before_and_behind_writes(sizes, breaks):
    weights = [torch.arange(float(size)) for size in sizes]
    bad = torch.tensor([1.0, torch.nan])
    check(
        trained,
        vary=[(x, weights, [0.5, 0.25]) for x in (torch.ones(2), bad, torch.ones(2))],
        fullgraph=False,
        expect_breaks=None if breaks else 0,
        expect_graphs=None,
        expect_recompiles=None,
    )


def test_a_rollout_and_its_update_are_one_graph():
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)

    def episode(x):
        logs, rewards = [], []
        for _ in range(3):
            d = D.Categorical(logits=policy(x))
            action = d.sample()
            logs.append(d.log_prob(action))
            rewards.append(1.0 if action.item() == 1 else 0.0)
            x = x + 0.1 * action
        total, returns = 0.0, []
        for reward in reversed(rewards):
            total = reward + 0.9 * total
            returns.insert(0, total)
        loss = -(torch.stack(logs) * torch.tensor(returns)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), rewards

    check(episode, torch.ones(4), calls=3, expect_graphs=None, expect_recompiles=None)


def normal(x):
    d = D.Normal(x, x.exp())
    sample = d.rsample((2,))
    return sample, d.log_prob(sample), d.entropy(), D.kl_divergence(d, D.Normal(torch.zeros(4), torch.ones(4)))


def categorical(x):
    d = D.Categorical(logits=x)
    action = d.sample()
    return action, d.log_prob(action), d.entropy()


def squashed(x):
    d = D.TransformedDistribution(D.Normal(x, x.exp()), [D.transforms.TanhTransform(cache_size=1)])
    action = d.rsample()
    return action, D.Independent(d, 1).log_prob(action)


def bernoulli(x):
    d = D.Bernoulli(x)
    return d.log_prob(d.sample()), D.Uniform(x, x + 1).rsample(), D.Beta(x, x + 1).log_prob(x)


@pytest.mark.parametrize("program", [normal, categorical, squashed, bernoulli])
def test_distributions_are_validated_in_the_graph(program):
    check(program, GOOD, expect_graphs=1)


def test_a_parameter_out_of_its_bounds():
    check(lambda x: D.Normal(x, x).log_prob(x), BAD, expect_graphs=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_put_back_can_still_go_backward(backend):
    """Autograd keeps tensors for backward and counts the writes to them."""

    def program(x, state):
        if x.sum() > 100:
            state += 1
            return x * state
        raise ValueError("small")

    compiled = stator.compile(program, backend=backend)
    state, weight = torch.full((2,), 3.0), torch.ones(2, requires_grad=True)
    loss = (weight * state).sum()
    with pytest.raises(ValueError, match="small"):
        compiled(torch.ones(2), state)
    loss.backward()
    assert weight.grad.tolist() == [3, 3]
    assert state._version == 0
