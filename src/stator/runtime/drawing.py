"""Numbers of Python's and numpy's `random`: the entry function draws them, as the program does, before the graph runs.

To the program such a number is one that only data tells. Whatever else a generator can do, CPython does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from types import FunctionType, MethodDescriptorType
from typing import Any, NamedTuple

import torch

from stator.frame import Frame
from stator.guards.check import IS
from stator.guards.path import Path
from stator.native.rows import NAMED_METHODS, OUTSIDE_METHODS
from stator.runtime.entering import answers_for
from stator.shapes.floats import FromData
from stator.tensors.array_calls import DTYPES
from stator.tensors.arrays import TracedArray

Random: Any = random.Random


class State(NamedTuple):
    """How the state of a generator is read and set."""

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]


PYTHONS = State(Random.__base__.getstate, Random.__base__.setstate)
NUMPYS = State(lambda generator: generator.get_state(), lambda generator, state: generator.set_state(state))
BITS = State(
    lambda generator: generator.bit_generator.state,
    lambda generator, state: setattr(generator.bit_generator, "state", state),
)


class Draw(NamedTuple):
    """A call that draws numbers: the generator, the method, and its arguments."""

    path: Path
    state: State
    method: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Drawn(NamedTuple):
    """In the place of a path: the number that a draw of the entry function gives."""

    place: int


def note(host: Any, owner: Any, state: State, method: Any, args: list[Any], kwargs: Any = None) -> Drawn:
    """The entry function will make this call."""
    if host.recorder.sub is not None or host.recorder.follow() is None:
        raise refusal(host, method.__name__)
    host.draws.append(Draw(host.records[id(owner)].path, state, method, tuple(args), kwargs or {}))
    return Drawn(len(host.draws) - 1)


def number(host: Any, drawn: Drawn, bounds: tuple[int, int] | None = None) -> Any:
    """A number that is drawn: an int between bounds, else a float."""
    number = host.floats.base(drawn, 0.0)
    with host.recorder.paused():
        tensor = torch.zeros((), dtype=torch.float64 if bounds is None else torch.int64, device="cpu")
    host.float_inputs[id(tensor)] = tensor, number
    traced = host.recorder.input(tensor, "drawn")
    if bounds is not None:
        return host.recorder.number_from_data(traced, *bounds)
    host.recorder.has_floats = True
    made = host.floats.base(FromData(traced, host.stack()), math.nan)
    made.tensors[torch.float64] = traced
    return made


def array(host: Any, drawn: Drawn, example: Any) -> Any:
    """An array that is drawn, the program's own."""
    with host.recorder.paused():
        tensor = torch.from_numpy(example)
    host.drawn_arrays[id(tensor)] = tensor, drawn
    return TracedArray(host.recorder.call(torch.clone, (host.recorder.input(tensor, "drawn"),), {}), type(example))


def refusal(host: Any, name: str) -> Exception:
    refused: Exception = host.refuse("native-impure", "the next random number", function=f"random.{name}")
    return refused


def integers(host: Any, name: str, args: list[Any], last: int) -> tuple[int, int]:
    """The bounds of an int; where Python or numpy would raise, or the numbers are no constants, CPython runs the call.

    `last`: what the upper bound is more than the largest number.
    """
    if not 1 <= len(args) <= 2 or not all(type(number) is int for number in args):
        raise refusal(host, name)
    low, high = args if len(args) == 2 else (0, *args)
    if not -(2**62) < low <= high - last < 2**62:
        raise refusal(host, name)
    return low, high - last


# ---- Python ---------------------------------------------------------------------------------------------------------


def from_outside(host: Any, args: list[Any]) -> bool:
    """Whether a generator is one from outside, of which capture has no copy."""
    record = host.records.get(id(args[0])) if args else None
    return record is not None and record.inner is args[0] and type(args[0]) is Random


def call_c_method(host: Any, f: Frame, method: Any, args: list[Any], kwargs: Any) -> Any:
    """A method made in C."""
    if method.__name__ != "random" or args or kwargs:
        raise refusal(host, method.__name__)
    return number(host, note(host, method.__self__, PYTHONS, Random.random, []))


@answers_for(Random.randint, Random.randrange, when=from_outside)
def call_integers(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    name, (owner, *numbers) = function.__name__, args
    if kwargs or (name == "randint" and len(numbers) != 2):
        raise refusal(host, name)
    bounds = integers(host, name, numbers, int(name == "randrange"))
    return number(host, note(host, owner, PYTHONS, function, numbers), bounds)


OPEN = frozenset({"randint", "randrange", "uniform"})  # the last one calculates with what `random` draws
METHODS = [value for name, value in vars(Random).items() if type(value) is FunctionType and name[:2] != "__"]


@answers_for(*(method for method in METHODS if method.__name__ not in OPEN), when=from_outside)
def refuse(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    raise refusal(host, function.__name__)


for _name, _method in vars(Random.__base__).items():
    if type(_method) is MethodDescriptorType:
        OUTSIDE_METHODS[id(Random), _name] = call_c_method

# ---- numpy ----------------------------------------------------------------------------------------------------------

# Methods that give a float or an array of numbers.
DISTRIBUTIONS = frozenset({
    "random", "standard_normal", "standard_exponential", "uniform", "normal", "beta", "gamma", "exponential",
    "lognormal", "laplace", "triangular", "chisquare", "standard_gamma", "gumbel", "logistic", "pareto", "weibull",
    "power", "rayleigh", "vonmises", "binomial", "poisson", "geometric", "dirichlet", "multinomial", "permutation",
    "choice",
})  # fmt: skip
OLDER = DISTRIBUTIONS | {"random_sample", "rand", "randn", "randint"}
NEWER = DISTRIBUTIONS | {"integers"}
SIMPLE = (int, float, bool, type(None))


def is_constant(value: Any) -> bool:
    """Whether the source of the entry function can hold a value."""
    if type(value) is tuple:
        return all(map(is_constant, value))
    return type(value) in SIMPLE and (type(value) is not float or math.isfinite(value))


def call_numpy(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What comes out, and whether the arguments will do, a generator of our own tells."""
    owner, *given = args
    name = function.__name__
    if not all(map(is_constant, [*given, *(kwargs or {}).values()])):
        raise refusal(host, name)
    older = hasattr(owner, "get_state")
    kind = type(owner)
    try:
        trial = function(kind(0) if older else kind(type(owner.bit_generator)(0)), *given, **(kwargs or {}))
    except Exception:
        raise refusal(host, name) from None
    bounds = integers(host, name, given, 1) if type(trial) is int and name == "randint" and not kwargs else None
    plain = is_array(trial) and trial.flags.c_contiguous and trial.flags.writeable and trial.dtype in DTYPES
    if type(trial) is not float and bounds is None and not plain:
        raise refusal(host, name)
    if (record := host.records.get(id(function))) is not None:  # all are of one type
        host.guards.add(record.path, IS, function, host.origin())
    drawn = note(host, owner, NUMPYS if older else BITS, function, given, kwargs)
    return array(host, drawn, trial) if plain else number(host, drawn, bounds)


def is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


for _kind, _names in {"mtrand.RandomState": OLDER, "_generator.Generator": NEWER}.items():
    NAMED_METHODS.update({(f"numpy.random.{_kind}", name): call_numpy for name in _names})
