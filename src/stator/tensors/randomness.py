"""Random state inside of a graph: seeds, states, and generators of the program's own.

All of it is nodes between the operations that draw numbers. A trace would lose them, so there they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.scalar import TracedInt
from stator.tensors import settings
from stator.tensors.applying import apply
from stator.tensors.lowering import Found, lower
from stator.tensors.meta import Meta, intern
from stator.tensors.modes import read_state
from stator.tensors.plan import Constant, New, Plan
from stator.tensors.signals import NotLeaf, UnsupportedOp
from stator.tensors.targets import RANDOM, Target
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


class TracedGenerator:
    """Stands for a generator that the graph makes."""

    __slots__ = ("__weakref__", "_node", "_recorder")

    def __init__(self, recorder: Recorder, node: Any) -> None:
        self._recorder = recorder
        self._node = node

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return torch.Generator


# ---- what nodes call ----------------------------------------------------------------------------------


def new_generator() -> torch.Generator:
    return torch.Generator()


def seed_generator(generator: torch.Generator | None, seed: int) -> None:
    if generator is None:
        torch.manual_seed(seed)
    else:
        generator.manual_seed(seed)


def read_generator(generator: torch.Generator | None) -> torch.Tensor:
    return torch.get_rng_state() if generator is None else generator.get_state()


def write_generator(generator: torch.Generator | None, state: torch.Tensor) -> None:
    if generator is None:
        torch.set_rng_state(state)
    else:
        generator.set_state(state)


# ---- recording ----------------------------------------------------------------------------------------


def check(recorder: Recorder, what: str) -> None:
    if recorder.traces or recorder.sub is not None:
        raise UnsupportedOp(what, "the backend would not see it", "random-state")


def operand(recorder: Recorder, generator: Any) -> Any:
    """A generator as an argument of a node: made by the graph, or one from outside, or torch's own."""
    if generator is torch.default_generator:
        return None
    if type(generator) is TracedGenerator:
        return generator._node
    if not any(generator is known for known in recorder.generators):
        recorder.generators.append(generator)
    return generator


def new(recorder: Recorder) -> TracedGenerator:
    """`torch.Generator()`."""
    check(recorder, "torch.Generator")
    node = recorder.nodes.add("call_function", new_generator, (), {}, "generator")
    recorder.kept.add(node)
    return TracedGenerator(recorder, node)


def seed(recorder: Recorder, generator: Any, value: Any) -> Any:
    """`manual_seed(value)`."""
    check(recorder, "torch.manual_seed")
    if type(value) is TracedInt:  # which is small enough
        value = lower(value, Found())[1]
    elif type(value) is int:
        with recorder.paused():
            torch.Generator().manual_seed(value)  # raises what a wrong one raises
    else:
        raise UnsupportedOp("torch.manual_seed", "a seed that is no int", "random-state")
    _write(recorder, seed_generator, (operand(recorder, generator), value), [])
    return generator


def read(recorder: Recorder, generator: Any) -> Any:
    """`get_rng_state()`, `generator.get_state()`."""
    check(recorder, "torch.get_rng_state")
    plan = Plan(New(_layout()), None, (), (), True, False)
    target = Target(read_generator, "call_function", read_generator, "rng_state")
    return apply(recorder, target, plan, read_state(), (operand(recorder, generator),), {}, [])


def write(recorder: Recorder, generator: Any, state: Any) -> None:
    """`set_rng_state(state)`, `generator.set_state(state)`."""
    check(recorder, "torch.set_rng_state")
    meta = state._meta if type(state) is TracedTensor else None
    if meta is None or (tuple(meta.size), meta.dtype) != (tuple(_layout().size), torch.uint8):
        raise UnsupportedOp("torch.set_rng_state", "a state that is none", "random-state")
    _write(recorder, write_generator, (operand(recorder, generator), state._node), [state])


def _write(recorder: Recorder, function: Any, args: tuple[Any, ...], tensors: list[TracedTensor]) -> None:
    plan = Plan(Constant(None), None, (), (), False, False)
    apply(
        recorder, Target(function, "call_function", function, function.__name__), plan, read_state(), args, {}, tensors
    )


def _layout() -> Meta:
    size = torch.default_generator.get_state().numel()
    key = ((size,), (1,), 0, torch.uint8, torch.device("cpu"), False, True, False, False)
    return intern((*key, torch.is_inference_mode_enabled()))


def without_generator(recorder: Recorder, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Arguments of an operation without its generator, and that one as the node has it."""
    check(recorder, "torch.Generator")
    rest = {name: value for name, value in kwargs.items() if name != "generator"}
    generator = kwargs["generator"]
    if generator.device.type != "cpu" if type(generator) is torch.Generator else False:
        raise UnsupportedOp("torch.Generator", "a generator of another device", "random-state")
    return rest, operand(recorder, generator)


STATEFUL = frozenset({new_generator, seed_generator, read_generator, write_generator, settings.apply})
GENERATORS = frozenset({torch.Generator, TracedGenerator})


# ---- functions of torch.random, by name: torch wraps some anew when it imports more of itself ---------------


def _manual_seed(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return seed(recorder, torch.default_generator, *args, **kwargs)


def _get_rng_state(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return read(recorder, torch.default_generator)


def _set_rng_state(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    write(recorder, torch.default_generator, *args, *kwargs.values())


def _fork_rng(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    check(recorder, "torch.random.fork_rng")
    raise NotLeaf(torch.random.fork_rng, "it is a context")


RANDOM.update(manual_seed=_manual_seed, get_rng_state=_get_rng_state, set_rng_state=_set_rng_state, fork_rng=_fork_rng)
