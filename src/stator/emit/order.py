"""In which order objects are created and filled: strongly connected components, and scheduling inside one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .plan import CannotRebuild, Part, Piece, Plan, parts_of


def components(roots: Iterable[int], edges: Callable[[int], Sequence[int]]) -> Iterator[list[int]]:
    """Strongly connected components of a graph over ids, those depended on first (Tarjan, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    for root in roots:
        if root in number:
            continue
        walk: list[tuple[int, Iterator[int]]] = []
        entering: int | None = root
        while walk or entering is not None:
            if entering is not None:
                number[entering] = low[entering] = len(number)
                open_nodes.append(entering)
                is_open.add(entering)
                walk.append((entering, iter(edges(entering))))
            node, targets = walk[-1]
            entering = None
            for target in targets:
                if target not in number:
                    entering = target
                    break
                if target in is_open:
                    low[node] = min(low[node], number[target])
            if entering is not None:
                continue
            walk.pop()
            if walk:
                low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
            if low[node] == number[node]:
                at = _last_index(open_nodes, node)
                component = open_nodes[at:]
                del open_nodes[at:]
                is_open.difference_update(component)
                yield component


def _last_index(nodes: list[int], node: int) -> int:
    at = len(nodes) - 1
    while nodes[at] != node:
        at -= 1
    return at


@dataclass(slots=True)
class Step:
    """One line of a cycle: the creation of an object or one statement that fills it."""

    owner: int
    source: Piece
    creates: bool
    hard: set[int] = field(default_factory=set)  # steps that must come before
    own: set[int] = field(default_factory=set)  # steps that fill an object whose contents this step reads
    deep: set[int] = field(
        default_factory=set
    )  # steps that fill what such an object refers to; dropped when nothing else goes on


def schedule(members: Sequence[int], plans: dict[int, Plan], objects: dict[int, Any]) -> list[Step]:
    """Creation and fill steps of one cycle, in an order in which everything exists before it is used."""
    split = _split(members, plans)
    steps: list[Step] = []
    makes: dict[int, int] = {}
    fills: dict[int, list[int]] = {}
    for node in members:
        plan = plans[node]
        makes[node] = len(steps)
        steps.append(Step(node, plan.bare if node in split and plan.bare is not None else plan.make, True))
    for node in members:
        plan = plans[node]
        sources = [*(plan.rest if node in split and plan.bare is not None else ()), *plan.fills]
        fills[node] = [*range(len(steps), len(steps) + len(sources))]
        steps.extend(Step(node, source, False) for source in sources)
    for index, step in enumerate(steps):
        _link(index, step, makes, fills, plans)
    return _sorted(steps, objects[members[0]])


def _split(members: Sequence[int], plans: dict[int, Plan]) -> set[int]:
    """Objects to create bare and fill later: their creation leads back to themselves or reads contents in the cycle."""
    inside = set(members)
    parts = {node: [part for part in parts_of(plans[node].make) if id(part.obj) in inside] for node in members}
    edges = {node: [id(part.obj) for part in found] for node, found in parts.items()}
    split = {node for node, found in parts.items() if any(part.contents for part in found)}
    for component in components(members, edges.__getitem__):
        if len(component) > 1 or component[0] in edges[component[0]]:
            split.update(component)
    return split


def _link(index: int, step: Step, makes: dict[int, int], fills: dict[int, list[int]], plans: dict[int, Plan]) -> None:
    if not step.creates:
        own = fills[step.owner]
        before = own[own.index(index) - 1] if own[0] != index else makes[step.owner]
        step.hard.add(before)
    for part in parts_of(step.source):
        node = id(part.obj)
        if node not in makes:
            continue
        step.hard.add(makes[node])
        if part.contents:
            step.own.update(fills[node])
            step.deep.update(fill for reached in _values(part, makes, plans) for fill in fills[reached])
    for needed in (step.hard, step.own, step.deep):
        needed.discard(index)


def _values(part: Part, makes: dict[int, int], plans: dict[int, Plan]) -> set[int]:
    """What a hash of this object may go through: what it refers to in the cycle, two levels of mutable objects deep."""
    reached: set[int] = set()
    level = [(id(part.obj), 2)]
    while level:
        node, depth = level.pop()
        if node in reached or node not in makes:
            continue
        reached.add(node)
        if depth:
            level += [(id(child.obj), depth - bool(plans[node].fills)) for child in parts_of(*plans[node].pieces())]
    return reached


def _sorted(steps: list[Step], culprit: object) -> list[Step]:
    waiting = dict.fromkeys(range(len(steps)))
    followers: dict[int, list[int]] = {index: [] for index in waiting}
    for index, step in enumerate(steps):
        for needed in step.hard | step.own | step.deep:
            followers[needed].append(index)
    ordered: list[Step] = []
    ready = [index for index in waiting if not (steps[index].hard or steps[index].own or steps[index].deep)]
    while waiting:
        if not ready:
            ready.append(_relaxed(steps, waiting, culprit))
        released: list[int] = []
        for index in ready:
            if index not in waiting:
                continue
            del waiting[index]
            ordered.append(steps[index])
            for follower in followers[index]:
                step = steps[follower]
                if follower in waiting and (index in step.hard or index in step.own or index in step.deep):
                    for group in (step.hard, step.own, step.deep):
                        group.discard(index)
                    if not (step.hard or step.own or step.deep):
                        released.append(follower)
        ready = released
    return ordered


def _relaxed(steps: list[Step], waiting: Iterable[int], culprit: object) -> int:
    """Contents are read in a circle: go on where the least is missing. It was missing when the program did it, too."""
    possible = [index for index in waiting if not steps[index].hard]
    if not possible:
        raise CannotRebuild(culprit, "it is part of a cycle of objects that cannot be created before each other")
    return min(possible, key=lambda index: (len(steps[index].own), len(steps[index].deep)))
