"""The surroundings that AOTAutograd and what builds on it expect while a backend compiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import _guards, fx
from torch._guards import TracingContext


class LazyContext(TracingContext):
    """A tracing context whose fake mode is made when somebody asks for it: making one imports most of torch._dynamo."""

    def __init__(self, inputs: Sequence[Any], fake_mode: Any = None) -> None:
        self._inputs = inputs
        self._fake_mode = fake_mode
        super().__init__(fake_mode)

    def forget_inputs(self) -> None:
        """AOTAutograd keeps the context for as long as its code lives: that must not keep the inputs alive."""
        self._inputs = ()

    def clean_up(self) -> None:
        """The shape environment of a mode that somebody asked for no longer refers to itself; others have none."""
        if self._fake_mode is not None and self._fake_mode.shape_env is not None:
            self._fake_mode.shape_env.cleanup()

    @property
    def fake_mode(self) -> Any:
        if self._fake_mode is None:
            self._fake_mode, self._fakes = static_mode(self._inputs)
        return self._fake_mode

    @fake_mode.setter
    def fake_mode(self, mode: Any) -> None:
        self._fake_mode = mode


def static_mode(inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """A fake mode that knows the inputs already, with all sizes fixed, as long as somebody holds their fakes."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # heavy

    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    return mode, [mode.from_tensor(tensor, static_shapes=True) for tensor in tensors]


class compiling:
    """Runs a backend in a tracing context of its own; left, the thread has the one of before.

    `torch._guards.tracing` asks for the fake mode when it is left, which would make one, and whatever comes
    meanwhile (KeyboardInterrupt) would leave the context to the thread for good.
    """

    def __init__(self, inputs: Sequence[Any], fake_mode: Any = None) -> None:
        self.context = LazyContext(inputs, fake_mode)
        self.before = TracingContext.try_get()

    def __enter__(self) -> TracingContext:
        _guards._TLS.tracing_context = self.context
        return self.context

    def restore(self) -> None:
        """The thread's context is the one of before; may be repeated, where an interruption kept it from that."""
        _guards._TLS.tracing_context = self.before

    def __exit__(self, *exc: Any) -> None:
        self.restore()
        self.context.forget_inputs()
        self.context.clean_up()


@contextmanager
def without_onednn(graph: fx.GraphModule) -> Iterator[None]:
    """AOTAutograd cannot save what oneDNN's LSTM hands to its backward: it sees the plain formula instead."""
    if not graph.graph.find_nodes(op="call_function", target=torch.lstm):
        yield
        return
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)
