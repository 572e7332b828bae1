"""`inspect.signature` of functions of the program, from outside and made inside."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator.eval.machine import Machine
from tests.harness import check

SHARED = [1, 2]


def plain(a: Any, b: int = 3, *rest: Any, c: float = 2.0, d: list[int] = SHARED, **more: Any) -> torch.Tensor:
    return torch.ones(3)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: Any = None, *, flag: bool = True) -> torch.Tensor:
        return x


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


wrapped = passing_on(plain)


def test_functions_from_outside() -> None:
    def program(x: torch.Tensor, model: Model) -> Any:
        signature, of_method = inspect.signature(plain), inspect.signature(model.forward)
        kinds = [parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in signature.parameters.values()]
        parameters = signature.parameters
        shared = parameters["d"].default is SHARED, parameters["a"].default is inspect.Parameter.empty
        bound = of_method.bind(x, flag=False)
        texts = str(signature), str(of_method), str(inspect.signature(wrapped))
        return x + len(parameters), texts, kinds, shared, list(bound.arguments), signature.return_annotation

    check(program, torch.ones(3), Model())


def test_functions_made_inside() -> None:
    def program(x: torch.Tensor) -> Any:
        scale = 2

        def inner(a: Any, b: Any = x, *, c: int = scale) -> Any:
            return a * scale

        parameters = inspect.signature(inner).parameters
        return parameters["b"].default + parameters["c"].default, list(parameters)

    check(program, torch.ones(3))


def test_the_signature_itself_comes_out() -> None:
    check(lambda x: (x + 1, inspect.signature(plain)), torch.ones(3))


def test_what_has_none() -> None:
    def program(x: torch.Tensor) -> Any:
        said = []
        for one in (3, type("Odd", (), {"method": lambda: None})().method):
            try:
                inspect.signature(one)
            except (TypeError, ValueError) as error:
                said.append((type(error), str(error)))
        return x + 1, said

    check(program, torch.ones(3))


def test_what_it_says_is_guarded() -> None:
    def asked(a: Any, b: int = 1) -> None: ...

    def program(x: torch.Tensor) -> Any:
        return x + 1, str(inspect.signature(asked))

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.ones(3))[1] == "(a: 'Any', b: 'int' = 1) -> 'None'"
    asked.__defaults__ = (5,)
    assert compiled(torch.ones(3))[1] == "(a: 'Any', b: 'int' = 5) -> 'None'"
    asked.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    assert compiled(torch.ones(3))[1] == str(inspect.signature(plain))


def test_it_is_not_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    interpret = Machine.interpret
    monkeypatch.setattr(
        Machine, "interpret", lambda self, frame: (files.append(frame.code.co_filename), interpret(self, frame))[1]
    )
    compiled = stator.compile(lambda x: (x + 1, inspect.signature(plain))[0], backend="eager", fullgraph=True)
    compiled(torch.ones(3))
    assert files == [__file__]
