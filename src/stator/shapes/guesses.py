"""Once one number was seen to change, which others are likely to: they become symbols in the same compilation.

A guess that the program makes a constant of was none: the capture starts again with the constant.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import torch

from stator.guards import path as paths
from stator.guards.path import Path

Lesson = tuple[Path, str, int]  # where, "size", "int" or "float", dimension
NONE: frozenset[int] = frozenset()
MOST_STARTS = 6  # captures that begin again because of guesses, for one function


class Guesses:
    """The guesses of one session; `numbers`: arguments that are numbers count too."""

    def __init__(self, learned: Container[Lesson], numbers: bool = False) -> None:
        self.learned = learned
        self.numbers = numbers
        self.active = False  # something changed
        self.repeated = False  # something is captured again
        self.wrong: set[Lesson] = set()  # turned out to be constants
        self.guessed: dict[tuple[Path, int], int] = {}  # sizes that are symbols, by tensor and dimension
        self.sizes: set[int] = set()  # of tensors that changed
        self.gone: set[int] = set()  # those of them that are others now
        self.places: set[tuple[int, int]] = set()  # dimensions of tensors that changed, and their sizes now
        self.counts: set[int] = set()  # sizes of tensors of ints and bools among the arguments
        self.shapes: dict[Path, set[tuple[int, ...]]] = {}  # all that such a tensor was seen to have
        self.filled: set[Path] = set()  # where there was nothing before
        self.made: set[Path] = set()  # what calls give that have another number each time
        self.modular = False  # weights belong to modules, so that arguments are none
        self.owners: set[Path] = set()  # of floats that changed
        self.lists: set[Path] = set()  # of such owners
        self.starts = 0
        self.earlier: dict[tuple[Path, int], int] = {}  # what sizes were that changed
        self.pretended: set[tuple[Path, int]] = set()  # sizes that are taken for others than they are: 1 for those
        self.larger: dict[tuple[Path, int], tuple[int, int]] = {}  # and these ones for multiples of them
        self.enlarges = True
        self.told: dict[Path, Any] = {}  # by tensor with a size that is 1: where the program needed to know

    def note(self, lessons: Iterable[Lesson], before: Any, now: Any) -> None:
        """Takes note of what changed, and how."""
        for path, kind, dim in lessons:
            if kind == "size":
                if path in self.shapes and None not in before.sizes:
                    self.shapes[path].add(before.sizes)
                self.sizes.update(size for size in before.sizes if size is not None)
                self.sizes.update(now.shape)
                self.places.update(enumerate(now.shape))
                if before.sizes[dim] is not None:
                    self.gone.add(before.sizes[dim])
                    if before.sizes[dim] > 1:
                        self.earlier[path, dim] = before.sizes[dim]
            elif kind == "float" and path.parent is not None:
                self.owners.add(path.parent)
                if path.parent.accessor is paths.ITEM and path.parent.parent is not None:
                    self.lists.add(path.parent.parent)
            self.active = self.active or kind in ("size", "int", "float")

    def pretend(self, path: Path, dim: int) -> int:
        """What a size was, as which it is captured."""
        self.pretended.add((path, dim))
        return self.earlier[path, dim]

    def enlarge(self, sizes: Iterable[tuple[Path, int, int, int]]) -> None:
        """Something is one that is calculated of these sizes: they are taken for larger ones."""
        self.larger = {(path, dim): (size, larger) for path, dim, size, larger in sizes}

    def enlarged(self, path: Path, dim: int, size: int) -> int | None:
        """What a size is taken for; None if for what it is."""
        before, larger = self.larger.get((path, dim), (None, None))
        if before != size:
            return None
        self.pretended.add((path, dim))
        return larger

    def give_up_ones(self, origin: Any = None) -> None:
        """Sizes are what they are, because of a place in the program: those that were enlarged first, then 1."""
        if self.larger:
            self.enlarges = False
            self.larger.clear()
            self.pretended.clear()
            return
        self.told.update((path, origin) for path, _ in self.pretended)
        self.earlier.clear()
        self.pretended.clear()

    def fill(self, path: Path) -> None:
        """A place that was None: what the program has put there is no weight, but a mask or a table."""
        self.filled.add(path)

    def meet(self, path: Path, tensor: Any) -> None:
        """Takes note of an argument, whether it changed or not."""
        self.repeated = True
        if not issubclass(type(tensor), torch.Tensor):
            return
        if belongs_to_module(path, tensor):
            self.modular = True
        elif not tensor.dtype.is_floating_point and is_given(path):
            self.counts.update(tensor.shape)
            self.shapes.setdefault(path, set()).add(tuple(tensor.shape))

    def correct(self, lessons: Iterable[Lesson]) -> None:
        """These are constants, and so are guesses of the same size at the same place of other tensors.

        Too many of them, and there will be no more guesses.
        """
        wrong = set(lessons)
        places = {(dim, self.guessed.get((path, dim))) for path, kind, dim in wrong if kind == "size"}
        self.wrong |= wrong
        self.wrong |= {(path, "size", dim) for (path, dim), size in self.guessed.items() if (dim, size) in places}
        self.starts += 1
        if self.starts >= MOST_STARTS:
            self.stop()

    def stop(self) -> None:
        """No more guesses."""
        self.active = self.repeated = False
        self.starts = MOST_STARTS
        self.learned = frozenset()
        self.sizes.clear()
        self.gone.clear()
        self.places.clear()
        self.counts.clear()
        self.shapes.clear()
        self.owners.clear()
        self.lists.clear()

    def dims(self, path: Path, tensor: torch.Tensor) -> frozenset[int]:
        """The dimensions of a tensor that may vary: all, or those that go with one of another tensor."""
        if not self.sizes and path not in self.made:  # numbers alone do not count: code for fixed sizes is faster
            return NONE
        if belongs_to_module(path, tensor) and path not in self.filled:
            return NONE
        given = is_given(path) and not tensor.requires_grad
        every = self._may_vary(path, tensor, given)
        kept = not given and not tensor.requires_grad and path.chain()[0].accessor is paths.ARG
        found = frozenset(
            dim
            for dim, size in enumerate(tensor.shape)
            if size > 1
            and (every or size in self.gone or self._goes_with_others(dim, size, given, kept))
            and (path, "size", dim) not in self.wrong
        )
        if not kept:  # a table of as many rows as there are examples says nothing about those
            self.guessed.update({(path, dim): tensor.shape[dim] for dim in found})
        return found

    def twins(self, path: Path) -> list[Path]:
        """The ids and masks that have had the same sizes so far, different ones."""
        seen = self.shapes.get(path, ())
        return [other for other, shapes in self.shapes.items() if shapes == seen] if len(seen) > 1 else []

    def _goes_with_others(self, dim: int, size: int, given: bool, kept: bool) -> bool:
        """Whether a dimension of data is as long as one of another argument, or is the one that counts examples, also
        where an argument keeps what it was made of them."""
        if not given:
            return kept and dim == 0 and (dim, size) in self.places
        if size in self.counts or (self.modular and dim == 0):
            return True
        return (self.modular or dim == 0) and (dim, size) in self.places

    def _may_vary(self, path: Path, tensor: torch.Tensor, given: bool) -> bool:
        if path in self.made or any((path, "size", dim) in self.learned for dim in range(tensor.dim())):
            return True
        if not given:
            return False
        return not tensor.dtype.is_floating_point or all(size == 1 or size in self.sizes for size in tensor.shape)

    def takes_int(self, path: Path, value: int) -> bool:
        """An argument, or as large as a size (0, 1 and -1 choose rather than count), or the next of an iterator."""
        counts = self._is_number(path) or (self.active and value in self.sizes and is_given(path))
        likely = (counts and abs(value) > 1) or (self.starts < MOST_STARTS and is_next(path)) or self._is_latest(path)
        return likely and (path, "int", 0) not in self.wrong

    def takes_part(self, path: Path, value: int) -> bool:
        """A number in a size."""
        return self.active and value > 1 and (path, "int", 0) not in self.wrong

    def takes_float(self, path: Path, value: float) -> bool:
        """An argument, a rate, or what lies next to a float that changed; 0 and 1 choose rather than count."""
        near = (self.active and self._is_near(path.parent)) or (self.repeated and is_rate(path))
        likely = (near or self._is_number(path)) and value not in (0.0, 1.0)
        return (likely or self._is_latest(path)) and (path, "float", 0) not in self.wrong

    def _is_near(self, owner: Path | None) -> bool:
        """Whether a dict or object is one of which a float changed, or in the same list as one."""
        if owner is None:
            return False
        return owner in self.owners or (owner.accessor is paths.ITEM and owner.parent in self.lists)

    def _is_latest(self, path: Path) -> bool:
        """Whether it is counted from the end of a list that was longer or shorter before."""
        if self.starts >= MOST_STARTS or path.accessor is not paths.ITEM or path.key >= 0 or path.parent is None:
            return False
        return (path.parent.part("length", len), "int", 0) in self.learned

    def _is_number(self, path: Path) -> bool:
        return self.numbers and self.active and path.accessor is paths.ARG


def is_next(path: Path) -> bool:
    """Whether an iterator gives it, or a tuple with it, and something else the next time."""
    at: Path | None = path
    while at is not None and at.accessor is paths.ITEM:
        at = at.parent
    return at is not None and (at.accessor is paths.UPCOMING or (at.accessor is paths.PART and at.key[0] == "count"))


def is_rate(path: Path) -> bool:
    """Whether it is a rate of an optimizer, which a schedule changes sooner or later.

    The first step makes the state, so the second one is captured again in any case.
    """
    group = path.parent
    if (
        path.key not in ("lr", "weight_decay")
        or path.accessor is not paths.KEY
        or group is None
        or group.accessor is not paths.ITEM
    ):
        return False
    return group.parent is not None and group.parent.key == "param_groups"


# Steps to what the caller gave.
_GIVEN = frozenset({paths.ARG, paths.ITEM, paths.KEY})


def is_given(path: Path) -> bool:
    """Whether it is the caller who gave a value."""
    return all(step.accessor in _GIVEN for step in path.chain())


def belongs_to_module(path: Path, tensor: torch.Tensor) -> bool:
    """Whether a tensor is a parameter or buffer, whose sizes do not change."""
    if isinstance(tensor, torch.nn.Parameter):
        return True
    return any(type(step.key) is str and step.key in _MEMBERS for step in path.chain())


_MEMBERS = ("_parameters", "_buffers")
