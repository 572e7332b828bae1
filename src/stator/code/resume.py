"""Code objects that go on in the middle of a function, or execute just one instruction of it.

Each of them takes one argument, a tuple with the state of the frame: values of the bound slots (cells themselves for
cell variables), the exception being handled if there is one, and stack values from the top down. A prefix unpacks it.

- `resumed`: the rest of the function. Since all jumps are relative, the body is the original one, verbatim.
- `single`: one instruction. Returns (*results, edge): which way the instruction left, and what it left on the stack.
- `shell`: stands for an outer frame while `single` runs in an inner one: calls it where the original function called.

File, names, lines and exception handlers are those of the original, so frames and tracebacks look like the user's.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Sequence
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

from stator.code import tables311 as tables
from stator.code import windows311 as windows
from stator.code.decode import Protected, exception_table, units
from stator.code.finishing import FINISHES, emit_catch
from stator.code.finishing import constant as object_constant

FALL, JUMP = 0, 1  # edges; then two for the frame of each level


def thrown(level: int) -> int:
    """The edge to the handler in the frame of a level."""
    return 2 + 2 * level


def caught(level: int) -> int:
    """The edge of an exception that is an answer for the instruction of that frame, such as StopIteration."""
    return 3 + 2 * level


_CELL_OPS = frozenset({"MAKE_CELL", "LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLASSDEREF"})
_FLAGS = 0x04 | 0x08  # *args, **kwargs


class Layout(NamedTuple):
    """What of a frame travels, and where to."""

    slots: tuple[int, ...]  # fast, cell and other slots that are bound; free variables come with the function
    stack: tuple[bool, ...]  # from the bottom: True for a value, False for NULL
    handled: bool = False  # the exception being handled comes along
    calls: bool = False  # a function and its argument come along, to be called first


class Exits(NamedTuple):
    """The ways one instruction can leave."""

    fall: int | None  # number of stack values in place of the window, None: never falls through
    jump: int | None
    null: bool  # the results start with a NULL that is not handed over
    target: int  # unit of the jump
    following: int


class Assembler:
    """Collects instructions, their places in the source and the ranges that handlers protect."""

    def __init__(self, code: CodeType) -> None:
        self.shift = slot_shift(code)
        self.code = code = with_slot(code)
        self.raw = bytearray()
        self.lines = bytearray()
        self.line = code.co_firstlineno
        self.place: Sequence[int | None] | None = None  # of instructions that do not say
        self.rows: list[tuple[int, int, int, int, bool]] = []
        self.leaving: list[int] = []  # jumps of the prefix to where the instruction jumps to

    @property
    def unit(self) -> int:
        return len(self.raw) // 2

    def emit(self, name: str, arg: int = 0, place: Sequence[int | None] | None = None) -> None:
        start = self.unit
        for shift in (24, 16, 8):
            if arg >> shift:
                self.raw += bytes([dis.opmap["EXTENDED_ARG"], arg >> shift & 255])
        self.raw += bytes([dis.opmap[name], arg & 255]) + bytes(2 * tables.CACHES.get(name, 0))
        self.locate(self.unit - start, place or self.place)

    def locate(self, count: int, place: Sequence[int | None] | None) -> None:
        """Line table entries for the last `count` units."""
        while count > 0:
            length = min(count, 8)
            count -= length
            if place is None or place[0] is None:
                self.lines += bytes([0x80 | 15 << 3 | length - 1])
                continue
            line, end_line, column, end_column = place
            assert line is not None
            delta, self.line = line - self.line, line
            if end_line is None or column is None or end_column is None:
                self.lines += bytes([0x80 | 13 << 3 | length - 1]) + _signed(delta)
                continue
            self.lines += bytes([0x80 | 14 << 3 | length - 1]) + _signed(delta) + _varint(end_line - line)
            self.lines += _varint(column + 1) + _varint(end_column + 1)

    def go_back(self) -> None:
        """The next line table entry is relative to the first line again."""
        self.emit("NOP", 0, (self.code.co_firstlineno, None, None, None))

    def jump(self, name: str, place: Sequence[int | None] | None = None) -> int:
        """A forward jump whose distance `land` fills in."""
        self.emit("EXTENDED_ARG")
        self.emit("EXTENDED_ARG")
        self.emit(name, 0, place)
        return self.unit - 1 - tables.CACHES.get(name, 0)

    def land(self, jump: int, target: int) -> None:
        name = dis.opname[self.raw[2 * jump]]
        distance = target - (jump + 1 + tables.CACHES.get(name, 0))
        for at, shift in ((jump - 2, 16), (jump - 1, 8), (jump, 0)):
            self.raw[2 * at + 1] = distance >> shift & 255

    def sink(self, depth: int) -> None:
        """Move the top of the stack down by `depth` places."""
        for distance in range(depth + 1, 1, -1):
            self.emit("SWAP", distance)

    def finish(self, extra_stack: int, with_body: bool) -> CodeType:
        """The code object, with the original body behind the prefix if that is wanted."""
        code, shift = self.code, self.unit
        rows = [*self.rows]
        raw, lines = bytes(self.raw), bytes(self.lines)
        if with_body:
            raw += code.co_code
            lines += code.co_linetable
            rows += [
                (row.start + shift, row.end + shift, row.target + shift, row.depth, row.lasti)
                for row in exception_table(code)
            ]
        return code.replace(
            co_code=raw,
            co_linetable=lines,
            co_exceptiontable=b"".join(_table_row(*row) for row in rows),
            co_argcount=1,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~_FLAGS,
            co_stacksize=code.co_stacksize + extra_stack + 4,
        )


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 64:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)
    return bytes(out)


def _signed(value: int) -> bytes:
    return _varint(-value << 1 | 1 if value < 0 else value << 1)


def _table_row(start: int, end: int, target: int, depth: int, lasti: bool) -> bytes:
    out = bytearray()
    for value in (start, end - start, target, depth << 1 | lasti):
        digits = [value & 63]
        while value := value >> 6:
            digits.append(value & 63)
        out += bytes([digit | 64 for digit in reversed(digits[1:])] + digits[:1])
    out[0] |= 0x80
    return bytes(out)


def with_slot(code: CodeType) -> CodeType:
    """The code with at least one local variable, which the state arrives in."""
    if code.co_nlocals:
        return code
    raw = bytearray(code.co_code)
    for unit, (name, arg, _) in enumerate(units(code)):
        if name in _CELL_OPS:
            if arg >= 255:
                raise ValueError("too many cells")
            raw[2 * unit + 1] = arg + 1
    return code.replace(co_code=bytes(raw), co_varnames=(".state",), co_nlocals=1)


def slot_shift(code: CodeType) -> int:
    """By how much `with_slot` moves the slots of a code object."""
    return 0 if code.co_nlocals else 1


def unpack(asm: Assembler, layout: Layout, keep_handled: bool = False) -> None:
    """The prefix: from the state tuple to slots and stack; with `keep_handled` the exception before stays below."""
    code, shift = asm.code, asm.shift
    if code.co_freevars:
        asm.emit("COPY_FREE_VARS", len(code.co_freevars))
    pass_over_cells(asm)
    asm.emit("RESUME", 0)
    values = sum(layout.stack) + 2 * layout.calls
    count = len(layout.slots) + layout.handled + values
    if count:
        asm.emit("LOAD_FAST", 0)
        asm.emit("UNPACK_SEQUENCE", count)
    for slot in layout.slots:
        asm.emit("STORE_FAST", slot + shift)
    if shift or 0 not in layout.slots:
        asm.emit("DELETE_FAST", 0)
    height = values
    if layout.handled:
        asm.emit("PUSH_EXC_INFO")
        asm.emit("POP_TOP")
        if keep_handled:
            asm.sink(values)
        else:
            asm.emit("POP_TOP")
    shape = [*layout.stack, *((False, True, True) if layout.calls else ())]
    for at, is_value in enumerate(shape):
        if not is_value:
            asm.emit("PUSH_NULL")
            asm.sink(height - at)
            height += 1


def pass_over_cells(asm: Assembler) -> None:
    """CPython takes a slot for a cell (`f_locals`, `locals()`) if a MAKE_CELL for it comes before the instruction."""
    cells = [arg for name, arg, _ in units(asm.code) if name == "MAKE_CELL"]
    if cells:
        jump = asm.jump("JUMP_FORWARD")
        for cell in cells:
            asm.emit("MAKE_CELL", cell)
        asm.land(jump, asm.unit)


def depth_of(layout: Layout) -> int:
    return len(layout.slots) + len(layout.stack) + 8


def place_of(code: CodeType, unit: int) -> tuple[int | None, ...]:
    """The source range of an instruction."""
    for at, place in enumerate(code.co_positions()):
        if at == unit:
            return place
    return (None, None, None, None)


def handler_of(code: CodeType, unit: int) -> Protected | None:
    """The innermost handler that protects an instruction."""
    return next((row for row in exception_table(code) if row.start <= unit < row.end), None)


def resumed(
    code: CodeType, unit: int, layout: Layout, caller: int | None = None, finish: str | None = None
) -> tuple[CodeType, int]:
    """The rest of the function from `unit` on, and the length of the prefix in front of the body.

    With `layout.calls` the function that came along is called first, at the place and under the handlers of the
    instruction at `caller`, and then done what `finish` says.
    """
    asm = Assembler(code)
    unpack(asm, layout)
    row, span = None, (0, 0)
    jumps: list[tuple[int, int]] = []  # out of the prefix, and the units of the body they lead to
    if layout.calls:
        assert caller is not None
        row, start = handler_of(code, caller), asm.unit
        emit_call(asm, place_of(code, caller))
        name, arg, following = units(code)[caller]
        rest, returned = FINISHES.get(finish or name, FINISHES["CALL"]), asm.unit  # else what is called raises
        rest.emit(asm, arg, place_of(code, caller))
        if rest.catches is not None:
            jumps.append((asm.jump("JUMP_FORWARD"), unit))
            asm.rows.append((start, returned, asm.unit, len(layout.stack), False))
            start = returned
            emit_catch(asm, rest, arg, place_of(code, caller))
            if rest.told is None:
                jumps.append((asm.jump("JUMP_FORWARD"), jump_target(code, caller) if rest.jumps else following))
        jumps += [(jump, jump_target(code, caller)) for jump in asm.leaving]
        span = (start, asm.unit)
        asm.go_back()
    jumps.append((asm.jump("JUMP_FORWARD"), unit))
    prefix = asm.unit
    for jump, target in jumps:
        asm.land(jump, prefix + target)
    if row is not None:
        asm.rows.append((*span, row.target + prefix, row.depth, row.lasti))
    return asm.finish(depth_of(layout), with_body=True), prefix


def jump_target(code: CodeType, unit: int) -> int:
    name, arg, following = units(code)[unit]
    return int(tables.ARGUMENTS[name](None, arg, following))


def emit_call(asm: Assembler, place: Sequence[int | None]) -> None:
    asm.emit("PRECALL", 1, place)
    asm.emit("CALL", 1, place)


def group_start(code: CodeType, unit: int) -> int:
    """Where the instructions begin that only make sense together with the one at `unit` (CALL and what precedes it)."""
    names = [name for name, _, _ in units(code)]
    if names[unit] != "CALL":
        return unit
    start = unit
    while names[start] != "PRECALL":
        start -= 1
    while start and names[start - 1] in ("PRECALL",):
        start -= 1
    if start and names[start - 1] == "KW_NAMES":
        start -= 1
        while start and names[start - 1] == "KW_NAMES":
            start -= 1
    return start


def can_run_alone(code: CodeType, unit: int) -> bool:
    """Whether `single` exists for the instruction."""
    return units(code)[unit][0] in windows.WINDOWS


def window_of(code: CodeType, unit: int) -> int:
    """How many stack values the instruction takes or looks at."""
    name, arg, _ = units(code)[unit]
    return windows.WINDOWS[name](arg)


def exits_of(code: CodeType, unit: int) -> Exits:
    """How the instruction can leave, with the number of results for each way."""
    name, arg, following = units(code)[unit]
    window = windows.WINDOWS[name](arg)
    null = windows.pushes_null(name, arg)

    def results(jump: bool) -> int:
        argument = arg if dis.opmap[name] >= dis.HAVE_ARGUMENT else None
        effect = dis.stack_effect(dis.opmap[name], argument, jump=jump)
        if name == "CALL":
            effect = -arg - 1
        return window + effect - null

    jumps = name in windows.JUMPS
    target = tables.ARGUMENTS[name](None, arg, following) if jumps else 0
    fall = None if name in windows.NO_RETURN else results(False)
    return Exits(fall, results(True) if jumps else None, null, target, following)


SUSPENDS = 0x20 | 0x80 | 0x200  # flags of code objects: generators, coroutines, asynchronous generators


def returns_at(code: CodeType, unit: int) -> bool:
    """Whether a plain function returns what is on top of its stack there."""
    return units(code)[unit][0] == "RETURN_VALUE" and not code.co_flags & SUSPENDS


def single(code: CodeType, unit: int, layout: Layout, level: int) -> CodeType:
    """Executes the instruction at `unit` and returns (*results, edge)."""
    name, arg, following = units(code)[unit]
    exits = exits_of(code, unit)
    row = handler_of(code, unit)
    asm = Assembler(code)
    asm.place = place_of(code, unit)  # for those who keep the frame
    unpack(asm, layout, keep_handled=True)
    start = asm.unit
    jump = None
    if exits.jump is not None:
        jump = asm.jump(windows.JUMPS[name], place_of(code, unit))
    elif name in windows.WITHOUT_NULL:
        other, argument = windows.WITHOUT_NULL[name]
        asm.emit(other, argument(arg), place_of(code, unit))
    else:
        copy_group(asm, group_start(code, unit), following)
    end = asm.unit
    if exits.fall is not None:
        leave(asm, exits.fall, FALL, layout.handled)
    if jump is not None:
        assert exits.jump is not None
        asm.land(jump, asm.unit)
        leave(asm, exits.jump, JUMP, layout.handled)
    catch(asm, start, end, row, level, layout.handled)
    return asm.finish(depth_of(layout) + window_of(code, unit), with_body=False)


def copy_group(asm: Assembler, start: int, end: int) -> None:
    """Instructions of the original, verbatim."""
    asm.raw += asm.code.co_code[2 * start : 2 * end]
    for place in islice(asm.code.co_positions(), start, end):
        asm.locate(1, place)


def shell(code: CodeType, unit: int, layout: Layout, level: int, finish: str | None = None) -> CodeType:
    """Calls the function that came along in place of the instruction at `unit`, and returns what it returns."""
    asm = Assembler(code)
    asm.place = place_of(code, unit)
    unpack(asm, layout, keep_handled=True)
    start = asm.unit
    emit_call(asm, place_of(code, unit))
    end = asm.unit
    name, arg, _ = units(code)[unit]
    rest = FINISHES.get(finish or name)
    answers = rest.catches if rest is not None else None
    if rest is not None and rest.told is not None:  # the exception goes on, and what it is told came along
        asm.emit("SWAP", 2)
        asm.emit("POP_TOP")
        hand_back(asm, layout.handled)
        asm.rows.append((start, end, asm.unit, layout.handled + 1, False))
        start = asm.unit
        emit_catch(asm, rest, arg, place_of(code, unit))
        end, answers = asm.unit, None
    else:
        hand_back(asm, layout.handled)
    catch(asm, start, end, handler_of(code, unit), level, layout.handled, answers)
    return asm.finish(depth_of(layout), with_body=False)


def leave(asm: Assembler, results: int, edge: int, handled: bool) -> None:
    """Return the results on the stack and the edge."""
    asm.emit("LOAD_CONST", constant(asm, edge))
    asm.emit("BUILD_TUPLE", results + 1)
    hand_back(asm, handled)


def hand_back(asm: Assembler, handled: bool) -> None:
    if handled:
        asm.emit("SWAP", 2)
        asm.emit("POP_EXCEPT")
    asm.emit("RETURN_VALUE")


def catch(
    asm: Assembler, start: int, end: int, row: Protected | None, level: int, handled: bool, answers: Any = None
) -> None:
    """An exception in the range becomes a result if the original has a handler for it, or is one of the `answers`."""
    if row is None and not handled and answers is None:
        return
    asm.rows.append((start, end, asm.unit, int(handled), False))
    if answers is not None:
        asm.emit("LOAD_CONST", object_constant(asm, answers))
        asm.emit("CHECK_EXC_MATCH")
        other = asm.jump("POP_JUMP_FORWARD_IF_FALSE")
        asm.emit("POP_TOP")
        leave(asm, 0, caught(level), handled)
        asm.land(other, asm.unit)
    if row is not None:
        leave(asm, 1, thrown(level), handled)
        return
    if handled:
        asm.emit("SWAP", 2)
        asm.emit("POP_EXCEPT")
    asm.emit("RERAISE", 0)


def constant(asm: Assembler, value: int | None) -> int:
    """Index of a constant of the code being made."""
    consts = asm.code.co_consts
    for at, known in enumerate(consts):
        if type(known) is type(value) and known == value:
            return at
    asm.code = asm.code.replace(co_consts=(*consts, value))
    return len(consts)


def bound_slots(values: Iterable[object], unbound: object, first_free: int) -> tuple[int, ...]:
    """The slots below the free variables that hold something."""
    return tuple(slot for slot, value in enumerate(values) if slot < first_free and value is not unbound)
