"""Backends: from a name or callable to a compiled graph; heavy parts of torch are imported when one needs them."""

from __future__ import annotations

import copy
import difflib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import fx

from stator.errors import BackendError, InvalidBackend, InvalidOptions
from stator.graph import (
    drawn,
    first_calls,
    formulas,
    inference,
    lowerings,
    module,
    multiples,
    replayed,
    result_strides,
    retained,
    stride_orders,
    unused,
)
from stator.graph.cache_tag import tagged
from stator.graph.devices import is_on_cpu
from stator.graph.heard import HEARD, told_afterwards
from stator.graph.refusing import refusing
from stator.graph.restrided import restrided
from stator.graph.tracing import compiling, without_onednn
from stator.graph.twofold import unify
from stator.interruptions import is_interruption
from stator.report import events

Compiled = Callable[..., Sequence[Any]]
Backend = Callable[..., Compiled]

_log = logging.getLogger(__name__)
ENTRY_POINTS = "torch_dynamo_backends"


def eager(graph: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Runs the recorded operations as they are."""
    return module.eager_callable(graph)


def aot_eager(graph: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Runs what AOTAutograd makes of the graph: functionalised forward and backward, no compiler."""
    from torch._functorch import aot_autograd  # heavy

    first_calls.install()
    retained.install()

    def forward(traced: fx.GraphModule, _: Sequence[Any]) -> Any:
        return aot_autograd.make_boxed_func(replayed.forward(traced).forward)

    def backward(traced: fx.GraphModule, _: Sequence[Any]) -> Any:
        return aot_autograd.make_boxed_func(replayed.backward(traced).forward)

    compiled: Compiled = aot_autograd.aot_module_simplified(
        graph,
        inputs,
        fw_compiler=forward,
        bw_compiler=backward,
        decompositions=drawn.FORMULAS,
        keep_inference_input_mutations=True,
    )
    return compiled


def inductor(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Compiled:
    """Compiles with Inductor; mode and options mean what they mean to `torch.compile`."""
    from torch._inductor import compile_fx  # heavy

    patches = inductor_settings(mode, options, dynamic)
    first_calls.install()
    retained.install()
    drawn.install()
    formulas.install()
    lowerings.install()
    result_strides.install()
    stride_orders.install()
    block: Any = nullcontext()
    if is_on_cpu(graph, inputs):
        patches = {"fallback_random": True, **patches}  # eager's numbers; those of Inductor take longer there, too
        block = refusing()
    with tagged(), block:
        compiled: Compiled = compile_fx.compile_fx(
            graph, inputs, inner_compile=_forward_or_backward, config_patches=patches
        )
    return compiled


def _backward_at_once(inputs: Sequence[Any]) -> Any:
    """Where sizes vary, the backward pass is compiled with the forward pass: what it takes for granted is guarded."""
    if not any(map(_varies, inputs)):
        return nullcontext()
    import torch._functorch.config  # heavy

    return torch._functorch.config.patch(force_non_lazy_backward_lowering=True)


def _varies(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return isinstance(value, torch.SymInt)
    return any(isinstance(size, torch.SymInt) for size in value.shape)


@contextmanager
def _same_recursion_limit() -> Iterator[None]:
    """Inductor raises the limit for good, which the program may look at."""
    limit = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@_same_recursion_limit()
def _forward_or_backward(graph: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """Compiles; a backward pass that Inductor cannot, as some with sizes from data, runs its operations instead.

    The forward pass has run when it is known, so there is nobody left to fall back to.
    """
    from torch._functorch import aot_autograd  # heavy
    from torch._inductor import compile_fx
    from torch._inductor.exc import InductorError

    multiples.spell_out(graph)
    if not options.get("is_backward"):
        return compile_fx.compile_fx_inner(graph, inputs, **options)
    unify(inputs)
    inputs = restrided(inputs)
    traced = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    try:
        return compile_fx.compile_fx_inner(graph, inputs, **options)
    except InductorError:
        _log.debug("Inductor does not compile this backward pass", exc_info=True)
        return aot_autograd.make_boxed_func(replayed.backward(traced).forward)


def inductor_settings(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None = None) -> dict[str, Any]:
    """Inductor configuration for a mode or a set of options."""
    if mode is not None and options is not None:
        raise InvalidOptions("either mode or options can be given, not both: a mode is a named set of options")
    if mode not in (None, "default"):
        import torch._inductor  # heavy

        known = torch._inductor.list_mode_options(None, dynamic)
        if mode not in known:
            raise InvalidOptions(f"unknown mode {mode!r}; modes are: default, {', '.join(sorted(known))}")
        return dict(known[mode])
    return {name.replace("-", "_"): value for name, value in (options or {}).items()}


BACKENDS: dict[str, Backend] = {"eager": eager, "aot_eager": aot_eager, "inductor": inductor}

# Backends of ours that take mode, options and dynamic themselves, and those that need no tracing context.
_CONFIGURED = frozenset({inductor})
_PLAIN = frozenset({eager})


# Multi-step recurrent layers: AOTAutograd unrolls them over time.
_RECURRENT = frozenset({torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu})


# A trace takes what they give for copies, so that writes to it are lost.
_UNSAFE = frozenset(
    getattr(owner, name)
    for owner in (torch, torch.Tensor)
    for name in ("unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes")
)


def refused(backend: str | Backend) -> frozenset[Any]:
    """Operations that are better left to eager with this backend."""
    return frozenset() if backend in ("eager", eager) else _RECURRENT | _UNSAFE


def traces(backend: str | Backend) -> bool:
    """Whether what runs may be a trace of the graph instead of its operations."""
    return backend not in ("eager", eager)


def lookup(backend: str | Backend) -> Backend:
    """The backend of that name: ours, an installed one, or one that torch knows; callables are themselves."""
    if callable(backend):
        return backend
    found = BACKENDS.get(backend) or _installed(backend) or _registered(backend)
    if found is None:
        known = names()
        close = difflib.get_close_matches(backend, known, 3)
        raise InvalidBackend(backend, close or known)
    return found


def names() -> list[str]:
    """Names of our backends and the installed ones."""
    return sorted({*BACKENDS, *entry_points(group=ENTRY_POINTS).names})


def _installed(name: str) -> Backend | None:
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        found: Backend = entry.load()
        return found
    return None


def _registered(name: str) -> Backend | None:
    """A backend that somebody registered with torch; importing the registry is what registers torch's own ones."""
    from torch._dynamo.backends import registry  # heavy; only for a name that nobody else knows

    known: dict[str, Any] = registry._COMPILER_FNS
    if name not in known and name in registry.list_backends(exclude_tags=()):
        found: Backend = registry.lookup_backend(name)
        return found
    return known.get(name)


def compile_graph(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    backend: str | Backend = "inductor",
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    fake_mode: Any = None,
) -> Compiled:
    """What the backend makes of the graph: a callable of the graph's inputs that gives the sequence of its outputs.

    `inputs` are the real tensors of the first call, in the order of the placeholders; or with symbolic sizes
    tensors of `fake_mode` and symbolic ints.
    """
    started = time.perf_counter()
    compiled = _compile_graph(graph, inputs, backend, mode, options, dynamic, fake_mode)
    events.emit("backend", name=backend_name(backend), seconds=time.perf_counter() - started)
    return compiled


def _compile_graph(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    backend: str | Backend,
    mode: str | None,
    options: dict[str, Any] | None,
    dynamic: bool | None,
    fake_mode: Any,
) -> Compiled:
    function = lookup(backend)
    if function in _PLAIN:
        return function(graph, inputs)
    settings: dict[str, Any] = {}
    if mode is not None and mode != "default":
        settings["mode"] = mode
    if options:
        settings["options"] = options
    if function in _CONFIGURED:
        settings["dynamic"] = dynamic
    known = graph.meta.get(HEARD, ())
    graph, mode_of_all = inference.taken_out(graph)
    graph, wanted = unused.with_results(graph)
    block: Any = nullcontext() if mode_of_all is None else torch.inference_mode(mode_of_all)
    surroundings = compiling(inputs, fake_mode)
    first_calls.install()
    retained.install()
    try:
        with block, told_afterwards(known), surroundings, without_onednn(graph), _backward_at_once(inputs):
            compiled = function(graph, inputs, **settings)
    except (InvalidBackend, InvalidOptions):
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise BackendError(backend_name(backend), error) from error
    finally:
        surroundings.restore()
    if not callable(compiled):
        raise BackendError(backend_name(backend), TypeError(f"it gave {compiled!r:.80}, which cannot be called"))
    cheapest = module.cheapest(graph, compiled)
    if wanted is not None:
        cheapest = unused.without_results(cheapest, wanted)
    return cheapest if mode_of_all is None else inference.within(cheapest, mode_of_all)


def backend_name(backend: str | Backend) -> str:
    """A readable name."""
    if isinstance(backend, str):
        return backend
    return getattr(backend, "__qualname__", None) or type(backend).__qualname__


def reset() -> None:
    """Clears what backends keep for the whole process, as far as they offer it."""
    if "torch._inductor.cudagraph_trees" in sys.modules and torch.cuda.is_available():
        sys.modules["torch._inductor.cudagraph_trees"].reset_cudagraph_trees()
