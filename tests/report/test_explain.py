"""`stator.explain`: one call, told as data."""

import threading

import pytest
import torch
from torch import nn

import stator
from stator.report import events
from stator.runtime import turns


def clean(x, n=1):
    return (x.sin() + n).sum()


def broken(x):
    y = x.sin()
    if y.sum() > 0:
        return y
    return -y


def test_graphs_guards_and_result():
    told = stator.explain(clean)(torch.zeros(3), n=2)
    assert told.result.item() == 6
    (graph,) = told.graphs
    assert graph.name == "clean" and graph.operations == 3
    assert graph.ops == ("sin", "operator.add", "sum") and "sin" in graph.code
    assert not told.breaks and not told.skips and not told.recompiles
    (guards,) = told.guards
    assert guards.count == len(guards.sentences) > 2
    assert any("torch.float32" in sentence for sentence in guards.sentences)
    assert set(told.seconds) == {"capture", "backend", "call"} and all(each >= 0 for each in told.seconds.values())


def test_names_of_dynamo():
    told = stator.explain(clean)(torch.zeros(3))
    assert (told.graph_count, told.graph_break_count, told.op_count) == (1, 0, 3)
    assert told.ops_per_graph == [["sin", "operator.add", "sum"]]
    assert told.break_reasons == [] and told.out_guards == list(told.guards[0].sentences)
    assert "backend" in told.compile_times


def test_break():
    told = stator.explain(broken)(torch.ones(3))
    assert torch.equal(told.result, torch.ones(3).sin())
    (reason,) = told.break_reasons
    assert told.graph_break_count == 1 and reason in (*told.breaks, *told.skips)
    assert reason.id == "data-dependent-branch" and reason.reason
    assert reason.page == "docs/breaks/data-dependent-branch.md"
    line = broken.__code__.co_firstlineno + 2
    assert reason.remedy.startswith(f"`y.sum() > 0` on line {line} feeds `if`; ")
    assert reason.location.lineno == line and reason.stack[-1] == reason.location and reason.function == "broken"


def parts(x):
    return f"{x.sum().item():.3f}"


def twice(x):
    y = x.sin()
    first = len(parts(y))
    z = y + 1
    if z.max() > 0:
        return z.cos() + first
    return z


def test_several_breaks():
    told = stator.explain(twice)(torch.ones(3))
    assert torch.equal(told.result, twice(torch.ones(3)))
    assert told.graph_count == 3 and len(told.guards) >= 3 and not told.skips
    value, branch = told.breaks
    assert (value.id, branch.id) == ("data-dependent-value", "data-dependent-branch")
    assert [place.function for place in value.stack] == ["twice", "parts"]
    assert "feeds a text" in value.remedy and "feeds `if`" in branch.remedy
    assert branch.location.lineno == twice.__code__.co_firstlineno + 4
    assert told.ops_per_graph[0][:2] == ["sin", "sum"] and told.op_count == sum(map(len, told.ops_per_graph))


def test_it_prints():
    good, bad = stator.explain(clean)(torch.zeros(3)), stator.explain(broken)(torch.ones(3))
    assert str(good).startswith("clean: 1 graph, 3 operations, 0 breaks, ")
    assert "graph 1 (clean): sin, operator.add, sum" in str(good) and "guards of clean: " in str(good)
    assert "time: capture " in str(good)
    for part in ("[data-dependent-branch]", "    if y.sum() > 0:", "page: docs/breaks/"):
        assert part in str(bad)
    assert repr(good).startswith("<Explanation of clean: 1 graph,")
    assert repr(stator.explain(clean)).startswith("<stator.explain(clean)")


def test_many_guards_are_shortened_in_print_only():
    told = stator.explain(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))(torch.ones(1, 2))
    assert len(told.out_guards) > 12 and "more\n" in str(told)


def test_second_call_tells_of_recompiles():
    explain = stator.explain(clean)
    explain(torch.zeros(3), n=1)
    again = explain(torch.zeros(3), n=1)
    assert again.graph_count == 0 and not again.recompiles and set(again.seconds) == {"call"}
    other = explain(torch.zeros(3, dtype=torch.float64), n=1)
    assert other.graph_count == 1
    (recompile,) = other.recompiles
    assert recompile.function == "clean" and "float" in recompile.reasons[0]
    assert "clean was compiled again\n  - " in str(other)


def test_an_exception_comes_out():
    def program(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        stator.explain(program)(torch.ones(2))
    with pytest.raises(stator.Unsupported):
        stator.explain(broken, fullgraph=True)(torch.ones(2))
    assert not events.listening("graph")


def test_backend_and_options_are_passed():
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    assert stator.explain(clean, backend=backend, dynamic=False)(torch.zeros(3)).graph_count == 1 and len(seen) == 1


def test_compiled_things_are_compiled_anew():
    compiled = stator.compile(clean, backend="eager")
    compiled(torch.zeros(3))
    assert stator.explain(compiled)(torch.zeros(3)).graph_count == 1

    module = nn.Linear(2, 2)
    wrapped = stator.compile(module, backend="eager")
    wrapped(torch.ones(1, 2))
    told = stator.explain(wrapped)(torch.ones(1, 2))
    assert told.graph_count == 1 and torch.equal(told.result, module(torch.ones(1, 2)))

    class Thing:
        @stator.compile(backend="eager")
        def method(self, x):
            return x + 1

    thing = Thing()
    thing.method(torch.ones(2))
    assert stator.explain(thing.method)(torch.ones(2)).op_count == 1


def test_graph_without_a_lasting_module():
    """Texts are made when the event happens: a backend may change the graph afterwards."""

    def backend(graph, inputs):
        forward = stator.graph.module.eager_callable(graph)
        for node in reversed(graph.graph.nodes):
            graph.graph.erase_node(node)
        return forward

    assert stator.explain(clean, backend=backend)(torch.zeros(3)).op_count == 3


def test_events_of_other_threads_are_not_mine(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE", 0.1)  # the thread waits for this one, and this one for the thread

    def backend(graph, inputs):
        thread = threading.Thread(target=lambda: stator.compile(broken, backend="eager")(torch.ones(3)))
        thread.start()
        thread.join()
        return graph.forward

    told = stator.explain(clean, backend=backend)(torch.zeros(3))
    assert told.graph_count == 1 and not told.break_reasons and not told.skips
    assert [event.break_id for event in events.events("skip")] == ["compiler-busy"]


class Callable:
    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stator.explain(clean, torch.ones(3)), "in a second call: write stator.explain"),
        (lambda: stator.explain(clean, n=3), "'n' is no option of stator.compile; write"),
        (lambda: stator.explain(3), "something that can be called, got 3"),
        (lambda: stator.explain(Callable), "an instance of class Callable, not the class"),
    ],
)
def test_misuse(call, message):
    with pytest.raises(stator.InvalidArgument, match=message):
        call()


def jagged(x):
    nested = torch.nested.nested_tensor([x, x[:1]], layout=torch.jagged)
    doubled = nested * 2
    return doubled.values() + x.sum()


def test_breaks_at_values_that_cannot_be_captured_have_lines():
    found = stator.explain(jagged, backend="eager")(torch.ones(3, 2))
    lines = [reason.stack[0].lineno - jagged.__code__.co_firstlineno for reason in found.breaks]
    assert set(lines) == {1, 2, 3} and len({reason.location for reason in found.breaks}) == len(found.breaks)
    assert all(graph.operations for graph in found.graphs) and torch.equal(found.result, jagged(torch.ones(3, 2)))
