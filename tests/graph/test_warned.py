"""Warnings that torch's C code gives name the lines of the program, and are errors where its filters say so."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import stator
from tests.harness import check

X = torch.tensor([1.0, 2.0, 3.0])


def deprecated(x: Any) -> Any:
    y = x + torch.range(0, 2)
    return y * 2


def resized(x: Any) -> Any:
    out = torch.empty(2)
    torch.add(x, 1, out=out)
    return out


def overload(x: Any) -> Any:
    x.add(
        2,
        x,
    )  # nobody needs the result
    return x.sin()


def of_a_kernel(x: Any) -> Any:
    return x[:1].std() + x.reshape(3, 1).var(1)


def as_error(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return x + torch.range(0, 2)
        except UserWarning as warning:
            return x.sin(), str(warning)[:20]


def handled(x: Any) -> Any:
    try:
        return x + torch.range(0, 2)
    except UserWarning as warning:
        return x.sin(), str(warning)[:20]


def of_sizes(x: Any) -> Any:
    x.std(0)  # nobody needs the result
    return x / x.var()


def of_data(x: Any) -> Any:
    x[x > 2].std()  # nobody needs the result
    return x + x[x > 2].var()


@pytest.fixture
def always() -> Any:
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [deprecated, resized, overload, of_a_kernel, as_error, handled])
def test_where_torch_warns(program: Any, backend: str) -> None:
    calls = [(X,), (X + 1,)]
    report = check(program, vary=calls, backend=backend, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert program is as_error or all(one.texts["warnings"] for one in report.compiled)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [of_sizes, of_data])
def test_kernels_that_warn_of_some_sizes(program: Any, backend: str) -> None:
    calls = [(torch.arange(1.0, 1.0 + n),) for n in (4, 5, 3, 6, 1, 3)]
    report = check(program, vary=calls, backend=backend, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert [bool(one.texts["warnings"]) for one in report.compiled].count(True) in (1, 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_filters_that_make_errors(backend: str) -> None:
    import stator

    compiled = stator.compile(handled, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(compiled(X), X + torch.arange(3))
        warnings.simplefilter("error")
        result, text = compiled(X)
        assert torch.equal(result, X.sin()) and text == "torch.range is depre"


def windowed(x: Any, cache: Any, start: Any) -> Any:
    length = x.shape[1]
    cache[:, :, start : start + length] = x.view(2, length, 2, 4).permute(0, 2, 1, 3)
    return cache[:, :, : start + length].sum()


def test_what_a_tracer_says_to_itself_is_not_the_programs() -> None:
    """torch's own note about symbols in its trace is no warning that eager gives."""
    compiled = stator.compile(windowed, backend="aot_eager")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for length in (7, 5, 6):
            compiled(torch.ones(2, length, 8), torch.zeros(2, 2, 16, 4), torch.tensor(3))
    assert heard == []
