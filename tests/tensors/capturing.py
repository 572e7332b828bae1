"""Runs torch code on traced tensors without an interpreter, and compares the graph with eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from stator.graph.backends import compile_graph
from stator.tensors.recorder import Recorder
from stator.tensors.traced import TracedTensor

Tensors = dict[str, torch.Tensor]


@dataclass
class Captured:
    """One capture: the recorder, the graph, and what the program gave."""

    recorder: Recorder
    module: fx.GraphModule
    result: Any
    traced: dict[str, TracedTensor]

    @property
    def inputs(self) -> list[torch.Tensor]:
        return [self.recorder.tensor(name) for name in self.recorder.inputs]

    @property
    def targets(self) -> list[Any]:
        """What the graph calls, in order."""
        return [node.target for node in self.module.graph.nodes if node.op in ("call_function", "call_method")]


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def record(program: Callable[..., Any], inputs: Tensors, **options: Any) -> Captured:
    """Runs `program(**inputs)` on traced tensors."""
    recorder = Recorder(**options)
    with recorder:
        traced = {name: recorder.input(tensor, name) for name, tensor in inputs.items()}
        result = program(**traced)
        module = recorder.finish(tensors_in(result))
    return Captured(recorder, module, result, traced)


def same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(
        a.detach().resolve_conj().to(torch.complex64), b.detach().resolve_conj().to(torch.complex64), equal_nan=True
    )


def look(tensor: torch.Tensor) -> tuple[Any, ...]:
    """All that capture claims to know about a real tensor."""
    return (
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.is_conj(),
        tensor.is_neg(),
        tensor.is_inference(),
    )


def relations(result: list[Any], inputs: dict[str, Any], memory: Callable[[Any], Any]) -> list[Any]:
    """For each result: the inputs it is, the inputs and earlier results whose memory it shares."""
    rows = []
    for i, tensor in enumerate(result):
        same = [name for name, other in inputs.items() if other is tensor]
        shared = [name for name, other in inputs.items() if memory(other) == memory(tensor)]
        twins = [j for j in range(i) if memory(result[j]) == memory(tensor)]
        rows.append((same, shared, twins))
    return rows


def check(
    program: Callable[..., Any], make: Callable[[], Tensors], backend: str = "eager", strides: bool = True
) -> Captured:
    """Capture must predict what eager does, and the graph must do it."""
    torch.manual_seed(7)
    eager = make()
    expected = program(**eager)
    captured = record(program, make())
    wanted, found = tensors_in(expected), tensors_in(captured.result)
    assert len(wanted) == len(found)
    if not wanted:
        assert type(expected) is type(captured.result)
        assert expected == captured.result
    assert [traced._meta.key for traced in found] == [look(tensor) for tensor in wanted]
    for name, tensor in eager.items():
        assert captured.traced[name]._meta.key == look(tensor), name
    assert relations(found, captured.traced, lambda t: id(t._storage)) == relations(
        wanted, eager, lambda t: t.untyped_storage()._cdata
    )
    torch.manual_seed(7)
    fresh = make()
    values = [fresh[name] for name in captured.recorder.inputs]
    results = compile_graph(captured.module, values, backend)(*values)
    compare_run(wanted, eager, list(results), fresh, strides)
    return captured


def compare_run(wanted: list[Any], eager: Tensors, results: list[Any], fresh: Tensors, strides: bool) -> None:
    """Values, effects on inputs and gradients of two runs."""
    for a, b in zip(wanted, results, strict=True):
        assert same_values(a, b)
        assert (a.dtype, a.requires_grad) == (b.dtype, b.requires_grad)
        assert not strides or a.stride() == b.stride()
    for name in eager:
        assert same_values(eager[name], fresh[name]), name
    for run in (wanted, results):
        losses = [tensor.abs().sum() for tensor in run if tensor.requires_grad]
        if losses:
            torch.stack(losses).sum().backward()
    for name, tensor in eager.items():
        if tensor.is_leaf:
            grads = tensor.grad, fresh[name].grad
            assert (grads[0] is None) == (grads[1] is None), name
            assert grads[0] is None or same_values(*grads), name


def record_module(model: nn.Module, *args: torch.Tensor) -> Captured:
    """Runs a module whose parameters and buffers are replaced by traced tensors for the time being."""
    recorder = Recorder()
    replaced = []
    try:
        with recorder:
            for prefix, module in model.named_modules():
                for members in (module._parameters, module._buffers):
                    for name, tensor in list(members.items()):
                        if tensor is not None:
                            replaced.append((members, name, tensor))
                            members[name] = recorder.input(tensor, f"{prefix}.{name}")
            traced = [recorder.input(arg, "x") for arg in args]
            result = model(*traced)
            module = recorder.finish(tensors_in(result))
    finally:
        for members, name, tensor in replaced:
            members[name] = tensor
    return Captured(recorder, module, result, {})
