"""`torch.utils.checkpoint` inside a captured program."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

import stator
from tests.harness import check


def r(*sizes: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*sizes, requires_grad=grad)


def block(x: Any, weight: Any, drop: float = 0.0) -> Any:
    hidden = F.gelu(x @ weight)
    return torch.sin(F.dropout(hidden, drop)) if drop else torch.sin(hidden)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_values_and_gradients(backend: str, reentrant: bool) -> None:
    def program(x: Any, weight: Any) -> Any:
        return checkpoint(block, x, weight, use_reentrant=reentrant) * 2

    check(program, r(3, 8), r(8, 8), backward=True, backend=backend, tolerance=1e-6, expect_graphs=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_and_keywords(backend: str) -> None:
    def program(x: Any, weight: Any) -> Any:
        return checkpoint(block, x, weight, drop=0.5, use_reentrant=False, preserve_rng_state=True)

    check(program, r(3, 8), r(8, 8), backward=True, backend=backend, tolerance=1e-6, expect_graphs=1)


def test_sequence() -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Dropout(0.3))
    for reentrant in (False, True):

        def program(x: Any, reentrant: bool = reentrant) -> Any:
            return checkpoint_sequential(layers, 2, x, use_reentrant=reentrant)

        check(program, r(3, 4), backward=True, tolerance=1e-6, expect_graphs=1)


CHECKPOINTING = functools.partial(checkpoint, use_reentrant=False)


class Layer(nn.Module):
    """As transformer models do it: through a partial, with a bound method of `super()`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.training:
            return CHECKPOINTING(functools.partial(super().__call__, **kwargs), *args)
        return super().__call__(*args, **kwargs)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return (x + torch.relu(self.linear(x)) * scale,)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(3)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x, scale=0.5)[0]
        return x


def test_layers_of_a_model() -> None:
    model = Model().train()
    check(model, r(2, 4), backward=True, tolerance=1e-6, expect_graphs=1)


def test_reentrant_without_anything_to_differentiate() -> None:
    layer = nn.Linear(4, 4)
    check(lambda x: checkpoint(layer, x, use_reentrant=True), r(2, 4, grad=False), expect_graphs=1)


def test_reentrant_results() -> None:
    def program(x: Any) -> Any:
        return checkpoint(lambda x: (x * 2, x.argmax(), 3), x, use_reentrant=True)

    check(program, r(2, 4), backward=True, expect_graphs=1)


def test_reentrant_result_that_depends_on_nothing() -> None:
    def program(x: Any) -> Any:
        return checkpoint(lambda x: torch.ones(3), x, use_reentrant=True)

    check(program, r(2, 4), fullgraph=False, expect_breaks=None)


def test_wrong_keywords() -> None:
    def program(x: Any) -> Any:
        try:
            return checkpoint(torch.sin, x, out=3, use_reentrant=True)
        except ValueError as error:
            return x * 2, str(error)

    check(program, r(2, 4), expect_graphs=1)


def test_not_told_which_form() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        compiled = stator.compile(lambda x: checkpoint(torch.sin, x), backend="eager", fullgraph=True)
        assert compiled(r(2)).requires_grad
    assert any("use_reentrant parameter should be passed" in str(one.message) for one in seen)


def test_selective() -> None:
    context = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])

    def program(x: Any, weight: Any) -> Any:
        return checkpoint(block, x, weight, use_reentrant=False, context_fn=context)

    check(program, r(3, 8), r(8, 8), backward=True, expect_graphs=1)


def test_break_within() -> None:
    def inner(x: Any) -> Any:
        if x.sum() > 100:
            return x
        return x * 2

    check(
        lambda x: checkpoint(inner, x.sin(), use_reentrant=False).cos(), r(2), backward=True, fullgraph=False,
        expect_breaks=None,
    )  # fmt: skip


def test_backward_calculates_again() -> None:
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    graphs: list[Any] = []

    def keep(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    def backend(graph: Any, inputs: Any) -> Any:
        return aot_module_simplified(
            graph, inputs, fw_compiler=keep, bw_compiler=keep, partition_fn=min_cut_rematerialization_partition
        )

    def program(x: Any, weight: Any) -> Any:
        return checkpoint(block, x, weight, use_reentrant=False).sum()

    x, weight = r(3, 8), r(8, 8)
    stator.compile(program, backend=backend, fullgraph=True)(x, weight).backward()
    forward, backward = graphs
    assert len(forward.graph.output_node().args[0]) == 3  # the sum and the two inputs
    assert torch.ops.aten.gelu.default in {node.target for node in backward.graph.nodes}


class Counting(nn.Module):
    """Backward calls the blocks again: what they count and keep changes twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 4)
        self.calls = 0

    def counts(self, x: Any) -> Any:
        self.calls += 1
        return torch.tanh(self.linear(x))

    def keeps(self, x: Any) -> Any:
        return torch.tanh(self.norm(x))

    def forward(self, x: Any) -> Any:
        x = checkpoint(self.counts, x * 2, use_reentrant=False)
        return checkpoint(self.keeps, x, use_reentrant=True) * 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_effects_happen_again_in_backward(backend: str) -> None:
    module = Counting()
    check(
        module, r(3, 4), backward=True, backend=backend, tolerance=1e-6, fullgraph=False, expect_breaks=None,
        expect_recompiles=None,
    )  # fmt: skip


CHANGES: dict[str, Any] = {
    "in place": lambda weight: weight.mul_(1.5),
    "data": lambda weight: weight.data.mul_(1.5),
    "other data": lambda weight: setattr(weight, "data", weight.data * 1.5),
}


def twice(x: Any, weight: Any, reentrant: bool) -> Any:
    first = checkpoint(lambda t: torch.sin(F.dropout(t @ weight, 0.5)), x, use_reentrant=reentrant)
    second, third = checkpoint(lambda t: ((t @ weight).cos(), t.exp()), first, use_reentrant=reentrant)
    return first + second * third


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reentrant", [False, True])
def test_parameters_that_change_before_backward(change: str, reentrant: bool) -> None:
    """Backward calculates with what they hold by then."""

    def outcome(function: Any) -> list[Any]:
        torch.manual_seed(0)
        x, weight = r(2, 3), r(3, 3)
        found = function(x, weight, reentrant)
        with torch.no_grad():
            CHANGES[change](weight)
        found.sum().backward()
        return [found.detach(), x.grad, weight.grad]

    # the older form adds gradients up in another order
    torch.testing.assert_close(outcome(stator.compile(twice, backend="eager", fullgraph=True)), outcome(twice))


@pytest.mark.parametrize("reentrant", [False, True])
def test_arguments_that_change_before_backward(reentrant: bool) -> None:
    """torch notices that."""

    def outcome(function: Any) -> str:
        x = r(2, 3)
        found = function(x, r(3, 3), reentrant)
        with torch.no_grad():
            x.mul_(2)
        with pytest.raises(RuntimeError) as raised:
            found.sum().backward()
        return str(raised.value)[:60]

    assert outcome(stator.compile(twice, backend="eager", fullgraph=True)) == outcome(twice)


def test_nothing_is_kept_for_backward() -> None:
    """The values inside of a region are let go of when it is over."""
    kept: list[Any] = []

    def pack(tensor: Any) -> Any:
        kept.append(tuple(tensor.shape))
        return tensor

    compiled = stator.compile(block_of_many, backend="eager", fullgraph=True)
    x, weight = r(2, 3), r(3, 7)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        compiled(x, weight)
    assert (2, 7) not in kept


def block_of_many(x: Any, weight: Any) -> Any:
    return checkpoint(lambda t: (t @ weight).sin().exp().sum(1), x, use_reentrant=False)
