"""Seeds that change from call to call, as in `torch.manual_seed(step)`."""

import numpy as np
import pytest
import torch

import stator

OWN = torch.Generator()


def of_torch(x, i):
    torch.manual_seed(i)
    return x + torch.rand(2)


def of_a_size(x, i):
    torch.random.manual_seed(42 + x.shape[0] * i)
    return torch.randperm(5)


def of_a_new_generator(x, i):
    return x + torch.rand(2, generator=torch.Generator().manual_seed(i * 3 + 1))


def of_a_generator_from_outside(x, i):
    OWN.manual_seed(-i)
    return x + torch.rand(2, generator=OWN)


def from_data(x, i):
    torch.manual_seed(int(x.sum()))
    return torch.rand(1)


def run(program, backend, calls=6):
    """Equal to eager, with the same random states afterwards."""
    compiled = stator.compile(program, backend=backend)
    for i in range(3, 3 + calls):
        found = []
        for function in (program, compiled):
            OWN.manual_seed(0)
            torch.manual_seed(0)
            np.random.seed(0)
            result = function(torch.full((2,), float(i)), i)
            found.append((result, torch.get_rng_state(), OWN.get_state(), torch.tensor(np.random.rand())))
        for one, other in zip(*found, strict=True):
            assert torch.equal(one, other)


PROGRAMS = [of_torch, of_a_size, of_a_new_generator, of_a_generator_from_outside, from_data]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_compilations(program):
    run(program, "eager")
    assert stator.stats()["graphs"] <= 2
    assert stator.stats()["graph_breaks"] == 0


@pytest.mark.parametrize("program", [of_torch, of_a_generator_from_outside])
def test_tracing_backends(program):
    run(program, "aot_eager")


def of_numpy(x, i):
    np.random.seed(i)
    return x + np.random.rand()


def of_a_new_generator_of_numpy(x, i):
    return x * 2 + np.random.default_rng(i).random()


@pytest.mark.parametrize("program", [of_numpy, of_a_new_generator_of_numpy])
def test_seeds_of_numpy_are_breaks(program):
    run(program, "eager", calls=12)
    assert stator.stats()["graph_breaks"] <= 3
    assert stator.stats()["recompiles"] <= 5
