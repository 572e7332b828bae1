"""The source of a graph as a plain function."""

import operator
import traceback

import pytest
import torch
from torch import fx

from stator.graph.source import Source, compile_source
from tests.tensors.capturing import record


def make():
    return {"x": torch.arange(24.0).view(4, 6), "w": torch.ones(6, 6)}


def source_of(program):
    return Source(record(program, make()).module.graph)


def test_reads_like_the_program():
    def program(x, w):
        y = torch.nn.functional.gelu(x @ w, approximate="tanh")
        y = 2 ** -y[1:, ..., None].squeeze(-1)
        y[0] = 1.0
        y += 1
        return y.to(torch.float64), y.T, x[:, :2]

    captured = record(program, make())
    text = Source(captured.module.graph).text
    for line in (
        "matmul = x @ w",
        "gelu = _gelu(matmul, approximate='tanh')",
        "del matmul",
        "getitem = gelu[1:, ..., None,]",
        "pow_ = 2 ** neg",
        "pow_[0] = 1.0",
        "add_ = pow_.add_(1)",
        "to = pow_.to(_float64)",
        "t = pow_.T",
        "getitem_1 = x[:, :2,]",
        "return (to, t, getitem_1,)",
    ):
        assert line in text, (line, text)
    for a, b in zip(compile_source(captured.module.graph)(*captured.inputs), program(**make()), strict=True):
        assert torch.equal(a, b)


def test_values_of_many_kinds():
    values = [
        1,
        -2.5,
        float("inf"),
        float("nan"),
        1j,
        "a'b",
        None,
        True,
        ...,
        torch.float16,
        torch.device("cpu"),
        slice(1, None),
    ]
    values += [[1, [2]], (1,), (), {"k": (1, 2)}, range(3), torch.contiguous_format, torch.Size([1, 2])]

    def same(*args, **kwargs):
        return args, kwargs

    graph = fx.Graph()
    node = graph.call_function(same, tuple(values), {"named": -1})
    graph.output((node,))
    ((args, kwargs),) = compile_source(graph)()
    assert repr(args) == repr(tuple(tuple(v) if isinstance(v, torch.Size) else v for v in values))
    assert kwargs == {"named": -1}


@pytest.mark.parametrize("base", [-2, -2.5, 3, 1j])
def test_negative_bases_keep_their_sign(base):
    graph = fx.Graph()
    graph.output((graph.call_function(operator.pow, (base, graph.placeholder("x"))),))
    assert compile_source(graph)(2) == (base**2,)


def test_names_of_globals_do_not_meet_names_of_nodes():
    def relu(x):
        return x

    graph = fx.Graph()
    x = graph.placeholder("_relu")
    a = graph.call_function(torch.relu, (x,))
    b = graph.call_function(relu, (a,))
    graph.output((b,))
    assert torch.equal(compile_source(graph)(torch.tensor([-1.0]))[0], torch.zeros(1))


def test_intermediate_results_are_dropped_after_their_last_use():
    def program(x, w):
        y = x + 1
        z = y * y
        return z - 1

    text = source_of(program).text
    assert text.index("del add") < text.index("sub =")
    assert "del x" not in text


def test_tracebacks_show_the_line():
    captured = record(lambda x, w: x.view(4, 6) @ w, make())
    function = compile_source(captured.module.graph)
    with pytest.raises(RuntimeError) as caught:
        function(torch.ones(2, 2), torch.ones(6, 6))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.line == "view = x.view(4, 6)"
    assert last.filename.startswith("<stator graph")


def test_modules_of_a_graph_are_refused():
    graph = fx.Graph()
    graph.output((graph.get_attr("weight"),))
    with pytest.raises(ValueError, match="weight"):
        compile_source(graph)
