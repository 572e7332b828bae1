"""Python's own calculation in the middle of a graph: operations that read numbers from tensors, and give a tensor.

Where Python raises, or gives a number of another type, the operation fails, and CPython runs the call from the start.
Compilers do not look into them, so results are Python's to the last bit with every backend.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.calculations import LARGEST, Kind
from stator.shapes.floats import FromData, TracedFloat
from stator.tensors.signals import DataDependent
from stator.tensors.traced import TracedTensor

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder

LIBRARY = torch.library.Library("stator", "FRAGMENT")
NAMES = {"math": math, "__builtins__": {"float": float, "int": int, "pow": pow, "round": round, "max": max, "min": min}}
Numbers = Sequence[torch.Tensor]


@functools.cache
def _compiled(source: str, count: int) -> Callable[..., Any]:
    made: Callable[..., Any] = eval(f"lambda {', '.join(map(operand, range(count)))}: {source}", dict(NAMES))
    return made


def operand(index: int) -> str:
    """The name of an operand in the source of a calculation."""
    return f"a{index}"


def _float(source: str, numbers: Numbers) -> torch.Tensor:
    made = _compiled(source, len(numbers))(*(number.item() for number in numbers))
    if type(made) is not float:
        raise TypeError(f"{source} is no float")
    return torch.scalar_tensor(made, dtype=torch.float64, device="cpu")


def _int(source: str, numbers: Numbers) -> torch.Tensor:
    made = _compiled(source, len(numbers))(*(number.item() for number in numbers))
    if not isinstance(made, int) or abs(made) > LARGEST:
        raise TypeError(f"{source} is no int of 64 bits")
    return torch.scalar_tensor(int(made), dtype=torch.int64, device="cpu")


OPERATIONS: dict[type, Any] = {}
for _name, _run, _dtype, _types in (
    ("python_float", _float, torch.float64, (float,)),
    ("python_int", _int, torch.int64, (int, bool)),
):
    LIBRARY.define(f"{_name}(str source, Tensor[] numbers) -> Tensor")
    LIBRARY.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(
        f"stator::{_name}",
        lambda source, numbers, dtype=_dtype: torch.empty((), dtype=dtype, device="cpu"),
        lib=LIBRARY,
    )
    OPERATIONS.update(dict.fromkeys(_types, getattr(torch.ops.stator, _name).default))


def evaluated(recorder: Recorder, source: str, operands: Sequence[Any], kind: Kind) -> Any:
    """What Python makes of the source: a number that the graph gives."""
    symbols = recorder.follow()
    if symbols is None:
        raise DataDependent("Python", "its value is needed before the graph has run")
    key = source, *(part.number if hasattr(part, "number") else id(part) for part in operands)
    found = recorder.evaluated.get(key)
    if found is not None:
        return found[0]
    made = _made(recorder, symbols, source, operands, kind)
    recorder.evaluated[key] = made, operands
    return made


def _made(recorder: Recorder, symbols: Any, source: str, operands: Sequence[Any], kind: Kind) -> Any:
    with torch.no_grad():
        tensors = [_tensor(recorder, part) for part in operands]
        result = recorder.call(OPERATIONS[kind.type], (source, tensors))
        if kind.type is not float:
            number = recorder.number_from_data(result, kind.low, kind.high)
            return number != 0 if kind.type is bool else number
    recorder.has_floats = True
    made = symbols.floats.base(FromData(result, symbols.stack()), math.nan)
    made.tensors[torch.float64] = result
    return made


def _tensor(recorder: Recorder, part: Any) -> TracedTensor:
    if type(part) is TracedFloat:
        return part.tensor()
    made: TracedTensor = recorder.call(torch.scalar_tensor, (part,), {"dtype": torch.int64, "device": "cpu"})
    return made
