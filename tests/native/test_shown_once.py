"""A warning that was shown once at its place is not shown again because something was captured meanwhile."""

import warnings

import numpy as np
import pytest
import torch

import stator


def kernels(x):
    return torch.fft.rfft(torch.special.i0(x).cumsum(0)).abs()


def settings(x):
    return x + torch.get_default_dtype().itemsize + torch.is_autocast_enabled("cpu")


def arrays(x):
    return x + torch.from_numpy(np.arange(4.0, dtype=np.float32) * 2)


def array_inputs(x):
    return torch.from_numpy(x.numpy() * 2)


def reductions(x):
    return x[:1].std()


def tells():
    warnings.warn("tell me once", stacklevel=1)


@pytest.mark.parametrize("program", [kernels, settings, arrays, array_inputs])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_by_captures(program, backend):
    compiled = stator.compile(program, backend=backend)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        for _ in range(3):
            tells()
            compiled(torch.ones(4))
        tells()
    assert [str(row.message) for row in heard] == ["tell me once"]


def test_by_hits_that_warn():
    compiled = stator.compile(reductions, backend="aot_eager")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        for _ in range(4):
            tells()
            compiled(torch.ones(4))
    assert [str(row.message) for row in heard].count("tell me once") == 1


def test_filters_of_the_program():
    """Who changes filters is told again, as ever."""

    def program(x):
        warnings.filterwarnings("default", "something else")
        return x + 1

    def outcome(function):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("default")
            for _ in range(3):
                tells()
                function(torch.ones(4))
        return [str(row.message) for row in heard]

    assert outcome(stator.compile(program, backend="eager")) == outcome(program)
