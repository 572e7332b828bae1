"""Tensors of the graph that end at a break: those in variables that nothing reads behind it.

In eager they live until the function returns, which nobody can tell of a plain tensor without weak references. The
graph need not give them, nor keep for backward what they were made of. Where the program looks at variables by
name (`locals()`), or may call a function that does (`f_locals`), all are carried on. Numbers and texts always are:
libraries look for them in callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from stator import _frames
from stator.code.needed import all_names, looks_at_callers, looks_at_variables
from stator.eval.machine import Snapshot
from stator.runtime.continuation import IsSpared
from stator.runtime.libraries import is_foreign
from stator.tensors.traced import TracedTensor

MOST_FUNCTIONS = 64  # that are looked at, the nearest first


def calls_one_that_looks(frames: Sequence[Snapshot]) -> bool:
    """Whether a function that these frames may call by a name of theirs looks at variables of its callers."""
    pending = [found for frame in frames for found in named(frame.code, frame.globals, frame.locals)]
    seen: set[CodeType] = set()
    for function in pending:  # which grows meanwhile
        code = function.__code__
        if code in seen or is_foreign(code.co_filename):
            continue
        if looks_at_callers(code):
            return True
        seen.add(code)
        if len(seen) == MOST_FUNCTIONS:
            break
        pending += named(code, function.__globals__, function.__closure__ or ())
    return False


def named(code: CodeType, namespace: dict[str, Any], values: Iterable[Any]) -> Iterator[FunctionType]:
    """Functions that code may call: variables, globals, and what these have by one of its names."""
    names = all_names(code)
    reachable = [*values, *(namespace[name] for name in names if name in namespace)]
    for value in reachable:  # which grows meanwhile
        kind = type(value)
        if kind is FunctionType:
            yield value
        elif kind is MethodType:
            reachable.append(value.__func__)
        elif kind is CellType:
            with suppress(ValueError):  # an empty one
                reachable.append(value.cell_contents)
        elif kind is ModuleType:
            if not is_foreign(vars(value).get("__file__") or ""):
                reachable += [found for name in names if type(found := vars(value).get(name)) is FunctionType]
        elif _frames.is_heap_type(cls := value if issubclass(kind, type) else kind):
            found = (_frames.type_lookup(cls, name) for name in (*names, "__call__"))
            reachable += [one for one in found if type(one) is FunctionType]


def spared(host: Any, frames: Sequence[Snapshot]) -> IsSpared:
    """Tells of a value whether it may be left behind at a break in these frames."""
    if host.refers_weakly or any(looks_at_variables(frame.code) for frame in frames) or calls_one_that_looks(frames):
        return lambda value: False
    adorned = {id(reference()) for reference in host.recorder.adorned}

    def is_spared(value: Any) -> bool:
        if type(value) is not TracedTensor:
            return value is None  # which a variable may be at one time, and a tensor at another
        return value._stands_for is torch.Tensor and id(value) not in host.records and id(value) not in adorned

    return is_spared
