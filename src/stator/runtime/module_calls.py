"""Calls of modules and reads of their members, without what `nn.Module` does in Python around them."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

import torch
from torch.nn.modules import module as module_globals

from stator import _frames
from stator._frames import UNBOUND
from stator.frame import Frame
from stator.guards import path as paths
from stator.guards.check import LEN, NO_HOOKS
from stator.guards.path import Path
from stator.native.callers import call_python
from stator.native.rows import passes_on, standin
from stator.runtime import module_hooks
from stator.runtime.below import has_old_hooks
from stator.world.record import Namespace

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
KINDS = ("_parameters", "_buffers", "_modules")
HELD = frozenset((*KINDS, *HOOKS, "_compiled_call_impl"))  # attributes that modules themselves look at
GLOBAL_HOOKS = [
    getattr(module_globals, name)
    for name in (
        "_global_forward_hooks",
        "_global_forward_pre_hooks",
        "_global_backward_hooks",
        "_global_backward_pre_hooks",
    )
]
BACKWARD_HOOKS = GLOBAL_HOOKS[2:]
# As they are before a program replaces them.
WRAPPED, CALL = torch.nn.Module._wrapped_call_impl, torch.nn.Module._call_impl
READ, WRITE = torch.nn.Module.__getattr__, torch.nn.Module.__setattr__
AROUND = {"_call_impl": CALL, "__getattribute__": object.__getattribute__}
PASSED = frozenset({"_compiled_call_impl", "_call_impl", "forward"})  # what an instance may have of its own


@passes_on
@standin(WRAPPED, CALL)
def call_module(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A module without hooks is its forward."""
    record = host.records.get(id(args[0])) if args else None
    if args and issubclass(type(args[0]), torch.jit.ScriptModule):
        name = args[0].original_name if record is not None else "a module"
        raise host.refuse("native-unknown", f"call of {name}, compiled by torch.jit", function=name, type="torch.jit")
    check_backward_hooks(host, args[0] if args else None)
    if record is None or record.obj is not args[0] or not calls_forward(host, f, function, args[0]):
        return call_python(host, f, function, args, kwargs)
    if not is_only_forward(host, record):
        call = module_hooks.call_with_hooks if module_hooks.is_hooked(host, f, record) else call_python
        return call(host, f, function, args, kwargs)
    forward, receiver = host.load_method(f, args[0], "forward")
    f.through = f.lasti
    rest = args[1:] if receiver is UNBOUND else [receiver, *args[1:]]
    return host.call(f, forward, rest, kwargs)


def calls_forward(host: Any, f: Frame, function: Any, module: Any) -> bool:
    """Whether nobody has put something else between a module's `__call__` and what torch does there."""
    if function is not WRAPPED:
        return True
    method, receiver = host.load_method(f, module, "_call_impl")
    return method is CALL and receiver is module


def is_only_forward(host: Any, record: Any) -> bool:
    """Whether nothing happens around the forward of a module, which is guarded then."""
    if any(map(host.may_hold, GLOBAL_HOOKS)) or not hookless(host, record):
        return False
    for hooks in GLOBAL_HOOKS:
        host.guards.add(paths.const(hooks), LEN, 0, None)
    host.guards.add(record.path, NO_HOOKS, None, host.origin())
    return True


def plain_forward(module: Any) -> FunctionType | None:
    """What a call of a module comes to at this moment, if nothing happens around it."""
    cls = type(module)
    forward = _frames.type_lookup(cls, "forward")
    around = {name: _frames.type_lookup(cls, name) for name in AROUND}
    if type(forward) is not FunctionType or around != AROUND or issubclass(cls, torch.jit.ScriptModule):
        return None
    hooked = any(GLOBAL_HOOKS) or not NO_HOOKS.holds(module, None)
    return None if hooked or not PASSED.isdisjoint(_frames.instance_dict(module)) else forward


def entered_function(host: Any, method: MethodType) -> Any:
    """What the call of a bound method comes to first: for a module without hooks its forward, as in calls inside."""
    module, function = method.__self__, method.__func__
    cls = type(module)
    if function is not WRAPPED or isinstance(module, torch.jit.ScriptModule):
        return function
    forward = _frames.type_lookup(cls, "forward")
    around = {name: _frames.type_lookup(cls, name) for name in AROUND}
    if type(forward) is not FunctionType or around != AROUND or id(forward) in host.callers:
        return function
    record = host.records[id(module)]
    members = host.namespace_of(record)
    if not PASSED.isdisjoint(members.real) or not is_only_forward(host, record):
        return function
    for name in PASSED:
        members.get(name)
    host.type_info(cls)
    host.through_module = True
    return forward


def check_backward_hooks(host: Any, module: Any) -> None:
    """Hooks that see the gradients of a module hang on functions of autograd, which do not exist while capturing."""
    if not torch.is_grad_enabled():
        return
    attributes = _frames.instance_dict(module) or {}
    tables = [*BACKWARD_HOOKS, *(attributes.get(name) for name in HOOKS if "backward" in name)]
    for table in tables:
        known = host.records.get(id(table))
        if known.inner if known is not None else table:
            if host.below is not None and has_old_hooks(module):
                host.below.meet_old_hooks()
            name = type(module).__qualname__
            raise host.refuse("gradient-hook", f"backward hooks of the module {name}", function=name)


def hookless(host: Any, record: Any) -> bool:
    """No hooks on this module, none added during capture, and not compiled in place."""
    members = host.namespace_of(record)
    if members.full or not HELD.isdisjoint(members.touched):
        return False
    real = members.real
    hooks = [real.get(name) for name in HOOKS]
    return not any(map(host.may_hold, hooks)) and real.get("_compiled_call_impl") is None


def member(host: Any, module: Any, name: str) -> Any:
    """A parameter, buffer or submodule of an outside module, read and guarded by name."""
    record = host.records.get(id(module))
    if record is None or record.obj is not module:
        return UNBOUND
    members = host.namespace_of(record)
    if members.full or not HELD.isdisjoint(members.touched):
        return UNBOUND
    for kind in KINDS:
        real = members.real.get(kind)
        if type(real) is not dict or id(real) in host.records:
            return UNBOUND
        value = namespace_at(host, real, record.path.attr(kind)).get(name)
        if value is not UNBOUND:
            return value
    return UNBOUND


def has_no_member(host: Any, module: Any, name: str) -> bool:
    """Whether this is an outside module without a parameter, buffer or submodule of that name: then its
    `__setattr__`, which would look at all attributes, does what that of objects does."""
    if _frames.type_lookup(type(module), "__setattr__") is not WRITE or host.class_writes:
        return False
    record = host.records.get(id(module))
    if record is None or record.obj is not module:
        return False
    members = host.namespace_of(record)
    held = [members.real.get(kind) for kind in KINDS]
    if members.full or not HELD.isdisjoint(members.touched) or name in HELD:
        return False
    if any(type(real) is not dict or id(real) in host.records for real in held):
        return False
    host.type_info(type(module))
    return member(host, module, name) is UNBOUND


def namespace_at(host: Any, real: dict[Any, Any], path: Path) -> Namespace:
    namespace = host.namespaces.get(id(real))
    if namespace is None:
        namespace = host.namespaces[id(real)] = Namespace(host, real, real, path, by_attribute=False)
    return namespace
