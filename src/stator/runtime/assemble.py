"""From a finished capture to an entry: graph outputs, effects and result become the entry function."""

from __future__ import annotations

import builtins
import functools
import operator
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from stator import _frames
from stator.emit import effects
from stator.emit.emitter import Emitter
from stator.emit.plan import CannotRebuild, Source
from stator.graph.source import compile_source
from stator.guards.check import EQ
from stator.guards.path import Path
from stator.guards.relation import SIZE, STRIDE
from stator.native.locks import Together
from stator.native.told_addresses import tells_inside
from stator.runtime.alternatives import Chosen
from stator.runtime.changes import Changes
from stator.runtime.drawing import Drawn
from stator.runtime.overriding import Bare
from stator.runtime.tensor_host import TensorHost
from stator.shapes.expressions import NoForm, Text, fold
from stator.shapes.failing_functions import real_power
from stator.shapes.float_conditions import COMPARISONS
from stator.shapes.floats import Reading, TracedFloat
from stator.shapes.scalar import TracedBool, TracedInt
from stator.shapes.texts import GivenText, TracedText
from stator.tensors.data import views_replaced
from stator.tensors.spent import spent
from stator.tensors.subclasses import PLAIN
from stator.tensors.traced import Storage, TracedTensor
from stator.tensors.undoing import put_back
from stator.tensors.undoing import save as save_data
from stator.world.lazy import Lazy

SCALARS = {
    dtype: functools.partial(torch.scalar_tensor, dtype=dtype, device="cpu")
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64)
}
PARTS = {SIZE: ".size({})", STRIDE: ".stride({})"}
SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**",
}  # fmt: skip


class Rerun(NamedTuple):
    """What runs a call in CPython from the start, and the values it takes."""

    loads: list[Any]
    function: Any
    elsewhere: Any = None  # what takes the call instead if it does not go the same way
    written: tuple[Any, ...] = ()  # inputs that the graph writes to: they must be unchanged when it failed
    saved: tuple[Any, ...] = ()  # inputs that the graph writes to: they are put back when it failed
    refusal: Any = None  # what the graph raises where it has undone or not begun what it writes


class Number:
    """A number that the graph returns."""

    __slots__ = ("_node", "_storage")

    def __init__(self, node: Any) -> None:
        self._node = node
        self._storage = Storage()


class Assembly:
    """Collects what the entry function loads and what the graph must return."""

    def __init__(self, host: TensorHost) -> None:
        self.host = host
        self.loads: dict[Any, int] = {}  # path -> number
        self.outputs: dict[Any, Any] = {}  # id -> traced tensor, symbol -> number the graph returns
        self.names: dict[Any, str] = {}  # of what the graph returns
        self.numbers: dict[Any, str] = {}  # symbol -> name of its value
        self.known: dict[Any, str | None] = {}  # symbol -> source that reads it from a tensor from outside
        self.floats: dict[int, tuple[str, TracedFloat]] = {}  # by id: name and what it is, operands first
        self.scalars: dict[int, tuple[str, Any, TracedFloat]] = {}  # by id: name and dtype of the tensor for a float
        stages = host.recorder.readings.stages  # of the graph before it is cleaned up
        self.readers = [torch.no_grad()(compile_source(stage.graph())) if stage.reads else None for stage in stages]
        self.small = [stage.inputs() for stage in stages]
        self.read_from: dict[int, list[str]] = {}  # by stage: tensors that floats are read from
        self.spent: list[int] = []  # numbers of outputs without a history that can be used again
        self.written: list[Any] = []  # records of outside objects that change

    def resolve(self, obj: Any) -> str | None:
        """Objects that exist when the entry function runs: loads and graph outputs."""
        if type(obj) is Lazy:
            return self.load(obj.path)
        record = self.host.records.get(id(obj))
        if record is not None and (record.inner is obj or record.obj is obj):
            return self.load(record.path)
        if id(obj) in self.host.hollow:  # a loop over a hollow dict that is not at its end
            self.host.settled(obj)
        if type(obj) is TracedTensor and id(obj) in self.host.recorder.choices:
            choice = self.host.recorder.choices[id(obj)]
            condition, yes, no = map(self.resolve, (choice.condition, choice.yes, choice.no))
            return f"({yes} if {condition} else {no})"
        if type(obj) is TracedTensor:
            if views_replaced(self.host.recorder, obj):
                raise CannotRebuild(obj, "a view of a tensor whose data was set")
            return self.output(id(obj), obj) if obj._stands_for in PLAIN else None
        if type(obj) is int and (obj in self.host.addresses or obj in self.host.noted_addresses):
            raise CannotRebuild(obj, "the object at this address will lie elsewhere")
        if type(obj) is str and self.host.recorder.may_break() and tells_inside(self.host, obj):
            raise CannotRebuild(obj, "the object at this address will lie elsewhere")
        if type(obj) is int and obj in self.host.addresses_outside:
            if self.is_given(obj):
                raise CannotRebuild(obj, "it is a number of the program, or an address")
            return f"id({self.load(self.host.addresses_outside[obj])})"
        if type(obj) is Bare:
            return self.output(id(obj.traced), obj.traced)
        if type(obj) is TracedInt or type(obj) is TracedBool:
            return self.expression(obj)
        if type(obj) is TracedFloat:
            if id(obj) not in self.floats and obj.source is not None:
                return f"{self.resolve(obj.source)}.item()"
            return self.float(obj)
        if type(obj) is TracedText:
            return obj.source(self.value_source)
        if type(obj) is Chosen:
            return f"({self.operand(obj.numbers[0])} {obj.sign} {self.operand(obj.numbers[1])})"
        if issubclass(type(obj), GivenText):
            return self.load(obj.path)
        cell = self.host.cells.get(id(obj))
        if cell is not None and cell[0] is obj:
            return self.load(cell[1])
        if type(obj) is dict and id(obj) in self.fields:
            return self.load(self.fields[id(obj)])
        source = self.host.identities.source(obj)
        return None if source is None else self.load(source)

    def is_given(self, number: int) -> bool:
        """Whether a value that the program was given is this number."""
        return any(check is EQ and key == number for _, check, key, _ in self.host.guards.rows())

    @functools.cached_property
    def fields(self) -> dict[int, Any]:
        """The paths to the `__dict__` of shadows, by address."""
        host = self.host
        shadows = [shadow for shadow, _ in host.shadow_fields.values()]
        return {id(_frames.instance_dict(shadow)): host.records[id(shadow)].path.fields() for shadow in shadows}

    def value_source(self, value: Any) -> str:
        """Source for a value that a text is made of."""
        found = self.resolve(value)
        return self.literal(value) if found is None else found

    def output(self, key: Any, traced: Any) -> str:
        """The name of something that the graph returns; a number if it is no traced tensor."""
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"g{len(self.names)}"
            self.outputs[key] = Number(self.host.recorder.numbers.symbol(key)) if traced is None else traced
        return name

    def arrange(self) -> None:
        """What the graph returns comes in the order in which it is made: the same graph then looks the same."""
        self.outputs = dict(sorted(self.outputs.items(), key=lambda one: one[1]._node))
        self.names = {key: f"g{i}" for i, key in enumerate(self.outputs)}

    def load(self, path: Any) -> str:
        return f"l{self.loads.setdefault(path, len(self.loads))}"

    def input(self, value: Any) -> str:
        """What the graph is given for one of its inputs."""
        if type(value) is torch.SymInt:
            return self.number(value.node._expr)
        if id(value) in self.host.float_inputs:
            number = self.host.float_inputs[id(value)][1]
            self.float(number)
            return self.scalars.setdefault(id(value), (f"s{len(self.scalars)}", value.dtype, number))[0]
        if id(value) in self.host.drawn_arrays:
            return self.drawn(self.host.drawn_arrays[id(value)].drawn)
        return self.load(self.host.records[id(value)].path)

    def number(self, symbol: Any) -> str:
        """The name of a symbol's value: known before the graph runs, or given by it."""
        if symbol not in self.host.symbolic().sources:
            if symbol not in self.known:  # once: later the graph is cleaned up
                self.known[symbol] = self.entered(symbol)
            return self.output(symbol, None) if self.known[symbol] is None else f"m{list(self.known).index(symbol)}"
        if symbol in self.host.symbolic().calculated:
            return self.float(self.host.symbolic().calculated[symbol])
        return self.numbers.setdefault(symbol, f"n{len(self.numbers)}")

    def entered(self, symbol: Any) -> str | None:
        """Source for the number in a tensor from outside that the graph leaves as it is."""
        recorder = self.host.recorder
        node = recorder.numbers.symbol(symbol)
        tensor = node.args[0] if node.op == "call_method" and node.target == "item" else node
        home = recorder.readings.homes.get(tensor)
        if tensor.op != "placeholder" or home is None or home.writes:
            return None
        record = self.host.records.get(id(recorder.tensor(tensor.name)))
        if record is None or "data" in (record.extra or {}):
            return None
        return f"{self.load(record.path)}.item()"

    def float(self, number: TracedFloat) -> str:
        """The name of the value of a symbolic float; what depends on data is calculated behind the graph."""
        if number.from_data:
            return self.behind(number)
        pending = [number]
        while pending:
            last = pending[-1]
            needed = [arg for arg in last.args if type(arg) is TracedFloat and id(arg) not in self.floats]
            if needed:
                pending.extend(needed)
                continue
            pending.pop()
            if id(last) not in self.floats:
                self.operands(last)
                self.floats[id(last)] = f"f{len(self.floats)}", last
        return self.floats[id(number)][0]

    def behind(self, number: TracedFloat) -> str:
        """Source for a float that depends on data."""
        if number.function is None:
            return f"{self.resolve(number.args[0].tensor)}.item()"
        operands = self.operands(number)
        if number.function in SIGNS:
            return f"({operands[0]} {SIGNS[number.function]} {operands[1]})"
        if number.function is operator.neg:
            return f"(-{operands[0]})"
        name = number.function.__name__
        home = "" if hasattr(builtins, name) else "__import__('math')."
        return f"{home}{name}({', '.join(operands)})"

    def operands(self, number: TracedFloat) -> list[str]:
        """What a float is calculated of, as source."""
        return [self.operand(arg) for arg in number.args]

    def reading(self, reading: Reading) -> str:
        """The name of a number that is read from tensors."""
        if reading.stage not in self.read_from:
            self.read_from[reading.stage] = [self.input(tensor) for tensor in self.small[reading.stage]]
        return f"r{reading.stage}[{reading.place}]"

    def drawn(self, number: Drawn) -> str:
        return f"d{number.place}"

    def write_draws(self, emitter: Emitter, may_rerun: bool) -> None:
        """Draws the random numbers that the program does; CPython draws them once more where it runs the call."""
        generators = {self.load(draw.path): draw.state for draw in self.host.draws} if may_rerun else {}
        for name, state in generators.items():
            emitter.raw(f"state_{name} = {emitter.constant(state.read)}({name})")
        self.undraw = "".join(f"    {emitter.constant(s.write)}({n}, state_{n})\n" for n, s in generators.items())
        for place, draw in enumerate(self.host.draws):
            given = "".join(f", {value!r}" for value in draw.args)
            given += "".join(f", {name}={value!r}" for name, value in draw.kwargs.items())
            emitter.raw(f"d{place} = {emitter.constant(draw.method)}({self.load(draw.path)}{given})")
        for _, drawn, convert in self.host.drawn_arrays.values():
            name = self.drawn(drawn)
            emitter.raw(f"{name} = {emitter.constant(convert)}({name})")

    def is_risky(self) -> bool:
        """Whether numbers are calculated before the graph runs, which may raise."""
        return bool(self.read_from) or any(number.function is not None for _, number in self.floats.values())

    def literal(self, value: Any) -> str:
        return f"({value!r})" if value - value == 0 else f"float('{value}')"

    def expression(self, traced: TracedInt | TracedBool) -> str:
        """Source for a symbolic int; what has no form is a constant."""
        try:
            return str(fold(traced.expr, Text(self.number)))
        except NoForm:
            return repr(traced.decay())

    def write_numbers(self, emitter: Emitter) -> None:
        """Sizes and ints as they are before the graph runs."""
        for symbol, name in self.numbers.items():
            operand = self.host.symbolic().sources[symbol]
            load = self.load(operand.path)
            emitter.raw(f"{name} = {load}" + PARTS.get(operand.kind, "").format(operand.index))

    def write_floats(self, emitter: Emitter, again: Rerun) -> None:
        """Floats as they are before the graph runs; where Python raises, it does so where the program does."""
        lines = []
        scalars = {
            name: f"{name} = {emitter.constant(SCALARS[dtype], 'scalar')}({self.floats[id(number)][0]})"
            for name, dtype, number in self.scalars.values()
        }
        unread = dict(self.read_from)
        for name, number in self.floats.values():
            reading = number.args[0] if number.function is None else None
            if type(reading) is Reading and reading.stage in unread:
                given = unread.pop(reading.stage)
                lines += [scalars.pop(tensor) for tensor in given if tensor in scalars]
                reader = emitter.constant(self.readers[reading.stage], "read")
                lines.append(f"r{reading.stage} = {reader}({', '.join(given)})")
            lines.append(self.assignment(emitter, name, number))
        lines += scalars.values()
        if self.is_risky():
            function = emitter.constant(again.function, "run_again")
            values = ", ".join(self.load(path) for path in again.loads)
            body = "\n    ".join(lines)
            emitter.raw(
                f"failed = False\ntry:\n    {body}\nexcept {emitter.constant(Exception)}:\n    failed = True\n"
                f"if failed:\n{self.undraw}    return {function}({values})"
            )
        else:
            for line in lines:
                emitter.raw(line)

    def conditions(self) -> list[str]:
        """Comparisons of numbers that are read before the graph runs, as they came out."""
        lines: dict[tuple[str, str], None] = {}
        for name, left, right, holds in self.host.floats.conditions or ():
            sides = [self.float(side) if type(side) is TracedFloat else self.operand(side) for side in (left, right)]
            lines["" if holds else "not ", f"({sides[0]} {COMPARISONS[name]} {sides[1]})"] = None
        return ["".join(line) for line in lines]

    def operand(self, value: Any) -> str:
        return TEXTS.get(type(value), Assembly.literal)(self, value)

    def assignment(self, emitter: Emitter, name: str, number: TracedFloat) -> str:
        operands = self.operands(number)
        if number.function is None:
            return f"{name} = {operands[0]}"
        if number.function is operator.pow and type(number.args[1]) is not TracedInt:
            return f"{name} = {emitter.constant(real_power)}({', '.join(operands)})"
        sign = SIGNS.get(number.function)
        if sign is not None and len(operands) == 2:
            return f"{name} = {operands[0]} {sign} {operands[1]}"
        return f"{name} = {emitter.constant(number.function)}({', '.join(operands)})"

    def inside(self, obj: Any) -> bool:
        """Whether a class, function, cell or namespace was made during the capture."""
        host = self.host
        kind = type(obj)
        if kind is types.FunctionType:
            return host.is_inside_function(obj)
        if kind is types.CellType:
            return id(obj) not in host.outside_cells
        if issubclass(type(obj), type):
            return id(obj) in host.inside_types
        if issubclass(type(obj), types.ModuleType):
            return id(obj) not in host.records
        return id(obj) not in host.namespaces

    def write(self, graph: Any, inputs: list[str], start: Rerun, again: Rerun | None = None) -> Emitter:
        """One pass over effects and result; `graph` is None while outputs are still being found.

        With `again`, the call runs in CPython when the graph fails: up to the failing operation the program may have
        had effects, and it may handle the error.
        """
        emitter = Emitter(self.resolve, self.inside)
        emitter.hashes_vary = self.host.hashes_vary or bool(self.host.addresses)
        for number in self.host.floats.doubtful.values():  # the program may not need them, but would see an error
            self.float(number)
        conditions = self.conditions()
        self.write_draws(emitter, again is not None or bool(conditions) or self.is_risky())
        self.write_numbers(emitter)
        if self.floats:
            self.write_floats(emitter, start)
        if conditions:
            function = emitter.constant(start.elsewhere, "elsewhere")
            values = ", ".join(self.load(path) for path in start.loads)
            emitter.raw(f"if not ({' and '.join(conditions)}):\n{self.undraw}    return {function}({values})")
        self.hold_locks(emitter)
        if self.host.assumed is not None:
            self.resolve(self.host.assumed)
        if graph is not None:
            names = [f"g{i}" for i in range(len(self.outputs))]
            call = f"{emitter.constant(graph, 'graph')}({', '.join(inputs)})"
            if again is not None:
                self.write_attempt(emitter, names, call, again)
            elif names:
                emitter.unpack(names, call)
            else:
                emitter.raw(call)
            for index in self.spent:
                emitter.raw(f"g{index} = {emitter.constant(spent)}(g{index})")
        for index, source in enumerate(self.known.values()):
            if source is not None:
                emitter.raw(f"m{index} = {source}")
        self.write_effects(emitter)
        return emitter

    def hold_locks(self, emitter: Emitter) -> None:
        """From here on the entry function holds the locks that the program took."""
        held = ", ".join(emitter.value(lock) for lock in self.host.locks.values())
        if len(self.host.locks) > 1:
            held = f"{emitter.constant(Together)}({held})"
        if held:
            emitter.enclose(f"with {held}:")

    def write_attempt(self, emitter: Emitter, names: list[str], call: str, again: Rerun) -> None:
        """The call of a graph that may fail; outside of the handler, CPython runs everything from the start."""
        function = emitter.constant(again.function, "run_again")
        values = ", ".join(self.load(path) for path in again.loads)
        save = restore = ""
        if self.host.recorder.random:
            save = f"drawn = {emitter.constant(torch.get_rng_state)}()\n"
            restore = f"    {emitter.constant(torch.set_rng_state)}(drawn)\n"
        for number, generator in enumerate(self.host.recorder.generators):
            name = emitter.constant(generator, "generator")
            save += f"drawn{number} = {name}.get_state()\n"
            restore += f"    {name}.set_state(drawn{number})\n"
        made = f"{', '.join(names)}, = {call}" if names else call
        if self.host.assumed is not None:
            made += f"\n    failed = not {self.resolve(self.host.assumed)}"
        written, handler = "", f"except {emitter.constant(Exception)}:\n    failed = True\n"
        if again.written:  # once something was written it is too late
            versions = "".join(f"{self.load(path)}._version, " for path in again.written)
            written = f"versions = ({versions})\n"
            late = f"    if versions != ({versions}):\n        raise\n"
            handler = handler.replace("    failed", f"{late}    failed")
        if again.saved:
            tensors = ", ".join(self.load(path) for path in again.saved)
            save += f"before = {emitter.constant(save_data)}({tensors})\n"
            restore += f"    {emitter.constant(put_back)}(before, {tensors})\n"
        elif again.refusal is not None:
            refused = f"except {emitter.constant(again.refusal)}:\n    failed = True\n"
            handler = refused + (handler if again.written else "")
        emitter.raw(
            f"{save}{written}failed = False\ntry:\n    {made}\n{handler}if failed:\n{restore}{self.undraw}"
            f"    return {function}({values})"
        )
        emitter.know(names)

    def write_effects(self, emitter: Emitter) -> None:
        Changes(self, emitter).write()

    def changed(self, record: Any) -> None:
        """An outside object that statements were written for."""
        self.written.append(record)

    def write_name(self, emitter: Emitter, namespace: Any, name: Any, value: Any) -> None:
        """A name of an outside namespace that has another value, or none."""
        if not namespace.by_attribute:
            effects.global_name(emitter, Source(self.load(namespace.path)), name, value)
        elif issubclass(type(namespace.owner), types.ModuleType):
            effects.global_name(emitter, Source(self.load(namespace.dict_path())), name, value)
        else:
            effects.attribute(emitter, namespace.owner, name, value)


TEXTS: dict[type, Callable[[Assembly, Any], str]] = {
    Path: Assembly.load,
    TracedFloat: Assembly.float,
    Reading: Assembly.reading,
    Drawn: Assembly.drawn,
    TracedInt: Assembly.expression,
}
