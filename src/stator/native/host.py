"""How the captured program meets native code: operators, iteration, calls and attribute access by kind of object."""

from __future__ import annotations

import gc
import operator
import types
import weakref
from collections.abc import Iterable
from functools import partial
from itertools import zip_longest
from typing import Any

from stator import _frames
from stator._frames import FAILED, UNBOUND
from stator._frames import native as run_native
from stator.frame import RAISED, Frame, Raised, forget_tracebacks, native
from stator.native import held
from stator.native.attribute_rows import READERS, reader_of, writer_of
from stator.native.callers import (
    CALLERS,
    CONTENT_TYPES,
    HASHED_BY_IDENTITY,
    call_c_object,
    call_class,
    call_object,
    call_python,
    call_torch,
    may_be_torch,
)
from stator.native.importing import ImportingWorld
from stator.native.receivers import may_run
from stator.native.rows import EVERYWHERE, PASSES_ON, STANDINS, Caller, decisive
from stator.native.told_addresses import MARK, pin_told, tells_inside
from stator.world import attributes
from stator.world.door import is_free
from stator.world.lazy import forced

Function, Method, Builtin = types.FunctionType, types.MethodType, types.BuiltinFunctionType
ITEM_OPERATORS = {operator.getitem, operator.setitem, operator.delitem, operator.contains}


class Host(ImportingWorld):
    """The world as the interpreter's opcodes use it."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: dict[int, tuple[Any, Caller]] = {}
        self.frame_dicts: list[tuple[Any, dict[str, Any]]] = []  # what `locals()` gave: code, names
        self.effects: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.logged: list[Any] = []  # loggers that messages were left for
        self.handlers: list[Any] = []  # of loggers, of classes of the program: they get messages after the graph
        self.patterns_purged = False  # re.purge() was called
        self.registered: set[tuple[int, int]] = set()  # (abstract class, class) whose relation is guarded
        self.gc_enabled = gc.isenabled()
        self.gc_switched = False
        self.filters_mutated = False  # warnings that were given may be given again
        self.recorder: Any = None
        self.asker_keeps = False  # the C code that runs now may be given symbolic numbers
        self.asker_looks = False  # C code that looks at the types of what it is given runs the frames
        self.may_break = False  # a break is no error
        self.locks: dict[int, Any] = {}  # outside locks that the program took
        self.held: dict[int, int] = {}  # how often it has to give them back
        self.locks_break = False  # taking a lock is a break
        self.section: tuple[int, int] | None = None  # the lock that was taken first, and how often it had been before
        self.protects = False  # something was read or written in such a section
        self.addresses: set[int] = set()  # of objects that it made, which it asked for
        self.noted_addresses: set[int] = set()  # likewise, by code that only wants to know objects again
        self.addresses_outside: dict[int, Any] = {}  # paths of objects from outside whose address such code asked for
        self.hashes_vary = False  # it hashed a tuple of objects that are hashed by address
        self.addresses_break = False  # asking for one is a break
        self.drops_break = False  # so is taking the last reference to an object whose end runs code
        self.watched_functions: list[Any] = []
        self.opened: list[Any] = []  # weak references to files
        self.checked_classes: dict[int, type] = {}
        self.displaying = False  # C is rendering a traceback
        self.through_module = False  # the first frame is forward of a module that was called

    def close(self) -> None:
        while self.watched_functions:
            _frames.unwatch_function(self.watched_functions.pop())
        while self.opened:
            if (file := self.opened.pop()()) is not None:
                file.close()  # only an abandoned capture has one: a break is in front of it
        super().close()

    def defer(self, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> None:
        """An effect that the entry function performs after the graph ran."""
        self.effects.append((function, tuple(args), kwargs or {}))

    def begin_section(self) -> None:
        """The program holds a lock from here on: the side that knows what is read and written notes where it is."""

    def end_section(self) -> None:
        """It holds none any more."""

    def is_deferred(self, value: Any) -> bool:
        return False

    def snapshot(self, value: Any) -> Any:
        return value

    def class_of(self, obj: Any) -> type:
        return type(obj)

    def notice_builtin(self, function: Any) -> None:
        """A C function entered: where native code calls it, the call comes back unless it may simply run."""
        if not may_run(self, function) and _frames.watch_function(function):
            self.watched_functions.append(function)

    def check_arguments(self, function: Any, args: list[Any]) -> None:
        """Set by the tensor side: refuses what C code cannot be given."""

    def for_native(self, value: Any) -> Any:
        """A value that C code asked for, as it may see it."""
        return value

    # ---- ends -----------------------------------------------------------------------------------

    def leaves_variable(self, f: Frame, value: Any) -> None:
        """A variable of a frame has something else now, or nothing."""
        held.notice_end(self, f, value)

    def leaves_frame(self, f: Frame) -> None:
        """A frame is about to return."""
        held.notice_return(self, f)

    def look_out(self, f: Frame) -> None:
        """Before an instruction behind a break over which something came whose end runs code."""
        held.look_out(self, f)

    def check_drops(self, f: Frame) -> None:
        """A break where the program takes the last reference to an object whose end runs code."""
        if self.drops_break:
            one = held.dropped_ending(self, held.held_values(self, f))
            if one is not None:
                self.departed = type(one).__name__
                self.let_die()

    def know_text(self, text: str) -> None:
        """C code made a text for the program."""
        if MARK in text:
            pin_told(self, text)
            if self.addresses_break and tells_inside(self, text):
                raise self.refuse("cannot-rebuild", "the address of an object that the program made", type="str")

    def notice_perished(self, f: Frame) -> None:
        held.notice_perished(self, f)

    def let_die(self) -> None:
        """A break: what the program has let go of ends before it goes on."""
        raise self.refuse(
            "native-outside-object", f"the end of a {self.departed} runs code", function=f"{self.departed}.__del__"
        )

    # ---- operators ------------------------------------------------------------------------------

    def operate(self, f: Frame, function: Any, *args: Any) -> Any:
        kinds = {type(args[0])} if function in ITEM_OPERATORS else {type(arg) for arg in args}
        if not kinds.isdisjoint(self.tensor_types) and (function in ITEM_OPERATORS or kinds <= self.operand_types):
            return self.record(f, function, args, None)
        if not kinds.isdisjoint(self.array_types):
            return self.operate_array(f, function, args)
        if function is operator.contains and id(args[1]) in self.records:
            self.identities.matters(type(args[1]))
        if self.streams and function in ITEM_OPERATORS:
            self.leave_streams(args[:1])
        asked = function is operator.contains and f.called is not None
        result = run_native(f.called if asked else function, *args)
        if result is FAILED:
            raise RAISED
        if type(result) is str:
            self.know_text(result)
        return self.call(f, bool, [result], None) if asked and type(result) is not bool else result

    def was_other(self, path: Any) -> bool:
        """Whether the int at a path was seen to change, and CPython may look at it instead."""
        return False

    def answered(self, function: Any, result: Any) -> tuple[bool, Any]:
        """Whether a method answered with a stand-in that `len`, `float`, `int` or `bool` may give, and the answer."""
        return False, result

    passing: frozenset[Caller] = frozenset(
        {call_python, call_object}
    )  # callers that hand arguments on to frames as they are
    tensor_types: frozenset[type] = frozenset()
    conditions: frozenset[type] = frozenset()  # stand-ins that a branch may be about
    formattable: frozenset[type] = frozenset()  # stand-ins that a text may be made of
    silent_checks: tuple[Any, ...] = ()  # functions (condition, text) that do not look at the text if all is well
    operand_types: frozenset[type] = frozenset()
    array_types: frozenset[type] = frozenset()

    def operate_array(self, f: Frame, function: Any, args: tuple[Any, ...]) -> Any:
        """Set where numpy is installed: an operator with an array among its operands."""
        raise NotImplementedError

    def record(self, f: Frame, function: Any, args: Any, kwargs: Any) -> Any:
        """Set by the tensor side: record a torch call."""
        raise NotImplementedError

    def truth_of(self, value: Any) -> Any:
        return bool

    def chosen(self, f: Frame, value: Any) -> int | None:
        """Where the program goes on behind a branch that need not be decided; else None."""
        raise NotImplementedError

    def formatted(self, value: Any, conversion: int, spec: Any) -> Any:
        """A stand-in as an f-string formats it; NotImplemented if it is to be formatted now."""
        raise NotImplementedError

    def joined(self, parts: list[Any]) -> Any:
        """Texts, some of which are stand-ins, as one."""
        raise NotImplementedError

    def negated(self, value: Any) -> Any:
        """`not value` where that is no branch; else NotImplemented."""
        return NotImplemented

    def iterate(self, f: Frame, value: Any) -> Any:
        return native(f, iter, self.whole(value))

    def whole(self, value: Any) -> Any:
        """A value as native code may iterate it."""
        if self.streams:
            self.leave_streams((value,))
        return value

    def unpackable(self, f: Frame, value: Any) -> Any:
        return value

    def mapping_get(self, f: Frame, mapping: Any, name: str) -> Any:
        result = run_native(operator.getitem, mapping, name)
        if result is FAILED:
            if isinstance(f.error, KeyError):
                f.error = None
                return UNBOUND
            raise RAISED
        return result

    # ---- attributes -----------------------------------------------------------------------------

    def load_attr(self, f: Frame, obj: Any, name: str) -> Any:
        value = self.read_attr(f, obj, name)
        return self.settled(value) if self.hollow else value

    def read_attr(self, f: Frame, obj: Any, name: str) -> Any:
        """As `load_attr`, for a register: the value may be hollow."""
        try:
            return self.seek_attr(f, obj, name)
        except Raised as raised:
            if raised is RAISED:
                attributes.note_missing(f, obj, name)
            raise

    def seek_attr(self, f: Frame, obj: Any, name: str) -> Any:
        """As `read_attr`, where nobody sees the error."""
        cls = type(obj)
        return (READERS.get(id(cls)) or reader_of(cls))(self, f, obj, name)

    def load_method(self, f: Frame, obj: Any, name: str) -> tuple[Any, Any]:
        reader = READERS.get(id(type(obj))) or reader_of(type(obj))
        if reader is not attributes.read_instance:
            return self.read_attr(f, obj, name), UNBOUND
        try:
            return attributes.read_method(self, f, obj, name)
        except Raised as raised:
            if raised is RAISED and not _frames.generic_access(type(obj)) & 1:
                attributes.note_missing(f, obj, name)
            raise

    def store_attr(self, f: Frame, obj: Any, name: str, value: Any) -> None:
        writer_of(type(obj))(self, f, obj, name, value)

    def example(self, value: Any) -> Any:
        """A value that one of a varying type may have."""
        raise NotImplementedError

    def missing_attribute(self, f: Frame, obj: Any, name: str) -> Any:
        """The class's __getattr__."""
        hook = _frames.type_lookup(type(obj), "__getattr__")
        if type(hook) is Function:
            return self.call(f, hook, [obj, name], None)
        if _frames.descriptor_kind(type(hook)) & 1:
            hook = native(f, _frames.descr_get, hook, obj, type(obj))
        return self.call(f, hook, [name], None)

    # ---- calls ----------------------------------------------------------------------------------

    def call(self, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        kind = type(function)
        if kind is Method:
            function, args = function.__func__, [function.__self__, *args]
        elif kind is Builtin and type(function.__self__) in CONTENT_TYPES and function.__name__[0] != "_":
            return call_python(self, f, function, args, kwargs)
        return self.known_caller(function)(self, f, function, args, kwargs)

    def known_caller(self, function: Any) -> Caller:
        """How this is called; asked once in a capture for what stays as it is."""
        known = self.callers.get(id(function))
        if known is not None and (known[0] is function or (type(known[0]) is weakref.ref and known[0]() is function)):
            return known[1]
        caller, kind = self.caller(function), type(function)
        if is_free(function.__self__) if kind is Builtin else kind in HASHED_BY_IDENTITY or issubclass(kind, type):
            self.callers[id(function)] = (self.as_held(function), caller)
        return caller

    def stand_in(self, function: Any) -> Caller | None:
        """What runs instead of the frame of a Python function."""
        return EVERYWHERE.get(function)

    def caller(self, function: Any) -> Caller:
        kind = type(function)
        try:
            row = STANDINS.get(function) if kind in HASHED_BY_IDENTITY or issubclass(kind, type) else None
        except TypeError:
            row = None
        if row is not None:
            return row if row in PASSES_ON else partial(decisive, row)
        if self.recorder is not None and may_be_torch(kind) and self.recorder.takes(function):
            return call_torch
        row = CALLERS.get(id(kind))
        if row is None:
            row = call_class if issubclass(kind, type) else call_object if _frames.is_heap_type(kind) else call_c_object
        return row

    def lend_frames(self, f: Frame, cells: int = 0) -> list[Frame]:
        """Let CPython's frames show the interpreter's locals; so many of the innermost also what outside cells hold."""
        lent, frame = [], f
        while frame is not None:
            if self.lazy:
                frame.locals[:] = [forced(self, value) for value in frame.locals]
            lent.append(frame)
            frame = frame.outer
        shown = [self.with_cells(frame) for frame in lent[:cells]]
        self.settle_all(held_by(values or frame.locals for frame, values in zip_longest(lent, shown)))
        for frame, values in zip_longest(lent, shown):
            frame.put(values or frame.locals, [])
        return lent

    def with_cells(self, f: Frame) -> list[Any]:
        """The variables of a frame, where cells made before the capture hold what they hold by now."""
        values = list(f.locals)
        for slot in f.info.cell_slots():
            cell = values[slot]
            if type(cell) is types.CellType and id(cell) in self.outside_cells:
                value = forced(self, self.outside_cell(f, cell, slot)[3])
                values[slot] = types.CellType() if value is UNBOUND else types.CellType(value)
        return values


def held_by(frames: Iterable[list[Any]]) -> set[int]:
    """Addresses of what variables and their cells hold."""
    values = [value for variables in frames for value in variables]
    values += [_frames.cell_get(value) for value in values if type(value) is types.CellType]
    return set(map(id, values))


def frame_below_native() -> Any:
    """The frame whose instruction runs native code: the result of what that calls is not the instruction's."""
    f = _frames.top_frame()
    f.tail = -1
    return f


def read_for_native(obj: Any, name: str) -> Any:
    """C code reads an attribute of an outside object."""
    f = frame_below_native()
    try:
        value = f.world.load_attr(f, obj, name)
    except Raised:
        forget_tracebacks()
        return FAILED
    if type(value) is Builtin:
        f.world.notice_builtin(value)
    return f.world.for_native(value)


def write_for_native(obj: Any, name: str, value: Any) -> Any:
    """C code writes an attribute of an outside object."""
    f = frame_below_native()
    try:
        f.world.store_attr(f, obj, name, value)
    except Raised:
        forget_tracebacks()
        return FAILED
    return None


def call_for_native(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """C code calls a watched C function."""
    f = frame_below_native()
    try:
        return f.world.for_native(f.world.settled(f.world.call(f, function, list(args), kwargs or None)))
    except Raised:
        forget_tracebacks()
        return FAILED


_frames.set_callbacks(read_for_native, write_for_native)
_frames.set_call_callback(call_for_native)
