"""Calls of torch's C functions and classes that are no tensor operations: contexts, legacy constructors, grouping."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.amp import autocast_mode
from torch.autograd import profiler

from stator.emit.plan import Const, Heap, Plan, piece
from stator.emit.recipes import register_whole
from stator.eval.machine import replace_body
from stator.eval.ops_except import CALLED
from stator.frame import Frame, throw
from stator.guards import path as paths
from stator.guards.check import EQ
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import method_standin, standin
from stator.shapes.floats import TracedFloat
from stator.shapes.scalar import TracedInt
from stator.tensors.leaving import leave_inference
from stator.tensors.modes import InferenceGuard, default_device, enter_device, leave_device
from stator.tensors.traced import TracedTensor


@standin(torch._C._InferenceMode)
def stand_inference_mode(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A guard of the recorder, which leaves the mode when a capture is abandoned."""
    return host.record(f, function, args, kwargs)


# ---- legacy constructors ----------------------------------------------------------------------------

LEGACY = (torch.Tensor, *(kind for kind in torch._tensor_classes if not kind.is_cuda and not kind.is_sparse))


@standin(*LEGACY)
def stand_legacy_tensor(host: Host, f: Frame, cls: Any, args: list[Any], kwargs: Any) -> Any:
    """`torch.FloatTensor([1, 2])` is made of data, `torch.FloatTensor(2, 3)` and `torch.Tensor(x.size())` of sizes."""
    dtype = torch.get_default_dtype() if cls is torch.Tensor else cls.dtype
    if not kwargs and default_device() is None:
        sizes = args[0] if len(args) == 1 and type(args[0]) is torch.Size else args
        if all(type(size) in (int, TracedInt) for size in sizes):
            return host.record(f, torch.empty, [tuple(sizes)], {"dtype": dtype})
        if len(args) == 1 and type(args[0]) in (list, tuple, range) and is_data(args[0]):
            return host.record(f, torch.tensor, [list(args[0])], {"dtype": dtype})
    name = f"torch.{cls.__name__}"
    raise host.refuse("tensor-operation", f"{name} of something else than sizes or numbers", function=name)


@standin(torch.autograd.Variable)
def stand_variable(host: Host, f: Frame, cls: Any, args: list[Any], kwargs: Any) -> Any:
    """`Variable(x)`: a tensor of the same memory without history, a leaf if it is to require grad."""
    given = dict(zip(("data", "requires_grad"), args, strict=False)) | (kwargs or {})
    requires_grad = given.get("requires_grad", False)
    if len(args) > 2 or len(given) != len(args) + len(kwargs or ()) or not given.keys() <= {"data", "requires_grad"}:
        raise host.refuse("tensor-operation", "Variable with further arguments", function="torch.autograd.Variable")
    if type(given.get("data")) is not TracedTensor or type(requires_grad) is not bool:
        raise host.refuse(
            "tensor-operation", "Variable of something else than a tensor", function="torch.autograd.Variable"
        )
    made = host.record(f, torch.Tensor.detach, [given["data"]], {})
    return host.record(f, torch.Tensor.requires_grad_, [made], {}) if requires_grad else made


def is_data(value: Any, dimensions: int = 64) -> bool:
    """Numbers and tensors of one element in lists and tuples."""
    if type(value) in (list, tuple, range):
        return dimensions > 0 and all(is_data(item, dimensions - 1) for item in value)
    return type(value) in (int, float, bool, TracedInt, TracedFloat, TracedTensor)


# ---- grouping ---------------------------------------------------------------------------------------


@standin(torch._C._group_tensors_by_device_and_dtype)
def stand_group(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Groups of tensors: asked for empty ones of the same kinds, whose places give the groups."""
    given = dict(zip(("tensorlistlist", "with_indices"), args, strict=False)) | (kwargs or {})
    lists = given.get("tensorlistlist")
    if len(given) != len(args) + len(kwargs or ()) or type(lists) is not list or not given.keys() <= GROUPED:
        raise host.refuse("native-unknown", "grouping of tensors that are not in lists", function=function.__name__)
    with host.recorder.paused():
        try:
            empty = [[empty_like(tensor) for tensor in tensors] for tensors in lists]
            groups = function(empty, True)
        except (TypeError, RuntimeError) as error:
            return throw(f, error.with_traceback(None))
    return {
        key: (
            [[tensors[i] for i in places] if tensors else [] for tensors in lists],
            places if given.get("with_indices") else [],
        )
        for key, (_, places) in groups.items()
    }


GROUPED = {"tensorlistlist", "with_indices"}


def empty_like(tensor: Any) -> Any:
    if type(tensor) is not TracedTensor:
        return tensor
    return torch.empty(0, dtype=tensor._meta.dtype, device=tensor._meta.device)


# ---- settings that do not choose kernels ----------------------------------------------------------------

SET_FROM_OUTSIDE = (
    torch.get_num_threads,
    torch.get_num_interop_threads,
    torch._C._get_warnAlways,
    torch._C._get_deterministic_fill_uninitialized_memory,
    torch._C._get_backcompat_broadcast_warn,
    torch._C._get_backcompat_keepdim_warn,
    torch._C._get_cpu_allow_fp16_reduced_precision_reduction,
    torch._C._get_cublas_allow_bf16_reduced_precision_reduction,
    torch._C._get_cublas_allow_fp16_accumulation,
    torch._C._get_cublas_allow_fp16_reduced_precision_reduction,
    torch._C._get_math_sdp_allow_fp16_bf16_reduction,
    torch._C._get_qengine,
    torch._C._get_thread_name,
    torch._C._get_autograd_fallback_mode,
    torch._C._is_view_replay_enabled,
    torch._C._is_xnnpack_enabled,
)


@standin(*SET_FROM_OUTSIDE)
def stand_setting(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A setting that a program only reads: setting it is a break."""
    if args or kwargs:
        return call_python(host, f, function, args, kwargs)
    value = function()
    host.guards.add(paths.const(function).part("()", operator.call), EQ, value, host.origin())
    return value


# ---- profiling --------------------------------------------------------------------------------------


@functools.cache
def finished_record() -> Any:
    """A profiler record that is over, which may be ended any number of times."""
    with torch._C.DisableTorchFunction():
        record = torch.ops.profiler._record_function_enter_new("stator", None)
        torch.ops.profiler._record_function_exit._RecordFunction(record)
    return record


PROFILING: Any = torch._C._autograd._profiler_enabled


def check_profiler(host: Any) -> None:
    """Without a profiler nobody sees the name of a block."""
    if host.enter(PROFILING(), paths.const(PROFILING).part("()", operator.call)):
        raise host.refuse("native-effect", "a block named for the profiler", function="record_function")


def enter_block(frame: Frame) -> Any:
    host, block = frame.world, frame.locals[0]
    check_profiler(host)
    host.store_attr(frame, block, "record", host.enter_const(finished_record()))
    return block


def leave_block(frame: Frame) -> None:
    check_profiler(frame.world)


replace_body(profiler.record_function.__enter__.__code__, enter_block)
replace_body(profiler.record_function.__exit__.__code__, leave_block)


@method_standin(torch.device, "__enter__")
def enter_device_context(host: Any, f: Frame, method: Any, args: list[Any], kwargs: Any) -> Any:
    """`with torch.device(…)`: factories are told the device."""
    enter_device(args[0])
    return args[0]


@method_standin(torch.device, "__exit__")
def leave_device_context(host: Any, f: Frame, method: Any, args: list[Any], kwargs: Any) -> None:
    leave_device()


CALLED.add(torch.device)


@standin(torch.clear_autocast_cache)
def clear_autocast_cache(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    """What was cast is forgotten in the graph where a block of autocast is open; the capture itself cast nothing."""
    if f.globals is not vars(autocast_mode):
        raise host.refuse("native-effect", "torch.clear_autocast_cache()", function="torch.clear_autocast_cache")
    host.recorder.state.forget_casts()


@standin(detect_fake_mode)
def stand_detect_fake_mode(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    """Programs run without one, which torch asks when it rebuilds a tensor; its class counts and is never unchanged."""
    with host.recorder.paused():
        found = function()
    if found is not None or kwargs or args not in ([], [None]):
        raise host.refuse("tensor-mode", "a fake mode of the program's own", type="FakeTensorMode")


@standin(InferenceGuard.__enter__)
def enter_inference_mode(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    """The start of a block of inference mode; the guard may have been made before the capture."""
    if id(args[0]) in host.records:
        raise host.refuse("tensor-mode", "a guard that was made before", type="torch.inference_mode")
    function(*args)


@standin(InferenceGuard.__exit__)
def leave_inference_mode(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    """The end of a block of inference mode, which may have begun before the capture."""
    if id(args[0]) in host.records:
        leave_inference(host.recorder.scope, args[0], *host.load_attr(f, args[0], "before"))
    else:
        function(*args)


def build_open_inference(obj: Any, solid: Any, heap: Heap) -> Plan:
    return Plan(piece("{0}(None, {1}, None, {2})", Const(InferenceGuard), obj.enabled, obj.before))


register_whole(InferenceGuard, build_open_inference)
