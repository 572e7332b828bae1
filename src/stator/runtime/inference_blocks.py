"""Blocks of inference mode that are a part of a graph for a backend that traces.

Such a graph is in the mode or not. A block inside of it is recorded as one of no_grad, which calculates the same, as
long as only other operations of the graph see the tensors that are made in it.
"""

from __future__ import annotations

from typing import Any

import torch

from stator.errors import Again
from stator.guards import path as paths
from stator.tensors.applying import is_sealed_by_mode
from stator.tensors.traced import TracedTensor

WHOLE = paths.const("inference mode of whole graphs only")


def check(host: Any, outputs: Any) -> None:
    """At the end: with tensors of such a block among the results, the capture is made again, with a break at it."""
    found = (one for one in outputs if type(one) is TracedTensor)
    if host.recorder.eased and any(one._meta.inference or is_sealed_by_mode(one) for one in found):
        raise Again(WHOLE)


def are_saved(host: Any, outputs: Any) -> bool:
    """Whether a trace could save a tensor of the mode for backward, which autograd refuses, where eager saves none."""
    if not any(type(one) is TracedTensor and one._meta.requires_grad and not one._meta.leaf for one in outputs):
        return False
    inputs = map(host.recorder.tensor, host.recorder.inputs)
    return any(isinstance(one, torch.Tensor) and one.is_inference() for one in inputs)
