"""`__torch_function__` of subclasses, of other objects and of modes that the program enters.

What torch's C code would do with a call is done here: the mode on top is asked, then the classes of arguments. Which
function they are told, C says itself: the call is made for real, and caught where it would come to the recording mode.
"""

from __future__ import annotations

import operator
import types
from typing import Any

import torch

from stator import _frames
from stator._frames import UNBOUND
from stator.emit.plan import SELF, CannotRebuild, Const, Heap, Plan, piece
from stator.emit.recipes import register_whole
from stator.eval.ops_except import CALLED
from stator.frame import RAISED, Frame, Raised
from stator.native.callers import call_python
from stator.native.rows import standin
from stator.tensors.recording_mode import Caught
from stator.tensors.signals import UnsupportedOp
from stator.tensors.subclasses import PLAIN, check_class, dressed, overrides, why_not
from stator.tensors.targets import register, target_of, unbind
from stator.tensors.traced import TracedTensor

HANDLER = "__torch_function__"
NOT_DISPATCHED: Any = object()
ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
SIGNS = (*ARITHMETIC, *(f"i{name}" for name in ARITHMETIC), *COMPARISONS)
METHODS = (f"__{prefix}{name}__" for name in SIGNS for prefix in ("", "r"))
# Where C takes a TypeError for NotImplemented: the other operand is asked, and the error tells the types.
FORGIVING = {getattr(operator, f"__{name}__") for name in SIGNS} | {
    method for name in METHODS if type(method := getattr(torch.Tensor, name, None)) is types.MethodDescriptorType
}


class Bare:
    """The ordinary tensor that a graph returns for an object of a subclass."""

    __slots__ = ("traced",)

    def __init__(self, traced: TracedTensor) -> None:
        self.traced = traced


class Disabled:
    """Stands for `DisableTorchFunctionSubclass` or `DisableTorchFunction`."""

    def __init__(self, modes: bool) -> None:
        self.modes = modes

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


def class_overrides(host: Any, value: Any) -> bool:
    """Whether the class of an argument has a say in what is done with it."""
    if type(value) is TracedTensor:
        return overrides(value._stands_for)
    if not _frames.is_heap_type(type(value)):
        return False
    return _frames.type_lookup(type(value), HANDLER) is not UNBOUND


def asked(host: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments whose classes are asked, in the order of torch: subclasses before their bases."""
    found: list[Any] = []
    for value in flat([*args, *(kwargs or {}).values()]):
        if not class_overrides(host, value):
            continue
        cls = host.class_of(value)
        if any(host.class_of(other) is cls for other in found):
            continue
        place = next((i for i, other in enumerate(found) if issubclass(cls, host.class_of(other))), len(found))
        found.insert(place, value)
    return found


def flat(values: Any) -> Any:
    for value in values:
        if type(value) in (list, tuple):
            yield from value
        else:
            yield value


def is_enabled(host: Any, args: Any) -> bool:
    """What `has_torch_function` answers."""
    if host.without_modes:
        return False
    if host.modes:
        return True
    return not host.without_classes and any(class_overrides(host, value) for value in args)


def dispatch(host: Any, f: Frame, function: Any, args: Any, kwargs: Any) -> Any:
    """What the modes and classes make of a call; NOT_DISPATCHED if nobody has a say."""
    if host.without_modes:
        return NOT_DISPATCHED
    function, owner = unbind(function)
    args = args if owner is None else (owner, *args)
    classes = [] if host.without_classes else asked(host, args, kwargs)
    if not host.modes and not classes:
        return NOT_DISPATCHED
    if type(function) is types.FunctionType:  # a Python function of torch, which asks by itself
        return call_python(host, f, function, list(args), kwargs)
    called = catch(host, function, args, kwargs)
    if called is None:  # nobody can have a say in this one
        return call_plainly(host, f, function, args, kwargs, modes=True)
    kinds = tuple(host.class_of(value) for value in classes)
    given = [called.func, kinds, called.args, {} if called.kwargs is None else called.kwargs]
    try:
        return ask(host, f, classes, given)
    except Raised as raised:
        if raised is not RAISED or function not in FORGIVING or not isinstance(f.error, TypeError):
            raise
    raise host.refuse("tensor-subclass", "a TypeError that an operator does not pass on", type=HANDLER)


def ask(host: Any, f: Frame, classes: list[Any], given: list[Any]) -> Any:
    if host.modes:
        mode = host.modes.pop()
        try:
            result = host.call(f, host.load_attr(f, mode, HANDLER), list(given), None)
        finally:
            host.modes.append(mode)
        if result is not NotImplemented:
            return result
    for value in classes:
        cls = host.class_of(value)
        if type(_frames.type_lookup(cls, HANDLER)) is not classmethod:  # torch warns
            raise host.refuse("tensor-subclass", f"{HANDLER} is no class method", type=cls.__qualname__)
        result = host.call(f, host.load_attr(f, cls, HANDLER), list(given), None)
        if result is not NotImplemented:
            return result
    name = getattr(given[0], "__name__", "torch")
    raise host.refuse("tensor-subclass", f"nobody answers for {name}", type=HANDLER)


def catch(host: Any, function: Any, args: Any, kwargs: Any) -> Caught | None:
    """The call as C hands it on; None if it does not."""
    recorder = host.recorder
    target = target_of(function)
    has_tensor = any(type(value) is TracedTensor for value in flat([*args, *(kwargs or {}).values()]))
    if target is None or has_tensor or target.handler is None:  # others change torch's state
        recorder.catching = True
        try:
            function(*args, **(kwargs or {}))
        except Caught as caught:
            return caught
        except UnsupportedOp:
            return None
        except TypeError:
            pass
        finally:
            recorder.catching = False
    name = getattr(function, "__name__", "torch")
    raise host.refuse("tensor-subclass", f"what {name} means for a subclass or a mode", type=HANDLER)


def read_attribute(host: Any, f: Frame, traced: Any, name: str) -> Any:
    """An attribute of an object of a subclass, as far as its class or a mode has a say; else NOT_DISPATCHED."""
    cls = traced._stands_for
    ours, theirs = _frames.type_lookup(cls, name), _frames.type_lookup(torch.Tensor, name)
    if ours is not theirs or type(theirs) is classmethod:
        if type(ours) is property:
            return host.call(f, ours.fget, [traced], None)
        value = host.load_attr(f, cls, name)
        return types.MethodType(value, traced) if type(ours) is types.FunctionType else value
    if not is_asked_for(theirs) or not is_enabled(host, [traced]):
        return NOT_DISPATCHED
    getter = getattr(torch.Tensor, name).__get__
    classes = [] if host.without_classes else asked(host, [traced], None)
    return ask(host, f, classes, [getter, tuple(map(host.class_of, classes)), (traced,), {}])


def is_asked_for(descriptor: Any) -> bool:
    """Whether a class or mode has a say in what torch has here: not in `__class__` and `__dict__`, Python's own."""
    owner = getattr(descriptor, "__objclass__", None)
    return isinstance(descriptor, (types.GetSetDescriptorType, property)) and owner not in (object, torch.Tensor)


def write_attribute(host: Any, f: Frame, traced: Any, name: str, value: Any) -> Any:
    """The same for an assignment."""
    cls = traced._stands_for
    ours, theirs = _frames.type_lookup(cls, name), _frames.type_lookup(torch.Tensor, name)
    if ours is not theirs:
        if type(ours) is property and ours.fset is not None:
            return host.call(f, ours.fset, [traced, value], None)
        if _frames.type_lookup(type(ours), "__set__") is not UNBOUND:
            raise host.refuse("tensor-subclass", f"assignment to {name}", type=cls.__qualname__)
        return NOT_DISPATCHED
    if not is_asked_for(theirs) or not is_enabled(host, [traced]):
        return NOT_DISPATCHED
    setter = getattr(torch.Tensor, name).__set__
    classes = [] if host.without_classes else asked(host, [traced], None)
    return ask(host, f, classes, [setter, tuple(map(host.class_of, classes)), (traced, value), {}])


# ---- rows -----------------------------------------------------------------------------------------------------------


@standin(torch._C._has_torch_function)
def stand_has(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> bool:
    return is_enabled(host, args[0])


@standin(torch._C._has_torch_function_unary, torch._C._has_torch_function_variadic)
def stand_has_each(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> bool:
    return is_enabled(host, args)


@standin(torch.overrides.handle_torch_function)
def stand_handle(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A Python function of torch has found that somebody has a say."""
    public, relevant, *given = args
    classes = [] if host.without_classes else asked(host, relevant, None)
    return ask(host, f, classes, [public, tuple(map(host.class_of, classes)), tuple(given), kwargs or {}])


@standin(torch._C._is_torch_function_enabled)
def stand_enabled(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> bool:
    return not host.without_classes


@standin(torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction)
def stand_disabling(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Disabled:
    return Disabled(function is torch._C.DisableTorchFunction)


@standin(Disabled.__enter__)
def enter_disabled(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    host.without_classes += 1
    host.without_modes += args[0].modes


@standin(Disabled.__exit__)
def leave_disabled(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    host.without_classes -= 1
    host.without_modes -= args[0].modes


@standin(torch._C._disabled_torch_function_impl)
def stand_disabled(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    _, func, _, given, *named = args
    return call_plainly(host, f, func, given, named[0] if named else None)


def call_plainly(host: Any, f: Frame, func: Any, args: Any, kwargs: Any, modes: bool = False) -> Any:
    """A call in which classes have no say; `modes`: neither have modes."""
    host.without_classes += 1
    host.without_modes += modes
    try:
        return host.call(f, func, list(args), kwargs or None)
    finally:
        host.without_classes -= 1
        host.without_modes -= modes


@standin(torch.Tensor.__torch_function__.__func__)
def stand_default(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What subclasses do unless they say otherwise: results are of the subclass, too."""
    names = ("cls", "func", "types", "args", "kwargs")
    bound = {"args": (), "kwargs": None} | dict(zip(names, args, strict=False)) | (kwargs or {})
    cls, func = bound["cls"], bound["func"]
    if not all(issubclass(cls, kind) for kind in bound["types"]):
        return NotImplemented
    result = call_plainly(host, f, func, bound["args"], bound["kwargs"])
    if cls is torch.Tensor or func in torch.overrides.get_default_nowrap_functions():
        return result
    return converted(host, f, result, cls)


def converted(host: Any, f: Frame, value: Any, cls: Any) -> Any:
    if type(value) is TracedTensor and not issubclass(value._stands_for, cls):
        return as_subclass(host.recorder, (value, cls), {})
    if isinstance(value, (tuple, list)):
        if not any(type(item) is TracedTensor for item in value):
            return value
        if type(value) not in (tuple, list) and type(value).__module__ != "torch.return_types":
            raise host.refuse("tensor-subclass", f"a {type(value).__qualname__} of tensors", type=cls.__qualname__)
        return type(value)([converted(host, f, item, cls) for item in value])
    return value


ALIAS: Any = target_of(torch.ops.aten.alias.default)


def as_subclass(recorder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Another tensor on the same memory."""
    if len(args) != 2 or kwargs or not isinstance(args[1], type) or not issubclass(args[1], torch.Tensor):
        raise UnsupportedOp("Tensor.as_subclass", "arguments that do not fit")
    traced, cls = args
    check_class(cls)
    if recorder.host.is_inside_type(cls):
        raise UnsupportedOp("Tensor.as_subclass", "a class made while capturing", "tensor-subclass")
    recorder.host.type_info(cls)
    made = recorder.record(ALIAS, (traced,), {})
    made._stands_for = cls
    recorder.overriding = recorder.overriding or overrides(cls)
    return made


@standin(torch._C._push_on_torch_function_stack)
def stand_push(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> None:
    """From now on calls go to this mode; a default device that the program has entered would come after it."""
    if host.has_own_device():
        raise host.refuse("tensor-mode", "a mode inside of a default device", type=type(args[0]).__qualname__)
    host.modes.append(args[0])
    host.recorder.overriding = True


@standin(torch._C._pop_torch_function_stack)
def stand_pop(host: Any, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if not host.modes:
        raise host.refuse("tensor-mode", "the end of a mode around the capture", type="torch function mode")
    return host.modes.pop()


def construct(host: Any, f: Frame, cls: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`Subclass(…)`: as `type` does it, but objects of a subclass are traced tensors here."""
    made = host.call(f, host.load_attr(f, cls, "__new__"), [cls, *args], kwargs)
    init = _frames.type_lookup(cls, "__init__")
    if type(made) is TracedTensor and issubclass(made._stands_for, cls) and type(init) is types.FunctionType:
        host.call(f, host.load_attr(f, cls, "__init__"), [made, *args], kwargs)
    return made


def constructor(function: Any) -> Any:
    """The caller of classes whose objects are tensors and that make them in Python."""
    if not issubclass(type(function), type) or not issubclass(function, torch.Tensor) or function in PLAIN:
        return None
    if why_not(function) is not None:
        return None
    return construct if type(_frames.type_lookup(function, "__new__")) is staticmethod else None


# ---- out again ------------------------------------------------------------------------------------------------------


def build(obj: Any, solid: Any, heap: Heap) -> Plan:
    """What the graph returns, in the clothes of the subclass, with the attributes it was given."""
    host = obj._recorder.host
    bare = host.bare.setdefault(id(obj), Bare(obj))
    fills = tuple(piece("{0}({1}, {2}, {3})", Const(setattr), SELF, *item) for item in vars(obj).items())
    return Plan(piece("{0}({1}, {2})", Const(dressed), bare, obj._stands_for), fills, inline=False)


def refuse(obj: Any, solid: Any, heap: Heap) -> Plan:
    raise CannotRebuild(obj, "a block without torch functions is open")


CALLED.add(Disabled)
register(torch.Tensor.as_subclass, as_subclass)
register_whole(TracedTensor, build)
register_whole(Disabled, refuse)
