"""Texts with numbers that only data tells are made when the graph has run."""

from __future__ import annotations

import functools
import json
import logging
import operator
from typing import Any

import pytest
import torch

import stator
from tests.breaks.counting import graphs_and_breaks
from tests.harness import check

CALLS = [(torch.tensor(data),) for data in ([1.0, 0.5], [1.0, -2.0], [float("nan"), 1.0], [1e10, 3.0])]
LOGGER = logging.getLogger("formatting")


def printed(x: Any) -> Any:
    y = x + 1
    print(f"sum {y.sum():.2f} of {y.shape}")
    print(f"{y.mean().item():.3f}", "a" + f"{y.sum()}", f"{y.max().item()!r:>12}|")
    return y * 2


def printed_in_a_loop(x: Any) -> Any:
    for step in range(3):
        x = x * 0.5
        print(f"step {step}: {x.sum().item():.3f} {x.norm():.2e}")
    return x


def logged(x: Any) -> Any:
    LOGGER.warning(f"norm {x.norm().item():.3f}")  # noqa: G004
    return x * 2


def kept(x: Any) -> Any:
    text = f"{x.sum().item():.2f}"
    return x + 1, text, [text], {"key": (text, 1)}, type(text), isinstance(text, str), isinstance(text, (int, float))


def percent(x: Any) -> Any:
    value = x.sum().item()
    return x + 1, "%.3f|%s|%r|%5.1e" % (value, value, value, value), "%s" % value, "%d items %.2f" % (3, value)


def formats(x: Any) -> Any:
    value, width = x.sum().item(), 8
    texts = "{:.2f} {} {!r:>9}".format(value, "a", value), format(value, ".2f"), str(value), repr(value)
    return x + 1, texts, f"{value:{width}.2f}", f"{str(value):>30}"


def counts(x: Any) -> Any:
    number = (x > 0).sum().item()
    return x + 1, f"{number}", "%d of %d" % (number, len(x)), f"{number / len(x):.1%}", f"{number:,}", f"{number:05d}"


def types(x: Any) -> Any:
    return x, f"{x.double().sum()}", f"{x.half().sum()}", f"{x.bfloat16().sum():.3f}", f"{(x > 0).sum()}"


def grown(x: Any) -> Any:
    text = ""
    for i in range(250):
        text += f"{x.sum().item() + i:.1f},"
    return x + 1, text


def joined(x: Any) -> Any:
    return x + 1, ", ".join([f"{value:.1f}" for value in x]), "".join([str(value.item()) for value in x])


@pytest.mark.parametrize(
    "program", [printed, printed_in_a_loop, logged, kept, percent, formats, counts, types, grown, joined]
)
def test_texts_wait(program: Any) -> None:
    check(program, vary=CALLS, expect_recompiles=None)


def test_logging_needs_one_graph() -> None:
    assert graphs_and_breaks(printed_in_a_loop, CALLS) == (1, 0)


def looked_up(x: Any) -> Any:
    text = f"{x.sum().item():.2f}"
    return x + {"1.50": 1}.get(text, 0), text in {"1.50"}, len(text), hash(text) == hash(str(text))


def looked_into(x: Any) -> Any:
    text = f"{x.sum().item():.2f}"
    compared = text == "1.50", text < "z", text in "1.50x", text is text, bool(text)
    return x + 1, text.upper(), text * 2, text[0], [c for c in text], compared, float(text), text.split(".")


def given_to_c(x: Any) -> Any:
    text = f"{x.sum().item():.1f}"
    folded = operator.concat("a", text), functools.reduce(operator.concat, [text, text]), list(map(len, [text]))
    return x + 1, folded, json.dumps({"a": text, "b": [text]}), getattr(x, text, None), sorted([text, "1"])


def raised(x: Any) -> Any:
    try:
        raise ValueError(f"bad {x.sum().item():.1f}")
    except ValueError as error:
        return x + 1, str(error), error.args


def wrong(x: Any) -> Any:
    texts = []
    for make in (lambda v: f"{v:zz}", lambda v: "%d" % v, lambda v: "%d %d" % v, lambda v: f"{v:c}"):
        try:
            texts.append(make(x.sum().item()))
        except (ValueError, TypeError, OverflowError, IndexError) as error:
            texts.append(str(error))
    return x + 1, texts


def options(x: Any) -> Any:
    text = f"{x.sum().item():.1f}"
    print("a", "b", sep=text, end=text)
    return x + 1


def carried(x: Any) -> Any:
    text = f"{x.sum().item():.1f}"
    stator.graph_break()
    return x + 1, text, f"{text:>8}"


def other_tensors(x: Any) -> Any:
    return x, f"{x}", f"{x.sum()!r}", f"{x.sum().bool()}", f"{torch.nn.Parameter(x.sum())}"


@pytest.mark.parametrize(
    "program", [looked_up, looked_into, given_to_c, raised, wrong, options, carried, other_tensors]
)
def test_what_needs_the_text_is_a_break(program: Any) -> None:
    check(program, vary=CALLS, fullgraph=False, expect_breaks=None, expect_recompiles=None)
