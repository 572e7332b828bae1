"""The numbers of a capture: its symbols, floats, and what a tensor of one number tells."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch

from stator import _frames
from stator.errors import Again
from stator.guards import path as paths
from stator.guards.path import Path
from stator.native.host import Host
from stator.runtime import assumptions, pinning, symbolic_host
from stator.runtime.inherited import replaced_sizes, written_sizes
from stator.runtime.stack import Stack
from stator.shapes.enlarging import enlarged
from stator.shapes.floats import Floats, Reading, TracedFloat, stage_after
from stator.shapes.policy import Lesson, Policy
from stator.shapes.symbols import Symbols
from stator.tensors import values
from stator.tensors.doubts import ASKING
from stator.tensors.evaluate import evaluated
from stator.tensors.recorder import Recorder
from stator.tensors.signals import DataDependent
from stator.tensors.traced import TracedTensor
from stator.world.rewritten import grown_containers, varying_numbers


class NumberHost(Host):
    """A world whose numbers may vary, and go into the graph of its recorder."""

    def __init__(self, refused: frozenset[Any], policy: Policy, traces: bool) -> None:
        super().__init__()
        self.recorder = Recorder(self.where, refused, traces)
        self.policy = policy
        self.symbols: Symbols | None = None
        self.text_constants: set[Lesson] = set()  # texts that were to vary, and that somebody has looked into
        self.symbolic_numbers: dict[Path, Any] = {}
        self.float_inputs: dict[int, tuple[Any, TracedFloat]] = {}  # by id of the 0-d tensor
        if self.policy.unbacked:
            self.recorder.start_symbols = self.symbolic
        self.recorder.before_call = self.check_guesses
        self.recorder.read_number = self.read_number
        self.recorder.readings.stage_of = self.stage_of
        self.floats = Floats(self.guards, self.origin, self.float_input)
        self.floats.refuse = lambda: DataDependent("Tensor.item")
        self.floats.whole = self.whole_number
        self.floats.rounded = lambda operand, number: self.symbolic().rounded(operand, number)
        self.floats.assume = functools.partial(values.assume, self.recorder)
        self.floats.run = functools.partial(evaluated, self.recorder)

    def where(self) -> Any:
        """The user's stack for a node, formatted only when somebody reads it."""
        return Stack(_frames.top_frame())

    def symbolic(self) -> Symbols:
        """The symbols of this capture."""
        if self.symbols is None:
            self.symbols = self.make_symbols()
            self.symbols.stack = self.stack
            self.symbols.floats = self.floats
            self.recorder.has_floats = True
            self.recorder.use(self.symbols)
            symbolic_host.start(self)
        return self.symbols

    def check_guesses(self) -> None:
        """Starts again if a number that might have varied turned out to be a constant."""
        guessed = self.policy.guessed
        denial = None if self.symbols is None else self.symbols.ones.denial()
        if denial is not None:
            raise Again(None, ones=True, origin=denial.origin)
        if self.symbols is not None and self.symbols.ones.flat and (larger := enlarged(self.symbols)):
            raise Again(None, larger=larger)
        if not guessed:
            return
        found = self.floats.constants & guessed
        if self.symbols is not None:
            found |= self.symbols.settled_sources() & guessed
        if found:
            raise Again(None, frozenset(found))

    def check_constants(self) -> None:
        """Starts again if the program counts with numbers that are constants, once something varies."""
        self.check_guesses()
        pinning.check(self)
        lessons = itertools.chain(varying_numbers(self), replaced_sizes(self), grown_containers(self))
        found = frozenset(filter(self.policy.could_vary, lessons))
        if found:
            raise Again(None, varies=found)
        if self.policy.guesses is not None:  # for captures to come
            learned: Any = self.policy.learned
            learned.lessons.update(filter(self.policy.could_vary, written_sizes(self)))

    def make_symbols(self) -> Symbols:
        symbols = Symbols(self.origin, self.policy.unbacked)
        symbols.unsettled = self.guards.unsettled
        symbols.names = self.guards.names
        symbols.clamps = assumptions.CLAMPING in self.whole_paths
        symbols.asks = ASKING in self.whole_paths
        guesses = self.policy.guesses
        symbols.ones.enlarges = guesses is not None and guesses.enlarges and not guesses.larger
        return symbols

    def has_symbols(self) -> bool:
        """Whether there are symbolic numbers."""
        return self.recorder.has_floats

    def symbolic_float(self, path: Path, value: float) -> Any:
        """The float at a path as a symbol, the same one each time."""
        if path not in self.symbolic_numbers:
            symbolic_host.start(self)
            self.recorder.has_floats = True
            self.symbolic_numbers[path] = self.floats.base(path, value)
        return self.symbolic_numbers[path]

    def read_number(self, traced: TracedTensor) -> Any:
        """The float in a small tensor, if it can be read before the graph runs."""
        found = self.recorder.readings.read(traced)
        if found is None:
            return None
        symbolic_host.start(self)
        self.recorder.has_floats = True
        stage, place, value = found
        return self.floats.base(Reading(stage, place, traced), value)

    def stage_of(self, tensor: torch.Tensor) -> int | None:
        """In which stage of readings the tensor made of a float is known; None if it is none."""
        found = self.float_inputs.get(id(tensor))
        return None if found is None else stage_after(found[1])

    def float_input(self, number: TracedFloat, dtype: torch.dtype) -> TracedTensor:
        """A new input of the graph, which the entry function makes of a float; what depends on data is in the graph."""
        if number.from_data:
            made: TracedTensor = self.recorder.call(torch.Tensor.to, (values.tensor_of(self.recorder, number), dtype))
            return made
        if self.recorder.sub is None and number.source is not None:
            return values.moment(self.recorder, number.source, dtype)
        with self.recorder.paused():
            tensor = torch.tensor(number.value, dtype=dtype, device="cpu")
        self.float_inputs[id(tensor)] = tensor, number
        return self.recorder.input(tensor, name_of(number.path) if number.path is not None else "number")

    def whole_number(self, function: Any, number: TracedFloat) -> Any:
        """The int that a function makes of a float from data."""
        return values.whole_of(self.recorder, function, number.tensor())

    def symbolic_int(self, path: Path, value: int) -> Any:
        """The int at a path as a symbol, the same one each time."""
        if path not in self.symbolic_numbers:
            self.symbolic_numbers[path] = self.symbolic().integer(path, value)
        return self.symbolic_numbers[path]

    def for_native(self, value: Any) -> Any:
        return value if self.asker_keeps or not self.has_symbols() else symbolic_host.decayed(self, value, {})


def name_of(path: Path) -> str:
    """A readable placeholder name."""
    steps = [str(step.key) for step in path.chain() if type(step.key) in (str, int) and str(step.key) not in MEMBERS]
    return "_".join(steps) if path.chain()[0].accessor is paths.CONST else "_".join(["arg", *steps])


MEMBERS = frozenset({"_parameters", "_buffers", "_modules", "__self__", "__func__"})
