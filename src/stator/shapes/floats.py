"""The stand-in for a float that changes from call to call: a 0-d tensor in the graph, a float to Python code."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from stator._entry import RELATION_OPS
from stator.guards.check import EQ
from stator.guards.path import Path
from stator.guards.relation import SIDE, Operand, Relation
from stator.shapes.scalar import TracedInt

Load = Callable[[Path], str]


class TracedFloat:
    """A symbolic float: its value now, the 0-d tensor that has it in the graph, and how Python calculates it again."""

    __slots__ = ("base", "guards", "origin", "paths", "source", "tensor", "value")

    def __init__(
        self,
        value: float,
        tensor: Any,
        source: Callable[[Load], str],
        paths: dict[Path, float],
        guards: Any,
        origin: Any,
    ) -> None:
        self.value = value
        self.tensor = tensor
        self.source = source
        self.paths = paths  # floats from outside that it depends on, with their values
        self.guards = guards
        self.origin = origin
        self.base: Path | None = None  # where it lies, if it was not calculated

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    def decay(self) -> float:
        """The value, guarded to be the same in the next call."""
        for path, value in self.paths.items():
            self.guards.add(path, EQ, value, self.origin())
        return self.value

    def derived(self, value: float, tensor: Any, source: Callable[[Load], str], other: Any = None) -> TracedFloat:
        paths = self.paths | other.paths if type(other) is TracedFloat else self.paths
        return TracedFloat(value, tensor, source, paths, self.guards, self.origin)

    def __neg__(self) -> Any:
        return self.derived(-self.value, -self.tensor, lambda load: f"(-{self.source(load)})")

    def __pos__(self) -> Any:
        return self

    def __hash__(self) -> int:
        return hash(self.decay())

    def __bool__(self) -> bool:
        return bool(operator.ne(self, 0))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return float, (self.decay(),)


_OTHERS = frozenset({bool, complex, TracedInt})
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}


def _number(value: Any) -> Any:
    return value.decay() if type(value) is TracedFloat or type(value) is TracedInt else value


def _source(value: Any, load: Load) -> str:
    return value.source(load) if type(value) is TracedFloat else f"({value!r})"


def _finite(value: Any) -> bool:
    return type(value) is int or value - value == 0


def _arithmetic(name: str) -> None:
    """+, -, * of floats and ints, / by a constant other than zero: these never raise. Others take constants."""
    function, sign = getattr(operator, name), _SIGNS[name]

    def combine(left: Any, right: Any, this: TracedFloat) -> Any:
        other = right if left is this else left
        if type(other) not in (int, float, TracedFloat):
            if type(other) not in _OTHERS:
                return NotImplemented
            return (
                function(_number(left), _number(right))
                if type(other) is complex
                else function(*(part if part is this else int(part) for part in (left, right)))
            )
        constant = type(other) is not TracedFloat
        if (name == "truediv" and (type(right) is TracedFloat or right == 0)) or (constant and not _finite(other)):
            return function(_number(left), _number(right))
        if constant and abs(other) > _LARGEST:
            return function(_number(left), _number(right))
        value = function(*(part.value if type(part) is TracedFloat else part for part in (left, right)))
        tensor = function(*(part.tensor if type(part) is TracedFloat else float(part) for part in (left, right)))
        return this.derived(value, tensor, lambda load: f"({_source(left, load)} {sign} {_source(right, load)})", other)

    setattr(TracedFloat, f"__{name}__", lambda self, other: combine(self, other, self))
    setattr(TracedFloat, f"__r{name}__", lambda self, other: combine(other, self, self))


_LARGEST = 1 << 53  # ints up to here are floats exactly


def _comparison(name: str) -> None:
    """A comparison of a float from outside with a constant is guarded by its side, others by the value."""
    function = getattr(operator, name)

    def compare(self: TracedFloat, other: Any) -> Any:
        if self.base is None or type(other) not in (int, float) or not _is_bound(other) or self.value != self.value:
            return getattr(float, f"__{name}__")(self.decay(), _number(other))
        operand = Operand(self.base, SIDE, bound=float(other))
        side = (self.value > other) - (self.value < other)
        code = (RELATION_OPS["LOAD"], 0, RELATION_OPS["CONST"], side, RELATION_OPS["EQ"], 0)
        self.guards.relation(Relation((operand,), code, f"{{0}} == {side}"), self.origin())
        return function(self.value, other)

    setattr(TracedFloat, f"__{name}__", compare)


def _is_bound(other: Any) -> bool:
    """Whether a number is a float exactly, and finite."""
    return _finite(other) and abs(other) <= _LARGEST


def _native(name: str) -> None:
    method = getattr(float, name)

    def decay(self: TracedFloat, *args: Any) -> Any:
        return method(self.decay(), *map(_number, args))

    setattr(TracedFloat, name, decay)


for _name in _SIGNS:
    _arithmetic(_name)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)
for _name in (
    "__float__", "__int__", "__str__", "__repr__", "__format__", "__abs__", "__pow__", "__rpow__", "__floordiv__",
    "__rfloordiv__", "__mod__", "__rmod__", "__divmod__", "__rdivmod__", "__round__", "__trunc__", "__floor__",
    "__ceil__", "is_integer", "as_integer_ratio", "hex", "conjugate",
):  # fmt: skip
    _native(_name)


# ---- torch calls: a scalar argument becomes a tensor ----------------------------------------------


def _forms(*names: str) -> dict[Any, str]:
    """Function, method, in-place method and operators of these names, with the name."""
    found: dict[Any, str] = {}
    for name in names:
        for owner, attribute in (
            (torch, name), (torch.Tensor, name), (torch.Tensor, f"{name}_"), (torch.Tensor, f"__{name}__"),
            (torch.Tensor, f"__r{name}__"), (torch.Tensor, f"__i{name}__"), (operator, name), (operator, f"i{name}"),
        ):  # fmt: skip
            function = getattr(owner, attribute, None)
            if function is not None:
                found[function] = name
    return found


BINARY = _forms("add", "sub", "mul", "div", "true_divide", "truediv", "pow", "subtract", "multiply", "divide")
FUSED = _forms("addcmul", "addcdiv")
CAST = _forms("lerp", "fill", "masked_fill")  # the last argument may be a 0-d tensor of the same type


FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor}  # see tensors.from_data


def scalar_for(operand: Any, number: TracedFloat) -> Any:
    """The scalar as a tensor that meets `operand` as the float would: it decides no dtype and loses no digits."""
    meta = operand._meta
    with torch._C.DisableTorchFunction():
        sample = torch.empty((1,) * len(meta.size), dtype=meta.dtype, device="cpu")
        wanted = torch.result_type(sample, 1.0)
        mixed = torch.result_type(sample, torch.empty((), dtype=torch.float64, device="cpu"))
    if mixed is wanted:
        return number.tensor
    return number.decay() if wanted.itemsize < 4 else number.tensor.to(wanted)


def tensorised(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in which symbolic floats are tensors where the operation takes them, and constants elsewhere."""
    if func in FROM_DATA:
        return args, kwargs
    rule = next((rule for table, rule in _RULES if func in table), None)
    if rule is not None:
        args, kwargs = rule(func, args, kwargs)
    return tuple(map(_constant, args)), {name: _constant(value) for name, value in kwargs.items()}


def _constant(value: Any) -> Any:
    return value.decay() if type(value) is TracedFloat else value


def _is_tensor(value: Any) -> bool:
    return isinstance(type(value), type) and issubclass(type(value), torch.Tensor)


def _binary(func: Any, args: Any, kwargs: Any) -> Any:
    if len(args) != 2 or not any(map(_is_tensor, args)):
        return args, kwargs
    alpha = kwargs.get("alpha")
    if type(alpha) is TracedFloat and all(map(_is_tensor, args)):
        rest = {name: value for name, value in kwargs.items() if name != "alpha"}
        return (args[0], args[1] * scalar_for(args[1], alpha)), rest
    if alpha is not None:
        return args, kwargs
    tensor = next(filter(_is_tensor, args))
    return tuple(scalar_for(tensor, arg) if type(arg) is TracedFloat else arg for arg in args), kwargs


def _fused(func: Any, args: Any, kwargs: Any) -> Any:
    """`addcmul(x, a, b, value=v)` as `addcmul(x, a * v, b)`."""
    value = kwargs.get("value")
    if len(args) != 3 or type(value) is not TracedFloat or not all(map(_is_tensor, args)):
        return args, kwargs
    rest = {name: item for name, item in kwargs.items() if name != "value"}
    return (args[0], args[1] * scalar_for(args[1], value), args[2]), rest


def _cast(func: Any, args: Any, kwargs: Any) -> Any:
    if kwargs or type(args[-1]) is not TracedFloat or not _is_tensor(args[0]):
        return args, kwargs
    dtype = args[0]._meta.dtype
    return (*args[:-1], args[-1].tensor.to(dtype)) if dtype.is_floating_point else args, kwargs


_RULES = ((BINARY, _binary), (FUSED, _fused), (CAST, _cast))
