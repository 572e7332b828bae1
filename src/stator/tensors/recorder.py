"""The recorder: one FX graph in the making."""

from __future__ import annotations

import operator
import warnings
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import fx

from stator.shapes.fused_ops import FUSED
from stator.shapes.scalar import TracedBool
from stator.shapes.scalar_forms import takes_floats, tensorised, with_tensor
from stator.shapes.symbols import Symbols
from stator.tensors import (
    attributes,
    counting,
    data,
    default_type,
    dropping,
    ending,
    indexing,
    inputs,
    int_numbers,
    randomness,
    respelling,
    traced_arguments,
)
from stator.tensors import contracting as contracting  # these register their rows
from stator.tensors import data_dependent as data_dependent
from stator.tensors import gradients as gradients
from stator.tensors import triangles as triangles
from stator.tensors.applying import apply
from stator.tensors.doubts import Doubts
from stator.tensors.examples import examples
from stator.tensors.fakes import WatchingMode, make_fake, own_mode
from stator.tensors.leaving import Calls, state_effects
from stator.tensors.lowering import PLAIN, ForeignArgument, lower
from stator.tensors.memo import memo
from stator.tensors.meta import Meta, SymbolicMeta, with_dims
from stator.tensors.modes import (
    QUIET,
    GraphState,
    InferenceGuard,
    Left,
    Scope,
    check_surroundings,
    default_device,
    read_flags,
    read_state,
)
from stator.tensors.nodes import NodeWriter
from stator.tensors.number_nodes import NumberNodes
from stator.tensors.overlapping import clashes, is_refused
from stator.tensors.plan import New
from stator.tensors.python_types import CLASSES, as_dtypes
from stator.tensors.readings import Readings
from stator.tensors.recording_mode import RecordingMode
from stator.tensors.remembering import plan_for
from stator.tensors.scalars import ARITHMETIC, DIVISIONS, Scalars, truth_tensor
from stator.tensors.signals import DataDependent, HiddenNumber, NotLeaf, UnsupportedOp, describe
from stator.tensors.subclasses import overrides
from stator.tensors.subgraph import SubGraph
from stator.tensors.targets import KINDS, Target, as_operator, target_of, unbind
from stator.tensors.traceable import traceable
from stator.tensors.traced import Storage, TracedTensor, current, make

Location = Callable[[], Any]
SET_ITEM: Any = target_of(operator.setitem)
NUMBERS = ("alpha", "value")  # arguments that take a number, for which torch reads a tensor

INDEXING: dict[Any, Callable[..., Any]] = {operator.getitem: indexing.get, operator.setitem: indexing.put}


USUAL = {torch.float32}  # the default dtype


class Recorder:
    """Records torch calls on traced tensors into one graph.

    Args:
        location: gives the place in the user's program that the next node belongs to: a string, or an object whose
            `format()` is called when somebody reads the node's stack trace.
        refused: operations that the backend cannot take, see `stator.graph.backends.refused`.
        traces: whether the backend runs what it makes of the graph, instead of the graph as it is.
    """

    def __init__(
        self, location: Location | None = None, refused: frozenset[Any] = frozenset(), traces: bool = False
    ) -> None:
        self.graph = fx.Graph()
        self.scope = Scope(whole=True)
        self.nodes = self._main = NodeWriter(self.graph, location)
        self.sub: SubGraph | None = None  # the graph inside of this one that is being recorded
        self.refused = refused
        self.traces = traces
        self._flags = read_flags()
        self.kept: set[fx.Node] = set()
        self.fallible = False  # the graph tells by itself that it was not made for these data
        self.before_write: Callable[[TracedTensor], None] = lambda traced: None  # in such a graph, first to a tensor
        self.heard: set[str] = set()  # warnings of calls, which are given for a graph that is traced
        self.warned: Callable[..., None] = lambda *call: None  # a call that warns was recorded for such a graph
        self.told: Callable[[warnings.WarningMessage], None] = lambda warning: None  # a call that ran for real warned
        self.may_break: Callable[[], bool] = lambda: False  # whether CPython may do what the graph cannot
        self.may_warn: Callable[[], bool] = lambda: True  # whether filters are those that the graph will find
        self.constants: dict[fx.Node, torch.Tensor] = {}  # results that no input decides, see tensors/constants.py
        self.adorned: list[weakref.ref[TracedTensor]] = []  # made while capturing, with attributes of the program's own
        self.failing: set[fx.Node] = set()  # nodes that may fail depending on data, once the graph is finished
        self.repeatable = False  # the graph may fail depending on data; unless it wrote something, nothing has changed
        self.ends_before_failures = False  # nothing that may fail comes behind a write to an input
        self.fails_late = False  # it may do so when it has written to inputs, even if nodes run in order
        self.random = False  # it may have drawn random numbers
        self._inputs = inputs.Inputs()
        self._traced: list[weakref.ref[TracedTensor]] = []
        self._mode = RecordingMode(self)
        self._outer: Recorder | None = None
        self.catching = False  # calls of torch's C code are only to be seen
        self.overriding = False  # there are tensors whose classes have a say in what is done with them
        self.is_overridden: Callable[[Any, Any], bool] = lambda args, kwargs: False
        self.depth = 0  # of the stack of torch-function modes around it
        self.symbols: Symbols | None = None
        self.has_floats = False
        self.host: Any = None  # what runs the program, where there is one
        self.generators: list[Any] = []  # from outside, which the graph draws from
        self.has_arrays = False  # some tensors are the memory of arrays of numpy
        self.readings = Readings(self)
        self.is_outside: Callable[[Any], bool] = lambda tensor: True  # no input of stator's own making
        self.may_ease: Callable[[], bool] = lambda: False  # whether inference mode may be no_grad in the graph
        self.eased = False  # and it is: no tensor of that mode may leave it
        self.told_leaves = False  # something depends on which inputs are leaves
        self.looked_at: Callable[..., None] = lambda *part: None  # the program saw a part that rarely matters
        self.read_number: Callable[[TracedTensor], Any] = lambda traced: None  # a symbolic float, where it can be one
        self.before_call: Callable[[], None] = lambda: None
        self._symbolic_mode: WatchingMode | None = None
        self.numbers = NumberNodes(self)
        self.counts, self.writes = counting.Counts(), 0
        self.scalars = Scalars()
        self.doubts = Doubts()
        self.evaluated: dict[Any, Any] = {}  # by source and operands: what Python calculates in the graph
        self.follows_data = False  # some symbols are numbers that only data tells
        self.start_symbols: Callable[[], Symbols] | None = None  # where data may become symbols
        self.state = GraphState(self.record_state, traces, self.has_begun, self.ease)
        self.replay: Any = None  # the graph on fake tensors, once gradients are asked for
        self.replaced: list[TracedTensor] = []  # inputs whose `data` the program has set
        self.leaves: list[TracedTensor] = []  # made while capturing, and told to require grad
        self.no_leaves = False  # they are not to be made
        self.inner_grads: dict[int, tuple[TracedTensor, TracedTensor]] = {}  # such a leaf, its grad
        self.choices: dict[int, Any] = {}  # by id: tensors of which data tells which one they are, runtime/choices.py
        self.switches = 0  # how often the program has set the grad mode
        self._left: Left | None = None  # the state that the program leaves

    def __enter__(self) -> Recorder:
        check_surroundings()
        self._flags = read_flags()
        self.depth = torch._C._len_torch_function_stack()
        self.scope.__enter__()
        self._outer, current.recorder = current.recorder, self
        self._mode.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        """May be called again, where an interruption kept it from its end."""
        if current.recorder is not self:
            return
        while torch._C._len_torch_function_stack() > self.depth:
            torch._C._pop_torch_function_stack()
        self._left = self.scope.left()
        self.scope.__exit__(*exc)
        current.recorder, self._outer = self._outer, None

    @staticmethod
    def paused() -> Any:
        """A context in which torch calls are plain calls again, for work on real tensors."""
        return torch._C.DisableTorchFunction()

    def use(self, symbols: Symbols) -> None:
        """From now on there are symbolic numbers."""
        self.symbols = symbols
        symbols.node = self.numbers.of

    def symbolic_mode(self) -> WatchingMode:
        """The fake mode that knows the symbols, made when somebody needs it: that makes torch load Dynamo."""
        if self.symbols is None:
            return own_mode()
        if self._symbolic_mode is None:
            self._symbolic_mode = WatchingMode(self.symbols.env)
        return self._symbolic_mode

    def follow(self) -> Symbols | None:
        """The symbols, if data may become some."""
        if self.sub is not None:
            return None
        if self.symbols is None and self.start_symbols is not None:
            self.start_symbols()
        if self.symbols is None or not self.symbols.unbacked:
            return None
        self.follows_data = True
        return self.symbols

    def has_sizes_from_data(self) -> bool:
        """Whether sizes of tensors, or their strides, are known from data only."""
        symbols = self.symbols
        if symbols is None or not (symbols.makers or symbols.sizes):
            return False
        numbers = ((*meta.size, *meta.stride) for meta in symbols.metas.values())
        return bool(symbols.sizes) or any(symbols.is_unbacked(number) for every in numbers for number in every)

    def number_from_data(self, traced: TracedTensor, low: int | None = None, high: int | None = None) -> Any:
        """The int in a tensor with one element."""
        symbols = self.follow()
        if symbols is None:
            raise DataDependent("Tensor.item")
        node = self.nodes.add("call_method", "item", (traced._node,), {}, "item")
        made = node.meta.value = symbols.from_data(low, high)
        self.numbers.inputs[made.node.expr] = node
        self.numbers.read[made.node.expr] = traced, len(traced._storage.writes)
        return symbols.wrap(made)

    def examples(self) -> tuple[Any, list[Any]]:
        """For a backend: the fake mode, and fake tensors or symbolic ints for the graph inputs."""
        return examples(self)

    def input(
        self, tensor: torch.Tensor, name: str, dims: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None
    ) -> TracedTensor:
        """The stand-in for a tensor from outside; the same one each time. `dims` are symbolic sizes and strides."""
        known = self._inputs.by_id.get(id(tensor))
        if known is not None:
            return known[0]
        with self.paused():
            meta = inputs.meta_of_input(tensor)
            memory, base = inputs.place_of(tensor)
        if dims is not None:
            meta = with_dims(meta, *dims, self.symbols)
        node = self._main.placeholder(name)
        storage = self._inputs.storages.setdefault(memory, Storage())
        traced = self.new(meta, node, storage)
        traced._stands_for = type(tensor)
        self.overriding = self.overriding or overrides(type(tensor))
        node.meta.value = New(meta)
        self._inputs.add(node.name, traced, tensor, base)
        self._inputs.metas[node.name] = meta
        return traced

    def number_input(self, name: str, value: torch.SymInt) -> fx.Node:
        """A new input of the graph that is an int."""
        node = self._main.placeholder(name)
        node.meta.value = self._inputs.names[node.name] = value
        return node

    def meta_of_input(self, name: str) -> Any:
        """Metadata of a graph input as it was at the start; a SymInt for a number."""
        return self._inputs.metas.get(name, self._inputs.names[name])

    def given(self) -> list[tuple[Meta, torch.Tensor]]:
        """The tensors from outside, with their metadata as it was at the start."""
        return [(meta, self._inputs.names[name]) for name, meta in self._inputs.metas.items()]

    def is_of_input(self, traced: TracedTensor) -> bool:
        """Whether a tensor has the memory of one from outside."""
        return any(storage is traced._storage for storage in self._inputs.storages.values())

    def has_grad_inputs(self) -> bool:
        """Whether a graph input requires grad."""
        return any(meta.requires_grad for meta in self._inputs.metas.values())

    def inner_grad(self, traced: TracedTensor) -> TracedTensor | None:
        """`.grad` of a leaf that was made while capturing."""
        found = self.inner_grads.get(id(traced))
        return None if found is None else found[1]

    def alive(self) -> list[TracedTensor]:
        """The traced tensors there are."""
        return [traced for ref in self._traced if (traced := ref()) is not None]

    def fake(self, meta: Meta) -> Any:
        """A fake tensor with this metadata."""
        return make_fake(self.symbolic_mode() if type(meta) is SymbolicMeta else own_mode(), meta)

    def real(self, traced: TracedTensor) -> torch.Tensor | None:
        """The outside tensor that a traced one stands for."""
        return self._inputs.real.get(id(traced))

    def inputs_within(self, storage: Storage) -> list[TracedTensor]:
        """The inputs that came in this memory."""
        return self._inputs.within(storage)

    def tensor(self, name: str) -> torch.Tensor:
        """The outside tensor of a graph input."""
        return self._inputs.names[name]

    def takes(self, func: Any) -> bool:
        """Whether `func` is a torch operation that `call` understands, or knows why it cannot be recorded.

        Operators are not only for tensors: `call` understands them, but does not ask for them.
        """
        if type(func) not in KINDS:  # hashing or asking any other object could run code of the user
            return func is torch._C._InferenceMode
        if issubclass(type(getattr(func, "__self__", None)), InferenceGuard):
            return True
        target = target_of(unbind(func)[0])
        return target is not None and not target.general

    def call(self, func: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Records one call, and gives its result with traced tensors for tensors."""
        if self.has_floats:
            self.before_call()
        if self.overriding and self.is_overridden(args, kwargs):
            raise UnsupportedOp(describe(func), "its argument is of a subclass, or a mode is active", "tensor-subclass")
        target = target_of(func)
        if target is None:
            target, args = self._bound(func, args)
        if not CLASSES.isdisjoint(map(type, args)):
            args = as_dtypes(target.func, args)
        if kwargs and not CLASSES.isdisjoint(map(type, kwargs.values())):
            kwargs = dict(zip(kwargs, as_dtypes(target.func, kwargs.values()), strict=True))
        if target.func in int_numbers.CALLS and self.symbols is not None:
            args, kwargs = int_numbers.as_numbers(self, target.func, args, kwargs or {})
        if target.func in respelling.CALLS and (self.symbols is not None or self.has_floats):
            made = respelling.respelled(target.func, args, kwargs or {})
            if made is not None:
                return made
        if target.func in dropping.CALLS and (kept := dropping.untouched(target.func, args, kwargs or {})) is not None:
            return kept
        form = None
        if self.has_floats or (self.traces and target.func in FUSED):
            form = tensorised(target.func, args, kwargs or {}, self.traces, target.handler is None)
        if form is None and kwargs and self.traces and self.has_floats and type(kwargs.get("out")) is TracedTensor:
            written = self._written_to(target.func, args, kwargs)
            if written is not None:
                return written
        if form is None and kwargs and len(kwargs) == 1 and not kwargs.keys().isdisjoint(NUMBERS):
            form = with_tensor(target.func, args, kwargs)
        if form is not None and form[0] is not operator.setitem:
            found = target_of(form[0])
            assert found is not None
            return self.record(found, *form[1:])
        if target.func in indexing.SIZED and indexing.holds_sizes(target.func, args, kwargs or {}):
            args, kwargs = indexing.with_numbers(self, args, kwargs or {}, indexing.SIZED[target.func])
        if form is not None:
            target, args = SET_ITEM, form[1]
        elif self.has_floats and type(target.func) is FunctionType and takes_floats(args, kwargs):
            raise NotLeaf(target.func, "its operations take a symbolic float")
        if self.traces and target.func in traced_arguments.CALLS:
            args = traced_arguments.CALLS[target.func](self, args, kwargs or {})
        if target.handler is not None:
            return target.handler(self, args, kwargs or {})
        if not kwargs:
            target, args = as_operator(target, args)
            if target.general and self.follows_data and any(type(arg) is TracedBool for arg in args):
                args = tuple(truth_tensor(self, arg) if type(arg) is TracedBool else arg for arg in args)
            if target.func is operator.setitem and indexing.is_switch(*args):
                self.call(torch.Tensor.masked_fill_, args)
                return None
            if target.func in INDEXING and type(args[0]) is TracedTensor and indexing.needs_data(args[1], args[0]):
                return INDEXING[target.func](self, *args)
        if self.traces and (other := traceable(target.func, args, kwargs or {})) is not None:
            target = target_of(other) or target
        try:
            return self.record(target, args, kwargs or {})
        except HiddenNumber:
            if type(target.func) is FunctionType:
                raise NotLeaf(target.func, "it looks at data") from None
            return self.record(target, *indexing.with_numbers(self, args, kwargs or {}))
        except ForeignArgument:
            if isinstance(target.func, FunctionType):
                raise NotLeaf(target.func, "it is given a Python object") from None
            raise

    def _written_to(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedTensor | None:
        """A call with `out=` and symbolic floats for a backend that traces: the result without, and a copy."""
        form = tensorised(func, args, {name: value for name, value in kwargs.items() if name != "out"}, True)
        found = None if form is None else target_of(form[0])
        if form is None or found is None:
            return None
        made, out = self.record(found, *form[1:]), kwargs["out"]
        same = type(made) is TracedTensor and (made._meta.size, made._meta.dtype) == (out._meta.size, out._meta.dtype)
        return self.call(torch.Tensor.copy_, (out, made)) if same else None

    def _bound(self, func: Any, args: tuple[Any, ...]) -> tuple[Target, tuple[Any, ...]]:
        if isinstance(getattr(func, "__self__", None), InferenceGuard):
            return Target(func, "call_function", func, "inference", lambda recorder, a, k: func(*a, **k)), args
        plain, owner = unbind(func)
        target = target_of(plain)
        if target is None:
            raise UnsupportedOp(describe(func))
        return target, args if owner is None else (owner, *args)

    def attribute(self, traced: TracedTensor, name: str) -> Any:
        """Value of `traced.name`."""
        return attributes.read(self, traced, name)

    def set_attribute(self, traced: TracedTensor, name: str, value: Any) -> None:
        """Performs `traced.name = value`."""
        attributes.write(self, traced, name, value)

    def replace_data(self, traced: TracedTensor, value: Any) -> TracedTensor | None:
        """`traced.data = value` for a graph input; what the caller assigns outside as well, if anything changes."""
        return data.replace_data(self, traced, value)

    def record(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records a call whose target is known."""
        if target.func in self.refused:
            raise UnsupportedOp(describe(target.func), "the backend cannot take it")
        if target.factory and "device" not in kwargs and (device := default_device()) is not None:
            kwargs = {**kwargs, "device": device}
        generator = None
        if kwargs and type(kwargs.get("generator")) in randomness.GENERATORS:
            kwargs, generator = randomness.without_generator(self, kwargs)
        elif target.factory and kwargs.get("generator", self) is None:  # that overload takes no symbolic sizes
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        found: list[TracedTensor] = []
        keys: list[Any] = []
        nodes: list[Any] = []
        for arg in args:
            kind = type(arg)
            if kind is TracedTensor:
                found.append(arg)
                keys.append(arg._meta)
                nodes.append(arg._node)
            elif kind in PLAIN:
                keys.append(arg)
                nodes.append(arg)
            else:
                key, node = lower(arg, found)
                keys.append(key)
                nodes.append(node)
        named, named_nodes = lower(kwargs, found) if kwargs else (None, {})
        state = read_state()
        key = (target.func, state, self._flags, named, *keys)
        plan = None if target.unique else memo.plans.get(key)
        if plan is None:
            plan = plan_for(self, target, args, kwargs, found, key, state)
        if generator is not None:
            named_nodes = {**named_nodes, "generator": generator}
        if plan.mutated and (clashes if self.traces else is_refused)(target.func, args, plan, found):
            raise UnsupportedOp(describe(target.func), "it writes to memory that it reads, or twice")
        if self.traces and {state.dtype, self.state.start.dtype} != USUAL:
            explicit = default_type.made_explicit(target, plan, found, (args, kwargs))
            if explicit is not None:  # so the graph does not look at the default, nor does Inductor
                named_nodes, state = {**named_nodes, **explicit}, state._replace(dtype=self.state.start.dtype)
        if plan.warns and self.traces:
            self.warned(target.func, args, kwargs, target.factory)
        made = apply(self, target, plan, state, tuple(nodes), named_nodes, found)
        if target.func in ARITHMETIC and type(made) is TracedTensor:
            self.scalars.note(target.func, args, made)
        elif target.func in DIVISIONS and type(made) is TracedTensor:
            self.scalars.divide(args, kwargs, made)
        elif self.follows_data and counting.counts(target.func, args, kwargs):
            self.counts.note(target.func, args, made, self.writes)
        return made

    def memory(self) -> Storage:
        """The memory of a new tensor."""
        storage = Storage()
        if self.sub is not None:
            self.sub.storages.append(storage)
        return storage

    def new(self, meta: Meta, node: fx.Node, storage: Storage) -> TracedTensor:
        traced = make(self, meta, node, storage)
        self.readings.homes[node] = storage
        self._traced.append(weakref.ref(traced))
        return traced

    @property
    def made(self) -> int:
        """How many traced tensors there have been."""
        return len(self._traced)

    def made_since(self, moment: int, traced: TracedTensor) -> bool:
        """Whether a traced tensor is the result of an operation after that many."""
        return self.real(traced) is None and any(ref() is traced for ref in self._traced[moment:])

    def update(self, traced: TracedTensor, meta: Meta) -> None:
        """New metadata of an argument; requires_grad gained reaches its base and all views of that."""
        gained = meta.requires_grad and not traced._meta.requires_grad
        traced._meta = meta
        if not gained:
            return
        for ref in traced._family or ():
            member = ref()
            if member is not None and not member._meta.requires_grad:
                member._meta = member._meta.with_autograd(True, False)

    def record_state(self, func: Any, args: tuple[Any, ...], name: str) -> fx.Node:
        node = self.nodes.add("call_function", func, args, {}, name)
        self.kept.add(node)
        return node

    def has_begun(self) -> bool:
        """Whether there are operations, other than those that change torch's state."""
        calls = (node for node in self.graph.nodes if node.op not in ("placeholder", "get_attr"))
        return any(node.target not in QUIET for node in calls)

    def ease(self) -> bool:
        """Whether inference mode becomes no_grad in the graph, from now on."""
        self.eased = self.eased or self.may_ease()
        return self.eased

    @property
    def inputs(self) -> list[str]:
        """Names of the graph inputs in order; after `finish` only the used ones."""
        return list(self._inputs.names)

    @property
    def mutated(self) -> list[str]:
        """Names of the graph inputs whose memory the graph writes to."""
        return self._inputs.mutated()

    def state_effects(self) -> Calls:
        """Calls to make after the graph: the torch state that the program left changed; known once it has ended."""
        return [] if self._left is None else state_effects(self.scope, self._left)

    def finish(self, outputs: Any) -> fx.GraphModule:
        """Closes the graph with these traced tensors as outputs, and cleans it up."""
        return ending.finish(self, outputs)

    def can_be_undone(self) -> bool:
        """Whether what the graph writes to inputs can be put back."""
        return ending.can_be_undone(self)

    def release(self) -> None:
        """Drops the recorder's own references to traced tensors."""
        self._inputs.release()
        self.scalars.release()
        self.doubts.release()
        self.counts.release()
        self.evaluated.clear()
        self.constants.clear()
        self.numbers.read.clear()
        self.replaced.clear()
        self.leaves.clear()
        self.inner_grads.clear()
        self.choices.clear()

    def survivors(self) -> list[TracedTensor]:
        """Traced tensors that are still alive somewhere."""
        self.release()
        return [traced for ref in self._traced if (traced := ref()) is not None]
