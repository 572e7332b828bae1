"""The interpreter loop: frames that arrive in the hook are executed here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from stator._frames import FAILED, type_lookup
from stator.code.decode import CodeInfo, Op, units
from stator.errors import StatorError
from stator.eval import ops_build, ops_call, ops_except, ops_generator, ops_names, ops_operate  # noqa: F401
from stator.eval.forced import FORCED, forced_ops
from stator.eval.forms import CAREFUL, PENDING, PLAIN, SETTLING, op_at, ops_in, replace
from stator.eval.opcodes import OPCODES
from stator.frame import RERAISED, RETURN, UNBOUND, Frame, Raised

ITEMS = frozenset({"BINARY_SUBSCR", "STORE_SUBSCR"})
TEXT_METHODS = frozenset({"__str__", "__repr__", "__format__", "__fspath__"})  # C wants a str of them
NUMBER_METHODS = frozenset({"__hash__", "__index__", "__bool__", "__length_hint__"})  # of these a number or bool
CONVERSIONS = frozenset({"__float__", "__int__"})  # the same, unless the interpreter asks for them itself
ROUNDS = 10_000  # of loops, and frames started, after which to see whether a capture gets anywhere

_infos: dict[int, CodeInfo] = {}  # by address, for as long as the code object lives


def code_info(code: CodeType) -> CodeInfo:
    """Decoded form of a code object, kept by identity."""
    address = id(code)
    info = _infos.get(address)
    if info is None:
        info = _infos[address] = CodeInfo(code, OPCODES, partial(_infos.pop, address))
    return info


def replace_body(code: CodeType, body: Callable[[Frame], Any]) -> None:
    """Frames of this code answer what `body(frame)` returns, whoever calls them."""

    def handler(frame: Frame, arg: Any) -> int:
        frame.result = body(frame)
        return RETURN

    replace(code_info(code), handler)


class Place(NamedTuple):
    """Where one frame was when the capture was given up."""

    path: tuple[int, ...]
    steps: int
    code: CodeType
    unit: int
    direct: bool
    twins: Any = ()  # functions that spell out what the instruction called


class Stopped(StatorError):
    """The capture has reached the place where it is to end; `frames` are the running ones, outermost first."""

    def __init__(self, frames: list[Snapshot], handled: Any) -> None:
        super().__init__("stopped")
        self.frames = frames
        self.handled = handled


class Snapshot:
    """The state of one frame that the rest of the program needs."""

    __slots__ = ("code", "finish", "function", "globals", "locals", "stack", "unit")

    def __init__(self, frame: Frame, innermost: bool) -> None:
        self.code = frame.code
        self.function = frame.function
        self.globals = frame.globals
        self.unit = frame.lasti
        self.locals = list(frame.locals)
        self.stack = list(frame.stack) if innermost else [*frame.stack, *frame.kept]
        self.finish = frame.finish


class Machine:
    """Runs the frames of one capture against one world.

    `stop` is the place at which to end instead of going on. `places` tells after a StatorError where every frame
    was, innermost first.
    """

    def __init__(self, world: Any, root: Any = None, stop: Place | None = None, watched: Any = ()) -> None:
        self.world = world
        self.root = root
        self.stop = stop
        self.watched: frozenset[type] = frozenset(watched)  # a break comes before an object of these is made
        self.places: list[Place] = []
        self.first_test: Place | None = None  # of a loop, where its condition is known and data tells the next one
        self.codes: dict[int, tuple[CodeInfo, list[Op]]] = {}  # by code; the lists are this capture's own
        self.careful = bool(world.hollow or world.lazy)
        world.machine = self

    def ops_of(self, info: CodeInfo) -> list[Op]:
        """The instructions as this capture executes them; the list changes in place when it becomes careful."""
        known = self.codes.get(id(info))
        if known is None:
            known = self.codes[id(info)] = info, self.form(info)
        return known[1]

    def form(self, info: CodeInfo) -> list[Op]:
        form = self.form_number()
        ops = ops_in(info, form).copy()
        if left := self.world.breaking_units(info):
            for unit, (name, _, _) in enumerate(units(info.code)):
                if unit in left or name in ITEMS:
                    handler, arg, following = op_at(info, form, unit)
                    ops[unit] = partial(leave_to_python if unit in left else leave_item, handler), arg, following
        for unit in self.world.spelled_units(info):
            handler, arg, following = op_at(info, form, unit) if ops[unit] is PENDING else ops[unit]
            ops[unit] = partial(self.world.spell, handler), arg, following
        return ops

    def form_number(self) -> int:
        if not self.careful:
            return PLAIN
        return CAREFUL if self.world.lazy else SETTLING

    def decoded(self, info: CodeInfo, unit: int) -> Op:
        """The instruction as this capture executes it, from now on without asking."""
        form = CAREFUL if self.world.lazy else SETTLING
        op = self.codes[id(info)][1][unit] = op_at(info, form if self.careful else PLAIN, unit)
        return op

    def all_decoded(self, info: CodeInfo) -> list[Op]:
        """The instructions of a code object, none of them pending."""
        ops = self.ops_of(info)
        for unit, op in enumerate(ops):
            if op is PENDING:
                self.decoded(info, unit)
        return ops

    def be_careful(self) -> None:
        """Hollow values are about: from the next instruction on, all frames look at what they consume."""
        if not self.careful:
            self.careful = True
            for info, ops in self.codes.values():
                ops[:] = self.form(info)

    def interpret(self, frame: Frame) -> Any:
        """Called by the hook. Returns the value, or FAILED with `frame.error`; anything raised is stator's own."""
        info = frame.info = code_info(frame.code)
        values = frame.locals = frame.take()
        frame.stack = values[info.fast :]  # empty unless a generator is resumed
        if frame.stack:
            del values[info.fast :]
        del values
        frame.kwnames = ()
        frame.world = self.world
        frame.tail = frame.through = -1
        frame.called = frame.finish = frame.callee = None
        frame.kept = ()
        frame.steps = 0
        frame.started = 0
        frame.path = ()
        self.place(frame, frame.outer)
        try:
            went_round(frame)
            return self.activate(frame)
        except Exception:
            if frame.steps:
                twins = self.world.twins_of(frame.callee) if frame.direct else ()
                self.places.append(Place(frame.path, frame.steps, frame.code, frame.lasti, frame.direct, twins))
                frame.callee = None
            raise

    def place(self, frame: Frame, outer: Any) -> None:
        """Whether a break in this frame can go on after it, and a name for the frame that holds in every capture."""
        if outer is None:
            self.world.caller_handles = frame.handled
            frame.direct = frame.passes = frame.function is self.root and frame.generator is None
            return
        frame.direct = frame.function is outer.called and frame.generator is None and outer.direct
        if id(frame.globals) in self.world.inside_namespaces:  # what goes on would have the globals of this capture
            frame.direct = False
        frame.passes = frame.direct and outer.finish is None
        if frame.direct:
            outer.called = None
            if outer.finish == "new":
                self.makes(frame, outer)
            elif outer.finish == "init":
                outer.kept = (frame.locals[0],)
            outer.started += 1
            frame.path = (*outer.path, outer.started)

    def makes(self, frame: Frame, outer: Any) -> None:
        """A class is called that has a `__new__`: that is the first frame, its `__init__` the second."""
        initializer = type_lookup(outer.kept[0], "__init__")
        if frame.function is initializer:
            outer.finish, outer.kept = "init", (frame.locals[0],)
        elif type(initializer) is FunctionType:
            outer.called = initializer

    def activate(self, frame: Frame) -> Any:
        if frame.fresh:
            if (row := self.world.stand_in(frame.function)) is not None:
                return stand_in(row, frame)
            self.world.frame_enters(frame)
        elif id(frame.generator) in self.world.records:  # it was made outside
            self.world.function_enters(frame, frame.function)
        if frame.error is not None:
            unit = unwind(frame, frame.lasti, silent=False)
            if unit < 0:
                return FAILED
        else:
            unit = frame.lasti + 1
        return run(frame, unit, self.instructions(frame))

    def instructions(self, frame: Frame) -> Any:
        """The instructions of a frame, as this machine executes them there."""
        if self.stop is not None and frame.direct and self.stop.path == frame.path:
            return stopping_ops(self.all_decoded(frame.info), self.stop.steps)
        if self.watched and frame.direct:
            return watching_ops(self.all_decoded(frame.info), self.watched)
        return forced_ops(self.all_decoded(frame.info), frame) if FORCED and frame.direct else self.ops_of(frame.info)


def stand_in(row: Any, frame: Frame) -> Any:
    """C code has called a function that something else stands for: its frame does not run."""
    args, kwargs = bound_arguments(frame.code, frame.locals)
    frame.lasti = 0
    try:
        return row(frame.world, frame, frame.function, args, kwargs or None)
    except Raised:
        return FAILED


def bound_arguments(code: CodeType, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call that CPython has bound to the variables of a frame."""
    positional = code.co_argcount
    named = positional + code.co_kwonlyargcount
    args, names = values[:positional], code.co_varnames[positional:named]
    kwargs = dict(zip(names, values[positional:named], strict=True))
    rest = values[named:]
    if code.co_flags & CO_VARARGS:
        args += rest.pop(0)
    if code.co_flags & CO_VARKEYWORDS:
        kwargs |= rest[0]
    return args, kwargs


def leave_to_python(handler: Any, frame: Frame, arg: Any) -> Any:
    """An instruction that is a break wherever one can go on behind it."""
    refused = frame.world.left_to_python(frame) if frame.direct else None
    if refused is not None:
        raise refused
    return handler(frame, arg)


def leave_item(handler: Any, frame: Frame, arg: Any) -> Any:
    """The same for items of containers that came over a break."""
    refused = frame.world.item_left_to_python(frame) if frame.direct else None
    if refused is not None:
        raise refused
    return handler(frame, arg)


def stopping_ops(ops: list[Op], steps: int) -> list[Op]:
    """The same instructions, as they are then; the one that would be executed as number `steps` ends the capture."""

    def count(unit: int, frame: Frame, arg: Any) -> Any:
        nonlocal steps
        steps -= 1
        if steps == 0:
            handled = frame.handled
            raise Stopped(snapshots(frame), UNBOUND if handled is frame.world.caller_handles else handled)
        return ops[unit][0](frame, arg)

    return [(partial(count, unit), arg, following) for unit, (_, arg, following) in enumerate(ops)]


def watching_ops(ops: Any, watched: frozenset[type]) -> Any:
    """The same instructions; the one that makes an object of a watched type is a break."""

    def look(handler: Any, frame: Frame, arg: Any) -> Any:
        jump = handler(frame, arg)
        for value in made_last(frame.stack):
            if type(value) in watched and id(value) not in frame.world.records:
                raise frame.world.refuse("cannot-rebuild", type=type(value).__name__)
        frame.world.check_drops(frame)
        return jump

    return [(partial(look, handler), arg, following) for handler, arg, following in ops]


def made_last(stack: list[Any]) -> Any:
    """What an instruction may have made: the top of the stack, and what it holds as a tuple."""
    return () if not stack else (stack[-1], *stack[-1]) if type(stack[-1]) is tuple else (stack[-1],)


def snapshots(frame: Frame | None) -> list[Snapshot]:
    """The running frames, outermost first."""
    found: list[Snapshot] = []
    while frame is not None:
        found.append(Snapshot(frame, not found))
        frame = frame.outer
    return found[::-1]


def run(frame: Frame, unit: int, ops: list[Op]) -> Any:
    """Dispatch until the frame returns, yields or raises."""
    steps = 0
    while True:
        try:
            while True:
                handler, arg, following = ops[unit]
                frame.lasti = unit
                steps += 1
                jump = handler(frame, arg)
                if jump is None:
                    unit = following
                elif jump >= 0:
                    if jump <= unit:
                        went_round(frame)
                    unit = jump
                else:
                    return leave(frame)
        except Raised as raised:
            raised.__traceback__ = raised.__context__ = None  # one object for all: it must not keep frames alive
            frame.steps = steps  # the error may turn out to be stator's
            unit = unwind(frame, unit, silent=raised is RERAISED)
            if unit < 0:
                return FAILED
        except Exception as error:
            frame.steps = steps
            if issubclass(type(error), StatorError):
                frame.world.located(error)
            raise


def went_round(frame: Frame) -> None:
    """One more round of a loop: a capture that gets nowhere is given up."""
    world = frame.world
    world.rounds += 1
    if world.rounds > ROUNDS:
        world.rounds = 0
        world.looks += 1
        if world.impatient():
            raise world.refuse("long-run", function=frame.code.co_qualname)


def leave(frame: Frame) -> Any:
    """The frame returns or yields: give CPython's frame what it must hold."""
    result = frame.result
    frame.result = None
    if type(result) in frame.world.texts and (frame.code.co_name in TEXT_METHODS or frame.world.asker_looks):
        result = result.decay()
    if type(result) in frame.world.number_types and is_for_native(frame):
        result = result.decay()
    if frame.yielded:
        frame.put(frame.locals, frame.stack)
    frame.locals.clear()
    frame.stack.clear()
    return result


def is_for_native(frame: Frame) -> bool:
    """Whether C code has asked for the number that a special method gives, and looks at its type."""
    name = frame.code.co_name
    return not (frame.passes if name in NUMBER_METHODS else name not in CONVERSIONS or frame.direct)


def unwind(frame: Frame, unit: int, silent: bool) -> int:
    """Find the handler of `frame.error` raised at `unit`: where to go on, or -1 when the exception leaves the frame."""
    error = frame.error
    assert error is not None
    if issubclass(type(error), StatorError):  # raised by stator's own code below native code
        raise frame.world.located(error)
    info = frame.info
    if not silent:
        frame.add_traceback(error)
    row = info.handler(unit)
    if row is None:
        frame.put(frame.locals, [])
        let_go(frame, frame.outer, 0, frame.locals)
        return -1
    frame.error = None
    let_go(frame, frame, row.depth)
    if row.lasti:
        frame.stack.append(frame.lasti)  # RERAISE has put the place of the first raise there
    frame.stack.append(error)
    return row.target


def let_go(frame: Frame, going_on: Any, depth: int, variables: Any = ()) -> None:
    """An exception takes variables and what is above a depth from the stack; what came over a break may end with it."""
    carried = [*variables, *frame.stack[depth:]] if frame.world.carried and going_on is not None else ()
    del frame.stack[depth:]
    if variables:
        frame.locals.clear()
    for value in carried:
        if value is not UNBOUND:
            frame.world.leaves_variable(going_on, value)
