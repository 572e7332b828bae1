"""In which order objects are created and filled: strongly connected components, and the steps inside one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .plan import Part, Piece, Plan, parts_of


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
    """One line of a cycle: the creation of an object or one statement that fills it.

    `hard` are the steps that must come before, `own` those that complete an object whose contents this step reads,
    `deep` those that complete what such an object refers to.
    """

    owner: int
    source: Piece
    creates: bool
    hard: set[int] = field(default_factory=set)
    own: set[int] = field(default_factory=set)
    deep: set[int] = field(default_factory=set)

    def is_free(self) -> bool:
        return not (self.hard or self.own or self.deep)

    def done(self, index: int) -> None:
        self.hard.discard(index)
        self.own.discard(index)
        self.deep.discard(index)


class Cycle:
    """Objects that refer to each other in a circle, and the order of the steps that build them."""

    def __init__(self, members: Sequence[int], plans: dict[int, Plan]) -> None:
        self.plans = {node: plans[node] for node in members}
        self.steps: list[Step] = []
        self.makes: dict[int, int] = {}
        self.fills: dict[int, range] = {}
        split = self.split()
        for node, plan in self.plans.items():
            self.makes[node] = len(self.steps)
            self.steps.append(Step(node, plan.bare if node in split and plan.bare is not None else plan.make, True))
        for node, plan in self.plans.items():
            sources = [*(plan.rest if node in split and plan.bare is not None else ()), *plan.fills]
            self.fills[node] = range(len(self.steps), len(self.steps) + len(sources))
            self.steps.extend(Step(node, source, False) for source in sources)
        for index, step in enumerate(self.steps):
            self.link(index, step)

    def parts(self, *pieces: Piece) -> list[Part]:
        """The holes for members of the cycle."""
        return [part for part in parts_of(*pieces) if id(part.obj) in self.plans]

    def split(self) -> set[int]:
        """Objects to create bare and fill later: made whole, they would need themselves or contents in the cycle."""
        found: set[int] = set()
        edges: dict[int, list[int]] = {}
        for node, plan in self.plans.items():
            parts = self.parts(plan.make)
            edges[node] = [id(part.obj) for part in parts]
            for read in (part for part in parts if part.contents):
                found.add(node)
                for reached in self.hashed(read):
                    edges[node] += [id(part.obj) for part in self.parts(*self.plans[reached].fills)]
        for component in components(self.plans, edges.__getitem__):
            if len(component) > 1 or component[0] in edges[component[0]]:
                found.update(component)
        return found

    def hashed(self, part: Part) -> set[int]:
        """The object and, through immutable ones, the objects whose contents count as its own."""
        reached: set[int] = set()
        pending = [id(part.obj)]
        while pending:
            node = pending.pop()
            if node not in reached:
                reached.add(node)
                if self.plans[node].bare is None:
                    pending += [id(child.obj) for child in self.parts(self.plans[node].make)]
        return reached

    def link(self, index: int, step: Step) -> None:
        """Find the steps that this one has to wait for."""
        own = self.fills[step.owner]
        if not step.creates:
            step.hard.add(self.makes[step.owner] if index == own.start else index - 1)
        for part in self.parts(step.source):
            step.hard.add(self.makes[id(part.obj)])
            if not part.contents:
                continue
            for node in self.hashed(part):
                step.own.update(self.fills[node])
                for child in self.parts(*self.plans[node].pieces()):
                    step.deep.update(self.fills[id(child.obj)])
        step.done(index)

    def ordered(self) -> list[Step]:
        """The steps, each after those it waits for; where contents are awaited in a circle, the least is given up."""
        waiting = dict.fromkeys(range(len(self.steps)))
        followers: dict[int, list[int]] = {index: [] for index in waiting}
        for index, step in enumerate(self.steps):
            for needed in step.hard | step.own | step.deep:
                followers[needed].append(index)
        result: list[Step] = []
        ready = [index for index in waiting if self.steps[index].is_free()]
        while waiting:
            released: list[int] = []
            for index in ready or [self.least_missing(waiting)]:
                del waiting[index]
                result.append(self.steps[index])
                for follower in followers[index]:
                    self.steps[follower].done(index)
                    if follower in waiting and self.steps[follower].is_free():
                        released.append(follower)
            ready = [*dict.fromkeys(released)]
        return result

    def least_missing(self, waiting: Iterable[int]) -> int:
        possible = [index for index in waiting if not self.steps[index].hard]
        if not possible:
            raise NoOrder
        return min(possible, key=lambda index: (len(self.steps[index].own), len(self.steps[index].deep)))


class NoOrder(Exception):
    """Objects that need each other to be created."""
