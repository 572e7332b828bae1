"""Which sizes and ints are symbols: what was seen to change, what the user marked, what `dynamic=` says."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import torch

from stator import _frames
from stator.guards import path as paths
from stator.guards.path import Path
from stator.shapes.guesses import NONE, Guesses, belongs_to_module
from stator.shapes.marks import ANY, MARKS, Bounds, marked_dims
from stator.shapes.relations import LARGEST

Lesson = tuple[Path, str, int]  # where, "size", "count" (a size that may be one) or "int", dimension
NOTHING: dict[int, Bounds] = {}


class Policy:
    """What one capture makes symbolic."""

    __slots__ = ("dynamic", "guessed", "guesses", "learned", "unbacked")

    def __init__(
        self, dynamic: bool | None = None, learned: Container[Lesson] = frozenset(), unbacked: bool = False
    ) -> None:
        self.dynamic = dynamic
        self.unbacked = unbacked  # numbers that only data tells are symbols too
        self.learned = learned
        self.guesses: Guesses | None = getattr(learned, "guesses", None)
        self.guessed: set[Lesson] = set()  # symbols that nobody asked for

    def dims(self, path: Path, tensor: torch.Tensor) -> dict[int, Bounds]:
        """The symbolic dimensions of a tensor, with their bounds; sizes 0 and 1 are constants."""
        if self.dynamic is False:
            return NOTHING
        marks = _frames.instance_dict(tensor)
        marked = bool(marks) and any(name in marks for name in MARKS)
        if not marked and not self.learned and not self.dynamic and not (self.guesses and self.guesses.made):
            return NOTHING
        every = bool(self.dynamic) and not belongs_to_module(path, tensor)
        wanted, fixed = (marked_dims(marks) if marked else NOTHING), (marks or {}).get("_dynamo_static_indices", ())
        guessed = self.guesses.dims(path, tensor) if self.guesses is not None and not every else NONE
        self.guessed.update((path, "size", dim) for dim in guessed if dim not in wanted and dim not in fixed)
        return {
            dim: wanted.get(dim, ANY)
            for dim, size in enumerate(tensor.shape)
            if (
                size > 1
                or (self.unbacked and dim in wanted and wanted[dim].unbacked)
                or self._was_more(path, dim, size)
            )
            and dim not in fixed
            and (every or dim in wanted or dim in guessed or (path, "size", dim) in self.learned)
        }

    def _was_more(self, path: Path, dim: int, size: int) -> bool:
        """Whether a size is 1 that was another one in an earlier call."""
        return size == 1 and self.guesses is not None and (path, dim) in self.guesses.earlier

    def earlier(self, path: Path, dims: Container[int], sizes: Sequence[int]) -> dict[int, int]:
        """What sizes are to be taken for that are 1, or of which something is, by dimension: the capture does for both,
        or starts again."""
        if self.guesses is None:
            return {}
        found = {dim: self._taken_for(path, dim, size) for dim, size in enumerate(sizes) if dim in dims}
        return {dim: size for dim, size in found.items() if size is not None}

    def _taken_for(self, path: Path, dim: int, size: int) -> int | None:
        assert self.guesses is not None
        pretends = self._was_more(path, dim, size)
        return self.guesses.pretend(path, dim) if pretends else self.guesses.enlarged(path, dim, size)

    def told(self, path: Path) -> Any:
        """Where the program needed to know that a size of a tensor is 1, as (code, instruction); None if nowhere."""
        return None if self.guesses is None else self.guesses.told.get(path)

    def twins(self, path: Path) -> list[Path]:
        """Where there are tensors that had the same sizes as one whenever these changed."""
        return [] if self.guesses is None else self.guesses.twins(path)

    def strides(self, path: Path, tensor: torch.Tensor) -> frozenset[int]:
        """Dimensions whose stride is a symbol of its own."""
        if self.dynamic is False or not self.learned:
            return frozenset()
        return frozenset(dim for dim in range(tensor.dim()) if (path, "stride", dim) in self.learned)

    def takes_int(self, path: Path, value: int) -> bool:
        """Whether an int is a symbol."""
        if self.dynamic is False or not -LARGEST < value < LARGEST:
            return False
        if (path, "int", 0) in self.learned:
            return is_plain(path)
        if self.guesses is not None and self.guesses.takes_int(path, value):
            self.guessed.add((path, "int", 0))
            return True
        return bool(self.dynamic) and value not in (0, 1) and path.accessor is paths.ARG

    def takes_part(self, path: Path, value: int) -> bool:
        """Whether an int in a torch.Size is a symbol."""
        if self.takes_int(path, value):
            return True
        if self.dynamic is False or self.guesses is None or not self.guesses.takes_part(path, value):
            return False
        self.guessed.add((path, "int", 0))
        return True

    def takes_float(self, path: Path, value: float) -> bool:
        """Whether a float is a symbol."""
        if self.dynamic is False or not is_plain(path):
            return False
        if (path, "float", 0) in self.learned:
            return True
        if self.guesses is not None and self.guesses.takes_float(path, value):
            self.guessed.add((path, "float", 0))
            return True
        return False

    def could_vary(self, lesson: Lesson) -> bool:
        """Whether a number should be a symbol that was none so far, and is bound to change."""
        guesses = self.guesses
        if self.dynamic is False or guesses is None or not guesses.repeated or lesson in guesses.wrong:
            return False
        return lesson not in self.learned and is_plain(lesson[0])


def is_plain(path: Path) -> bool:
    """Whether a value is of the user's own program."""
    return all(step.accessor in _PLAIN or any(leads(step) for leads in _LEADING) for step in path.chain())


# Steps of the user's own program; others lead to what an importer of stator asked for.
_PLAIN = frozenset(
    {
        paths.ARG,
        paths.CONST,
        paths.ATTR,
        paths.GETATTR,
        paths.CLASSDICT,
        paths.ITEM,
        paths.KEY,
        paths.CELL,
        paths.SEQ,
        paths.UPCOMING,
    }
)
_LEADING = (paths.is_summary, paths.is_pairs, paths.is_inner, paths.is_thread_local)  # parts that are
