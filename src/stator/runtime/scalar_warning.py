"""The warning of torch about `float(x)` of a tensor that requires grad: the entry function has torch give it."""

from __future__ import annotations

from typing import Any

import torch

from stator.filters import Listening
from stator.frame import Frame
from stator.native.warn import action_for, is_inside, place_of, show

TEXT = "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior."
given: list[bool] = []  # torch gives it once in a process: by then there is nothing to do


def note(host: Any, f: Frame, traced: Any) -> None:
    """Once in a capture is enough."""
    if not traced._meta.requires_grad or host.warns_of_scalars or is_over():
        return
    place = place_of(f, 1)
    filename, line, module, namespace = place or ("", 0, "", None)
    known = host.namespaces.get(id(namespace)) is not None and not is_inside(host)
    if not known or action_for(host, f, TEXT, UserWarning, module, line) == "error":
        raise host.refuse("data-dependent-value", "a number of a tensor that requires grad", function="float")
    host.warns_of_scalars = True
    host.defer(give, [filename, line, module, namespace], None)


def is_over() -> bool:
    return bool(given) and not torch.is_warn_always_enabled()


def give(filename: str, line: int, module: str, namespace: dict[str, Any]) -> None:
    """Run time: as if torch had given it in that line."""
    if is_over():
        return
    with Listening() as found:
        float(torch.ones((), requires_grad=True))
    given.append(True)
    for row in found:
        show(str(row.message), row.category, filename, line, module, namespace)
