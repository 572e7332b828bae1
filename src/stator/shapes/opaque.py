"""Calls of torch with symbolic floats that compilers do not look into, for graphs that they trace.

The call is a text with names for its tensors and numbers. On tensors with data it is the very call that the program
made, also within compiled code; for gradients it is made once more. Sizes and types of the results must be alike for
all numbers, and nothing may be drawn or written to but the first argument of a method in place.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from stator.shapes import scalar_ops
from stator.shapes.floats import TracedFloat, now
from stator.shapes.late import KINDS, SHAPED
from stator.shapes.random_ops import LIBRARY
from stator.shapes.scalar_ops import into, is_read, read

HOMES = {
    "functions": torch._C._VariableFunctions,
    **{name: getattr(torch._C, name) for name in ("_nn", "_special", "_linalg", "_fft")},
    "Tensor": torch.Tensor,
}
NAMES = {"torch": torch, "inf": math.inf, "nan": math.nan, **HOMES}
WRITERS = ("batch_norm", "instance_norm", "moving_avg", "with_noise")  # they write to arguments without a word
_EXAMPLES = tuple(0.5 + 0.01 * i for i in range(1000))
_KINDS: dict[str, Callable[[list[Tensor]], Any]] = {}  # by text: what the results are in


def opaque(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as a call of `called`; None if it cannot be made in this way."""
    home = _home(func)
    in_place = func.__name__.endswith("_")
    if home is None or "out" in kwargs or (in_place and not (args and isinstance(args[0], Tensor))):
        return None
    tensors: list[Any] = []
    numbers: list[Any] = []
    try:
        parts = [_text(arg, tensors, numbers) for arg in args]
        parts += [f"{name}={_text(arg, tensors, numbers)}" for name, arg in kwargs.items()]
    except _Unknown:
        return None
    if len(numbers) > len(_EXAMPLES) or (not tensors and torch.get_default_device().type != "cpu"):
        return None
    text = f"{home}.{func.__name__}({', '.join(parts)})"
    return (called if _has_gradient(text, tensors, len(numbers)) else called_alone), (text, tensors, numbers), {}


def _has_gradient(text: str, tensors: list[Any], numbers: int) -> bool:
    """Whether results follow gradients as far as that is known, tried with tensors of the same sizes without data."""
    metas = [tensor._meta for tensor in tensors]
    if not torch.is_grad_enabled() or not any(meta.requires_grad for meta in metas):
        return True
    sizes = [[now(size) for size in meta.size] for meta in metas]
    if not all(type(size) is int for row in sizes for size in row):
        return True
    with torch._C.DisableTorchFunction(), FakeTensorMode():
        made = [
            torch.empty(size, dtype=meta.dtype, requires_grad=meta.requires_grad)
            for size, meta in zip(sizes, metas, strict=True)
        ]
        try:
            results = _results(text, made, _EXAMPLES[:numbers])
        except Exception:
            return True
    return any(result.requires_grad for result in results)


def called(text: str, tensors: list[Tensor], numbers: list[Tensor]) -> Any:
    """What the call of the text gives."""
    if is_read(numbers):
        return _run(text, len(tensors), len(numbers))(*tensors, *read(numbers))
    if _is_in_place(text):
        return into(tensors[0], lambda x: torch.ops.stator.called.default(text, [x, *tensors[1:]], numbers)[0])
    made = torch.ops.stator.called.default(text, tensors, numbers)
    return _KINDS[text](made)


def called_alone(text: str, tensors: list[Tensor], numbers: list[Tensor]) -> Any:
    """The same without gradients."""
    with torch.no_grad():
        return called(text, tensors, numbers)


for _function in (called, called_alone):
    _function.__module__ = scalar_ops.__name__  # whose functions are operations
    setattr(scalar_ops, _function.__name__, _function)


class _Unknown(Exception):
    """A value that has no text."""


def _text(value: Any, tensors: list[Any], numbers: list[Any]) -> str:
    kind = type(value)
    if kind is TracedFloat:
        numbers.append(value.tensor())
        return f"n{len(numbers) - 1}"
    if issubclass(kind, Tensor):
        tensors.append(value)
        return f"t{len(tensors) - 1}"
    if kind in (list, tuple):
        return f"[{', '.join(_text(item, tensors, numbers) for item in value)}]"
    if value is None or kind in (int, float, bool, str):
        return repr(value)
    if kind in (torch.dtype, torch.layout, torch.memory_format):
        return str(value)
    if kind is torch.device:
        return f"torch.device({str(value)!r})"
    raise _Unknown


@functools.cache
def _home(func: Any) -> str | None:
    """Where the text finds a function that may be called in this way."""
    if type(func) not in KINDS or func in SHAPED:
        return None
    name = func.__name__
    known = getattr(torch.ops.aten, name, None)
    if any(writer in name for writer in WRITERS) or known is None:
        return None
    if any(torch.Tag.nondeterministic_seeded in getattr(known, row).tags for row in known.overloads()):
        return None
    return next((label for label, home in HOMES.items() if getattr(home, name, None) == func), None)


@functools.cache
def _run(text: str, tensors: int, numbers: int) -> Callable[..., Any]:
    names = [*(f"t{i}" for i in range(tensors)), *(f"n{i}" for i in range(numbers))]
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", dict(NAMES))
    return made


def _is_in_place(text: str) -> bool:
    return text.split("(", 1)[0].endswith("_")


def _results(text: str, tensors: Sequence[Tensor], numbers: Sequence[float]) -> list[Tensor]:
    """Results of the call, none of which shares memory with an argument."""
    given = [tensors[0].clone(), *tensors[1:]] if _is_in_place(text) else tensors
    made = _run(text, len(tensors), len(numbers))(*given, *numbers)
    kind = type(made)
    if isinstance(made, Tensor):
        made, _KINDS[text] = [made], operator.itemgetter(0)
    else:
        _KINDS[text] = kind if kind in (list, tuple) or hasattr(kind, "n_fields") else tuple
    places = {tensor.untyped_storage()._cdata for tensor in tensors}
    return [result.clone() if result.untyped_storage()._cdata in places else result for result in made]


def _called(text: str, tensors: Sequence[Tensor], numbers: Sequence[Tensor]) -> list[Tensor]:
    return _results(text, tensors, [number.item() for number in numbers])


def _example(text: str, tensors: Sequence[Tensor], numbers: Sequence[Tensor]) -> list[Tensor]:
    return _results(text, tensors, _EXAMPLES[: len(numbers)])


def _gradients(
    text: str, given: Sequence[Tensor], tensors: Sequence[Tensor], numbers: Sequence[Tensor], needed: Sequence[bool]
) -> list[Tensor]:
    with torch.enable_grad():
        again = [tensor.detach().requires_grad_(need) for tensor, need in zip(tensors, needed, strict=True)]
        made = _called(text, again, numbers)
        kept = [i for i, result in enumerate(made) if result.requires_grad]
        wanted = [tensor for tensor in again if tensor.requires_grad]
        found = iter(
            torch.autograd.grad(
                [made[i] for i in kept], wanted, [given[i] for i in kept], allow_unused=True, materialize_grads=True
            )
            if kept
            else map(torch.zeros_like, wanted)
        )
        return [next(found) if need else torch.empty(0) for need in needed]


def _needed(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.text, tensors, numbers = inputs
    ctx.count = len(tensors)
    ctx.save_for_backward(*tensors, *numbers)


def _backward(ctx: Any, given: list[Tensor]) -> Any:
    tensors, numbers = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
    needed = ctx.needs_input_grad[1]
    made = torch.ops.stator.called_backward.default(ctx.text, given, tensors, numbers, needed)
    return None, [grad if need else None for grad, need in zip(made, needed, strict=True)], [None] * len(numbers)


LIBRARY.define("called(str text, Tensor[] tensors, Tensor[] numbers) -> Tensor[]")
LIBRARY.define(
    "called_backward(str text, Tensor[] given, Tensor[] tensors, Tensor[] numbers, bool[] needed) -> Tensor[]"
)
LIBRARY.impl("called", _called, "CompositeExplicitAutograd")
LIBRARY.impl("called_backward", _gradients, "CompositeExplicitAutograd")
torch.library.register_fake("stator::called", _example, lib=LIBRARY)
torch.library.register_fake(
    "stator::called_backward",
    lambda text, given, tensors, numbers, needed: [
        torch.empty_like(tensor) if need else torch.empty(0) for tensor, need in zip(tensors, needed, strict=True)
    ],
    lib=LIBRARY,
)
torch.library.register_autograd("stator::called", _backward, setup_context=_needed, lib=LIBRARY)
