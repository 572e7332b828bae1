"""Custom `torch.autograd.Function`s: forward is recorded in place, backward as a graph of its own.

Both run under the interpreter when `apply` is called. Backward sees gradients that are contiguous, and must not change
anything but its context: it runs later, or never, or twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import Function, FunctionCtx, _SingleLevelFunction, once_differentiable

from stator.emit.plan import CannotRebuild, Heap, Plan
from stator.emit.recipes import register_whole
from stator.frame import Frame, Raised
from stator.graph.source import compile_source
from stator.native.rows import standin
from stator.runtime.footprint import Footprint
from stator.runtime.transformed_function import call_within, in_transform
from stator.tensors.attach import DIRTY, INPUT, MADE, Failure, Gradients, Pattern, Result, Tie, record_tie
from stator.tensors.modes import Scope
from stator.tensors.subgraph import SubGraph, contiguous
from stator.tensors.traced import TracedTensor

ONCE = once_differentiable(lambda ctx: None).__code__
MOST_ABSENT = 3  # results whose gradients may each be None: backward is captured for every combination


class Context(FunctionCtx):
    """The `ctx` of a function that is being captured."""

    __slots__ = ("_asked",)  # whether somebody wanted to see the saved tensors

    @property
    def saved_tensors(self) -> Any:
        self._asked = True
        return self.__dict__.get("to_save", ())


class Application:
    """One call of `apply`."""

    def __init__(self, host: Any, f: Frame, cls: Any, values: list[Any]) -> None:
        self.host, self.f, self.cls, self.values = host, f, cls, values
        self.name = cls.__name__
        self.started = host.recorder.made
        self.ctx = Context()
        self.ctx.needs_input_grad = tuple(is_traced(v) and v._meta.requires_grad for v in values)

    def decline(self, why: str) -> Any:
        return self.host.refuse("autograd", f"{self.name}.apply: {why}", function=f"{self.name}.apply")

    def member(self, name: str) -> Any:
        return self.host.load_attr(self.f, self.cls, name)

    def run(self) -> Any:
        """What `apply` gives."""
        recorded = torch.is_grad_enabled() and any(self.ctx.needs_input_grad)
        raw = self.forward()
        outputs = list(raw) if isinstance(raw, tuple) else [raw]
        if recorded and any(self.differentiable(output) for output in outputs):
            outputs = self.tie(outputs)
        else:
            outputs = [self.untied(output) for output in outputs]
        return tuple(outputs) if isinstance(raw, tuple) else outputs[0]

    def forward(self) -> Any:
        """Forward, and the function that sets up the context if there is one, under no_grad."""
        forward, setup = self.member("forward"), self.member("setup_context")
        self.separate = setup is not _SingleLevelFunction.setup_context
        enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            if not self.separate:
                return self.host.call(self.f, forward, [self.ctx, *self.values], None)
            self.add_defaults(forward)
            raw = self.host.call(self.f, forward, list(self.values), None)
            self.host.call(self.f, setup, [self.ctx, tuple(self.values), raw], None)
            return raw
        finally:
            torch._C._set_grad_enabled(enabled)

    def add_defaults(self, forward: Any) -> None:
        """The context is set up with all arguments, also those that the call leaves out."""
        code = getattr(forward, "__code__", None)
        if code is None or code.co_argcount != len(self.values) or code.co_kwonlyargcount or code.co_flags & 0x0C:
            raise self.decline("forward has arguments by default")

    def marked(self, name: str) -> tuple[Any, ...]:
        """Tensors that the program told the context about."""
        found = self.ctx.__dict__.get(name) or ()
        return found if isinstance(found, tuple) else (found,)

    def differentiable(self, output: Any) -> bool:
        if not is_traced(output) or any(output is other for other in self.marked("non_differentiable")):
            return False
        return output._meta.dtype.is_floating_point or output._meta.dtype.is_complex

    def is_returned(self, saved: Any, outputs: list[Any]) -> bool:
        """Whether a saved tensor is an argument that comes back as it was."""
        dirty = self.marked("dirty_tensors")
        return (
            self.place(saved) is not None
            and any(saved is output for output in outputs)
            and all(saved is not one for one in dirty)
        )

    def place(self, output: Any) -> int | None:
        """The number of the argument that a result is."""
        return next((i for i, value in enumerate(self.values) if value is output), None)

    def untied(self, output: Any) -> Any:
        """A result that autograd has nothing to do with: an argument comes back as another tensor on its memory."""
        if not is_traced(output):
            return output
        if self.place(output) is None:
            known = output._family is not None and self.host.recorder.made_since(self.started, output)
            if output._meta.requires_grad and not known:  # eager would detach it, whosever it is
                raise self.decline("its result is a tensor from elsewhere that requires grad")
            return output
        if any(output is other for other in self.marked("dirty_tensors")):
            return output
        if output._meta.requires_grad:
            return self.host.record(self.f, torch.Tensor.detach, (output,), None)
        enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            return self.host.record(self.f, torch.Tensor.view_as, (output, output), None)
        finally:
            torch._C._set_grad_enabled(enabled)

    # ---- results with a backward --------------------------------------------------------------------------------

    def tie(self, outputs: list[Any]) -> list[Any]:
        """Captures backward, and records the node that makes the results those of this function."""
        tensors = [output for output in outputs if is_traced(output)]
        saved = self.check(tensors)
        inputs = [value for value in self.values if is_traced(value)]
        made = [tensor for tensor in tensors if self.place(tensor) is None]
        results = [self.result(tensor, inputs, made) for tensor in tensors]
        self.ctx._asked = False
        backward = Backward(self, outputs)
        saved_nodes = [tensor._node for tensor in saved]
        reads = self.ctx._asked
        graphs = [*backward.plain.values(), *backward.second.values()]
        taken = dict.fromkeys(node for graph in graphs for node in graph.taken)
        rest = [node for node in taken if not reads or node not in saved_nodes]
        values = [*saved_nodes, *rest] if reads else rest
        function = Tie(
            name=self.name,
            outputs=tuple((result.kind, result.index) for result in results),
            differentiable=tuple(result.differentiable for result in results),
            materialize=self.materialize,
            once=backward.once,
            plain={pattern: graph.ordered(values) for pattern, graph in backward.plain.items()},
            second={pattern: graph.ordered(values) for pattern, graph in backward.second.items()},
            inputs=len(inputs),
            clears=bool(getattr(self.cls, "clear_saved_tensors_on_access", False)),
            reads=reads,
        )
        found = iter(record_tie(self.host.recorder, function, inputs, made, (saved_nodes, rest), results))
        return [next(found) if is_traced(output) else output for output in outputs]

    def check(self, tensors: list[Any]) -> list[Any]:
        """Refuses what eager does in a way of its own; gives the tensors that are saved."""
        if len(set(map(id, tensors))) < len(tensors):
            raise self.decline("it returns a tensor twice")
        dirty = self.marked("dirty_tensors")
        if any(self.place(one) is None or all(one is not tensor for tensor in tensors) for one in dirty):
            raise self.decline("a tensor marked dirty is no argument or no result")
        self.materialize = bool(self.ctx.__dict__.get("materialize_grads", True))
        if not self.materialize and sum(map(self.differentiable, tensors)) > MOST_ABSENT:
            raise self.decline("many gradients that may be None")
        saved = [tensor for tensor in self.marked("to_save") if tensor is not None]
        if not all(map(is_traced, saved)):
            raise self.decline("it saves something that is no tensor")
        if self.separate and any(self.is_returned(one, tensors) for one in saved):
            raise self.decline("it saves an argument that it returns, which `setup_context` must not")
        if getattr(self.cls, "boxed_grads_call", False):
            raise self.decline("backward takes a list")
        return saved

    def result(self, tensor: Any, inputs: list[Any], made: list[Any]) -> Result:
        if self.place(tensor) is None:
            if not self.host.recorder.made_since(self.started, tensor):
                raise self.decline("its result is a tensor from elsewhere")
            kind, among = MADE, made
        else:
            dirty = any(tensor is other for other in self.marked("dirty_tensors"))
            kind, among = DIRTY if dirty else INPUT, inputs
        index = next(i for i, other in enumerate(among) if other is tensor)
        if kind is not MADE and not self.differentiable(tensor):
            raise self.decline("an argument that is returned and not differentiable")
        return Result(kind, index, self.differentiable(tensor), tensor)


class Backward:
    """The backward of one application, captured.

    Where it switches the grad mode or uses functions like this one, what is recorded depends on whether gradients
    are differentiated in turn: then there are two graphs. Third derivatives through such a function are an error.
    """

    def __init__(self, application: Application, outputs: list[Any]) -> None:
        self.application = application
        backward, vjp = application.member("backward"), application.member("vjp")
        if vjp is not Function.vjp:
            backward = vjp
        if backward is Function.backward:
            raise application.decline("it has no backward")
        self.once = getattr(backward, "__code__", None) is ONCE
        if self.once:
            backward = application.host.load_attr(application.f, backward, "__wrapped__")
        self.function, self.outputs = backward, outputs
        self.attributes = application.ctx.__dict__
        self.before = dict(self.attributes)
        self.plain: dict[Pattern, Gradients | Failure] = {}
        self.second: dict[Pattern, Gradients | Failure] = {}  # empty: not compiled
        for pattern in self.patterns():
            self.capture(pattern)

    def patterns(self) -> list[Pattern]:
        """By tensor among the results: whether there is a gradient for it."""
        application = self.application
        tensors = [output for output in self.outputs if is_traced(output)]
        if application.materialize:
            return [(True,) * len(tensors)]
        choices = [(True, False) if application.differentiable(tensor) else (False,) for tensor in tensors]
        return [pattern for pattern in itertools.product(*choices) if any(pattern)]

    def capture(self, pattern: Pattern) -> None:
        recorder = self.application.host.recorder
        switches = recorder.switches
        self.plain[pattern] = self.attempt(False, pattern)
        if recorder.switches == switches or self.once:
            self.second[pattern] = self.plain[pattern]
        elif recorder.sub is None:
            self.second[pattern] = self.attempt(True, pattern)

    def attempt(self, grad_mode: bool, pattern: Pattern) -> Gradients | Failure:
        """Backward as a graph. Where it fails for want of a gradient, it will when there is none."""
        self.attributes.clear()
        self.attributes.update(self.before)
        try:
            return self.graph(grad_mode, pattern)
        except Raised:
            error, self.application.f.error = self.application.f.error, None
            if all(pattern):
                raise self.application.decline(f"backward raised {type(error).__name__}") from None
            return Failure(type(error), error.args)

    def graph(self, grad_mode: bool, pattern: Pattern) -> Gradients:
        """Backward as a graph."""
        given_grads = iter(pattern)
        with Scope() as scope:
            scope.calm(grad_mode)
            with SubGraph(self.application.host.recorder) as sub:
                grads = [
                    self.gradient(sub, output, grad_mode) if is_traced(output) and next(given_grads) else None
                    for output in self.outputs
                ]
                given, results = self.sort(self.call(grads))
                taken = sub.finish(results)
        written = tuple(grad._storage in sub.written for grad in grads if grad is not None)
        return Gradients(compile_source(sub.graph), given, written, taken)

    def gradient(self, sub: SubGraph, output: Any, requires_grad: bool) -> Any:
        """The stand-in for the gradient of a result."""
        meta = contiguous(self.application.host.recorder, output._meta)
        return sub.input("grad", meta.with_autograd(requires_grad, not requires_grad))

    def call(self, grads: Sequence[Any]) -> Any:
        """What backward gives; it must leave everything but its context alone."""
        application, backward = self.application, self.function
        host, ctx = application.host, application.ctx
        footprint = Footprint(host, [*ctx.__dict__.values(), *(getattr(backward, "__closure__", None) or ())])
        try:
            return host.call(application.f, backward, [ctx, *grads], None)
        finally:
            if footprint.changed():
                raise application.decline("backward changes something outside of it")

    def sort(self, found: Any) -> tuple[tuple[int | None, ...], list[Any]]:
        """Where the gradient of each tensor argument is among the results of the graph, and these."""
        application = self.application
        values = list(found) if isinstance(found, tuple) else [found]
        count = len(application.values)
        if len(values) < count or any(value is not None for value in values[count:]):
            raise application.decline("backward gives another number of gradients than forward has arguments")
        given: list[int | None] = []
        results: list[Any] = []
        for argument, value in zip(application.values, values, strict=False):
            if not is_traced(argument):
                if value is not None:
                    raise application.decline("backward gives a gradient for something that is no tensor")
                continue
            if value is not None and not is_traced(value):
                raise application.decline("backward gives a gradient that is no tensor")
            wanted = value is not None and argument._meta.requires_grad
            given.append(len(results) if wanted else None)
            if wanted:
                results.append(value)
        return tuple(given), results


def is_traced(value: Any) -> bool:
    return type(value) is TracedTensor


@standin(Function.apply.__func__, everywhere=True)
def stand_apply(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`MyFunction.apply(...)`."""
    if kwargs or not args or not isinstance(args[0], type) or not issubclass(args[0], Function):
        raise host.refuse("autograd", "Function.apply with keyword arguments", function="Function.apply")
    application = Application(host, f, args[0], args[1:])
    if in_transform(host.recorder):
        return call_within(host, f, args[0], args[1:], application.run)
    return application.run()


def refuse(obj: Any, solid: Any, heap: Heap) -> Plan:
    raise CannotRebuild(obj, "the context of an autograd function belongs to torch")


register_whole(Context, refuse)
