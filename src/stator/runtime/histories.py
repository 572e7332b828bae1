"""Breaks behind which a program asks for the autograd history of tensors that a graph made.

What a trace returns has one history for all: none of its results was made of another one, and it can be differentiated
once. Gradients with respect to such a tensor, hooks on it and gradients of gradients need the history that the
operations make, so there the graph runs as it is; and so it does where autograd would refuse what becomes of its views.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.autograd.grad_mode import _enter_inference_mode

from stator import _frames
from stator.code.decode import units
from stator.code.hidden import is_hooked_call, is_module_call
from stator.code.resume import jump_target
from stator.tensors.recorder import Recorder
from stator.tensors.traced import TracedTensor
from stator.world.lazy import Lazy

NAMES = frozenset(
    {
        "_autograd_grad",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "retain_grad",
        "grad_fn",
        "create_graph",
        "retain_graph",
    }
)
AGAIN = frozenset({"create_graph", "retain_graph"})  # arguments of `backward`
TAKES = frozenset({"autograd", "grad"})  # `torch.autograd.grad`
HOOKS = frozenset(
    {"full_backward_hooks", "non_full_backward_hooks", "backward_pre_hooks"}
)  # of a module that is called
MOST_CALLED = 32  # functions that are looked at


def are_asked_for(found: Any, outputs: Any, old_hooks: bool) -> bool:
    """Whether code that goes on behind a break mentions them, or hooks hang on them, and some results have one."""
    if not any(type(one) is TracedTensor and one._meta.requires_grad for one in outputs):
        return False
    if old_hooks:
        return True
    called = [*(frame.code for frame in found.frames[1:]), None]
    for frame, inner in zip(found.frames, called, strict=True):
        if is_module_call(frame.code) and inner is not None and is_hooked_call(inner):
            continue
        if has_hooks(frame, found.values) if is_hooked_call(frame.code) else asks(frame, found.values):
            return True
    return False


def are_sealed(outputs: Any, recorder: Recorder) -> bool:
    """Whether some of the results are views that autograd takes for others than those a trace would give.

    Views made without gradients, and of several views of what was written to since. A trace makes views of its inputs
    anew behind the graph, in the grad mode of the call; in inference mode they know of no gradients.
    """
    return any(type(one) is TracedTensor and bool(one._family) and is_sealed(one, recorder) for one in outputs)


def is_sealed(view: TracedTensor, recorder: Recorder) -> bool:
    base = view._family[0]() if view._family else None
    if base is None or base is view or not base._meta.requires_grad:
        return False
    start = recorder.state.start
    if start.inference or recorder.graph.find_nodes(op="call_function", target=_enter_inference_mode):
        return True
    return view._meta.leaf == start.grad or is_stale(view)


def is_stale(view: TracedTensor) -> bool:
    """Whether somebody has written to the memory of a view that autograd keeps as it is."""
    return view._sealed is not None and view._sealed != len(view._storage.writes)


def has_hooks(frame: Any, values: list[Any]) -> bool:
    """Whether a module that is called may have hooks for backward."""
    held = {frame.info.slots[slot]: values[at] for slot, at in zip(frame.slots, frame.slot_values, strict=True)}
    return any(type(held.get(name)) is not list or held[name] for name in HOOKS)


def asks(frame: Any, values: list[Any]) -> bool:
    """Whether the rest of a frame does, or functions that it calls by a global name or as methods of `self`."""
    owner = values[frame.slot_values[0]] if frame.slots[:1] == (0,) else None
    owner = type(owner.value if type(owner) is Lazy else owner)
    todo = [(frame.code, rest_of(frame.code, frame.unit), frame.globals)]
    seen = {frame.code}
    while todo and len(seen) < MOST_CALLED:
        code, start, names = todo.pop()
        if mentions(code, start):
            return True
        for name in names_from(code, start):
            for found in (names.get(name), _frames.type_lookup(owner, name)):
                if found is torch.autograd.grad:
                    return True
                if type(found) is FunctionType and found.__code__ not in seen and not is_of_torch(found):
                    seen.add(found.__code__)
                    todo.append((found.__code__, 0, found.__globals__))
    return False


def is_of_torch(function: FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] == "torch"


def rest_of(code: CodeType, unit: int) -> int:
    """The first instruction of the statement at a place, or of the outermost loop around it."""
    lines = [row[0] for row in code.co_positions()]
    names = [row[0] for row in units(code)]
    first = max((at + 1 for at in range(unit) if names[at] == "POP_TOP" or names[at].startswith("STORE_")), default=0)
    first = min(first, lines.index(lines[unit]))
    backward = [(at, jump_target(code, at)) for at, row in enumerate(units(code)) if "BACKWARD" in row[0]]
    for _ in backward:
        first = min([first, *(target for at, target in backward if at >= first)])
    return first


def mentions(code: CodeType, start: int = 0) -> bool:
    if not NAMES.isdisjoint(code.co_names) or not NAMES.isdisjoint(code.co_varnames):
        return True
    if TAKES.issubset(code.co_names) and TAKES.issubset(names_from(code, start)):
        return True
    if any(map(names_second, code.co_consts)) and any(map(names_second, constants_from(code, start))):
        return True
    return any(mentions(value) for value in code.co_consts if type(value) is CodeType)


def names_second(value: Any) -> bool:
    """Whether the names of arguments ask for a second pass through a history, or one through that of gradients."""
    return type(value) is tuple and not AGAIN.isdisjoint(value)


def constants_from(code: CodeType, start: int) -> Iterator[Any]:
    rows = dis.get_instructions(code)  # `argval` of KW_NAMES is unknown
    return (code.co_consts[row.arg or 0] for row in rows if row.offset >= 2 * start and row.opcode in dis.hasconst)


def names_from(code: CodeType, start: int) -> set[str]:
    """What the instructions from one on call globals and attributes."""
    if not start:
        return set(code.co_names)
    rows = dis.get_instructions(code)
    return {row.argval for row in rows if row.offset >= 2 * start and row.opcode in dis.hasname}
