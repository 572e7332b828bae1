"""One `compile()` call: the function, its options, and the caches of all that was compiled for it."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from types import CodeType
from typing import Any

from stator import _entry, _frames
from stator.code.own_files import OWN_FILES
from stator.errors import StatorError
from stator.graph.sharing import Shared, SharedGraph
from stator.guards import path as paths
from stator.guards.check import IS
from stator.options import Options
from stator.runtime import replaced
from stator.runtime.below import Below
from stator.runtime.cache import MOST_WAYS, Cache
from stator.runtime.calls import BoundCall, Call, ResumedCall, code_of
from stator.runtime.capture import Capture, Entry
from stator.runtime.continuation import Continuation, is_resumed
from stator.runtime.learned import SIZES, Learned
from stator.runtime.marked import is_opaque
from stator.runtime.packed import Packed, PackedCall, Shapes, code_and_receiver, takes_any
from stator.runtime.spelling import Spelling
from stator.runtime.turns import TURN
from stator.runtime.unrolling import Loops
from stator.weak_values import WeakValues

MOST_GIVEN_TEXTS = 4  # the same of texts that the caller gives
MOST_TEXTS = 2  # different strings that become constants at one place behind a break
MOST_LATELY = 8  # graphs of entries that were dropped: the next ones, there or behind a break, may need them again
SESSIONS: WeakValues[int, Session] = WeakValues()  # by address
_entry.set_step_runner(_frames.below)
_entry.set_own_frames(OWN_FILES, StatorError)


def make_compiled(function: Callable[..., Any], options: Options) -> Any:
    """The callable that `stator.compile` returns for a function."""
    return Session(function, options).compiled


def reset() -> None:
    """Forget everything that was compiled."""
    for session in SESSIONS:
        session.reset()


class ResumedCache(Cache):
    """The entries of one place behind a break."""

    ways = MOST_WAYS
    leaves_lengths = True

    def __init__(self, session: Session, continuation: Continuation) -> None:
        self.continuation = continuation
        super().__init__(session, continuation.run)

    def new_learned(self) -> Learned:
        learned = Learned(self.function, self.guesses_numbers, MOST_TEXTS)
        if self.continuation.gives_text:  # made of values: another one each time
            learned.lessons.add((paths.arg(0), "text", 0))
        return learned

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Call:
        return ResumedCall(self.continuation, args)


class BoundCache(Cache):
    """The entries of one code object whose frames CPython starts below a break; it does not keep it alive."""

    ways = MOST_WAYS

    def __init__(self, session: Session) -> None:
        super().__init__(session, None)
        self.packed: Packed | None = None
        self.shapes = Shapes()

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Call:
        return BoundCall(args)

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        function, values = args[0], args[1:]
        if self.session.may_pack and takes_any(code := function.__code__) and not _frames.capturing():
            if self.packed is None and self.shapes.note_frame(code, values) and self.worthwhile:
                self.packed = Packed(function, lambda made: PackedCache(self.session, made, True))
            if self.packed is not None and self.packed.fits(function):
                return self.packed.run(function, values)
        return super().miss(args, kwargs)

    def capture_entry(self, capture: Capture) -> Entry:
        """A frame without tensor work, or that is an opaque node, is left alone under the guards of what it read."""
        if is_opaque(capture.call.function):
            capture.guards.add(paths.arg(0), IS, capture.call.function, capture.host.origin())
            return capture.eager(alone=True)
        entry = capture.entry()
        return entry if capture.maker.operations else capture.eager()


class PackedCache(ResumedCache):
    """The entries of a function that takes any number of values, which are one value here."""

    ways = 0
    guesses_numbers = True

    def __init__(self, session: Session, continuation: Continuation, below: bool) -> None:
        self.below = below
        super().__init__(session, continuation)

    def new_learned(self) -> Learned:
        return Learned(self.function, self.guesses_numbers, MOST_GIVEN_TEXTS)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Call:
        return PackedCall(self.continuation, args, self.below)


class Session(Cache):
    """The function, its options, and everything compiled for it so far."""

    despairs_of = SIZES  # what the caller gives is worth an entry, or a warning
    guesses_numbers = True

    def new_learned(self) -> Learned:
        return Learned(self.function, self.guesses_numbers, MOST_GIVEN_TEXTS)

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.options = options
        self.functions = replaced.found()
        self.continuations: WeakValues[tuple[Any, ...], ResumedCache] = WeakValues()
        self.graphs = Shared()
        self.lately: deque[SharedGraph] = deque(maxlen=MOST_LATELY)
        self.loops = Loops()
        self.spelling = Spelling()
        self.below = Below(self.frames_of)
        self.may_pack = not options.fullgraph
        self.packed: Packed | None = None
        self.shapes = Shapes()
        super().__init__(self, function)
        functools.update_wrapper(self.compiled, function)
        SESSIONS[id(self)] = self

    def reset(self) -> None:
        with TURN:
            super().reset()
            self.continuations.clear()
            self.graphs.clear()
            self.lately.clear()
            self.loops = Loops()
            self.spelling = Spelling()
            self.below.clear()
            self.packed = None
            self.shapes = Shapes()

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        found = code_and_receiver(self.function) if self.may_pack else None
        if found is not None and takes_any(found[0].__code__) and not _frames.capturing():
            function, receiver = found
            values = (*receiver, *args)
            many = self.shapes.note(function.__code__, len(values), tuple(kwargs or ()))
            if self.packed is None and many and self.worthwhile:
                self.packed = Packed(function, lambda made: PackedCache(self, made, False))
            if self.packed is not None and self.packed.fits(function):
                result = self.packed.call(function, values, kwargs)
                if result is not NotImplemented:
                    return result
        return super().miss(args, kwargs)

    def frames_of(self, code: CodeType) -> Any:
        """What takes frames of a code object below a break; None: CPython does."""
        return None if code is code_of(self.function) or is_resumed(code) else BoundCache(self).compiled

    def continuation(self, key: tuple[Any, ...], make: Callable[[], Continuation]) -> ResumedCache:
        """What goes on behind a break: one for each place, kept by the entries that lead there."""
        cache = self.continuations.get(key)
        if cache is None:
            cache = self.continuations[key] = ResumedCache(self, make())
        return cache


__all__ = ["Session", "code_of", "make_compiled", "reset"]
