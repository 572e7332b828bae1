"""Numbers of `random`: the entry function draws them, as the program does, before the graph runs.

To the program such a number is one that only data tells. Whatever else a generator can do, CPython does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodDescriptorType
from typing import Any, NamedTuple

import torch

from stator.frame import UNBOUND, Frame
from stator.guards.path import Path
from stator.native.callers import call_python
from stator.native.receivers import unbound
from stator.native.rows import OUTSIDE_METHODS, method_row
from stator.runtime.entering import answers_for
from stator.runtime.pinning import leave_counted
from stator.shapes.floats import FromData
from stator.tensors.arrays import TracedArray, is_array

Random: Any = random.Random
C_RANDOM: Any = Random.__base__


class State(NamedTuple):
    """How the state of a generator is read and set."""

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]


def read_state(generator: Any) -> Any:
    """The state of a generator, which may be one that is still being made."""
    return C_RANDOM.getstate(generator), vars(generator).get("gauss_next", UNBOUND)


def write_state(generator: Any, state: Any) -> None:
    numbers, second = state
    C_RANDOM.setstate(generator, numbers)
    if second is UNBOUND:
        vars(generator).pop("gauss_next", None)
    else:
        generator.gauss_next = second


PYTHONS = State(read_state, write_state)


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


class DrawnArray(NamedTuple):
    """An input of the graph that a draw gives, and what makes a tensor of it."""

    tensor: torch.Tensor
    drawn: Drawn
    convert: Callable[[Any], torch.Tensor]


def note(host: Any, owner: Any, state: State, method: Any, args: list[Any], kwargs: Any = None) -> Drawn:
    """The entry function will make this call."""
    if host.recorder.sub is not None or host.recorder.follow() is None:
        raise refusal(host, method.__name__)
    if state is PYTHONS:
        host.namespace_of(host.records[id(owner)]).lose("gauss_next")
    host.draws.append(Draw(host.records[id(owner)].path, state, method, tuple(args), kwargs or {}))
    return Drawn(len(host.draws) - 1)


def number(host: Any, drawn: Drawn, bounds: tuple[int, int] | None = None) -> Any:
    """A number that is drawn: an int between bounds, else a float."""
    number = host.floats.base(drawn, 0.0)
    with host.recorder.paused():
        tensor = torch.zeros((), dtype=torch.float64 if bounds is None else torch.int64, device="cpu")
    host.float_inputs[id(tensor)] = tensor, number
    traced = host.recorder.input(tensor, "drawn")
    return float_of(host, traced) if bounds is None else host.recorder.number_from_data(traced, *bounds)


def given(host: Any, drawn: Drawn, example: torch.Tensor, convert: Callable[[Any], torch.Tensor]) -> Any:
    """An input of the graph."""
    host.drawn_arrays[id(example)] = DrawnArray(example, drawn, convert)
    return host.recorder.input(example, "drawn")


def array(host: Any, drawn: Drawn, example: Any) -> Any:
    """An array or a scalar of numpy that is drawn, the program's own."""
    convert = torch.from_numpy if is_array(example) else torch.tensor
    with host.recorder.paused():
        tensor = convert(example)
    return TracedArray(host.recorder.call(torch.clone, (given(host, drawn, tensor, convert),), {}), type(example))


def numbers(host: Any, drawn: Drawn, count: int, bounds: tuple[int, int] | None) -> list[Any]:
    """A list of numbers that is drawn."""
    dtype = torch.float64 if bounds is None else torch.int64
    with host.recorder.paused():
        tensor = torch.zeros(count, dtype=dtype, device="cpu")
    traced = given(host, drawn, tensor, CONVERTERS[dtype])
    made = []
    for place in range(count):
        one = host.recorder.call(torch.select, (traced, 0, place), {})
        made.append(host.recorder.number_from_data(one, *bounds) if bounds else float_of(host, one))
    return made


def float_of(host: Any, traced: Any) -> Any:
    host.recorder.has_floats = True
    made = host.floats.base(FromData(traced, host.stack()), math.nan)
    made.tensors[torch.float64] = traced
    return made


CONVERTERS = {
    dtype: partial(torch.tensor, dtype=dtype, device="cpu", requires_grad=False)
    for dtype in (torch.float64, torch.int64)
}


def refusal(host: Any, name: str) -> Exception:
    if host.patient:  # the state is guarded then
        host.recorder.follow()
    refused: Exception = host.refuse("native-impure", "the next random number", function=f"random.{name}")
    return refused


def integers(host: Any, name: str, args: list[Any], last: int) -> tuple[int, int]:
    """The bounds of an int; where Python or numpy would raise, or the numbers are no constants, CPython runs the call.

    `last`: what the upper bound is more than the largest number.
    """
    if not 1 <= len(args) <= 2 or not all(type(number) is int for number in args):
        raise refusal(host, name)
    low, high = args if len(args) == 2 else (0, *args)
    if not -MOST < low <= high - last < MOST:
        raise refusal(host, name)
    return low, high - last


MOST = 2**62


# ---- Python ---------------------------------------------------------------------------------------------------------


def from_outside(host: Any, args: list[Any]) -> bool:
    """Whether a generator is one from outside, of which capture has no copy."""
    record = host.records.get(id(args[0])) if args else None
    return record is not None and record.obj is args[0] and type(args[0]) is Random


def unpatched(host: Any, args: list[Any]) -> bool:
    """Whether such a generator draws as the library does: the program has changed neither its methods nor its state."""
    if not from_outside(host, args):
        return False
    host.guard_type(Random)
    now, namespace = vars(Random), host.namespace_of(host.records[id(args[0])])
    return (
        all(now.get(name) is LIBRARYS.get(name) for name in now.keys() | LIBRARYS.keys())
        and all(owner is not Random for owner, *_ in host.class_writes.values())
        and all(namespace.get(name) is UNBOUND for name in SOURCES)
        and "gauss_next" not in namespace.touched
    )


LIBRARYS = dict(vars(Random))
SOURCES = ("random", "getrandbits", "_randbelow")  # what the other methods ask for numbers


def call_c_method(host: Any, f: Frame, method: Any, args: list[Any], kwargs: Any) -> Any:
    """A method made in C, of a generator from outside or a copy of one."""
    owner, name = method.__self__, method.__name__
    if not from_outside(host, [owner]):
        row = method_row(name, owner)
        if row is not None:
            return row(host, f, unbound(method, owner), [owner, *args], kwargs)
        return call_python(host, f, method, args, kwargs)
    if name == "random" and not args and not kwargs:
        return number(host, note(host, owner, PYTHONS, C_RANDOM.random, []))
    if name == "getrandbits" and len(args) == 1 and not kwargs and type(args[0]) is int and 0 < args[0] <= 62:
        return number(host, note(host, owner, PYTHONS, C_RANDOM.getrandbits, args), (0, 2 ** args[0] - 1))
    raise refusal(host, name)


@answers_for(Random.randint, Random.randrange, when=unpatched)
def call_integers(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    name, (owner, *numbers) = function.__name__, args
    if kwargs or (name == "randint" and len(numbers) != 2):
        raise refusal(host, name)
    if name == "randrange" and len(numbers) == 3:
        bounds = stepping(host, numbers)
    else:
        bounds = integers(host, name, numbers, int(name == "randrange"))
    return number(host, note(host, owner, PYTHONS, function, numbers), bounds)


def stepping(host: Any, numbers: list[Any]) -> tuple[int, int]:
    """The bounds of `randrange(start, stop, step)`."""
    plain = all(type(number) is int and -MOST < number < MOST for number in numbers)
    found = range(*numbers) if plain and numbers[2] else ()
    if not found:
        raise refusal(host, "randrange")
    return min(found[0], found[-1]), max(found[0], found[-1])


FLOATS = (
    Random.gauss, Random.normalvariate, Random.expovariate, Random.betavariate, Random.gammavariate, Random.triangular,
    Random.vonmisesvariate,
)  # fmt: skip
LARGEST = 1e6  # arguments with which none of them raises for some of the numbers drawn


@answers_for(*FLOATS, when=unpatched)
def call_distribution(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A float; whether the arguments will do, a generator of our own tells."""
    owner, *given = args
    numbers = [*given, *(kwargs or {}).values()]
    if not all(type(number) in (int, float) and abs(number) <= LARGEST for number in numbers):
        raise refusal(host, function.__name__)
    tried(host, function, given, kwargs)
    return number(host, note(host, owner, PYTHONS, function, given, kwargs))


def tried(host: Any, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What such a call gives; where it raises, CPython does that."""
    try:
        return function(Random(0), *args, **(kwargs or {}))
    except Exception:
        raise refusal(host, function.__name__) from None


@answers_for(Random.seed, when=unpatched)
def call_seed(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    owner, *given = args
    if kwargs or len(given) > 1 or (given and type(given[0]) not in (int, str, bytes, type(None))):
        raise refusal(host, "seed")
    note(host, owner, PYTHONS, function, given)


LONGEST = 32  # numbers that one call draws: each is one of the graph


def numbers_in(host: Any, f: Frame, name: str, values: Any) -> tuple[int, int] | None:
    """The bounds of the ints in a sequence, None for floats; with anything else CPython runs the call, as it does where
    another number of them is drawn from each time."""
    leave_counted(host, f, values)
    host.settled(values)
    kinds = set(map(type, values)) if type(values) in (list, tuple, range) and len(values) <= MOST_VALUES else set()
    if kinds == {float} and all(map(math.isfinite, values)):
        return None
    if kinds != {int} or not -MOST < min(values) <= max(values) < MOST:
        raise refusal(host, name)
    return min(values), max(values)


MOST_VALUES = 4096


@answers_for(Random.choice, when=unpatched)
def call_choice(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    owner, *given = args
    if kwargs or len(given) != 1:
        raise refusal(host, "choice")
    bounds = numbers_in(host, f, "choice", given[0])
    return number(host, note(host, owner, PYTHONS, function, [constant(given[0])]), bounds)


@answers_for(Random.sample, Random.choices, when=unpatched)
def call_sample(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Numbers out of others: a list of them."""
    name, (owner, *given) = function.__name__, args
    rest = [*given[1:], *(kwargs or {}).values()]
    if not given:
        raise refusal(host, name)
    bounds = numbers_in(host, f, name, given[0])
    if not all(map(is_constant, rest)):
        raise refusal(host, name)
    made = tried(host, function, given, kwargs)
    if len(made) > LONGEST:
        raise refusal(host, name)
    given, kwargs = [constant(value) for value in given], {k: constant(v) for k, v in (kwargs or {}).items()}
    return numbers(host, note(host, owner, PYTHONS, function, given, kwargs), len(made), bounds) if made else []


@answers_for(Random.shuffle, when=unpatched)
def call_shuffle(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    owner, *given = args
    if kwargs or len(given) != 1 or type(given[0]) is not list:
        raise refusal(host, "shuffle")
    values = given[0]
    bounds = numbers_in(host, f, "shuffle", values)
    if len(values) > LONGEST:
        raise refusal(host, "shuffle")
    values[:] = numbers(host, note(host, owner, PYTHONS, shuffled, [constant(values)]), len(values), bounds)


def shuffled(generator: Any, values: tuple[Any, ...]) -> list[Any]:
    """What `shuffle` makes of a list."""
    made = list(values)
    Random.shuffle(generator, made)
    return made


SIMPLE = (int, float, bool, type(None))


def is_constant(value: Any) -> bool:
    """Whether the source of the entry function can hold a value."""
    if type(value) in (tuple, list):
        return all(map(is_constant, value))
    return type(value) in SIMPLE and (type(value) is not float or math.isfinite(value))


def constant(value: Any) -> Any:
    """A list as it is now."""
    return tuple(map(constant, value)) if type(value) in (list, tuple) else value


ANSWERED = frozenset({
    "randint", "randrange", "uniform", "choice", "sample", "choices", "shuffle", "seed",
    *(method.__name__ for method in FLOATS),
})  # fmt: skip  # `uniform` calculates with what `random` draws
METHODS = [value for name, value in vars(Random).items() if type(value) is FunctionType and name[:2] != "__"]


@answers_for(*(method for method in METHODS if method.__name__ not in ANSWERED), when=unpatched)
def refuse(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    raise refusal(host, function.__name__)


for _name, _method in vars(C_RANDOM).items():
    if type(_method) is MethodDescriptorType:
        OUTSIDE_METHODS[id(Random), _name] = call_c_method
