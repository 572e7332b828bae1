"""The graph so far, run on fake tensors with autograd: what tells which gradients there are and what they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from stator.tensors import randomness
from stator.tensors.arbitrary import laid_out
from stator.tensors.checks import assert_holds
from stator.tensors.fakes import make_fake, storage_of
from stator.tensors.modes import Scope
from stator.tensors.plan import New
from stator.tensors.propagate import quiet
from stator.tensors.signals import UnsupportedState
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


class Replay:
    """Runs the nodes of a graph in the making, each one once."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.mode = recorder.symbolic_mode()
        self.values: dict[fx.Node, Any] = {}
        self.state = recorder.state.start
        self.last: fx.Node | None = None

    def advance(self) -> None:
        """Runs what was recorded since the last time; the graph is in the state of this moment then."""
        nodes = self._new_nodes()
        with torch._C.DisableTorchFunction(), Scope() as scope:
            scope.go_to(self.state)
            for node in nodes:
                with quiet(node.target), self.mode.dispatcher(), self.mode:
                    self.values[node] = self._run(node)
                self.last = node
        self._forget_numbers()
        self.state = self.recorder.state.now
        if self.state.inference:
            raise UnsupportedState("torch.inference_mode", "autograd in inference mode")

    def _new_nodes(self) -> list[fx.Node]:
        every = [node for node in self.recorder.graph.nodes if node.op.startswith("call")]
        return every[every.index(self.last) + 1 :] if self.last is not None else every

    def _run(self, node: Any) -> Any:
        if node.target in randomness.STATEFUL:  # which fake tensors know nothing of
            return self._state(node)
        if type(node.meta.value) is torch.SymInt or (node.op == "call_method" and node.target == "item"):
            return node.meta.value  # the number that the program has, not another unknown one
        if node.target is assert_holds:
            return None
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self.value)
        kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        return node.target(*args, **kwargs)

    def _state(self, node: Any) -> Any:
        made = node.meta.value
        return make_fake(self.mode, made.meta) if type(made) is New else None

    def value(self, node: fx.Node) -> Any:
        """What a node gives; an input is made when somebody asks for it."""
        if node not in self.values:
            assert node.op == "placeholder"
            meta = self.recorder.meta_of_input(node.name)
            with torch._C.DisableTorchFunction():
                self.values[node] = meta if type(meta) is torch.SymInt else make_fake(self.mode, meta)
        return self.values[node]

    def gradients(
        self, outputs: list[TracedTensor], inputs: list[TracedTensor], grads: Any, hooks: Any = (), **options: Any
    ) -> Any:
        """`torch.autograd.grad` of these, now, with hooks on tensors."""
        self.advance()
        fakes = ([self.value(one._node) for one in group] for group in (outputs, inputs))
        given = None if grads is None else [None if one is None else self.value(one._node) for one in grads]
        free = laid_out(torch.autograd.grad, self.mode.shape_env)
        with torch._C.DisableTorchFunction(), quiet(torch.autograd.grad), free, self.mode.dispatcher(), self.mode:
            handles = [
                self.value(tensor._node).register_hook(body.function([self.value(one._node) for one in taken]))
                for tensor, body, taken in hooks
            ]
            try:
                return torch.autograd.grad(*fakes, given, **options)
            finally:
                for handle in handles:
                    handle.remove()
                self._forget_numbers()

    def _forget_numbers(self) -> None:
        """A view at a place that only data tells gives the fake tensor a number of its own, which no node has."""
        if self.mode.shape_env is not None:
            self.mode.shape_env.pending_fresh_unbacked_symbols.clear()

    def is_differentiable(self, traced: TracedTensor) -> bool:
        """Whether a backward from here would come to its end."""
        with torch._C.DisableTorchFunction(), self.mode.dispatcher(), self.mode:
            output = self.value(traced._node)
            if not output.requires_grad:
                return True
            leaves = [value for value in self.values.values() if isinstance(value, torch.Tensor) and is_open(value)]
            try:
                torch.autograd.grad(output, leaves, torch.empty_like(output), retain_graph=True, allow_unused=True)
            except RuntimeError:
                return False
            finally:
                self._forget_numbers()
        return True

    def remembers(self, node: fx.Node, origin: fx.Node) -> bool:
        """Whether a backward could still go from the result of one node to that of another."""
        made = self.value(node)
        if not isinstance(made, torch.Tensor):
            return True
        with torch._C.DisableTorchFunction(), self.mode.dispatcher(), self.mode:
            try:
                torch.autograd.grad(made, self.value(origin), torch.empty_like(made), retain_graph=True)
            except RuntimeError:
                return False
            finally:
                self._forget_numbers()
        return True

    def note(self, node: fx.Node, value: Any) -> None:
        """The value of a node that was recorded for what has been done here already."""
        self.values[node] = value
        self.last = node

    def owner(self, fake: torch.Tensor) -> fx.Node | None:
        """A node whose result lies in the same memory."""
        place = storage_of(fake)
        for node, value in self.values.items():
            if isinstance(value, torch.Tensor) and storage_of(value) == place:
                return node
        return None


def is_open(fake: torch.Tensor) -> bool:
    """Whether a backward may end at it; a view of no_grad whose base has changed since is none that can be used."""
    try:
        return fake.requires_grad and fake.is_leaf
    except RuntimeError:
        return False
