"""Generators of random numbers under the interpreter."""

from __future__ import annotations

from typing import Any

import torch

from stator.emit.plan import CannotRebuild, Heap, Plan
from stator.emit.recipes import register_whole
from stator.errors import Unsupported
from stator.frame import Frame, throw
from stator.native.attribute_rows import READERS
from stator.native.callers import CALLERS
from stator.native.rows import OUTSIDE_METHODS, method_standin, standin
from stator.tensors import randomness
from stator.tensors.randomness import TracedGenerator


class GeneratorMethod:
    """`generator.manual_seed`, yet to be called."""

    __slots__ = ("generator", "name")

    def __init__(self, generator: TracedGenerator, name: str) -> None:
        self.generator = generator
        self.name = name


ROWS: dict[str, Any] = {"manual_seed": randomness.seed, "get_state": randomness.read, "set_state": randomness.write}


def call_row(host: Any, f: Frame, name: str, generator: Any, args: list[Any], kwargs: Any) -> Any:
    try:
        result = ROWS[name](host.recorder, generator, *args, *(kwargs or {}).values())
    except Unsupported as error:
        raise host.located(error) from None
    except (TypeError, RuntimeError, OverflowError) as error:
        return throw(f, error.with_traceback(None))
    return generator if name == "set_state" else result


def read_generator(host: Any, f: Frame, generator: TracedGenerator, name: str) -> Any:
    if name in ROWS:
        return GeneratorMethod(generator, name)
    if name == "device":
        return torch.device("cpu")
    raise host.refuse("random-state", f"torch.Generator.{name}", function=f"torch.Generator.{name}")


def call_method(host: Any, f: Frame, method: GeneratorMethod, args: list[Any], kwargs: Any) -> Any:
    return call_row(host, f, method.name, method.generator, args, kwargs)


@standin(torch.Generator)
def make_generator(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    device = [*args, *(kwargs or {}).values()]
    if device and torch.device(*device).type != "cpu":
        raise host.refuse("random-state", "a generator of another device", function="torch.Generator")
    try:
        return randomness.new(host.recorder)
    except Unsupported as error:
        raise host.located(error) from None


def outside_row(name: str) -> Any:
    """A method of a generator from outside, which the graph has by itself."""

    def call(host: Any, f: Frame, method: Any, args: list[Any], kwargs: Any) -> Any:
        if args[0].device.type != "cpu":
            raise host.refuse("random-state", "a generator of another device", function=f"torch.Generator.{name}")
        return call_row(host, f, name, args[0], args[1:], kwargs)

    return call


def bound(row: Any) -> Any:
    """The same for a bound method of an object from outside."""

    def call(host: Any, f: Frame, method: Any, args: list[Any], kwargs: Any) -> Any:
        return row(host, f, method, [method.__self__, *args], kwargs)

    return call


def refuse(obj: Any, solid: Any, heap: Heap) -> Plan:
    raise CannotRebuild(obj, "a random generator of the graph cannot leave it")


def refused_row(name: str) -> Any:
    def call(host: Any, f: Frame, method: Any, args: list[Any], kwargs: Any) -> Any:
        raise host.refuse("random-state", f"torch.Generator.{name}", function=f"torch.Generator.{name}")

    return call


for _name in dir(torch.Generator):
    if not _name.startswith("_") and _name != "device":
        _row = outside_row(_name) if _name in ROWS else refused_row(_name)
        method_standin(torch.Generator, _name)(_row)
        OUTSIDE_METHODS[id(torch.Generator), _name] = bound(_row)
READERS[id(TracedGenerator)] = read_generator
CALLERS[id(GeneratorMethod)] = call_method
register_whole(TracedGenerator, refuse)
register_whole(GeneratorMethod, refuse)


@standin(torch._C._accelerator_getAccelerator)
def accelerator(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What `fork_rng` asks for: the same for as long as the process lives."""
    return function(*args, **(kwargs or {}))
