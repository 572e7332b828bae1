"""Torch calls that are given a symbolic float: the same call, or one that takes the float as a 0-d tensor."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from stator.shapes import number_ops as number_ops  # adds its rows
from stator.shapes import random_ops as random_ops  # so does this
from stator.shapes import spacing as spacing  # and this
from stator.shapes.floats import TracedFloat
from stator.shapes.fused_ops import FUSED
from stator.shapes.late import read_late
from stator.shapes.opaque import opaque
from stator.shapes.scalar_ops import OPS as OPS  # with all rows
from stator.shapes.scalar_ops import REFLECTIONS, Op
from stator.shapes.spellings import plain_spelling

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
Form = Callable[[Any, tuple[Any, ...], dict[str, Any]], Call | None]


def tensorised(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], traces: bool, plain: bool = True
) -> Call | None:
    """The call with symbolic floats as tensors, if it has any and the result is the same; also if a backend traces.

    A `plain` call is recorded as it is: where nobody traces, it may read its numbers when it runs.
    """
    if takes_floats(args, kwargs):
        if not all(map(_decides_nothing, (*args, *kwargs.values()))) and _holds_mixed((*args, *kwargs.values())):
            return None  # whether the number is an int matters
        if "generator" in kwargs and kwargs["generator"] is None:
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        func, args, kwargs = plain_spelling(func, args, kwargs)
        if len(args) == 1 and len(kwargs) == 1 and kwargs.keys() <= SECOND:
            args, kwargs = (*args, *kwargs.values()), {}
        for form in FORMS.get(func, ()):
            if (found := form(func, args, kwargs)) is not None and not (traces and found[0] in UNTRACEABLE):
                return found
        if plain:
            return opaque(func, args, kwargs) if traces else read_late(func, args, kwargs)
        return None
    return _called(func, args, kwargs) if traces and func in FUSED else None


SECOND = frozenset({"other", "exponent"})  # names of the second argument


def takes_floats(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> bool:
    """Whether a call is given symbolic floats."""
    return any(map(holds_floats, args)) or any(map(holds_floats, (kwargs or {}).values()))


def with_tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """The call with a tensor that torch would read for the sake of `alpha=` or `value=`."""
    name = "alpha" if "alpha" in kwargs else "value"
    value: Any = kwargs.get(name)
    if not _is_tensor(value) or value._meta.size or value._meta.requires_grad or len(kwargs) != 1:
        return None
    op = OPS.get((func, "alpha") if name == "alpha" else func)
    if op is None or op.parameters[len(args) :] != (name,):
        return None
    return op.function, (*args, value), {}


def holds_floats(value: Any) -> bool:
    kind = type(value)
    return kind is TracedFloat or (kind in (list, tuple) and any(map(holds_floats, value)))


def _holds_mixed(value: Any) -> bool:
    """Whether there are numbers that are ints or floats, as data tells."""
    if type(value) in (list, tuple):
        return any(map(_holds_mixed, value))
    return type(value) is TracedFloat and value.mixed


def _decides_nothing(value: Any) -> bool:
    """Whether an int next to this means the same as a float."""
    return not _is_tensor(value) or bool(value._meta.dtype.is_floating_point)


def _is_tensor(value: Any) -> bool:
    return issubclass(type(value), torch.Tensor)


def _result_type(*values: Any) -> torch.dtype:
    """The dtype that torch would calculate in."""
    with torch._C.DisableTorchFunction():
        found = [
            torch.empty((1,) * len(value._meta.size), dtype=value._meta.dtype, device="cpu")
            if _is_tensor(value)
            else value
            for value in values
        ]
        if len(found) == 2:
            return torch.result_type(*found)
        return torch.result_type(torch.empty(1, dtype=torch.result_type(*found[:2])), found[2])


def scalar_for(tensor: Any, number: TracedFloat) -> Any:
    """The float as a 0-d tensor that meets a tensor as the float would; None if there is none.

    It decides no dtype, and loses no digits that the float would have had in the calculation.
    """
    wanted = _result_type(tensor, 1.0)
    with torch._C.DisableTorchFunction():
        sample = torch.empty((1,) * len(tensor._meta.size), dtype=tensor._meta.dtype, device="cpu")
        if torch.result_type(sample, torch.empty((), dtype=torch.float64, device="cpu")) is wanted:
            return number.tensor()
    return None if wanted.itemsize < 4 or wanted.is_complex else number.tensor(wanted)


# ---- forms ----------------------------------------------------------------------------------------


def _binary(func: Any, args: Any, kwargs: Any) -> Call | None:
    """An operation of a tensor and a number that is the same for a number and a tensor without dimensions."""
    if len(args) != 2 or not kwargs.keys() <= {"rounding_mode"} or _is_tensor(args[0]) == _is_tensor(args[1]):
        return None
    if not _is_tensor(args[0]) and func not in OPERATORS:
        return None
    tensor = args[0] if _is_tensor(args[0]) else args[1]
    given = [scalar_for(tensor, arg) if type(arg) is TracedFloat else arg for arg in args]
    if given[0] is None or given[1] is None:
        return None
    return func, tuple(given[::-1] if func in COMMUTING and not _is_tensor(args[0]) else given), kwargs


def _either(func: Any, args: Any, kwargs: Any) -> Call | None:
    """An operation of a tensor and a number, in any order."""
    if len(args) != 2 or kwargs or _is_tensor(args[0]) == _is_tensor(args[1]):
        return None
    tensor = args[0] if _is_tensor(args[0]) else args[1]
    given = [scalar_for(tensor, arg) if type(arg) is TracedFloat else arg for arg in args]
    return None if any(arg is None for arg in given) else (func, tuple(given), {})


COMMUTING = (operator.add, operator.mul)  # the kernels keep all digits of the second argument only


def _reflected(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`number operator tensor`."""
    if len(args) != 2 or kwargs:
        return None
    operation = REFLECTED.get(func)
    number, tensor = args if operation is None else args[::-1]
    op = REFLECTIONS.get(operation or func)
    if op is None or type(number) is not TracedFloat or not _is_tensor(tensor):
        return None
    return op.function, (tensor, number.tensor()), {}


REFLECTED: dict[Any, Any] = {
    getattr(torch.Tensor, f"__r{operation.__name__}__"): operation for operation in REFLECTIONS
}  # methods -> operators


def _compared(func: Any, args: Any, kwargs: Any) -> Call | None:
    """A comparison casts the number to the dtype in which it is made."""
    if len(args) != 2 or kwargs or _is_tensor(args[0]) == _is_tensor(args[1]):
        return None
    if not _is_tensor(args[0]) and func not in OPERATORS:
        return None
    wanted = _result_type(args[0] if _is_tensor(args[0]) else args[1], 1.0)
    if not wanted.is_floating_point:
        return None
    return func, tuple(arg.tensor(wanted) if type(arg) is TracedFloat else arg for arg in args), {}


def _reciprocal(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`number / tensor` is a product with the reciprocal."""
    if kwargs or len(args) != 2:
        return None
    number, tensor = args if func is operator.truediv else args[::-1]
    if type(number) is not TracedFloat or not _is_tensor(tensor):
        return None
    scalar = scalar_for(tensor, number)
    return None if scalar is None else (torch.Tensor.__rtruediv__, (tensor, scalar), {})


def _scaled(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`x.add(y, alpha=s)` as `x.addcmul(y, s)`, which rounds once as well."""
    number = kwargs.get("alpha")
    if (
        kwargs.keys() != {"alpha"}
        or type(number) is not TracedFloat
        or len(args) != 2
        or not all(map(_is_tensor, args))
    ):
        return None
    dtype = args[0]._meta.dtype
    if dtype not in (torch.float32, torch.float64) or args[1]._meta.dtype is not dtype:
        return None
    if not args[0]._meta.size and not args[1]._meta.size:
        return None
    target, value = SCALED[func]
    return target, (*args, number.tensor()), {} if value == 1 else {"value": value}


SCALED: dict[Any, tuple[Any, int]] = {
    torch.add: (torch.addcmul, 1),
    torch.Tensor.add: (torch.Tensor.addcmul, 1),
    torch.Tensor.add_: (torch.Tensor.addcmul_, 1),
    torch.sub: (torch.addcmul, -1),
    torch.Tensor.sub: (torch.Tensor.addcmul, -1),
    torch.Tensor.sub_: (torch.Tensor.addcmul_, -1),
}


def _weighted(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`lerp` with the weight as a tensor of the same type."""
    given = [*args, *kwargs.values()]
    if len(given) != 3 or kwargs.keys() - {"weight"} or not all(map(_is_tensor, given[:2])):
        return None
    dtype = given[0]._meta.dtype
    if dtype not in (torch.float32, torch.float64) or given[1]._meta.dtype is not dtype:
        return None
    return func, (*given[:2], given[2].tensor(dtype)), {}


def _filled(func: Any, args: Any, kwargs: Any) -> Call | None:
    """Operations that cast the number to the dtype of the tensor."""
    given = [*args, *kwargs.values()]
    if kwargs.keys() - {"value"} or type(given[-1]) is not TracedFloat or not _is_tensor(given[0]):
        return None
    dtype = given[0]._meta.dtype
    return (func, (*given[:-1], given[-1].tensor(dtype)), {}) if dtype.is_floating_point else None


def _stored(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`x[index] = number`."""
    if len(args) != 3 or kwargs or type(args[2]) is not TracedFloat or holds_floats(args[1]) or not _is_tensor(args[0]):
        return None
    dtype = args[0]._meta.dtype
    return (operator.setitem, (*args[:2], args[2].tensor(dtype)), {}) if dtype.is_floating_point else None


def _chosen(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`where(condition, a, b)`."""
    if len(args) != 3 or kwargs or not _is_tensor(args[0]):
        return None
    tensors = [arg for arg in args[1:] if _is_tensor(arg)]
    wanted = _result_type(tensors[0], 1.0) if tensors else torch.get_default_dtype()
    if not wanted.is_floating_point:
        return None
    return func, tuple(arg.tensor(wanted) if type(arg) is TracedFloat else arg for arg in args), {}


def _made(func: Any, args: Any, kwargs: Any) -> Call | None:
    """A tensor of the number."""
    if len(args) != 1 or kwargs.keys() - {"dtype", "device"} or type(args[0]) is not TracedFloat:
        return None
    if args[0].mixed and kwargs.get("dtype") is None:
        return None
    if torch.device(kwargs.get("device") or torch.get_default_device()).type != "cpu":
        return None
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return (torch.clone, (args[0].tensor(dtype),), {}) if dtype.is_floating_point else None


def _called(func: Any, args: Any, kwargs: Any) -> Call | None:
    """An operation of our own that does what the call would do with numbers."""
    op = (OPS.get((func, "alpha")) if "alpha" in kwargs else None) or OPS.get(func)
    if op is None or len(args) > len(op.parameters) or kwargs.keys() - set(op.parameters[len(args) :]):
        return None
    last = max([len(args), *(op.parameters.index(name) + 1 for name in kwargs)])
    if any(name not in kwargs and name not in OPTIONAL for name in op.parameters[len(args) : last]):
        return None
    given = [*args, *(kwargs.get(name) for name in op.parameters[len(args) : last])]
    for i, (name, value) in enumerate(zip(op.parameters, given, strict=False)):
        if name in op.numbers and _is_tensor(value) and not op.reads:
            return None
        if holds_floats(value):
            if name not in op.numbers or not _accepted(op, value):
                return None
            given[i] = _scalars(value)
    return op.function, tuple(given), {}


def _accepted(op: Op, value: Any) -> bool:
    """Whether an operation takes a float, guarded; of what data tells that is not known."""
    return op.accepts is None or type(value) is not TracedFloat or value.from_data or op.accepts(value)


OPTIONAL = frozenset(
    {"weight", "bias", "min", "max", "dtype", "device", "attn_mask", "dropout_p", "is_causal", "beta", "dim", "keepdim"}
    | {"grad_scale", "found_inf", "rtol", "atol", "nan", "posinf", "neginf", "mode"}
)  # None is the default


def _scalars(value: Any) -> Any:
    if type(value) is TracedFloat:
        return value.tensor()
    return [_scalars(item) for item in value] if type(value) in (list, tuple) else value


# ---- which calls ----------------------------------------------------------------------------------


def _calls(*names: str) -> list[Any]:
    """Function, method, in-place method and operators of these names."""
    found = []
    for name in names:
        for owner, attribute in (
            (torch, name), (torch, f"{name}_"), (torch.Tensor, name), (torch.Tensor, f"{name}_"),
            (torch.Tensor, f"__{name}__"), (torch.Tensor, f"__r{name}__"), (torch.Tensor, f"__i{name}__"),
            (operator, name), (operator, f"i{name}"),
        ):  # fmt: skip
            function = getattr(owner, attribute, None)
            if function is not None:
                found.append(function)
    return found


_NAMES = ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge")
OPERATORS = frozenset(
    [getattr(operator, name) for name in _NAMES]
    + [
        method
        for name in _NAMES
        for prefix in ("", "r")
        if (method := getattr(torch.Tensor, f"__{prefix}{name}__", None)) is not None
    ]
)
_QUOTIENTS = (operator.truediv, torch.Tensor.__rtruediv__, torch.Tensor.__rdiv__)
_BASES = (operator.pow, torch.pow, torch.Tensor.__rpow__)  # of the number: `number ** tensor`
_PLAIN = (
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "truediv", "floordiv",
    "floor_divide", "mod", "remainder", "fmod", "copysign", "xlogy", "clamp_min", "clamp_max",
)  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "greater", "greater_equal", "less", "less_equal", "not_equal")
_ALIASES = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__mul__": "mul",
    "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__mod__": "remainder",
    "__floordiv__": "floor_divide",
    "__pow__": "pow", "__ipow__": "pow_", "subtract": "sub", "subtract_": "sub_", "multiply": "mul",
    "multiply_": "mul_", "divide": "div", "divide_": "div_", "true_divide": "div", "true_divide_": "div_",
}  # fmt: skip
_OPERATOR_ALIASES = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "iadd": "add_", "isub": "sub_", "imul": "mul_", "itruediv": "div_", "ipow": "pow_",
}  # fmt: skip


def _base(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`number ** tensor`."""
    if len(args) != 2 or kwargs:
        return None
    number, tensor = args[::-1] if func is torch.Tensor.__rpow__ else args
    if type(number) is not TracedFloat or not _is_tensor(tensor):
        return None
    scalar = scalar_for(tensor, number)
    return None if scalar is None else (operator.pow, (scalar, tensor), {})


def _of_tensor(form: Form) -> Form:
    """The form for a call whose first argument is a tensor."""
    return lambda func, args, kwargs: form(func, args, kwargs) if args and _is_tensor(args[0]) else None


FORMS: dict[Any, list[Form]] = {}
UNTRACEABLE = frozenset(op.function for op in OPS.values() if not op.traceable)


def _add(form: Form, *calls: Any) -> None:
    for call in calls:
        FORMS.setdefault(call, []).append(form)


def _register() -> None:
    _add(_reciprocal, *_QUOTIENTS)
    _add(_base, *_BASES)
    _add(_scaled, *SCALED)
    _add(_weighted, *_calls("lerp"))
    _add(_binary, *_calls(*_PLAIN))
    _add(_reflected, *REFLECTIONS, *REFLECTED)
    _add(_compared, *_calls(*_COMPARISONS))
    _add(_filled, *_calls("fill", "masked_fill", "index_fill"))
    _add(_either, torch.special.xlog1py, torch.special.zeta, torch.xlogy, torch.special.xlogy)
    _add(_stored, operator.setitem, torch.Tensor.__setitem__)
    _add(_chosen, torch.where)
    _add(_made, torch.tensor, torch.as_tensor, torch.scalar_tensor, torch.asarray)
    for call in {key[0] if type(key) is tuple else key: None for key in OPS}:
        _add(_called, call)
    for owner, names in ((torch.Tensor, _ALIASES), (operator, _OPERATOR_ALIASES)):
        for name, meaning in names.items():
            call = getattr(owner, name, None)
            plain = getattr(torch.Tensor, meaning)
            if call is not None and plain in OPS and call not in OPS:
                OPS[call] = OPS[plain]
                _add(_of_tensor(_called), call)


_register()
