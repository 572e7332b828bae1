"""Tensors of which only data tells which one they are: `max(a, b)`, `if loss < best: best = loss`.

The graph calculates with `torch.where`. Where such a tensor comes out of the graph it is the very object that eager
gives, chosen by the entry function. What would tell the difference inside (writing to it, a gradient through it, its
address) makes the choice a break, as any other branch on data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from stator.tensors.meta import Meta
from stator.tensors.traced import UNTOLD, TracedTensor

LONGEST = 64  # parts of the expression that picks a tensor
READS = frozenset({"item", "detach"})  # through which no gradient comes back
AROUND = frozenset({"as_strided", torch.as_strided})  # look at memory that a tensor is only part of


class Chosen:
    """Stands among the types of which no object may be made for tensors that data chooses."""


class Choice(NamedTuple):
    """One such tensor, and which one it is."""

    made: TracedTensor
    condition: TracedTensor
    yes: TracedTensor
    no: TracedTensor
    states: tuple[Any, ...]  # of the three tensors when it was made
    length: int  # of the expression that picks it


def state(traced: TracedTensor) -> tuple[Any, ...]:
    return traced._meta, traced._storage, len(traced._storage.writes)


def are_alike(host: Any, *tensors: Any, most: int = 1) -> bool:
    """Whether tensors with at most so many elements differ in nothing but their data."""
    recorder = host.recorder
    if recorder.sub is not None or Chosen in host.unmade or torch.is_inference_mode_enabled():
        return False
    if any(type(one) is not TracedTensor or one._stands_for is not torch.Tensor for one in tensors):
        return False
    if any(type(one._meta) is not Meta for one in tensors):
        return False
    first = tensors[0]._meta.at_start()
    if first.size and (most == 1 or first.size.numel() > most):
        return False
    if first.inference or first.dtype.is_complex or (first.requires_grad and first.leaf):
        return False
    return all(one._meta.at_start() is first for one in tensors)


def chosen(host: Any, condition: TracedTensor, yes: TracedTensor, no: TracedTensor) -> TracedTensor | None:
    """The one or the other of two tensors that are alike; None where eager would give something else."""
    choices = host.recorder.choices
    length = 1 + sum(choices[id(one)].length if id(one) in choices else 1 for one in (yes, no))
    if length > LONGEST:
        return None
    made = host.recorder.call(torch.where, (condition, yes, no))
    if made._meta is not yes._meta.at_start():
        return None
    choices[id(made)] = Choice(made, condition, yes, no, tuple(map(state, (made, yes, no))), length)
    return made


def refuse_identity(host: Any, *values: Any) -> None:
    """Who asks which tensor this is goes on in CPython; so does who asks how long one lives that may be chosen."""
    if not all(type(value) is TracedTensor for value in values):
        return
    found = any(id(one) in host.recorder.choices for one in values)
    if found or (len(values) == 1 and any(values[0] is one for c in host.recorder.choices.values() for one in c[2:4])):
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
        if (made._meta.requires_grad and users) or any(node.target in AROUND for node in users):
            return False
    return True
