"""Functions of torch that read its state and warn that they are old: the program hears it in its line, each time."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from tests.harness import check

X = torch.tensor([1.0, 2.0, 3.0])


def test_warned_on_each_call() -> None:
    def cast(x: Any) -> Any:
        if torch.get_autocast_gpu_dtype() is torch.float16:
            return x + 1
        return x - 1

    report = check(cast, X, calls=3)
    assert all(len(seen.texts["warnings"]) == 1 for seen in report.compiled)


def test_ignored() -> None:
    def cast(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = torch.get_autocast_cpu_dtype()
        return x.to(kind) * 2

    check(cast, X)


def test_recorded() -> None:
    def count(x: Any) -> Any:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            enabled = torch.is_autocast_cpu_enabled()
        return x * len(heard), enabled

    check(count, X, fullgraph=False, expect_breaks=None)


def test_raised() -> None:
    def caught(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                torch.is_autocast_cpu_enabled()
            except DeprecationWarning as error:
                return x + 1, str(error)

    check(caught, X, fullgraph=False, expect_breaks=None)
