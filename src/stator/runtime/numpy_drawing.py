"""Generators of numpy: the entry function draws from those that come from outside; others are real while capturing."""

from __future__ import annotations

from typing import Any

from stator.frame import Frame
from stator.guards.check import IS
from stator.native.callers import CALLERS, call_object
from stator.native.rows import NAMED_METHODS, standin
from stator.runtime import arrays
from stator.runtime.drawing import State, array, constant, integers, is_constant, note, number, refusal
from stator.runtime.number_calls import ROW_KINDS, ROWS
from stator.tensors.array_calls import DTYPES, np
from stator.tensors.arrays import is_array

NUMPYS = State(lambda generator: generator.get_state(), lambda generator, state: generator.set_state(state))
BITS = State(
    lambda generator: generator.bit_generator.state,
    lambda generator, state: setattr(generator.bit_generator, "state", state),
)

# Methods that give a float or an array of numbers.
DISTRIBUTIONS = frozenset({
    "random", "standard_normal", "standard_exponential", "uniform", "normal", "beta", "gamma", "exponential",
    "lognormal", "laplace", "triangular", "chisquare", "standard_gamma", "gumbel", "logistic", "pareto", "weibull",
    "power", "rayleigh", "vonmises", "binomial", "poisson", "geometric", "dirichlet", "multinomial", "permutation",
    "choice",
})  # fmt: skip
OLDER = DISTRIBUTIONS | {"random_sample", "rand", "randn", "randint", "seed"}
NEWER = DISTRIBUTIONS | {"integers"}
OWN = frozenset({"shuffle", "permuted", "bytes"})  # of generators that the program made


def call_numpy(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What comes out, and whether the arguments will do, a generator of our own tells."""
    owner, *given = args
    name = function.__name__
    if id(owner) not in host.records:  # the program made it: it draws the same numbers each time
        return run(host, f, function, args, kwargs)
    for value in (*given, *(kwargs or {}).values()):
        host.settled(value)
    if not all(map(is_constant, [*given, *(kwargs or {}).values()])):
        raise refusal(host, name)
    older = hasattr(owner, "get_state")
    kind = type(owner)
    try:
        trial = function(kind(0) if older else kind(type(owner.bit_generator)(0)), *given, **(kwargs or {}))
    except Exception:
        raise refusal(host, name) from None
    bounds = integers(host, name, given, 1) if type(trial) is int and name == "randint" and not kwargs else None
    if type(trial) is not float and bounds is None and not is_plain(trial) and name != "seed":
        raise refusal(host, name)
    if (record := host.records.get(id(function))) is not None:  # all are of one type
        host.guards.add(record.path, IS, function, host.origin())
    given, kwargs = [constant(value) for value in given], {k: constant(v) for k, v in (kwargs or {}).items()}
    drawn = note(host, owner, NUMPYS if older else BITS, function, given, kwargs)
    if name == "seed":
        return None
    return array(host, drawn, trial) if is_plain(trial) else number(host, drawn, bounds)


def is_plain(value: Any) -> bool:
    """Whether the graph can be given an array or a scalar of numpy."""
    kind = type(value)
    if not is_array(value):
        return kind.__module__ == "numpy" and getattr(value, "dtype", None) in DTYPES
    return bool(value.flags.c_contiguous and value.flags.writeable and value.dtype in DTYPES)


for _kind, _names in {"mtrand.RandomState": OLDER, "_generator.Generator": NEWER}.items():
    NAMED_METHODS.update({(f"numpy.random.{_kind}", name): call_numpy for name in _names | OWN})

# ---- generators that the program makes ------------------------------------------------------------------------------


def run(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if not arrays.is_plain(args[1:]) or not arrays.is_plain(kwargs or {}):
        raise refusal(host, function.__name__)
    return arrays.run(host, f, function, args, kwargs or {})


def make(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """With a seed it draws the same numbers in every run; without one, the operating system gives it."""
    seeds = [*args, *(kwargs or {}).values()]
    if len(seeds) != 1 or not is_seed(host, seeds[0]):
        raise host.refuse("random-state", "a generator without such a seed", function=f"numpy.{function.__name__}")
    return function(*args, **(kwargs or {}))


def is_seed(host: Any, seed: Any) -> bool:
    if type(seed) is int:
        return 0 <= seed < 2**32
    return isinstance(seed, np.random.BitGenerator) and id(seed) not in host.records


def call_cython(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if function is np.random.default_rng:
        return make(host, f, function, args, kwargs)
    if function is np.random.seed:
        generator = host.enter_const(np.random.mtrand._rand)
        return call_numpy(host, f, np.random.RandomState.seed, [generator, *args], kwargs)
    return call_object(host, f, function, args, kwargs)


def varying_seed(host: Any, f: Frame, args: list[Any]) -> Any:
    """One that is another one on each call draws other numbers each time: CPython does that."""
    if host.may_break and any(type(arg) in host.varying_types for arg in args):
        raise host.refuse("random-state", "a seed that varies", function="numpy.random")
    return NotImplemented


if np is not None:
    ROW_KINDS.add(type(np.random.default_rng))
    ROWS.update(dict.fromkeys((np.random.default_rng, np.random.seed, np.random.RandomState), varying_seed))
    for _name in ("RandomState", "Generator", "PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"):
        standin(getattr(np.random, _name))(make)
    CALLERS[id(type(np.random.default_rng))] = call_cython
