"""`STATOR_LOGS=graph_breaks`: each place once, with everything needed to act on it."""

import pytest
import torch

import stator
from stator.errors import Location
from stator.report import logs
from stator.report.events import emit


@pytest.fixture(autouse=True)
def log():
    logs.set_logs("graph_breaks")
    yield
    logs.set_logs()


def inner(x):
    return x.sum() > 0


def outer(x):
    if bool(inner(x)):
        return x
    return -x


def test_a_break_is_reported_once_until_reset(capsys):
    compiled = stator.compile(outer, backend="eager")
    compiled(torch.ones(2))
    first = capsys.readouterr().err
    line = outer.__code__.co_firstlineno + 1
    assert first.startswith("[stator.graph_breaks] ")
    assert f"  remedy: `bool(inner(x))` on line {line} feeds `if`; " in first
    assert "\n  page: docs/breaks/data-dependent-branch.md\n" in first
    assert f'  File "{__file__}", line {line}, in outer\n    if bool(inner(x)):\n' in first
    compiled(torch.ones(3))
    stator.compile(outer, backend="eager")(torch.ones(2))
    assert capsys.readouterr().err == ""
    stator.reset()
    compiled(torch.ones(2))
    assert capsys.readouterr().err == first


def test_stack_outermost_first(capsys):
    def deep(x):
        return stator.graph_break()

    def program(x):
        return deep(x)

    stator.compile(program, backend="eager")(torch.ones(2))
    shown = capsys.readouterr().err
    assert 0 < shown.index("return deep(x)") < shown.index("return stator.graph_break()")


@pytest.mark.parametrize("kind", ["break", "skip"])
def test_another_id_or_place_is_another_report(kind, capsys):
    places = [Location(inner.__code__), Location(outer.__code__)]
    for _ in range(2):
        for place in places:
            for break_id in ("async", "thread"):
                emit(kind, break_id=break_id, reason="why", remedy="wait", location=place, stack=tuple(places))
    shown = capsys.readouterr().err
    assert shown.count("remedy: wait") == 4 and shown.count("docs/breaks/async.md") == 2


def test_a_skip_without_a_place(capsys):
    for _ in range(2):
        emit("skip", code=inner.__code__, reason="KeyError came out of the function")
    shown = capsys.readouterr().err
    assert shown.count("KeyError came out") == 1 and "[None]" not in shown and "page" not in shown
