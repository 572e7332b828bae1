"""Arrays that the program makes of constants and writes data to: `out = np.zeros(n)`, `out[i] = row.max()`.

Numpy makes them while capturing. Where something of the graph is written to one, the capture starts again, and what
that instruction makes is an array of the graph.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from stator.errors import Again
from stator.frame import Frame
from stator.guards import path as paths
from stator.guards.path import Path
from stator.tensors.array_calls import DTYPES, np
from stator.tensors.arrays import TracedArray


def made(host: Any, f: Frame, array: Any) -> Any:
    """What a function has made; an array of the graph if the program will write data to it."""
    if type(array) is not np.ndarray or array.dtype not in DTYPES or array.base is not None or not array.ndim:
        return array
    place = _place(f)
    if place not in host.whole_paths:
        host.made_arrays[id(array)] = array, place
        return array
    with host.recorder.paused():
        constant = torch.from_numpy(array)
    host.guards.keep(constant)  # nobody else does
    return TracedArray(host.recorder.call(torch.clone, (host.enter(constant, paths.const(constant)),), {}), np.ndarray)


def written(host: Any, target: Any) -> None:
    """Something of the graph is about to be written to a real array: starts again if it was made here."""
    base = target.base if type(target) is np.ndarray and target.base is not None else target
    _, place = host.made_arrays.get(id(base), (None, None))
    if place is not None and host.recorder.sub is None:
        raise Again(place)


def _place(f: Frame) -> Path:
    code = f.code
    return paths.const(sys.intern(f"array in {code.co_qualname} ({code.co_firstlineno}) at {f.lasti - f.info.prefix}"))
