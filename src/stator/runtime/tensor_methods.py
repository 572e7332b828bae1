"""Methods of `torch.Tensor` that the program replaces, in the class that captured code and what captures it share."""

from __future__ import annotations

from typing import Any

import torch

from stator._entry import type_version
from stator.guards import path as paths
from stator.guards.check import TYPE_VERSION

# Attributes of tensors that nothing asks for while capturing; they may be replaced like those of other classes.
UNASKED = frozenset({"__repr__", "__str__", "__format__", "cuda", "xpu", "pin_memory"})


class Methods:
    """What tensors have at one time: captured code and what captures it ask for the same methods."""

    def __init__(self) -> None:
        self.own = dict(vars(torch.Tensor))
        self.version = type_version(torch.Tensor)

    def replaced(self) -> str | None:
        """One that is another now, or hides one of C; those that are new are the program's."""
        if (now := type_version(torch.Tensor)) != self.version:
            held = vars(torch.Tensor)
            for name in (*held, *(self.own.keys() - held.keys())):
                known = self.own.get(name, ABSENT)
                if (
                    held.get(name, ABSENT) is not known
                    and name not in UNASKED
                    and (known is not ABSENT or is_of_c(name))
                ):
                    return f"Tensor.{name}"
            self.version = now
        return None


ABSENT: Any = object()


def is_of_c(name: str) -> bool:
    return any(name in vars(base) for base in torch.Tensor.__mro__[1:])


def guard(host: Any) -> None:
    """Tensors have the methods that they have now."""
    version = type_version(torch.Tensor)
    host.guards.add(paths.const(torch.Tensor), TYPE_VERSION, version, None)
    host.classes.note(torch.Tensor, version)
