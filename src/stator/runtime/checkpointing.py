"""`torch.utils.checkpoint`: the function is captured in place, and its nodes are marked to be calculated again.

AOTAutograd's partitioner keeps none of the marked values for backward (`node.meta["recompute"]`). In a graph that runs
as it is, torch calculates them again (`graph/regions.py`), but for those of selective contexts, which are kept.
"""

from __future__ import annotations

import dis
import functools
import itertools
import warnings
from typing import Any

import torch
from torch.utils import checkpoint as module
from torch.utils.checkpoint import CheckpointPolicy

from stator.frame import Frame, throw
from stator.graph.regions import REGION, Region
from stator.native.warn import issue
from stator.runtime.entering import answers_for
from stator.runtime.footprint import Footprint
from stator.tensors.traced import TracedTensor

# Arguments of `checkpoint` itself; the rest are the function's.
OWN = {
    "use_reentrant": None,
    "context_fn": module.noop_context_fn,
    "determinism_check": "default",
    "debug": False,
    "early_stop": True,
    "preserve_rng_state": True,
}
# Those that matter when backward calls the function again.
TOLD = ("determinism_check", "early_stop", "preserve_rng_state")


def text(function: Any, part: str) -> str:
    """What torch itself says."""
    return next(one for one in function.__code__.co_consts if type(one) is str and part in one[:200])


NOT_TOLD = text(module.checkpoint.__wrapped__, "use_reentrant parameter")
NOT_BOTH = text(module.checkpoint.__wrapped__, "is only supported when")
NO_GRADIENT = text(module.check_backward_validity, "None of the inputs")
_regions = itertools.count()


@answers_for(module.checkpoint)
def call_checkpoint(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`checkpoint(function, *args, use_reentrant=…, **kwargs)`."""
    given = dict(kwargs or {})
    own = {name: given.pop(name, default) for name, default in OWN.items()}
    if not args or own["debug"] is not False or own["determinism_check"] not in ("default", "none"):
        raise host.refuse("autograd", "checkpoint with checks of its own", function="checkpoint")
    if own["context_fn"] is not module.noop_context_fn and not is_selective(own["context_fn"]):
        raise host.refuse("autograd", "checkpoint with contexts of the program", function="checkpoint")
    reentrant = own["use_reentrant"]
    if reentrant is None:
        host.call(f, warnings.warn, [NOT_TOLD], None)
        reentrant = True
    selective = own["context_fn"] is not module.noop_context_fn
    options = None if selective else tuple((name, own[name]) for name in TOLD)
    if not reentrant:
        return within_region(host, f, args[0], args[1:], given, options)
    if given:
        return throw(f, ValueError("Unexpected keyword arguments: " + ",".join(given)))
    if own["context_fn"] is not module.noop_context_fn:
        return throw(f, ValueError(NOT_BOTH))
    return call_reentrant(host, f, args[0], args[1:], options)


def is_selective(context: Any) -> bool:
    """Whether contexts only choose what to keep for backward."""
    return (
        type(context) is functools.partial
        and context.func is module.create_selective_checkpoint_contexts
        and len(context.args) == 1
    )


def call_reentrant(host: Any, f: Frame, function: Any, args: list[Any], options: Any) -> Any:
    """The older form: an autograd function, which differentiates with respect to the tensors among its arguments."""
    wanted = any(type(arg) is TracedTensor and arg._meta.requires_grad for arg in args)
    if not wanted:
        host.namespace(vars(module))
        host.registries.note(vars(module))
        issue(host, f, UserWarning(NO_GRADIENT), UserWarning, (module.__file__, line(), module.__name__, vars(module)))
    enabled = torch.is_grad_enabled()
    if enabled and wanted:
        found = within_region(host, f, function, args, {}, options)
        check_results(host, found, args)
        return found
    host.recorder.switches += 1
    torch._C._set_grad_enabled(False)
    try:
        return host.call(f, function, args, None)
    finally:
        torch._C._set_grad_enabled(enabled)


@functools.cache
def line() -> int:
    """Where torch warns that there is nothing to differentiate."""
    found: Any = dis.get_instructions(module.CheckpointFunction.forward)
    return next(one.positions.lineno for one in found if one.argval == "check_backward_validity")


def check_results(host: Any, found: Any, args: list[Any]) -> None:
    """Results of an autograd function require grad if they can; tensors deeper in there do not."""
    for one in found if type(found) is tuple else (found,):
        kind = type(one)
        if kind in (int, float, bool, str, type(None)):
            continue
        if kind is not TracedTensor:
            raise host.refuse("autograd", "a reentrant checkpoint whose result holds others", function="checkpoint")
        able = one._meta.dtype.is_floating_point or one._meta.dtype.is_complex
        if able and (not one._meta.requires_grad or any(one is arg for arg in args)):
            raise host.refuse(
                "autograd", "a reentrant checkpoint with a result that does not depend on it", function="checkpoint"
            )


def within_region(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> Any:
    """Calls the function; the nodes it adds to the graph are marked.

    Backward calls it again: what it changes outside of itself would change once more.
    """
    graph = host.recorder.graph
    before = graph._root.prev
    if not torch.is_grad_enabled():
        return host.call(f, function, args, kwargs or None)
    footprint, written = Footprint(host, [function, *args, *kwargs.values()]), writes(host.recorder)
    found = host.call(f, function, args, kwargs or None)
    if footprint.changed() or has_written(host.recorder, written):
        detail = "a checkpointed function that changes something outside of it"
        raise host.refuse("autograd", detail, function="checkpoint")
    if host.recorder.graph is graph and torch.is_grad_enabled():
        given = [one for one in (*args, *kwargs.values()) if type(one) is TracedTensor]
        names = frozenset(one._node.name for one in given)
        number = next(_regions)
        folds = options is not None and host.recorder.sub is None
        mark(graph, before, number, Region(number, names, options) if folds else None)
    return found


def writes(recorder: Any) -> dict[int, int]:
    """By piece of memory: how often it was written to."""
    return {id(home): len(home.writes) for home in recorder.readings.homes.values()}


def has_written(recorder: Any, before: dict[int, int]) -> bool:
    """Whether memory that was there before has been written to, or that of a tensor that came in since then."""
    return any(
        len(home.writes) > before.get(id(home), 0 if node.op == "placeholder" else len(home.writes))
        for node, home in recorder.readings.homes.items()
    )


def mark(graph: Any, before: Any, number: int, region: Region | None) -> None:
    """Marks the nodes behind one as a region whose values backward calculates again."""
    node = graph._root.prev
    while node is not before and node is not graph._root:
        if node.op.startswith("call"):
            node.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE
            node.meta["ac_graph_id"] = number
            if region is not None:
                node.meta[REGION] = region
        node = node.prev
