"""Tensors of which only data tells which one they are: `max(a, b)`.

The graph calculates with `torch.where`. Where such a tensor comes out of the graph it is the very object that eager
gives, chosen by the entry function. What would tell the difference inside (writing to it, a gradient through it, its
address) makes the choice a break, as any other branch on data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from stator.tensors.meta import Meta
from stator.tensors.traced import UNTOLD, TracedTensor

READS = frozenset({"item", "detach"})  # through which no gradient comes back


class Chosen:
    """Stands among the types of which no object may be made for tensors that data chooses."""


class Choice(NamedTuple):
    """One such tensor, and which one it is."""

    made: TracedTensor
    condition: TracedTensor
    yes: TracedTensor
    no: TracedTensor
    states: tuple[Any, ...]  # of the three tensors when it was made


def state(traced: TracedTensor) -> tuple[Any, ...]:
    return traced._meta, traced._storage, len(traced._storage.writes)


def are_alike(host: Any, *tensors: Any) -> bool:
    """Whether tensors with one element differ in nothing but their data."""
    recorder = host.recorder
    if recorder.sub is not None or Chosen in host.unmade or torch.is_inference_mode_enabled():
        return False
    if any(type(one) is not TracedTensor or one._stands_for is not torch.Tensor for one in tensors):
        return False
    first = tensors[0]._meta
    if type(first) is not Meta or first.size or first.offset:
        return False
    if first.inference or first.dtype.is_complex or (first.requires_grad and first.leaf):
        return False
    return all(one._meta is first for one in tensors)


def chosen(host: Any, condition: TracedTensor, yes: TracedTensor, no: TracedTensor) -> TracedTensor | None:
    """The one or the other of two tensors that are alike; None where eager would give something else."""
    made = host.recorder.call(torch.where, (condition, yes, no))
    if made._meta is not yes._meta:
        return None
    tensors = made, yes, no
    host.recorder.choices[id(made)] = Choice(made, condition, yes, no, tuple(map(state, tensors)))
    return made


def refuse_identity(host: Any, *values: Any) -> None:
    """Who asks which tensor this is goes on in CPython."""
    if all(type(value) is TracedTensor for value in values) and any(id(one) in host.recorder.choices for one in values):
        raise host.refuse("data-dependent-branch", UNTOLD, function="Python")


def hold(host: Any, outputs: Any) -> bool:
    """Whether nobody has seen that the graph calculates with other tensors than eager."""
    choices = host.recorder.choices
    if not choices:
        return True
    storages = [one._storage for one in outputs]
    own = {node for choice in choices.values() for node in (choice.made._node, choice.condition._node)}
    for choice in choices.values():
        made = choice.made
        if choice.states != tuple(map(state, (made, choice.yes, choice.no))) or host.recorder.has_arrays:
            return False
        if any(storage is made._storage for storage in storages) or any(ref() is made for ref in host.recorder.adorned):
            return False
        users = [node for node in made._node.users if node not in own and node.target not in READS]
        if made._meta.requires_grad and users:
            return False
    return True
