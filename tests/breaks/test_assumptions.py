"""Branches on data of which one side only raises are no breaks: the graph tells, and eager raises."""

import pytest
import torch
import torch.distributions as D

import stator
from tests.breaks.asserting import asserting, behind_a_break, handled, number, with_effects, writing
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
def test_a_graph_that_writes_breaks(x):
    check(writing, x, torch.zeros(4), fullgraph=False, expect_breaks=1, expect_graphs=None)


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
