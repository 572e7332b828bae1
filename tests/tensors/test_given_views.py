"""Views from outside that autograd does not let anybody write to: its errors come where the program makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator


def leaf() -> Any:
    return torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)


def of_a_leaf() -> Any:
    return leaf()[:2]


def of_an_operation() -> Any:
    return (leaf() * 2)[:2]


def one_of_several() -> Any:
    return (leaf() * 2).chunk(2)[0]


def no_view() -> Any:
    return leaf()[:2] * 2


def outdated() -> Any:
    whole = leaf() * 2
    part = whole.chunk(2)[0]
    whole.add_(1)
    return part


VIEWS = [of_a_leaf, of_an_operation, one_of_several, no_view, outdated]


def handled(v: Any) -> Any:
    try:
        v.add_(3)
    except RuntimeError as error:
        return str(error), torch.ones(2) * 2
    return v * 2


def unhandled(v: Any) -> Any:
    v[0] = 3
    return v * 2


def written_before(pair: Any) -> Any:
    part, whole = pair
    whole.add_(1)
    try:
        return part * 2
    except RuntimeError as error:
        return str(error), whole * 2


@pytest.mark.parametrize("made", VIEWS)
@pytest.mark.parametrize("program", [handled, unhandled])
def test_writes(program: Callable[[Any], Any], made: Callable[[], Any]) -> None:
    """The compiled function is given the other kinds before."""
    compiled = stator.compile(program, backend="eager")
    for one in (*VIEWS, made):
        mine, expected = outcome(compiled, one()), outcome(program, one())
        assert mine == expected


def outcome(function: Callable[[Any], Any], view: Any) -> Any:
    try:
        return repr(function(view))
    except RuntimeError as error:
        names = []
        trace = error.__traceback__
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        return str(error), names


def test_a_view_whose_memory_was_written_to() -> None:
    def given() -> Any:
        whole = leaf() * 2
        return whole.chunk(2)[0], whole

    compiled = stator.compile(written_before, backend="eager")
    for _ in range(2):
        assert repr(compiled(given())) == repr(written_before(given()))


def test_what_may_be_written_is_one_graph() -> None:
    compiled = stator.compile(unhandled, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(of_an_operation())) == repr(unhandled(of_an_operation()))


def before_it_needs_a_gradient(x: Any) -> Any:
    view = x.t()
    x.requires_grad_()
    try:
        view[None].add_(2)
    except RuntimeError as error:
        return str(error), view.requires_grad, view.is_leaf, view * 2
    return view


def test_a_view_made_before_its_base_needs_a_gradient() -> None:
    compiled = stator.compile(before_it_needs_a_gradient, backend="eager")
    for _ in range(2):
        mine, expected = compiled(torch.ones(2, 2)), before_it_needs_a_gradient(torch.ones(2, 2))
        assert repr(mine) == repr(expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_memory_that_is_too_small(backend: str, dynamic: bool | None) -> None:
    def program(x: Any) -> Any:
        try:
            x.as_strided((2, 2), (1, 1))
        except RuntimeError as error:
            return str(error)[:40], x + 1
        return x + 1

    compiled = stator.compile(program, backend=backend, dynamic=dynamic)
    whole = torch.ones(8)
    for x in (whole[:3], whole[:2], whole[:2].clone(), torch.ones(1), whole[:1], whole[:4]):
        assert repr(compiled(x)) == repr(program(x))
