"""torch warns once in a process of `float(x)` where x requires grad: also in compiled code, in the program's line."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import stator
from stator.runtime import backward_warning, scalar_warning


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scalar_warning, "given", [])
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def scaled(x: Any) -> Any:
    y = x * 2
    return y * float(y[0])


def handled(x: Any) -> Any:
    try:
        return x * float(x[0])
    except UserWarning as warning:
        return str(warning)


def warned(program: Callable[..., Any]) -> list[tuple[str, str, int]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program(torch.ones(3, requires_grad=True))
    return [(str(row.message), row.filename, row.lineno) for row in found]


def test_in_its_line() -> None:
    expected = warned(scaled)
    compiled = stator.compile(scaled, backend="eager", fullgraph=True)
    assert len(expected) == 1 and warned(compiled) == expected == warned(compiled)
    torch.set_warn_always(False)
    assert warned(compiled) == []


def test_as_an_error() -> None:
    """Where the program can handle it, CPython gives it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.ones(3, requires_grad=True)
        assert stator.compile(handled, backend="eager")(x) == handled(x)


def twice(x: Any) -> Any:
    (x**3).sum().backward(create_graph=True)
    return x.grad.detach() * 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_of_backward_that_can_be_differentiated(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backward_warning, "given", [])
    compiled = stator.compile(twice, backend=backend)
    expected = warned(twice)
    assert len(expected) == 1 and warned(compiled) == expected == warned(compiled)
    torch.set_warn_always(False)
    assert warned(compiled) == []


def searched(x: Any) -> Any:
    return torch.searchsorted(x.repeat(3, 1).t().detach(), x.repeat(3, 1).t().detach())


def decomposed(x: Any) -> Any:
    return torch.cholesky(torch.diag(x.detach()) + 1)


def cast(x: Any) -> Any:
    return (x.detach() * 1j).to(torch.float32)


@pytest.mark.parametrize("program", [searched, decomposed, cast])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_that_only_kernels_give(program: Any, backend: str) -> None:
    expected = warned(program)
    assert expected and warned(stator.compile(program, backend=backend)) == expected
