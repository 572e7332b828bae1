"""The entries of one function or place: what happens when none fits, and when too many were made."""

from __future__ import annotations

import copy
import logging
import sys
import traceback
import warnings
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from stator import _entry, _frames, filters
from stator.code import resume
from stator.code.hidden import is_hidden
from stator.control.breaking import breaks_are_errors
from stator.control.stance import may_compile
from stator.errors import Again, ConstraintViolation, RecompileLimit, StatorError, Unsupported, unsupported
from stator.eval.machine import Place
from stator.guards.check import EQ, RELATION
from stator.guards.guardset import Failure
from stator.interruptions import is_interruption
from stator.report import events
from stator.runtime import first_rounds, first_tests, inherited, module_hooks, pinning, symbolic_host
from stator.runtime.calls import Call
from stator.runtime.capture import Capture, Entry
from stator.runtime.continuation import Break
from stator.runtime.learned import UNSETTLED, Learned, Lesson, is_about_one
from stator.runtime.optimizers import PLAINLY
from stator.runtime.replaced import refusal
from stator.runtime.tail import GoingOn
from stator.runtime.turns import CAPTURING, TURN, turn_comes
from stator.runtime.unrolling import check_open_loops
from stator.tensors.signals import OpFailed
from stator.world.generators import SUSPENDED

if TYPE_CHECKING:
    from stator.runtime.session import Session

MOST_CAPTURES = 32  # times the recompile limit, counting entries that were dropped since
MOST_IDLE = 10_000  # guards of entries without an operation on tensors
MOST_PLACES = 4  # tries to find a place for a break at which everything can be rebuilt
UNBROKEN = {"interpreter-watched": True, "long-run": False}  # CPython runs the call; whether also all frames below it
REQUESTED = frozenset({"graph-break-requested", "disabled-function"})  # breaks that the program asks for
LAST_ENTRIES = 2  # that do without the checks that failed most
MOST_WAYS = 4  # entries that pass a call on to other ones, one after the other
_log = logging.getLogger(__name__)
_warned: dict[Any, Any] = {}  # what `warnings` notes about the places of ours


def warn(text: str) -> None:
    """A warning at the program's call; where warnings are errors it is logged: the program has done nothing wrong."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_hidden(frame.f_code):
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", "<unknown>")
    try:
        warnings.warn_explicit(text, RuntimeWarning, *place, _warned)  # the program's globals stay as they are
    except RuntimeWarning:
        _log.warning("%s", text)


def renew(entry: Entry) -> bool:
    """Guard the versions that unchanged classes have now; whether any had another one."""
    changed = entry.classes.refresh(entry.guards)
    for before, now in changed:
        entry.program.renew(before, now)
    return bool(changed)


def end_frames(failed: BaseException) -> None:
    """What frames of a failed capture hold may be scopes of torch's: they must not reach further.

    Errors of stator's own that led to this one would keep them, and what the program had made, in a cycle.
    """
    traceback.clear_frames(failed.__traceback__)
    error: BaseException | None = failed
    while error is not None and (error := error.__cause__ or error.__context__) is not None:
        if not type(error).__module__.startswith("stator.") or error.__traceback__ is None:
            return  # the program's, which may be handling it
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None


class Cache:
    """The entries of one function, or of one place behind a break."""

    ways = 0  # how many entries a call was passed on by
    despairs_of = UNSETTLED  # checks that CPython makes where they keep failing
    leaves_lengths = False  # lists of tensors of another length each time are CPython's
    guesses_numbers = False  # arguments that are numbers may vary once something did; not the variables of a frame

    def __init__(self, session: Session, function: Any) -> None:
        self.session = session
        self.function = function
        self.compiled = _entry.Compiled(function, self.miss, self.sweep)
        self.entries: list[Entry] = []
        self.captures = 0  # entries ever made, also those that were dropped
        self.given_up = False  # too many of them: CPython runs what no entry fits
        self.worthwhile = False  # whether there was something to compile
        self.warned = False
        self.learned = self.new_learned()

    def new_learned(self) -> Learned:
        """Nothing learned so far."""
        return Learned(self.function, self.guesses_numbers)

    def reset(self) -> None:
        """Forget all entries."""
        self.compiled.clear()
        self.entries.clear()
        self.captures = 0
        self.given_up = self.warned = self.worthwhile = False
        self.learned = self.new_learned()

    def sweep(self) -> None:
        """Drop entries whose guarded objects died; not while somebody captures, who does it too."""
        if not CAPTURING and not _frames.capturing():
            with TURN:  # an interruption cannot come between taking it and the block
                self.drop_expired()

    def drop_expired(self) -> None:
        expired = [entry for entry in self.entries if entry.program.expired]
        for entry in expired:
            self.learned.mourn(entry.guards)
        if expired:
            self.entries = [entry for entry in self.entries if entry not in expired]
            self.given_up = False
            self.session.lately.extend(entry.graph for entry in expired if entry.graph is not None)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Call:
        return Call(self.function, args, kwargs)

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """No entry fits: make one and run it, or run the call in CPython."""
        call = self.call(args, kwargs)
        if _frames.capturing():
            return call.run()
        if (name := self.session.functions.replaced()) is not None:
            return self.leave(call, refusal(name))
        if not self.session.options.fullgraph:
            if self.given_up and CAPTURING and not TURN._is_owned():  # it would hardly be worth the wait
                return call.run()
            if not turn_comes():
                return self.leave(call, unsupported("compiler-busy", function=call.name))
        failure: BaseException | None = None
        depth = filters.depth()
        try:
            ready = self.ready(call)
        except BaseException as error:
            failure = error
            filters.unwind(depth)
        if failure is not None:  # behind the handler: the program must not see stator handle its error
            if isinstance(failure.__context__, StatorError) and not isinstance(failure, StatorError):
                failure.__context__ = None  # an interruption while stator handled an error of its own
            if isinstance(failure, RecursionError) and not self.session.options.fullgraph:
                return call.run()  # the program is near its limit, and capturing goes deeper than running
            if self.is_own_mistake(failure):
                events.emit("error", text=f"{type(failure).__name__}: {failure}")
                return call.run()
            return call.fail(failure)
        return call.run(self.session.below) if ready is None else self.start(ready, call)

    def leave(self, call: Call, error: StatorError) -> Any:
        """CPython runs a call and all below it; with fullgraph that is an error."""
        if self.session.options.fullgraph:
            error.locate(call.place)
            return call.fail(error)
        events.emit("skip", name=call.name, code=call.code, **error.report())  # looking for the place would call them
        return call.run()

    def is_own_mistake(self, failure: BaseException) -> bool:
        """Whether stator itself went wrong around a capture, of which the program need not know."""
        foreign = isinstance(failure, (StatorError, Warning)) or not isinstance(failure, Exception)
        return not foreign and not is_interruption(failure) and not self.session.options.fullgraph

    def ready(self, call: Call) -> Entry | None:
        """The entry to run, made if need be; None: CPython runs the call."""
        with TURN:
            CAPTURING[:] = [True]
            try:
                return self.found_or_made(call)
            finally:
                CAPTURING.clear()

    def found_or_made(self, call: Call) -> Entry | None:
        self.drop_expired()
        found = self.fitting(call)
        if found is not None or not may_compile(call.name, lambda: self.reasons(call)):
            return found
        if self.given_up and not self.session.options.fullgraph:  # known, and said
            return None
        return self.add(call) if not self.captures or self.may_recompile(call) else None

    def fitting(self, call: Call) -> Entry | None:
        """An entry that fits after all: made by another thread meanwhile, or with classes that only look changed."""
        for entry in self.entries:
            if isinstance(entry.program.run(call.values, call.names), list):
                return entry
        renewed = [entry for entry in self.entries if renew(entry)]
        return self.fitting(call) if renewed else None

    def failures(self, call: Call) -> list[Failure]:
        """The guard of each entry that does not hold for a call."""
        failures = [entry.guards.first_failure(call.values, call.names) for entry in self.entries]
        return [failure for failure in failures if failure is not None]

    def reasons(self, call: Call) -> list[str]:
        return [failure.text for failure in self.failures(call)]

    def may_recompile(self, call: Call) -> bool:
        """Report why; after too many compilations: say which guards kept failing, once."""
        options = self.session.options
        if not options.fullgraph and self.idles():
            self.given_up = True
            error = unsupported("long-run", function=call.name)
            error.locate(call.place)
            events.emit("skip", name=call.name, code=call.code, **error.report())
            return False
        failures = self.failures(call)
        reasons = [failure.text for failure in failures]
        if len(self.entries) < options.recompile_limit and self.captures < MOST_CAPTURES * options.recompile_limit:
            self.learned.look(failures)
            self.learned.follow(failures)
            self.learned.wait(failures, call.values)
            if len(self.entries) >= max(options.recompile_limit - LAST_ENTRIES, LAST_ENTRIES):
                self.learned.despair(failures, self.despairs_of)
                if EQ in self.despairs_of:
                    self.learned.despair_of_numbers([entry.guards for entry in self.entries], call.values)
            if self.leaves_lengths:
                self.learned.leave_lengths(failures, call.values)
            for entry in self.entries:
                with torch._C.DisableTorchFunction():  # classes of tensors may watch who looks at them
                    self.learned.observe(entry.guards, call.values, entry.light)
                self.learned.see_classes(entry.classes)
            relations = [failure.key for failure in failures if failure.check is RELATION]
            with torch._C.DisableTorchFunction():
                about_one = any(is_about_one(relation, call.values) for relation in relations)
            if about_one:  # it may have been asked
                self.learned.guesses.give_up_ones()
            events.emit("recompile", name=call.name, code=call.code, reasons=reasons)
            return True
        text = "\n  ".join([f"{call.name} was compiled {self.captures} times (recompile_limit)", *reasons])
        limit = {"function": call.name, "limit": options.recompile_limit}
        error = RecompileLimit("recompile-limit", text, fields=limit)
        error.locate(call.place)
        if options.fullgraph:
            raise error
        self.given_up = True
        events.emit("skip", name=call.name, code=call.code, **error.report())
        if not self.warned and self.worthwhile:
            self.warned = True
            warn(f"stator runs this function eagerly from now on: {text}")
        return False

    def idles(self) -> bool:
        """Whether it costs much and comes to nothing: many guards, and no operation on tensors."""
        guards = sum(len(entry.guards) for entry in self.entries)
        return guards > MOST_IDLE and not any(entry.operations for entry in self.entries)

    def add(self, call: Call) -> Entry:
        """Capture the call, up to its first break where there is one; an error with fullgraph."""
        entry = None
        while entry is None:
            try:
                entry = self.attempt(call)
            except Again as again:
                if again.breaks:
                    self.session.loops.add(again.breaks)
                else:
                    self.learned.again(again)
            else:
                if not entry.captured and self.learned.unsettled:  # that was no help
                    self.learned.unsettled = set()
                    entry = None
                elif not self.keep(entry, call):
                    entry = None
        return entry

    def keep(self, entry: Entry, call: Call) -> bool:
        """One more entry; whether it does for the call, in which sizes may be one that were not captured as such."""
        renew(entry)  # another capture since may have failed in a backend that patches classes
        pretended, entry.light = self.learned.guesses.pretended, frozenset(self.learned.light | self.learned.ending)
        fits = not pretended or isinstance(entry.program.run(call.values, call.names), list)
        if not fits:
            self.learned.guesses.give_up_ones()
        pretended.clear()
        self.learned.guesses.larger.clear()
        if fits or entry.captured:
            self.compiled.append(entry.program, entry.function)
            self.entries.append(entry)
            self.captures += 1
            self.worthwhile = self.worthwhile or entry.captured
        return fits

    def attempt(self, call: Call) -> Entry:
        capture = self.capture(call)
        entry, failed = self.tried(capture)
        if failed is not None and self.learned.guesses.pretended and self.needs_constants(failed):
            end_frames(failed)
            raise Again(None, ones=True)
        if failed is not None and capture.unsure is not None and self.raises_anyway(capture, failed):
            return capture.unsure
        may_break = not breaks_are_errors(self.session.options, capture)
        if type(failed) is OpFailed and capture.told_compiling and may_break:  # it may go another way in eager
            self.learned.whole.add(PLAINLY)
            capture, entry, failed = self.retried(failed, call)
        if failed is not None and capture.guessed and self.needs_constants(failed):
            self.learned.guesses.stop()
            capture, entry, failed = self.retried(failed, call)
        if failed is not None and capture.from_data and self.needs_constants(failed):
            events.emit("error", text=f"captured without numbers from data, as they failed: {failed}")
            second, entry, worse = self.retried(failed, call, unbacked=False)
            if worse is None or not self.session.options.fullgraph:
                capture, failed = second, worse
        if failed is not None and capture.symbolic and not capture.from_data and self.needs_constants(failed):
            events.emit("error", text=f"captured with constants, as symbols failed: {failed}")
            capture, entry, failed = self.retried(failed, call, constants=True)
        if failed is None:
            return entry
        if breaks_are_errors(self.session.options, capture):
            raise failed
        end_frames(failed)
        failed.__traceback__ = None
        return self.until_break(capture, failed)  # not in the handler: the program would see the error as its context

    def raises_anyway(self, capture: Capture, failed: StatorError) -> bool:
        """Whether a call raises the same without symbols, so that they are not to blame."""
        second, entry, worse = self.retried(failed, capture.call, constants=True)
        if worse is not None:
            end_frames(worse)
        return entry is not None and second.came_out is capture.came_out

    def capture_entry(self, capture: Capture) -> Entry:
        return capture.entry()

    def tried(self, capture: Capture) -> tuple[Any, StatorError | None]:
        """The entry, or why there is none."""
        try:
            return self.capture_entry(capture), None
        except (Again, ConstraintViolation):
            raise
        except StatorError as error:
            error.locate(capture.call.place)
            return None, error

    def retried(
        self, failed: StatorError, call: Call, constants: bool = False, unbacked: bool = True
    ) -> tuple[Capture, Any, StatorError | None]:
        """Another capture of a call."""
        end_frames(failed)
        capture = self.capture(call, constants=constants, unbacked=unbacked)
        return capture, *self.tried(capture)

    def needs_constants(self, error: StatorError) -> bool:
        """Whether a capture with symbols failed where one without may go."""
        broken = isinstance(error, Unsupported) and error.break_id != "symbolic-value"
        return self.session.options.fullgraph or not broken

    def capture(
        self,
        call: Call,
        stop: Place | None = None,
        watched: Any = (),
        constants: bool = False,
        unbacked: bool = True,
    ) -> Capture:
        options = replace(self.session.options, dynamic=False) if constants else self.session.options
        owner, unbacked = self.session.below, unbacked and not constants
        otherwise = self.otherwise if self.ways < MOST_WAYS else None
        made = Capture(call, options, owner, stop, watched, self.learned, unbacked, otherwise)
        made.maker.graphs, made.maker.repeated = self.session.graphs, self.captures > 0
        made.host.differed = self.learned.differed
        if self.learned.class_data:
            made.host.classes.varying = frozenset(self.learned.class_data)
            made.host.watch_classes()
        if not options.fullgraph:
            made.host.loops, made.host.counts_rounds = self.session.loops, bool(self.learned.lessons)
            made.host.spelling, made.host.is_outermost = self.session.spelling, self.guesses_numbers
            made.host.ending, made.host.may_break = self.learned.ending, True
        if self.learned.lessons or (self.learned.light and not options.fullgraph):
            symbolic_host.start(made.host)  # C code may be what reads the first symbol
        return made

    def otherwise(self, lesson: Any = None) -> Any:
        """What takes the calls that go another way than an entry, by numbers that it reads or by what it assumed."""
        made = Otherwise(self)
        if lesson is not None:
            made.learned = copy.copy(self.learned)
            made.learned.whole = {*self.learned.whole, lesson}
        return made.compiled

    def until_break(self, capture: Capture, error: StatorError) -> Entry:
        """Capture again, up to the instruction that cannot be; CPython runs what has no such place."""
        known, call = error.report(), capture.call
        if error.break_id in UNBROKEN:
            events.emit("skip", name=call.name, code=call.code, **known)
            return capture.eager(alone=UNBROKEN[error.break_id])
        requested = error.break_id in REQUESTED and (call.requested or not call.behind_break)
        constants = capture.options.dynamic is False
        place = self.place_before(capture, capture.unmade) if capture.unmade else capture.place()
        if error.break_id == "data-dependent-branch" and first_tests.learn(self.session.loops, capture.machine, place):
            raise Again(None)
        if capture.machine is not None and self.session.spelling.add(place, capture.machine.places):
            raise Again(None)
        for _ in range(MOST_PLACES):
            if place is None:
                break
            again = self.capture(call, place, constants=constants, unbacked=capture.unbacked)
            try:
                entry = again.entry(self.going_on(again, requested))
            except Again:
                raise
            except StatorError as second:
                end_frames(second)
                known["reason"] += f" (and it cannot go on there: {second.report()['reason']})"
            else:
                events.emit("break", name=call.name, code=call.code, **known)
                return entry
            if again.symbolic and not again.unmade and not constants:  # not in the handler either
                return self.with_constants(call, again.from_data and capture.unbacked)
            earlier = self.place_before(capture, again.unmade)
            place = None if earlier == place else earlier
        if error.break_id in ("varying-loop", "varying-number"):
            self.session.loops.give_up(capture.innermost)
            raise Again(None)
        events.emit("skip", name=call.name, code=call.code, **known)
        return capture.eager()

    def place_before(self, capture: Capture, unmade: set[type]) -> Place | None:
        """The instruction that makes the first object of types that cannot be rebuilt."""
        if not unmade or FrameType in unmade:  # the frames behind a break are others
            return None
        constants = capture.options.dynamic is False
        probe = self.capture(capture.call, watched=unmade, constants=constants, unbacked=capture.unbacked)
        try:
            probe.entry()
        except Again:
            raise
        except StatorError as error:
            end_frames(error)
            return probe.place()
        return None

    def with_constants(self, call: Call, only_from_data: bool = False) -> Entry:
        """The entry without symbols, or without those that only data tells."""
        capture = self.capture(call, constants=not only_from_data, unbacked=False)
        entry, failed = self.tried(capture)
        if failed is None:
            return entry
        end_frames(failed)
        return self.until_break(capture, failed)

    def going_on(self, capture: Capture, requested: bool) -> GoingOn:
        return GoingOn(partial(self.edges, capture, requested), self.session.below, partial(self.look_round, capture))

    def edges(self, capture: Capture, requested: bool, found: Break) -> tuple[Any, ...]:
        """What goes on behind a break, by edge; True: the call returns what the instruction gave."""
        ways = found.ways()
        made: dict[int, Any] = {}
        for edge, (key, make) in ways.items():  # the key begins with the number of results
            if edge == resume.FALL and found.only_returns():
                made[edge] = True
                continue
            cache = self.session.continuation(key, make)
            cache.learned.lessons |= inherited.lessons(
                found, key[0], self.learned.lessons, self.session.loops, capture.host
            )
            fresh = inherited.made(found, key[0], self.learned.guesses.made, self.session.loops, capture.host)
            cache.learned.expect_other_sizes(fresh)
            cache.learned.light |= inherited.light(found, key[0], self.learned.light, capture.host)
            cache.continuation.requested |= requested
            cache.continuation.first |= not capture.call.behind_break
            made[edge] = cache.compiled
        return tuple(made.get(edge) for edge in range(max(made, default=-1) + 1))

    def look_round(self, capture: Capture, found: Break) -> None:
        """Where a round of a loop ends: numbers that were constants in it, and are others in the next, are symbols."""
        module_hooks.check_break(capture.host, found)
        if capture.call.behind_break and capture.works():
            self.session.loops.worked.update(found.loops)
        capture.maker.joining = first_rounds.joining_history(
            capture.host, found, capture.call.variables(), capture.call.values
        )
        if capture.options.dynamic is False:
            return
        below = {at for frame in found.frames for at in frame.below}
        going = [value for at, value in enumerate(found.values) if at in below or type(value) in SUSPENDED]
        check_open_loops(capture.host, going)
        pinning.check_carried(capture.host, found.values)
        varies: set[Lesson] = set()
        for key, _ in found.ways().values():
            if self.session.continuations.get(key) is self:
                varies.update(inherited.counted(found, key[0], capture.call.values, capture.host))
        call = capture.call
        varies.update(first_rounds.grown(found, call.variables(), call.values, capture.host.arrivals))
        guarded = {path for path, *_ in capture.guards.rows()} if varies else ()
        varies = {lesson for lesson in varies - self.learned.lessons if lesson[0] in guarded}
        if varies:
            raise Again(None, varies=frozenset(varies))

    def start(self, entry: Entry, call: Call) -> Any:
        """First use of an entry: its guards must hold for the call it was made from."""
        loads = entry.program.run(call.values, call.names)
        if isinstance(loads, list):
            return entry.function(*loads)
        failure = entry.guards.first_failure(call.values, call.names)
        reason = failure.text if failure else f"row {loads}"
        events.emit(
            "error", text=f"a fresh entry of {call.code} does not accept the call it was captured from: {reason}"
        )
        return call.run(self.session.below)


class Otherwise(Cache):
    """The entries for calls that go another way than an entry of `first`."""

    def __init__(self, first: Cache) -> None:
        super().__init__(first.session, first.function)
        self.learned = first.learned
        self.ways = first.ways + 1
