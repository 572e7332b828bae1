"""What users call: `compile` with torch.compile's signature, and a few switches."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from torch import nn

from .errors import InvalidArgument
from .options import Backend, Options, make_options
from .report import events
from .runtime.compiling import exclude
from .runtime.compiling import is_compiling as is_compiling
from .runtime.modules import compiled_module

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from .report.explain import Explainer

Function = Callable[..., Any]


@overload
def compile(
    model: Function,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Function: ...


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable[[Function], Function]: ...


def compile(
    model: Function | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Function | Callable[[Function], Function]:
    """Compiles a function, method, module, class of callables or any callable; without one, makes a decorator.

    Args:
        model: what to compile.
        fullgraph: raise `stator.Unsupported` where the program cannot be captured as one graph.
        dynamic: True: sizes are symbolic from the start; False: never; None: those that were seen to change.
        backend: `"inductor"`, `"aot_eager"`, `"eager"`, the name of an installed backend, or a callable
            `(GraphModule, example_inputs) -> callable`.
        mode: a named set of Inductor options, such as `"reduce-overhead"`.
        options: settings for the backend, and `recompile_limit` (8) for stator itself.
        disable: give `model` back as it is.
    """
    settings = make_options(
        fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
    )
    if isinstance(settings.backend, str) and not disable:
        _require_backend(settings.backend)
    if model is None:
        return partial(_compile, options=settings)
    return _compile(model, settings)


def _compile(model: Any, options: Options) -> Any:
    """Compiles what the kind of `model` calls for."""
    if not callable(model):
        raise InvalidArgument(
            f"stator.compile needs something that can be called (function, method, nn.Module), "
            f"got {model!r:.60} ({type(model).__name__})"
        )
    return model if options.disable else _apply(partial(make_compiled, options=options), model)


def _require_backend(name: str) -> None:
    """Raises `InvalidBackend` now, not at the first call."""
    from .graph import backends  # part of the compiler: not before something is compiled

    backends.lookup(name)


def make_compiled(fn: Function, options: Options) -> Function:
    """The compiled form of one callable."""
    from .runtime import session  # the compiler itself: not before something is compiled

    return session.make_compiled(fn, options)


def _apply(wrap: Callable[[Function], Function], model: Any) -> Any:
    """Puts `wrap` around what a call of `model` runs."""
    if isinstance(model, nn.Module):
        return compiled_module(model, wrap)
    if inspect.isclass(model):
        return _apply_to_class(wrap, model)
    return wrap(model)


def _apply_to_class(wrap: Callable[[Function], Function], cls: type) -> type:
    """Calls of instances go through `wrap`; making instances stays as it is."""
    method = next((base.__dict__["__call__"] for base in cls.__mro__ if "__call__" in base.__dict__), None)
    if method is None:
        raise InvalidArgument(f"instances of class {cls.__qualname__} cannot be called: there is nothing to compile")
    cls.__call__ = wrap(method)  # type: ignore[method-assign]
    return cls


@overload
def disable(fn: Function, recursive: bool = True, *, reason: str | None = None) -> Function: ...


@overload
def disable(
    fn: None = None, recursive: bool = True, *, reason: str | None = None
) -> Callable[[Function], Function]: ...


def disable(
    fn: Function | None = None, recursive: bool = True, *, reason: str | None = None
) -> Function | Callable[[Function], Function]:
    """Excludes a function, module or class from capture, and by default all that it calls.

    With `recursive=False` only the function itself runs uncompiled; what it calls may be captured.
    """
    if fn is None:
        return partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise InvalidArgument(f"stator.disable needs something that can be called, got {fn!r:.60}")
    return _apply(partial(exclude, recursive=recursive, reason=reason), fn)


def explain(fn: Function, *args: Any, **options: Any) -> Explainer:
    """What stator makes of a call: `stator.explain(fn, **compile_options)(*args, **kwargs)`.

    `fn` gets a compilation of its own, with backend `"eager"` unless another one is given. Each call runs the function
    and returns an `Explanation`: graphs, breaks, skips, guards, recompiles, time spent and the result. What the
    function raises comes out, and so does `stator.Unsupported` with `fullgraph=True`.
    """
    from .report.explain import Explainer, require_explainable, uncompiled  # with the C core: not before it is needed

    require_explainable(fn, args, options, set(inspect.signature(compile).parameters) - {"model"})
    return Explainer(fn, compile(uncompiled(fn), **{"backend": "eager", **options}))


def export(
    model: Function,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Captures one call of a function or module as a whole graph: a `torch.export.ExportedProgram`.

    Args:
        model: a function, method or `nn.Module`; its parameters and buffers keep their names.
        args, kwargs: example arguments, nested in any containers that pytree knows. What is no tensor is a constant.
        dynamic_shapes: which sizes vary, as for `torch.export.export`: by argument name, or as a tuple; for each tensor
            a dict from dimension to `Dim`, `Dim.AUTO`, `Dim.DYNAMIC` or None, or a tuple with one of these for each
            dimension. Arguments that are not named have fixed sizes.
        prefer_deferred_runtime_asserts_over_guards: as for `torch.export.export`.

    Raises `stator.Unsupported` where the program cannot be captured whole, `stator.ExportError` where it changes
    something outside that is no buffer, and `stator.ConstraintViolation` where it demands more of a size than its `Dim`
    says.
    """
    from .exporting import program  # the compiler and torch.export: not before something is exported

    return program.export(model, args, kwargs, dynamic_shapes, prefer_deferred_runtime_asserts_over_guards)


def reset() -> None:
    """Forgets everything that was compiled, and sets the statistics back."""
    session = sys.modules.get("stator.runtime.session")  # only if something was compiled
    if forget := getattr(session, "reset", None):
        forget()
    events.reset()


def stats() -> dict[str, Any]:
    """Counts since the last reset: frames captured and skipped, breaks, graphs, recompiles; and captured codes."""
    return events.stats()
