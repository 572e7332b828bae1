"""A function of the program as a graph of its own, and nodes that call something with such functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten


class Slot:
    """Stands for a tensor in a structure; for anything else that only the program itself can use, `ABSENT` does."""

    def __repr__(self) -> str:
        return "…"


TENSOR, ABSENT = Slot(), Slot()


@dataclass(frozen=True)
class Structure:
    """What is around tensors: containers, and constants among them."""

    leaves: tuple[Any, ...]  # TENSOR where one goes
    spec: TreeSpec

    def fill(self, tensors: Sequence[Any]) -> Any:
        """The structure with these tensors."""
        given = iter(tensors)
        return tree_unflatten([next(given) if leaf is TENSOR else leaf for leaf in self.leaves], self.spec)

    @property
    def count(self) -> int:
        return sum(leaf is TENSOR for leaf in self.leaves)


@dataclass(frozen=True)
class Body:
    """A captured function: a graph of the tensors among its arguments, then of what it takes from around it."""

    run: Callable[..., Any]
    graph: Any  # what `run` was made of
    places: tuple[int, ...]  # of the tensors among the leaves of its arguments
    result: Structure
    may_fail: bool  # depending on data
    random: bool

    def flat(self, *tensors: Any) -> tuple[Any, ...]:
        """The graph: of tensors, gives tensors."""
        return tuple(self.run(*tensors))

    def function(self, taken: Sequence[Any]) -> Callable[..., Any]:
        """The function as the program called it, given what it takes from around it."""

        def body(*args: Any, **kwargs: Any) -> Any:
            leaves = tree_leaves((args, kwargs))
            return self.result.fill(self.run(*(leaves[place] for place in self.places), *taken))

        return body


class Found:
    """What a call on fake tensors was seen to give."""

    structure: Structure


def calling(
    name: str, call: Callable[..., Any], given: Structure, bodies: Sequence[tuple[Body, int]], found: Found
) -> Callable[..., Any]:
    """The function that a node calls, of the tensors in `given` and then of those that each body takes.

    `call` gets the functions and the structure, and gives a structure of tensors and constants; the node's result are
    the tensors in there.
    """
    start = given.count

    def node(*tensors: Any) -> Any:
        functions, first = [], start
        for body, count in bodies:
            functions.append(body.function(tensors[first : first + count]))
            first += count
        leaves, spec = tree_flatten(call(*functions, *given.fill(tensors[:start])))
        found.structure = Structure(tuple(TENSOR if _is_tensor(leaf) else leaf for leaf in leaves), spec)
        return tuple(leaf for leaf in leaves if _is_tensor(leaf))

    node.__name__ = node.__qualname__ = name
    node.may_fail = any(body.may_fail for body, _ in bodies)  # type: ignore[attr-defined]
    node.may_draw = any(body.random for body, _ in bodies)  # type: ignore[attr-defined]
    return node


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
