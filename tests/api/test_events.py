"""The event stream, the statistics derived from it, and the logs that show it."""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import stator
from stator.errors import Location
from stator.report import events, logs
from stator.report.events import emit


def program():
    pass


@pytest.fixture(autouse=True)
def quiet():
    yield
    logs.set_logs()


def test_counters():
    emit("capture", code=program.__code__, seconds=0.1)
    emit("capture", code=program.__code__, seconds=0.1)
    emit("graph", name="g", operations=3)
    emit("uncompiled", name="g", operations=1)
    emit("skip", code=program.__code__, reason="why")
    emit("break", break_id="async", reason="why")
    emit("recompile", code=program.__code__, reasons=["a"])
    assert events.stats() == {
        "frames_captured": 2,
        "frames_skipped": 1,
        "graph_breaks": 1,
        "graphs": 1,
        "uncompiled": 1,
        "recompiles": 1,
        "captured_codes": [program.__code__],
    }
    events.reset()
    assert events.stats()["graphs"] == 0 and not events.events()


def test_equal_codes_of_two_functions_are_two():
    first, second = (compile("lambda: 1", "f", "eval") for _ in range(2))
    emit("capture", code=first)
    emit("capture", code=second)
    assert first == second and len(events.stats()["captured_codes"]) == 2


def test_subscribers_see_their_kind():
    with events.recording("graph") as graphs, events.recording() as everything:
        assert events.listening("graph") and events.listening("trace")
        emit("graph", name="g")
        emit("skip", reason="r")
    emit("graph", name="later")
    assert [event.name for event in graphs] == ["g"]
    assert [event.kind for event in everything] == ["graph", "skip"]
    assert not events.listening("graph")
    with pytest.raises(AttributeError, match="no field 'nothing'"):
        graphs[0].nothing


def test_the_buffer_is_bounded_and_keeps_no_functions():
    class Thing:
        pass

    thing = Thing()
    alive = weakref.ref(thing)
    emit("graph", name="g", text=lambda thing=thing: str(thing))
    del thing
    gc.collect()
    assert alive() is None
    for number in range(events.CAPACITY + 5):
        emit("trace", number=number)
    assert len(events.events()) == events.CAPACITY
    assert events.events("trace")[-1].number == events.CAPACITY + 4


def test_texts_are_made_only_when_shown(capsys):
    def text():
        raise AssertionError("nobody asked")

    emit("graph", name="g", text=text)
    logs.set_logs("graph_sizes")
    emit("graph", name="g", operations=4, text=text)
    assert capsys.readouterr().err == "[stator.graph_sizes] graph g: 4 operations\n"


SHOWN = {
    "graph_code": ("graph", {"name": "g", "text": lambda: "x + 1"}, "graph g\nx + 1"),
    "guards": ("guards", {"name": "g", "count": 2, "text": "type(x)"}, "guards of g: 2\ntype(x)"),
    "recompiles": ("recompile", {"code": program.__code__, "reasons": ["x changed"]}, "- x changed"),
    "bytecode": ("code", {"name": "e", "text": "def e(): ..."}, "entry function e\ndef e(): ..."),
    "trace": ("trace", {"text": lambda: "LOAD_FAST x"}, "LOAD_FAST x"),
    "graph_breaks": (
        "break",
        {"break_id": "async", "reason": "await", "location": Location(program.__code__)},
        "break [async] await\n  page: docs/breaks/async.md\n  File",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_log(name, capsys):
    kind, fields, expected = SHOWN[name]
    logs.set_logs(name)
    emit(kind, **fields)
    logs.set_logs()
    emit(kind, **fields)
    shown = capsys.readouterr().err
    assert shown.startswith(f"[stator.{name}] ") and shown.count(expected) == 1


def test_skipped_frames_are_in_the_log_of_breaks(capsys):
    logs.set_logs("all")
    emit("skip", code=program.__code__, break_id="async", reason="await")
    assert "running program (" in capsys.readouterr().err


def test_unknown_log():
    with pytest.raises(ValueError, match="Did you mean 'guards'"):
        logs.set_logs("gaurds")


@pytest.mark.parametrize(
    ("names", "message"), [("graph_sizes, guards", "graph g: 1 operations"), ("nothing", "unknown log 'nothing'")]
)
def test_environment_variable(names, message):
    script = "import stator; from stator.report.events import emit; emit('graph', name='g', operations=1)"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(Path(stator.__file__).parent.parent), "STATOR_LOGS": names},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0 and message in run.stderr
