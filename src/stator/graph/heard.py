"""What a backend warns of is no warning of the program: told when the backend is done, and never raised."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from stator.filters import Listening

_log = logging.getLogger(__name__)
HEARD = "warnings of the program"  # in the meta of a graph
_TOLD: dict[Any, Any] = {}  # the registry that "default" and "once" look at
_OF_TORCH = (
    "Raw SymInt value",  # its tracer about its own way of asking for strides: nobody else can mend it
    "Error detected in ",  # AOTAutograd traces backward in anomaly mode; what fails there is captured in another way
)


@contextmanager
def told_afterwards(known: Collection[str] = ()) -> Iterator[None]:
    """Warnings of the block come out at its end under the program's own filters; those of one that fails do not.

    Those that are `known` are given when the graph runs, and are not used up here. Those that torch gives
    itself are dropped.
    """
    always = torch.is_warn_always_enabled()
    torch._C._set_warnAlways(always or bool(known))
    try:
        with Listening() as heard:
            yield
    finally:
        torch._C._set_warnAlways(always)
    for one in heard:
        text = str(one.message)
        if text in known or text.startswith(_OF_TORCH):
            continue
        try:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, registry=_TOLD)
        except one.category:  # an error by the program's filters, but the program has done nothing wrong
            _log.warning("%s", one.message)
