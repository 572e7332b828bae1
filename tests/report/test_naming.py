"""Reports speak in the words of the program: its variables, its functions, its lines."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.report.events import recording


def reasons(program: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> list[tuple[str, str]]:
    """Name and last reason of each recompilation: why the latest entry does not fit."""
    compiled = stator.compile(program, backend="eager", **options)
    with recording("recompile") as seen:
        for args in calls:
            compiled(*args)
    return [(event.name, event.reasons[-1]) for event in seen]


def line_of(function: Callable[..., Any], number: int) -> int:
    return function.__code__.co_firstlineno + number


def switched(x: Any, *rest: Any, mode: str = "a") -> Any:
    return x + 1 if rest[0] == "plus" else x - 1


def test_arguments_have_their_names() -> None:
    x = torch.ones(2)
    ((name, reason),) = reasons(switched, (x, "plus"), (x, "minus"))
    assert (name, reason) == ("switched", "rest[0] is 'plus', now 'minus'")
    ((_, reason),) = reasons(lambda x, kind: x.to(kind), (x, torch.int8), (x, torch.float64))
    assert reason == "kind is torch.int8, now torch.float64"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = {"act": "relu"}

    def forward(self, x: Any, scale: str = "one") -> Any:
        return getattr(torch, self.config["act"])(x)


def test_a_module_is_its_forward() -> None:
    net = Net()
    compiled = stator.compile(net, backend="eager")
    compiled(torch.ones(2))
    net.config["act"] = "sin"
    with recording("recompile", "capture") as seen:
        compiled(torch.ones(2))
        compiled(torch.ones(2), "two")
    first, second = [event for event in seen if event.kind == "recompile"]
    where = f"(test_naming.py:{line_of(Net.forward, 1)} in Net.forward)"
    assert first.name == "Net.forward" and first.code is Net.forward.__code__
    assert first.reasons == [f"self.config['act'] is 'relu', now 'sin' {where}"]
    assert second.reasons[0].startswith("the call has 1 positional arguments")
    assert Net.forward.__code__ in stator.stats()["captured_codes"]


class Callable_:
    def __call__(self, x: Any, power: str) -> Any:
        return x * len(power)


def test_callables_and_methods() -> None:
    x = torch.ones(2)
    for program in (Callable_(), Callable_().__call__):
        assert [reason for _, reason in reasons(program, (x, "a"), (x, "bb"))] == ["power is 'a', now 'bb'"]


def helper(x: Any, how: str) -> Any:
    stator.graph_break()
    return x + 1 if how == "plus" else x - 1


def outer(x: Any, how: str, other: str) -> Any:
    y = helper(x * 2, how)
    return y.sin() if other == "sin" else y.cos()


def test_variables_behind_a_break() -> None:
    x = torch.ones(2)
    told = reasons(outer, (x, "plus", "sin"), (x, "minus", "sin"), (x, "minus", "cos"))
    first, second = (row for row in told if "behind" in row[0])
    line = line_of(helper, 1)
    assert first == (
        f"outer behind the break on line {line}",
        f"how@helper is 'plus', now 'minus' (test_naming.py:{line_of(helper, 2)} in helper)",
    )
    assert second[1] == f"other is 'sin', now 'cos' (test_naming.py:{line_of(outer, 2)} in outer)"


def closing(how: str) -> Any:
    def inner(x: Any) -> Any:
        return x + 1 if how == "plus" else x - 1

    def change(new: str) -> None:
        nonlocal how
        how = new

    return inner, change


def test_variables_of_enclosing_functions() -> None:
    inner, change = closing("plus")
    compiled = stator.compile(inner, backend="eager")
    compiled(torch.ones(2))
    change("minus")
    with recording("recompile") as seen:
        compiled(torch.ones(2))
    assert seen[0].reasons[0].startswith("how is 'plus', now 'minus' (")


def test_the_warning_is_about_the_call() -> None:
    compiled = stator.compile(lambda x, s: {s.upper(): x}, backend="eager", options={"recompile_limit": 2})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for text in ("a", "bb", "ccc"):
            compiled(torch.ones(2), text)
    (warning,) = [one for one in said if "eagerly from now on" in str(one.message)]
    assert warning.filename == __file__
    assert "s.upper() is 'BB', now 'CCC'" in str(warning.message)


def test_marks_name_the_argument() -> None:
    x = torch.ones(4, 2)
    stator.mark_dynamic(x, 0)
    with pytest.raises(stator.ConstraintViolation, match=r"^size of dimension 0 of tokens|^tokens"):
        stator.compile(lambda tokens: tokens.view(4, 2).sum(), backend="eager")(x)


class Broken(nn.Module):
    def forward(self, x: Any) -> Any:
        stator.graph_break()
        y = x.sin() + 1
        stator.graph_break()
        return y


def test_frames_between_call_and_forward_are_not_shown() -> None:
    told = stator.explain(nn.Sequential(Broken()))(torch.ones(2))
    for reason in told.breaks:
        assert [place.function for place in reason.stack] == ["Sequential.forward", "Broken.forward"]
    assert told.graphs[0].name == "forward"
