"""The host with tensors: how traced tensors and modules behave under the interpreter."""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Collection, Container, Iterable
from typing import Any

import torch

from stator import _entry, _frames
from stator._frames import UNBOUND
from stator.code.decode import CodeInfo
from stator.control.breaking import Regions
from stator.errors import Unsupported
from stator.frame import Frame, throw
from stator.guards.check import EQ
from stator.guards.path import Path
from stator.native import policy, spelled
from stator.native.attribute_rows import READERS, WRITERS
from stator.native.callers import CALLERS, call_python
from stator.native.host import ITEM_OPERATORS, Host
from stator.native.rows import STANDINS, standin
from stator.native.standins_control import check_torch, torch_caller
from stator.native.warn import Registries, is_inside
from stator.runtime import (
    alternatives,
    assumptions,
    choices,
    choosing,
    choosing_modules,
    conversions,
    copy_warnings,
    cutting,
    entering,
    excluded,
    first_rounds,
    first_tests,
    formatting,
    heard_warnings,
    hook_handles,
    indifferent,
    inference_blocks,
    marked,
    module_calls,
    overriding,
    padding,
    pinning,
    prepared,
    sections,
    small_tensors,
    symbolic_host,
    tensor_lists,
    torch_compiled,
    unrolling,
)
from stator.runtime import asserting as asserting  # rows
from stator.runtime import entering_tensors as entering_tensors
from stator.runtime import function_modes as function_modes  # rows
from stator.runtime import new_tensors as new_tensors
from stator.runtime.compiling import is_compiling, not_compiling
from stator.runtime.first_rounds import Arrivals
from stator.runtime.guarded_views import guard_view
from stator.runtime.number_calls import STANDS_FOR
from stator.runtime.number_host import NumberHost
from stator.runtime.optimizers import is_compiling_in
from stator.runtime.spelling import Spelling
from stator.runtime.tensor_attributes import read_outside, read_tensor, write_tensor
from stator.shapes import looking_up
from stator.shapes.floats import MATH, SYMBOLIC, TracedFloat, depends_on_data
from stator.shapes.policy import Policy
from stator.shapes.scalar import TracedBool, TracedInt
from stator.shapes.texts import TracedText
from stator.tensors import values
from stator.tensors.array_calls import DTYPES as ARRAY_DTYPES
from stator.tensors.arrays import TracedArray, is_array, rows, tensor_of
from stator.tensors.lowering import ForeignArgument
from stator.tensors.modes import devices_inside
from stator.tensors.signals import NotLeaf, OutsideAttribute
from stator.tensors.traced import TracedTensor
from stator.world import writing
from stator.world.constants import CONSTANT_TYPES, constant
from stator.world.door import IMPORTERS
from stator.world.keys import BY_ID

FUNCTIONS = (type, types.BuiltinFunctionType)
NUMBERS_ONLY = MATH  # functions that make floats of their arguments, whatever numbers they are
INDEXING = frozenset({range, operator.index})
# They take the dtype of a scalar of numpy.
NEW_OF_DATA = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor, torch.Tensor.new_tensor})


class TensorHost(NumberHost):
    """A world whose tensors are traced."""

    tensor_types = frozenset({TracedTensor})
    varying_types = frozenset({TracedInt, TracedFloat})
    number_types = varying_types | {TracedBool}
    formattable = formatting.FORMATTABLE
    texts = frozenset({TracedText})
    conditions = frozenset({TracedTensor, TracedInt, TracedFloat, TracedBool, alternatives.Chosen})
    silent_checks = (torch._assert,)
    operand_types = frozenset({TracedTensor, TracedInt, TracedBool, TracedFloat, int, float, complex, bool, type(None)})

    def __init__(
        self, refused: frozenset[Any] = frozenset(), policy: Policy | None = None, traces: bool = False
    ) -> None:
        super().__init__(refused, policy or Policy(), traces)
        self.recorder.may_warn = lambda: not is_inside(self)
        self.recorder.may_break = lambda: self.may_break
        self.recorder.may_ease = lambda: inference_blocks.WHOLE not in self.whole_paths
        self.recorder.warned = functools.partial(heard_warnings.note, self)
        self.recorder.told = functools.partial(heard_warnings.give, self)
        self.recorder.is_outside = lambda tensor: id(tensor) in self.records
        self.recorder.looked_at = self.guard_part
        self.entered: sections.Section | None = None
        self.told_compiling = False  # the program asked, and the answer was yes
        self.copied: Any = None  # where a copy may be none, see runtime/cutting.py
        self.cut: Any = None  # where a tensor is cut that may be short enough, see there
        self.padding: Any = None  # a branch that is taken in any case, see runtime/padding.py
        self.branched: dict[tuple[Any, int], Any] = {}  # by place: numbers that branches ask for and the entry reads
        self.read_truths: dict[Any, bool] = {}  # how they came out: by condition, or by node and writes to it
        self.written_late = 0  # bytes of inputs that are written to behind a check of data
        self.assumed_at: dict[tuple[int, int], int] = {}  # how often, by place in the program
        self.assumed: Any = None  # a traced tensor: whether all is as the program was captured for
        self.arrays: list[Any] = []  # records of outside arrays whose contents have entered
        self.dirty: set[Path] = set()  # those that the program wrote to at some time
        self.lent: list[Any] = []  # arrays whose memory a tensor shares
        self.deep_copies: list[Any] = []  # of tensors: its memo, and the memory
        self.made_arrays: dict[int, Any] = {}  # by id: arrays of constants, and which instruction made each
        self.unmade: frozenset[type] = frozenset()  # types of which no object may be made
        self.warns_of_scalars = False
        self.hooks: list[Any] = []  # effects that register hooks on tensors
        self.handles: list[Any] = []  # hooks that the program registers on modules: number, table
        self.flagged_hooks: dict[int, Any] = {}  # by id: hooks of which some take keyword arguments, path of the module
        self.recorder.host = self
        self.modes: list[Any] = []  # torch-function modes that the program has entered
        self.without_classes = 0  # blocks in which `__torch_function__` of classes is off
        self.without_modes = 0  # … and that of modes
        self.bare: dict[int, Any] = {}  # by id of a tensor of a subclass: what the graph returns for it
        self.recorder.is_overridden = self.is_overridden
        self.array_inputs: list[Any] = []  # outside arrays that are graph inputs: array, path, tensor
        self.cached: dict[Any, Any] = {}  # (id of an lru_cache, key of a call) -> what it holds for the program
        self.recent: dict[int, Any] = {}  # by id of an lru_cache: what the program has asked it for
        self.through: list[Any] = []  # calls of cached functions with arguments that vary
        self.differed: Collection[Path] = ()  # what was another constant or object in another call
        self.fills_cache = False  # there will be no other call like this one, and nothing is compiled
        self.backwards = 0  # how often the program has taken gradients
        self.unrolled: dict[Any, Any] = {}  # by place: the address of its iterator, what there was at first, and rounds
        self.loops = unrolling.Loops()  # that are not unrolled
        self.is_outermost = False  # the capture is one of the whole function
        self.in_loop = False  # the capture begins behind a break in a loop
        self.below: Any = None  # what takes frames below a break of this session
        self.spelling = Spelling()
        self.counts_rounds = False  # whether others may turn out to be such
        self.chosen_rounds: dict[Any, set[int]] = {}  # by place: what a number was compared with, round by round
        self.tests: dict[Any, int] = {}  # by place: how often a loop asked whether to go on
        self.ending: Container[Path] = ()  # outside iterators that ended after more or fewer rounds than before
        self.tensor_lists: dict[Path, int] = {}  # how many tensors were made of a list from outside
        self.lengths: dict[Any, unrolling.Places] = {}  # by frame and number: how long such a thing is
        self.arrivals: Arrivals = {}  # of the functions that lead to the break
        self.rounds_below: dict[int, int] = {}  # of loops in generators over such things
        self.counted: dict[int, unrolling.Places] = {}  # by address: what has as many items as a number that varies
        self.told_apart: dict[int, Any] = {}  # by address: such a thing that an operation made, and the same
        self.draws: list[Any] = []  # calls that draw random numbers, for the entry function
        self.drawn_arrays: dict[int, Any] = {}  # by id of the tensor: which call draws the array
        self.registries = Registries()
        self.regions = Regions(self.seen)
        marked.notice_substitutes()
        prepared.prepare()
        ignore_bookkeeping(sys.modules.get(self.bookkeeping))
        compiler = self.namespace(vars(torch.compiler))
        assert compiler is not None
        compiler.values["_is_compiling_flag"] = compiler.before["_is_compiling_flag"] = True

    def guard_part(self, traced: TracedTensor, name: str, read: Any) -> None:
        """The program has seen what `read` gives for a tensor from outside."""
        record = self.records.get(id(traced))
        if record is not None:
            self.guards.add(record.path.part(name, read), EQ, read(record.obj), self.origin())

    def guard_leaves(self) -> None:
        """Which tensors from outside are leaves matters to writes and gradients; parameters are in any case."""
        if not (self.recorder.told_leaves or self.recorder.mutated):
            return
        for meta, tensor in self.recorder.given():
            record = self.records.get(id(tensor))
            if record is not None and meta.requires_grad and not (meta.leaf and type(tensor) is torch.nn.Parameter):
                self.guards.add(record.path.get("is_leaf"), EQ, meta.leaf, None)
                if not meta.leaf and self.recorder.mutated:
                    guard_view(self, record)

    def impatient(self) -> bool:
        """Without an operation on tensors; a program that has seen one may still come to it."""
        if self.patient or any(node.op.startswith("call") for node in self.recorder.graph.nodes):
            return False
        seen = self.recorder.made or any(issubclass(type(value), torch.Tensor) for value in self.carried)
        return self.looks >= PATIENCE or not seen

    def begins_round(self, f: Frame) -> None:
        if not f.direct:
            unrolling.check_below(self, f)
        elif not self.patient:
            unrolling.check(self, f)

    def may_leave(self, values: Iterable[Any]) -> bool:
        return self.counts_rounds and unrolling.may_break(self) and all(map(unrolling.is_data, values))

    def takes_numbers(self, function: Any) -> bool:
        if type(function) in FUNCTIONS and function in NUMBERS_ONLY:
            return True
        return bool(self.recorder.takes(function)) and function not in NEW_OF_DATA

    def takes_whole(self, function: Any) -> bool:
        """Whether it makes an index of what it is given."""
        return type(function) in FUNCTIONS and function in INDEXING

    def places(self, container: Any, index: Any) -> Any:
        return tensor_lists.places(container, index)

    def begins_loop(self, f: Frame, source: Any, made: Any) -> None:
        unrolling.note_entries(self, f, source, made)

    def breaking_units(self, info: CodeInfo) -> Iterable[int]:
        return self.loops.of(info)

    def spelled_units(self, info: CodeInfo) -> Iterable[int]:
        return self.spelling.of(info)

    def twins_of(self, function: Any) -> Any:
        return spelled.spelled(function)

    def spell(self, handler: Any, f: Frame, count: int) -> Any:
        return spelled.spell(handler, f, count)

    def left_to_python(self, f: Frame) -> Unsupported | None:
        return unrolling.left_to_python(self, f)

    def item_left_to_python(self, f: Frame) -> Unsupported | None:
        return unrolling.item_left_to_python(self, f)

    def function_enters(self, f: Frame, function: Any) -> bool:
        self.registries.note(f.globals)
        excluded.check(self, function)
        check_torch(self, function)
        super().function_enters(f, function)
        return any(kind.replace_body(self, f, function) for kind in (entering, torch_compiled, marked))

    def guard_type(self, cls: type) -> None:
        if not hook_handles.is_free(self, cls):
            super().guard_type(cls)

    def write_class(self, f: Frame, cls: type, name: str, value: Any) -> None:
        if cls is torch.Tensor:  # what captures uses it as well
            raise self.refuse_class_write(cls, name)
        super().write_class(f, cls, name, value)

    def caller(self, function: Any) -> Any:
        known = (
            entering.caller_of(function)
            or overriding.constructor(function)
            or excluded.caller_of(function)
            or torch_compiled.caller_of(function)
            or torch_caller(function)
            or marked.caller_of(function)
        )
        found = known or super().caller(function)
        return conversions.converting(function, found)

    def seen(self, real: dict[str, Any], name: str) -> Any:
        """What the program sees under a name of a namespace, without a guard."""
        namespace = self.namespaces.get(id(real))
        return real.get(name) if namespace is None else namespace.values.get(name, real.get(name))

    def imported(self, f: Frame, name: str, fromlist: Any, level: int) -> Any:
        with not_compiling(), self.recorder.paused():
            return super().imported(f, name, fromlist, level)

    def check_arguments(self, function: Any, args: list[Any]) -> None:
        """C code that looks into memory would find none in an array of the graph."""
        home = policy.home(function)
        if (home[0] not in policy.PASSES_OBJECTS or home[1] in policy.READS_MEMORY) and TracedArray in map(type, args):
            raise self.refuse("tensor-numpy", "C code that reads an array", function=".".join(home))

    def is_overridden(self, args: Any, kwargs: Any) -> bool:
        """Whether classes of arguments have a say in a call."""
        return overriding.is_enabled(self, list(overriding.flat([*args, *(kwargs or {}).values()])))

    def begin_section(self) -> None:
        self.entered = sections.begin(self)

    def end_section(self) -> None:
        self.protects = self.protects or (self.entered is not None and sections.protects(self, self.entered))

    def has_own_device(self) -> bool:
        return bool(devices_inside()[0])

    def record(self, f: Frame, function: Any, args: Any, kwargs: Any) -> Any:
        if self.recorder.overriding or self.modes:
            found = overriding.dispatch(self, f, function, args, kwargs)
            if found is not overriding.NOT_DISPATCHED:
                return found
        if self.copied is not None:
            function, args = cutting.called(self, f, function, args)
        if self.padding is not None:
            return padding.called(self, f, function, args, kwargs)
        made = copy_warnings.copied(self, f, function, args, kwargs)
        if made is not None:
            return made
        try:
            return self.recorder.call(function, tuple(args), kwargs or {})
        except NotLeaf:
            return call_python(self, f, function, list(args), kwargs)
        except OutsideAttribute as error:
            if function.__name__ != "__get__" or id(args[0]) not in self.records:
                raise self.located(error) from None
            return read_outside(self, f, self.records[id(args[0])], error.name)
        except ForeignArgument as error:
            found = overriding.dispatch(self, f, function, args, kwargs)
            if found is not overriding.NOT_DISPATCHED:
                return found
            raise self.located(error) from None
        except Unsupported as error:
            raise self.located(error) from None
        except (AttributeError, TypeError) as error:  # the program's own
            return throw(f, error.with_traceback(None))

    def operate(self, f: Frame, function: Any, *args: Any) -> Any:
        if not self.counts_rounds or (type(args[0]) is not list and not pinning.may_choose(args)):
            return self.operated(f, function, *args)
        before, known = unrolling.stamp(self), pinning.constants(self)
        made = self.operated(f, function, *args)
        if TracedInt in map(type, args):
            unrolling.note_operation(self, f, args, made, before)
        pinning.note_operation(self, f, args, made, known)
        return made

    def operated(self, f: Frame, function: Any, *args: Any) -> Any:
        if TracedText in map(type, args) or (type(args[0]) is str and function in (operator.mod, operator.imod)):
            found = formatting.operated(function, args)
            if found is not NotImplemented:
                return found
            kept = args[2:] if function is operator.setitem and type(args[0]) in (list, dict) else ()
            looked = args[1 : len(args) - len(kept)]
            args = (args[0], *(symbolic_host.decayed(self, arg, {}) for arg in looked), *kept)  # C tells types apart
        if function is operator.contains and type(args[1]) in (TracedInt, TracedFloat):
            found = symbolic_host.contained(*args)
            if found is not NotImplemented:
                return found
        if function is operator.getitem and type(args[1]) is TracedInt and type(args[0]) in looking_up.ROWS:
            found = looking_up.number_at(self.floats, *args)
            if found is not NotImplemented:
                return found
        if function is operator.getitem and (refused := choosing_modules.left_to_python(self, f, *args)) is not None:
            raise refused
        if len(args) == 2 and function not in ITEM_OPERATORS:
            args = symbolic_host.operands(args)
        if function in indifferent.COMPARISONS and TracedInt in map(type, args):
            answer = indifferent.answer(self, f, function, args)
            if answer is not None:
                return answer
        if function in cutting.COMPARED and TracedInt in map(type, args):
            if self.is_taken(f, function, args):
                return True
        elif self.padding is not None and function is not operator.getitem:
            return padding.calculated(self, f, function, args, super().operate(f, function, *args))
        if function in indifferent.COMPARISONS and not SYMBOLIC.isdisjoint(map(type, args)):
            chosen = alternatives.asked(self, f, function, args)
            if chosen is not None:
                return chosen
        if function in INDEXED and type(args[0]) is TracedTensor:
            args = (args[0], self.as_index(f, args[1]), *args[2:])
            if self.cut is not None and self.cut[:2] == (f, f.lasti):
                return cutting.cut_off(self, f, *args)
        return super().operate(f, function, *args)

    def is_taken(self, f: Frame, function: Any, args: tuple[Any, ...]) -> bool:
        """Whether both sides of a branch on this comparison give the same, and one is taken without a question."""
        if any(type(arg) not in (int, TracedInt) for arg in args):
            return False
        return cutting.is_taken(self, f, function, args) or padding.start(self, f, function, args)

    def frame_enters(self, f: Frame) -> None:
        if self.padding is not None:
            padding.refuse(self)
        super().frame_enters(f)
        stop = self.machine.stop
        if stop is not None and f.direct and stop.path[: len(f.path)] == f.path:
            first_rounds.note(self, f)

    def as_index(self, f: Frame, key: Any) -> Any:
        """A key for a tensor: torch takes arrays with one dimension as tensors, and numbers of numpy as such."""
        if type(key) is tuple:
            return tuple([self.as_index(f, part) for part in key])
        if type(key) is slice and TracedArray in map(type, (key.start, key.stop, key.step)):
            return slice(*[self.as_index(f, part) for part in (key.start, key.stop, key.step)])
        if type(key) is TracedArray and key.is_scalar and key._tensor._meta.dtype in INT_DTYPES:
            return self.record(f, torch.Tensor.item, [tensor_of(key)], None)
        if type(key) is TracedArray and not key.is_scalar and len(key.sizes) == 1:
            found: Any = tensor_of(key) if key._tensor._meta.dtype in INDEX_DTYPES else key
        elif is_array(key) and key.ndim == 1 and ARRAY_DTYPES.get(key.dtype) in INDEX_DTYPES:
            found = self.call(f, torch.tensor, [key], None)
        else:
            return key
        is_ready = found is key or found._meta.dtype in (torch.bool, torch.int64)
        return found if is_ready else found.long()

    def class_of(self, obj: Any) -> type:
        kind = type(obj)
        if kind is TracedFloat and obj.mixed:
            obj = obj.decay()
        return obj._stands_for if kind in conversions.STAND_INS else STANDS_FOR.get(kind, kind)

    def may_hold(self, hooks: Any) -> bool:
        """Whether there may be hooks in a dict: it has some, or the program knows it and may have added some."""
        return bool(hooks) or id(hooks) in self.records

    def truth_of(self, value: Any) -> Any:
        if type(value) is TracedArray and value._tensor._meta.size.numel() == 1:
            value = value._tensor
        if type(value) is TracedInt and not value.symbols.is_unbacked(value):
            f = _frames.top_frame()
            return self.is_taken(f, operator.ne, (value, 0)) or unrolling.truth(self, f, value)
        if type(value) in assumptions.CONDITIONS:
            f = _frames.top_frame()
            wanted = assumptions.wanted(self, f, value)
            if wanted is None:
                wanted = small_tensors.decided(self, f, value)
            if wanted is not None:
                return wanted
            if type(value) is TracedTensor:
                known = first_tests.known(self, f, value)
                if known is not None:
                    return known
                self.record(f, torch.Tensor.__bool__, (value,), None)
        return bool

    def was_other(self, path: Path) -> bool:
        return (path, "int", 0) in self.policy.learned and self.may_break

    def answered(self, function: Any, result: Any) -> tuple[bool, Any]:
        if type(result) not in STANDS_FOR:
            return False, result
        return (True, result) if symbolic_host.is_answer(self, function, result) else (False, result.decay())

    def ask_identity(self, *values: Any) -> None:
        if self.recorder.choices:
            choices.refuse_identity(self, *values)
        if len(values) == 1 and type(values[0]) is TracedTensor:
            self.recorder.doubts.look(values[0])

    def chosen(self, f: Frame, value: Any) -> int | None:
        return value.go_on(f) if type(value) is alternatives.Chosen else choosing.chosen(self, f, value)

    def formatted(self, value: Any, conversion: int, spec: Any) -> Any:
        return formatting.formatted(self, value, conversion, spec)

    def joined(self, parts: list[Any]) -> Any:
        return formatting.joined(parts)

    def before_write(self, traced: TracedTensor) -> None:
        assumptions.before_write(self, traced)

    def negated(self, value: Any) -> Any:
        """`not value` as a number that the graph gives, where only data tells; else NotImplemented."""
        if type(value) is TracedTensor and self.recorder.start_symbols is not None and self.recorder.sub is None:
            value = values.bool_of(self.recorder, value)
        elif (type(value) is TracedInt and value.symbols.is_unbacked(value)) or depends_on_data(value):
            value = value != 0
        return value.opposite() if type(value) is TracedBool else NotImplemented

    def iterate(self, f: Frame, value: Any) -> Any:
        if not self.counts_rounds:
            return super().iterate(f, self.whole(value))
        before, known = unrolling.stamp(self), pinning.constants(self)
        made = super().iterate(f, self.whole(value))
        unrolling.note_iterator(self, f, value, made, before)
        pinning.note_iterator(self, f, value, known)
        return made

    def whole(self, value: Any) -> Any:
        if type(value) is TracedTensor:
            if self.recorder.overriding and overriding.is_enabled(self, [value]):
                return list(self.record(_frames.top_frame(), torch.Tensor.__iter__, (value,), None))
            return self.recorder.call(torch.Tensor.unbind, (value,), {})
        if type(value) is TracedArray and value.sizes:
            return rows(value)
        return super().whole(value)

    def unpackable(self, f: Frame, value: Any) -> Any:
        return self.whole(value)

    def is_deferred(self, value: Any) -> bool:
        return type(value) in (TracedTensor, TracedInt, TracedFloat, TracedText)

    def snapshot(self, value: Any) -> Any:
        """A tensor as it is at this moment of the program; one that shows its history must not change after it."""
        if type(value) is not TracedTensor:
            return value
        if value._meta.requires_grad or getattr(value, "_stands_for", torch.Tensor) is not torch.Tensor:
            value._storage.fixed = "a write to a tensor that is yet to be printed"
            return value
        return self.recorder.call(torch.clone, (value,), {})

    def example(self, value: Any) -> Any:
        """A number that a symbolic one may be."""
        if type(value) is TracedFloat:
            return value.value
        return value.symbols.unknowns.guessed(value.number) or 0

    def missing_attribute(self, f: Frame, obj: Any, name: str) -> Any:
        hook = _frames.type_lookup(type(obj), "__getattr__")
        if hook is module_calls.READ:
            value = module_calls.member(self, obj, name)
            if value is not UNBOUND:
                return value
        return super().missing_attribute(f, obj, name)

    def store_attr(self, f: Frame, obj: Any, name: str, value: Any) -> None:
        if type(value) in SIMPLE and module_calls.has_no_member(self, obj, name):
            writing.write_generic(self, f, self.records[id(obj)], name, value)
        else:
            super().store_attr(f, obj, name, symbolic_host.for_field(obj, name, value))


def ignore_bookkeeping(module: Any) -> None:
    """Once torch.compile was used, `nn.Module.__init__` notes new modules for it: nothing the program can observe."""
    if module is not None:
        STANDINS.setdefault(module.GenerationTracker.tag.__func__, answer(None))


INDEXED = frozenset({operator.getitem, operator.setitem})
INT_DTYPES = frozenset({torch.int64, torch.int32, torch.int16})
INDEX_DTYPES = INT_DTYPES | {torch.bool}


PATIENCE = 10  # looks after which a program with tensors is given up if it does nothing with them

TensorHost.passing = Host.passing | {module_calls.call_module}
SIMPLE = frozenset({int, float, bool, str, TracedInt, TracedFloat})  # neither parameter nor buffer nor module


def call_compiled(host: Any, f: Frame, compiled: Any, args: list[Any], kwargs: Any) -> Any:
    """A compiled function called by a captured one is captured along with it."""
    return host.call(f, compiled.__wrapped__, args, kwargs)


CALLERS[id(_entry.Compiled)] = call_compiled


def answer(value: Any) -> Any:
    return lambda host, f, function, args, kwargs: value


@standin(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, is_compiling)
def stand_compiling(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> bool:
    answer = is_compiling_in(f)
    host.told_compiling = host.told_compiling or answer
    return answer


@standin(torch.finfo, torch.iinfo)
def stand_type_limits(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Facts about a dtype."""
    return call_python(host, f, function, args, kwargs)


standin(torch._C._get_tracing_state)(answer(None))
standin(torch._C._log_api_usage_once)(answer(None))

READERS[id(TracedTensor)] = read_tensor
WRITERS[id(TracedTensor)] = write_tensor
BY_ID += [torch.Tensor.__hash__, TracedTensor.__hash__]
for _kind in (torch.dtype, torch.layout, torch.memory_format, torch.device):
    IMPORTERS[id(_kind)] = constant
CONSTANT_TYPES.update({torch.dtype, torch.device, torch.layout, torch.memory_format})
