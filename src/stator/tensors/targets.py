"""Which callables are torch operations, and how each one is written into the graph."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils import _device

from stator.tensors.signals import UnsupportedOp
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

Handler = Callable[["Recorder", tuple[Any, ...], dict[str, Any]], Any]


class Target:
    """How one callable is recorded: FX op and target, and what propagation runs."""

    __slots__ = (
        "factory",
        "func",
        "general",
        "handler",
        "name",
        "op",
        "opaque",
        "operator",
        "reflected",
        "target",
        "unique",
    )

    def __init__(self, func: Any, op: str, target: Any, name: str, handler: Handler | None = None) -> None:
        self.func = func
        self.op = op
        self.target = target
        self.name = safe_name(name)
        self.handler = handler
        self.operator: Target | None = None  # the same with two plain arguments, as an operator
        self.reflected = False
        self.factory = False  # takes the default device
        self.general = False  # not only for tensors: an operator
        self.opaque = False  # a function of the user: nothing is known about it
        self.unique = False  # made for one call: nothing is remembered


def safe_name(name: str) -> str:
    """A base for node names that needs no further check."""
    text = _ODD.sub("_", name).lstrip("_").lower() or "value"
    if text[0].isdigit():
        text = "_" + text
    if keyword.iskeyword(text) or text in _RESERVED:
        text += "_"
    return text


def called(node: Any) -> str:
    """The name of what a node of a graph calls."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


_ODD = re.compile(r"[^A-Za-z0-9_]+")
_RESERVED = frozenset(dir(builtins)) | {"self", "torch", "device", "inf", "nan"}

# operator, number of operands, methods of Tensor that mean it, methods that mean it with operands swapped
_OPERATORS: tuple[tuple[Any, int, str, str], ...] = (
    (operator.add, 2, "__add__ add", "__radd__"),
    (operator.sub, 2, "__sub__ sub", "__rsub__"),
    (operator.mul, 2, "__mul__ mul", "__rmul__"),
    (operator.truediv, 2, "__truediv__ __div__ div", "__rtruediv__ __rdiv__"),
    (operator.floordiv, 2, "__floordiv__ floor_divide", "__rfloordiv__"),
    (operator.mod, 2, "__mod__ remainder", "__rmod__"),
    (operator.pow, 2, "__pow__ pow", "__rpow__"),
    (operator.matmul, 2, "__matmul__ matmul", "__rmatmul__"),
    (operator.and_, 2, "__and__ bitwise_and", "__rand__"),
    (operator.or_, 2, "__or__ bitwise_or", "__ror__"),
    (operator.xor, 2, "__xor__ bitwise_xor", "__rxor__"),
    (operator.lshift, 2, "__lshift__", "__rlshift__"),
    (operator.rshift, 2, "__rshift__", "__rrshift__"),
    (operator.eq, 2, "__eq__ eq", ""),
    (operator.ne, 2, "__ne__ ne", ""),
    (operator.lt, 2, "__lt__ lt", ""),
    (operator.le, 2, "__le__ le", ""),
    (operator.gt, 2, "__gt__ gt", ""),
    (operator.ge, 2, "__ge__ ge", ""),
    (operator.neg, 1, "__neg__ neg", ""),
    (operator.pos, 1, "__pos__ positive", ""),
    (operator.invert, 1, "__invert__", ""),
    (operator.abs, 1, "__abs__", ""),
    (operator.getitem, 2, "__getitem__", ""),
    (operator.setitem, 3, "__setitem__", ""),
)

# In-place operators are the plain ones when the left side is no tensor.
_INPLACE: dict[Any, Any] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
    operator.imatmul: operator.matmul,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
}

# Python functions of these modules only run torch operations on their arguments.
_LEAF_MODULES = frozenset(
    {"torch.nn.functional", "torch.functional", "torch._tensor", "torch._lowrank"}
    | {
        "stator.shapes.scalar_ops",
        "stator.shapes.spacing",
        "stator.tensors.traceable",
        "stator.tensors.cuts",
        "stator.tensors.products",
        "stator.tensors.slopes",
    }
)

# ... except for these, whose bodies have to be interpreted.
NOT_LEAVES: frozenset[Any] = frozenset(
    {
        F.triplet_margin_with_distance_loss,  # calls a function of the user
        torch.Tensor.__dir__,
        torch.Tensor.__torch_function__,
        torch.Tensor.__setstate__,
        torch.Tensor.__reduce_ex__,
        torch.Tensor.module_load,
    }
)

_C_MODULES = frozenset(
    {"torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special", "torch._C._sparse", "torch._C._nested"}
)

_targets: dict[Any, Target] = {}


def target_of(func: Any) -> Target | None:
    """How `func` is recorded; None when it is no torch operation."""
    found = _targets.get(func)
    if found is None:
        found = _classify(func)
        if found is not None:
            _targets[func] = found
    return found


def register(func: Any, handler: Handler) -> None:
    """Calls of `func` go to `handler` instead of being recorded as they are."""
    found = target_of(func)
    if found is None:
        found = _targets[func] = Target(func, "call_function", func, getattr(func, "__name__", "call"))
    found.handler = handler


def unbind(func: Any) -> tuple[Any, Any]:
    """A bound method of a traced tensor as (function of the class, self); (func, None) otherwise."""
    owner = getattr(func, "__self__", None)
    if type(owner) is not TracedTensor:
        return func, None
    plain = getattr(func, "__func__", None)
    return (plain if plain is not None else getattr(torch.Tensor, func.__name__)), owner


def _classify(func: Any) -> Target | None:
    rule = _KINDS.get(type(func))
    return rule(func) if rule is not None else None


def _refuse_random(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise UnsupportedOp("torch.random", "the state of the generator is read or changed", "random-state")


RANDOM: dict[str, Handler] = {}  # functions of torch.random by name


def _builtin(func: Any) -> Target | None:
    if func.__module__ in _C_MODULES or func.__qualname__.startswith("_VariableFunctionsClass."):
        return _function(func, func.__name__)
    return None


def _python(func: Any) -> Target | None:
    if func.__module__ == "torch.random" and func.__name__ in torch.random.__all__:  # torch wraps some anew
        return Target(func, "call_function", func, func.__name__, RANDOM.get(func.__name__, _refuse_random))
    if func.__module__ not in _LEAF_MODULES or func in NOT_LEAVES:
        return None
    name = func.__name__
    if func.__module__ == "torch._tensor":
        return _method(func) if getattr(torch.Tensor, name, None) is func else None
    return _function(func, name)


def _descriptor(func: Any) -> Target | None:
    return _method(func) if func.__objclass__ in torch.Tensor.__mro__[:-1] else None  # `object`'s are everybody's


def _method(func: Any) -> Target:
    return Target(func, "call_method", func.__name__, func.__name__)


def _function(func: Any, name: str) -> Target:
    target = Target(func, "call_function", func, name)
    target.factory = func in _device._device_constructors()
    return target


def _overload(func: Any) -> Target:
    return Target(func, "call_function", func, func._schema.name.rpartition("::")[2])


def _packet(func: Any) -> Target:
    return Target(func, "call_function", func, func._qualified_op_name.rpartition("::")[2])


def _custom_op(func: Any) -> Target:
    overload = func._opoverload
    return Target(overload, "call_function", overload, func._name)


_KINDS: dict[type, Callable[[Any], Target | None]] = {
    types.BuiltinFunctionType: _builtin,
    types.FunctionType: _python,
    types.MethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    OpOverload: _overload,
    OpOverloadPacket: _packet,
    torch.library.CustomOpDef: _custom_op,
}


# Types of everything that can be a torch operation.
KINDS: frozenset[type] = frozenset({*_KINDS, types.MethodType, types.MethodWrapperType})


def _register_operators() -> None:
    for func, _, methods, reflected in _OPERATORS:
        target = _targets[func] = Target(func, "call_function", func, func.__name__.strip("_"))
        target.general = True
        for name in (methods + " " + reflected).split():
            method = getattr(torch.Tensor, name)
            row = _targets.setdefault(method, Target(method, "call_method", name, name))
            row.operator = target
            row.reflected = name in reflected.split()
    for func in _INPLACE:
        target = _targets[func] = Target(func, "call_function", func, func.__name__)
        target.general = True
        method = getattr(torch.Tensor, f"__{func.__name__}__", None)
        if method is not None:
            row = _targets.setdefault(method, Target(method, "call_method", method.__name__, func.__name__))
            row.operator = target


ARITY: dict[Any, int] = {row[0]: row[1] for row in _OPERATORS} | dict.fromkeys(_INPLACE, 2)
_register_operators()


def as_operator(target: Target, args: tuple[Any, ...]) -> tuple[Target, tuple[Any, ...]]:
    """The operator that a method call with positional arguments means, if there is one."""
    found = target.operator
    if found is not None and len(args) == ARITY[found.func] and isinstance(args[0], torch.Tensor):
        return found, (args[::-1] if target.reflected else args)
    if target.func in _INPLACE and type(args[0]) is not TracedTensor:
        return _targets[_INPLACE[target.func]], args
    return target, args
