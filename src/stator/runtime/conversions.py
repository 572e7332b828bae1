"""Calls that make Python numbers of tensors: those that the graph gives."""

from __future__ import annotations

import functools
import operator
import types
from typing import Any

import torch

from stator.errors import Unsupported
from stator.frame import Frame
from stator.runtime import scalar_warning
from stator.tensors import values
from stator.tensors.arrays import TracedArray
from stator.tensors.traced import TracedTensor, is_traced

STAND_INS = frozenset({TracedTensor, TracedArray})


def converting(function: Any, otherwise: Any) -> Any:
    """What makes a call of a function, where `otherwise` does for arguments that are no tensors."""
    if function is torch.Size:
        return functools.partial(make_size, otherwise)
    rule = CONVERSIONS.get(function) if type(function) in (type, types.BuiltinFunctionType) else None
    return otherwise if rule is None else functools.partial(convert, rule, otherwise)


def convert(rule: Any, otherwise: Any, host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A call that makes a number of its argument: of a tensor, one that the graph gives."""
    if len(args) != 1 or kwargs or type(args[0]) not in STAND_INS:
        return otherwise(host, f, function, args, kwargs)
    given = args[0]
    if type(given) is TracedArray:
        if given.sizes:
            raise host.refuse("tensor-numpy", "an array with dimensions as a number", function=function.__name__)
        given = given._tensor
    try:
        made = rule(host.recorder, given)
        if function is float:
            scalar_warning.note(host, f, given)
        return made
    except Unsupported as error:
        raise host.located(error) from None


def make_size(otherwise: Any, host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A `torch.Size` of numbers some of which are in tensors."""
    if len(args) == 1 and type(args[0]) in (list, tuple) and TracedTensor in map(type, args[0]):
        args = [[host.call(f, operator.index, [one], None) if is_traced(one) else one for one in args[0]]]
    return otherwise(host, f, function, args, kwargs)


CONVERSIONS: dict[Any, Any] = {
    int: values.int_of,
    float: values.float_of,
    bool: values.bool_of,
    operator.index: values.index_of,
}
