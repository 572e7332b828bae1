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
from stator.guards.path import Path
from stator.native.rows import NAMED_METHODS, OUTSIDE_METHODS
from stator.runtime.entering import answers_for
from stator.shapes.floats import FromData

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
    """A call that draws a number: the generator, the method, and its arguments."""

    path: Path
    state: State
    method: Any
    args: tuple[Any, ...]


class Drawn(NamedTuple):
    """In the place of a path: the number that a draw of the entry function gives."""

    place: int


def draw(host: Any, owner: Any, call: tuple[State, Any, list[Any]], bounds: tuple[int, int] | None = None) -> Any:
    """The number that the entry function will draw: an int between bounds, else a float."""
    state, method, args = call
    symbols = None if host.recorder.sub is not None else host.recorder.follow()
    if symbols is None:
        raise refusal(host, method.__name__)
    number = host.floats.base(Drawn(len(host.draws)), 0.0)
    host.draws.append(Draw(host.records[id(owner)].path, state, method, tuple(args)))
    with host.recorder.paused():
        tensor = torch.zeros((), dtype=torch.float64 if bounds is None else torch.int64, device="cpu")
    host.float_inputs[id(tensor)] = tensor, number
    traced = host.recorder.input(tensor, "drawn")
    if bounds is not None:
        return host.recorder.number_from_data(traced, *bounds)
    host.recorder.has_floats = True
    made = host.floats.base(FromData(traced, symbols.stack()), math.nan)
    made.tensors[torch.float64] = traced
    return made


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
    return draw(host, method.__self__, (PYTHONS, Random.random, []))


@answers_for(Random.randint, Random.randrange, when=from_outside)
def call_integers(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    name, (owner, *numbers) = function.__name__, args
    if kwargs or (name == "randint" and len(numbers) != 2):
        raise refusal(host, name)
    bounds = integers(host, name, numbers, int(name == "randrange"))
    return draw(host, owner, (PYTHONS, function, numbers), bounds)


OPEN = frozenset({"randint", "randrange", "uniform"})  # the last one calculates with what `random` draws
METHODS = [value for name, value in vars(Random).items() if type(value) is FunctionType and name[:2] != "__"]


@answers_for(*(method for method in METHODS if method.__name__ not in OPEN), when=from_outside)
def refuse(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    raise refusal(host, function.__name__)


for _name, _method in vars(Random.__base__).items():
    if type(_method) is MethodDescriptorType:
        OUTSIDE_METHODS[id(Random), _name] = call_c_method

# ---- numpy ----------------------------------------------------------------------------------------------------------

# Distributions, and how many parameters they have: with these alone they give one float.
FLOATS = {
    "random": 0, "standard_normal": 0, "standard_exponential": 0, "uniform": 2, "normal": 2, "beta": 2, "gamma": 2,
    "exponential": 1, "lognormal": 2, "laplace": 2, "triangular": 3, "chisquare": 1, "standard_gamma": 1, "gumbel": 2,
    "logistic": 2, "pareto": 1, "weibull": 1, "power": 1, "rayleigh": 1, "vonmises": 2,
}  # fmt: skip
OLDER = {"random_sample": 0, "rand": 0, "randn": 0}


def call_float(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """One number of a distribution; the arguments are tried on a generator of our own."""
    owner, *numbers = args
    name = function.__name__
    if kwargs or len(numbers) > (FLOATS | OLDER)[name] or not all(type(number) in (int, float) for number in numbers):
        raise refusal(host, name)
    state = NUMPYS if name in OLDER or hasattr(owner, "get_state") else BITS
    try:
        tried = function(trial(owner), *numbers)
    except Exception:
        raise refusal(host, name) from None
    if type(tried) is not float:
        raise refusal(host, name)
    return draw(host, owner, (state, function, numbers))


def trial(owner: Any) -> Any:
    """A generator of the same kind, for nobody else."""
    kind = type(owner)
    return kind(0) if hasattr(owner, "get_state") else kind(type(owner.bit_generator)(0))


def call_randint(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    owner, *numbers = args
    if kwargs:
        raise refusal(host, "randint")
    return draw(host, owner, (NUMPYS, function, numbers), integers(host, "randint", numbers, 1))


for _kind, _names in {
    "numpy.random.mtrand.RandomState": FLOATS | OLDER,
    "numpy.random._generator.Generator": FLOATS,
}.items():
    NAMED_METHODS.update({(_kind, name): call_float for name in _names})
NAMED_METHODS["numpy.random.mtrand.RandomState", "randint"] = call_randint
