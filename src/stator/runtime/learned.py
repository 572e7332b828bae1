"""What a session has learned from guards that failed: which values differ from call to call.

The next capture asks before it makes a constant of a value, and before it guards all of a container. One row per check
tells what a failure teaches.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Sequence
from enum import Enum
from types import ModuleType
from typing import Any

from torch import Tensor

from stator.errors import Again, InternalError
from stator.guards.check import EQ, IS, KEYS, LEN, PRESENT, RELATION, TENSOR, Check
from stator.guards.constant import same
from stator.guards.guardset import Failure, GuardSet
from stator.guards.path import ARG, ITEM, ITERAT, KEY, KEYAT, SEQ, UPCOMING, Missing, Path, is_frame
from stator.guards.relation import INT, Relation
from stator.guards.tensor_spec import TensorSpec
from stator.shapes.guesses import Guesses
from stator.shapes.profile import Name, current, name_of
from stator.world.class_contents import ClassContents
from stator.world.generators import HEAD
from stator.world.hollow_sequences import summaries
from stator.world.rewritten import LENGTH

Lesson = tuple[Path, str, int]  # where, kind, detail
SIZES = frozenset({KEYS, LEN})  # of containers
ENDS = frozenset({LEN, PRESENT})  # how many items there are still to come
UNSETTLED = SIZES | {EQ, IS}  # checks that an entry can do without
ITEMS = frozenset({ITEM, KEY, SEQ, KEYAT, ITERAT})
MOST_PLACES = 3  # at which a generator is found before it is left to CPython
MOST_MEMBERS = 4  # different members of an enumeration that become constants at one place


class Learned:
    """Lessons of one session, kept for as long as it lives; with a profile also those of earlier processes, by name."""

    def __init__(self, function: Any = None, numbers: bool = False, most_texts: float = math.inf) -> None:
        self.lessons: set[Lesson] = set()
        self.light: set[Path] = set()  # containers whose contents kept changing: to be read item by item
        self.whole: set[Path] = set()  # containers and iterators that cannot be
        self.waiting: set[Path] = set()  # arguments that changed: perhaps the program does not look at them
        self.unsettled: set[tuple[Path, Check]] = set()  # checks that almost used up the entries there may be
        self.differed: set[Path] = set()  # constants and objects that were others in another call
        self.ending: set[Path] = set()  # iterators that ended sooner or later than before
        self.class_data: set[Path] = set()  # numbers and texts that classes hold, and that changed
        self.texts: dict[Path, set[str]] = {}  # strings seen at one place; too many, and they say nothing any more
        self.members: dict[Path, set[str]] = {}  # the same of enumerations, by name
        self.places: Counter[Path] = Counter()  # how often a generator was at another place
        self.most_texts = most_texts
        self.guesses = Guesses(self, numbers)
        self.name = name_of(function)

    def __bool__(self) -> bool:
        return bool(self.lessons) or self._names() is not None

    def __contains__(self, lesson: object) -> bool:
        if lesson in self.lessons:
            return True
        names = self._names()
        return names is not None and _named(lesson) in names  # type: ignore[arg-type]

    def _names(self) -> set[Name] | None:
        profile = current()
        return None if profile is None else profile.names.get(self.name)

    def again(self, reason: Again) -> None:
        """Why a capture has to be made again."""
        if reason.ones:
            self.guesses.give_up_ones(reason.origin)
        elif reason.larger:
            self.guesses.enlarge(reason.larger)
        elif reason.constants:
            self.guesses.correct(reason.constants)
        elif reason.varies:
            self.lessons |= reason.varies
            for path, kind, _ in reason.varies:
                if kind == LENGTH:
                    self.lighten(path)
        elif reason.path is not None:
            if reason.path in self.whole:
                raise InternalError(f"a capture was begun again for the same reason twice: {reason.path}")
            self.whole.add(reason.path)

    def look(self, failures: Iterable[Failure]) -> None:
        """Containers on the way to what changed: in the next capture only what is read of them gets guarded."""
        for failure in failures:
            if failure.path is not None and failure.check in SIZES:
                self.lighten(failure.path)
            at = failure.path
            while at is not None:
                if at.accessor is UPCOMING and at.parent is not None and failure.check in ENDS:
                    self.ending.add(at.parent)
                if at.accessor in ITEMS and at.parent is not None:
                    self.light.add(at.parent)
                at = at.parent

    def follow(self, failures: Iterable[Failure]) -> None:
        """Generators that are at another place than before: from some number of places on, CPython drives them."""
        for owner in {owner for failure in failures if (owner := suspended_at(failure.path)) is not None}:
            self.places[owner] += 1
            if self.places[owner] > MOST_PLACES:
                self.lessons.add((owner, "frame", 0))

    def wait(self, failures: Iterable[Failure], values: Sequence[Any]) -> None:
        """What was compared with an argument, and was another one: not numbers and tensors, which may be symbols."""
        for failure in failures:
            root = failure.path.chain()[0] if failure.path is not None else None
            if (
                root is not None
                and root.accessor is ARG
                and not issubclass(type(values[root.key]), (int, float, Tensor))
            ):
                self.waiting.add(root)

    def lighten(self, path: Path) -> None:
        """A container with another number of elements, or others: what tells about all of them varies."""
        self.light.update((path, *(at.parent for at in path.chain() if at.accessor in ITEMS and at.parent is not None)))
        self.lessons.update((part, kind, 0) for part in summaries(path) for kind in ("int", "float"))

    def despair(self, failures: Sequence[Failure], checks: Container[Check]) -> None:
        """Hardly any entry is left: from now on CPython does what needs one of these checks that keeps failing."""
        often = Counter((failure.path, failure.check) for failure in failures if failure.check in checks)
        for (path, check), times in often.items():
            if path is not None and 2 * times > len(failures):
                self.unsettled.add((path, check))

    def despair_of_numbers(self, entries: Sequence[GuardSet], values: Sequence[Any]) -> None:
        """The same of ints that were another constant in most entries."""
        often = Counter(path for guards in entries for path in refuted(guards, values))
        self.unsettled.update((path, EQ) for path, times in often.items() if 2 * times > len(entries))

    def leave_lengths(self, failures: Iterable[Failure], values: Sequence[Any]) -> None:
        """Tensors that a loop has collected, more or fewer each time: CPython does what needs to know how many."""
        for failure in failures:
            if failure.check is LEN and failure.path is not None:
                found = failure.path.load(values, {})
                if type(found) in (list, tuple) and found and all(issubclass(type(item), Tensor) for item in found):
                    self.unsettled.add((failure.path, LEN))

    def expect_other_sizes(self, places: Iterable[Path]) -> None:
        """What calls with a number that varies give: a tensor of any size, or more or fewer of them."""
        self.guesses.made.update(places)
        self.unsettled.update((path, LEN) for path in places)

    def mourn(self, guards: GuardSet) -> None:
        """Objects that died will be others next time."""
        self.lessons.update((path, "identity", 0) for path, check in guards.bereft() if check is IS)

    def observe(self, guards: GuardSet, values: Sequence[Any], light: Container[Path] = ()) -> None:
        """Compares every guarded value with what it is in this call; `light`: containers that were read by item."""
        memo: dict[Path, Any] = {}
        for path, check, key, _ in guards.rows():
            rule = LESSONS.get(check.name)
            if (rule is None and check not in SIZES) or path is None or not may_teach(check, key):
                continue
            try:
                value = path.load(values, memo)
            except Missing:
                continue
            if rule is None:
                if not check.holds(value, key):
                    self.see_change(path, check, value, light)
                continue
            found = {(path, kind, detail) for kind, detail in rule(key, value)}
            if type(key) is type(value) is str and key != value:
                self.read(path, key, value)
                found.add((path.part("length", len), "int", 0))
            elif check is IS and key is not value and issubclass(type(value), Enum) and type(key) is type(value):
                self.meet(path, key, value)
            elif check is IS and type(key) is type(value) is bool and path.accessor is ITEM and path.parent is not None:
                found.update((part, "int", 0) for part in summaries(path.parent))  # how many of a list are True
            if (check is EQ or check is IS) and not check.holds(value, key):
                self.differed.add(path)
            self.lessons |= found
            if check is EQ and type(key) in DATA and not check.holds(value, key):
                self.see_change(path, check, value, light)
            if key is None:
                self.guesses.fill(path)
            self.guesses.meet(path, value)
            self.guesses.note(found, key, value)
        if (profile := current()) is not None and self.lessons and self.name:
            profile.add(self.name, {_named(lesson) for lesson in self.lessons})

    def see_classes(self, classes: ClassContents) -> None:
        """Numbers and texts that classes hold and that have changed: they are guarded one by one from now on."""
        for path, before, now in classes.data():
            self.class_data.add(path)
            self.lessons.update((path, kind, detail) for kind, detail in LESSONS[EQ.name](before, now))
            if type(now) is str:
                self.read(path, before, now)

    def see_change(self, path: Path, check: Check, value: Any, light: Container[Path]) -> None:
        """Another number of elements, or data of no symbol: once more, and what needs it is CPython's from then on."""
        if path.accessor is UPCOMING:
            if path.key and path.parent in light:  # the loop goes several rounds in one capture
                self.unsettled.add((path, check))
            return
        if type(value) in GROWING:
            self.lighten(path)
        else:
            self.light.add(path)
        if path in light:
            self.unsettled.add((path, check))

    def read(self, path: Path, *texts: str) -> None:
        """Different strings at one place: from some number on CPython looks at them, whatever they are."""
        seen = self.texts.setdefault(path, set())
        seen.update(texts)
        if len(seen) > self.most_texts:
            self.lessons.add((path, "text", 0))

    def meet(self, path: Path, *members: Enum) -> None:
        """Different members of an enumeration at one place: there are few as a rule."""
        seen = self.members.setdefault(path, set())
        seen.update(vars(member).get("_name_", "") for member in members)  # one that is being made has no name
        if len(seen) > MOST_MEMBERS:
            self.lessons.add((path, "identity", 0))


def is_about_one(relation: Relation, values: Sequence[Any]) -> bool:
    """Whether a size that is one in this call has a part in a relation."""
    sizes = [(path, dim) for operand in relation.operands for path, kind, dim in operand.lessons() if kind == "size"]
    return any(path.load(values, {}).shape[dim] == 1 for path, dim in sizes)


def refuted(guards: GuardSet, values: Sequence[Any]) -> set[Path]:
    """Ints that are others than these guards say of each on its own."""
    found: set[Path] = set()
    memo: dict[Path, Any] = {}
    for path, check, key, _ in guards.rows():
        alone = check is RELATION and len(key.operands) == 1 and key.operands[0].kind == INT
        at = key.operands[0].path if alone else path
        if at is None or not (alone or (check is EQ and type(key) is int)):
            continue
        try:
            value = at.load(values, memo)
        except Missing:
            continue
        if type(value) is int and not (key.holds([value]) if alone else check.holds(value, key)):
            found.add(at)
    return found


def suspended_at(path: Path | None) -> Path | None:
    """The outermost generator of those on the way, if what failed says where one of them is."""
    steps = [] if path is None else path.chain()
    frames = [at for at, step in enumerate(steps) if is_frame(step)]
    says_where = frames and (frames[-1] == len(steps) - 1 or (frames[-1] == len(steps) - 2 and steps[-1].key < HEAD))
    return steps[frames[0] - 1] if says_where else None


def _named(lesson: Lesson) -> Name:
    path, kind, detail = lesson
    return path.describe(), kind, detail


def _sizes(spec: TensorSpec, tensor: Any) -> Iterable[tuple[str, int]]:
    """Dimensions of a tensor that is otherwise of the same kind."""
    if type(tensor) is not spec.cls or not spec.plain or spec.sizes is None:
        return
    now = TensorSpec.of(tensor)
    if now.dtype != spec.dtype or now.sizes is None or len(now.sizes) != len(spec.sizes):
        return
    for dim, (before, size) in enumerate(zip(spec.sizes, now.sizes, strict=True)):
        if before != size:  # None: a symbol so far, and still one
            yield "size", dim
    layout: Any = tensor
    strides = layout.stride()
    follows = extents(layout.shape, strides)
    sizes, steps = spec.sizes, spec.strides or ()
    if None not in (*sizes, *steps):  # what had gaps may have some again
        follows &= extents([n for n in sizes if n is not None], [n for n in steps if n is not None])
    for dim, (before, stride) in enumerate(zip(spec.strides or (), strides, strict=False)):
        if before != stride and stride > 1 and dim not in follows:
            yield "stride", dim


def extents(sizes: Sequence[int], strides: Sequence[int]) -> set[int]:
    """Dimensions whose stride is the extent of other ones."""
    known: set[int] = set()
    found = set()
    for stride, back in sorted((stride, -dim) for dim, stride in enumerate(strides)):
        if stride in known:
            found.add(-back)
        known.add(sizes[-back] * stride)
    return found


def _numbers(before: Any, value: Any) -> Iterable[tuple[str, int]]:
    """A number in place of another one, or of what may stand for none."""
    kind = type(value)
    if kind not in _NUMBERS or type(before) not in _INSTEAD.get(kind, (kind,)):
        return
    if kind is not type(before) or not same(value, before):  # tuples may hold anything: no code of the program runs
        yield _NUMBERS[kind], 0


_NUMBERS: dict[type, str] = {int: "int", float: "float", tuple: "contents", str: "str", range: "rounds"}
_INSTEAD: dict[type, tuple[type, ...]] = dict.fromkeys((int, float), (int, float, bool, type(None)))


def may_teach(check: Check, key: Any) -> bool:
    """Whether another value in place of this one could be a lesson: programs may guard thousands of modules."""
    kind = type(key)
    return kind is not ModuleType if check is not EQ else kind in _TELLING


GROWING = frozenset({list, dict, set, deque, defaultdict, OrderedDict, Counter})  # that may be hollow


DATA = frozenset({bytes, complex, frozenset})  # constants that no symbol stands for
_TELLING = DATA | {int, float, bool, type(None), tuple, str, range}


def _identities(before: Any, value: Any) -> Iterable[tuple[str, int]]:
    """Objects that can only be told apart: one kind, another one on each call; or a number in place of none."""
    yield from _numbers(before, value)
    if value is not before and type(value) is type(before) and not issubclass(type(value), Enum):
        yield "identity", 0


LESSONS: dict[str, Callable[[Any, Any], Iterable[tuple[str, int]]]] = {
    TENSOR.name: _sizes,
    EQ.name: _numbers,
    IS.name: _identities,
}
