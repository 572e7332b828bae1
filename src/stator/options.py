"""What one `compile()` call was asked to do: one frozen, validated record."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_origin

from .errors import InvalidArgument, InvalidOptions

Backend = Callable[..., Any]

MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
RECOMPILE_LIMIT = 8


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of one compiled callable; see `stator.compile` for their meaning."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Backend = "inductor"
    mode: str | None = None
    options: dict[str, Any] | None = field(default=None, hash=False)  # what the backend gets
    disable: bool = False
    recompile_limit: int = RECOMPILE_LIMIT

    def __post_init__(self) -> None:
        for name, (types, words) in _TYPES.items():
            _require(name, getattr(self, name), types, words)
        if self.recompile_limit < 1:
            raise InvalidOptions(f"recompile_limit must be at least 1, got {self.recompile_limit}")
        if not isinstance(self.backend, str) and not callable(self.backend):
            raise InvalidArgument(
                f"backend must be a name or a callable (GraphModule, example_inputs), got {_describe(self.backend)}"
            )
        if self.mode is not None and self.options is not None:
            raise InvalidOptions("either mode or options can be given, not both: a mode is a named set of options")
        if self.backend == "inductor":
            if self.mode is not None and self.mode not in MODES:
                hint = _nearest(self.mode, MODES)
                raise InvalidOptions(f"unknown mode {self.mode!r}{hint} Modes are: {', '.join(MODES)}")
            if self.options:
                _check_inductor_options(self.options)

    def __deepcopy__(self, memo: object) -> Options:
        return self  # frozen; a copy of a compiled module uses the same backend

    @property
    def backend_name(self) -> str:
        """A readable name of the backend."""
        if isinstance(self.backend, str):
            return self.backend
        return getattr(self.backend, "__qualname__", None) or type(self.backend).__qualname__


_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "fullgraph": ((bool,), "True or False"),
    "dynamic": ((bool, type(None)), "True, False or None"),
    "mode": ((str, type(None)), "a string or None"),
    "options": ((dict, type(None)), "a dict or None"),
    "disable": ((bool,), "True or False"),
    "recompile_limit": ((int,), "an int"),
}


def _take_limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"option 'recompile_limit' must be an int, got {_describe(value)}")
    return value


# Keys of `options` that are stator's own and do not reach the backend; None: accepted, without effect.
_OWN_KEYS: dict[str, Callable[[Any], Any] | None] = {
    "recompile_limit": _take_limit,
    "guard_filter_fn": None,  # dropping guards is unsafe, and ours are cheap
}


def make_options(
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> Options:
    """Options from the arguments of `compile`, checked."""
    own: dict[str, Any] = {}
    rest: dict[str, Any] | None = None
    if options is not None:
        _require("options", options, (Mapping,), "a dict or None")
        rest = {}
        for key, value in options.items():
            if not isinstance(key, str):
                raise InvalidArgument(f"keys of options must be strings, got {_describe(key)}")
            if key not in _OWN_KEYS:
                rest[key] = value
            elif (take := _OWN_KEYS[key]) is not None:
                own[key] = take(value)
    return Options(
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend="inductor" if backend is None else backend,
        mode=mode,
        options=rest,
        disable=disable,
        **own,
    )


def _check_inductor_options(options: Mapping[str, Any]) -> None:
    """Refuses keys and types that Inductor's configuration does not have."""
    from torch._inductor import config  # heavy, and only needed here

    known = config.get_config_copy()
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in known:
            raise InvalidOptions(f"unknown option {key!r} for backend 'inductor'{_nearest(name, known)}")
        wanted = config.get_type(name)
        if get_origin(wanted) is None and not isinstance(value, wanted):
            expected = getattr(wanted, "__name__", str(wanted))
            raise InvalidArgument(f"option {key!r} must be {expected}, got {_describe(value)}")


def _require(name: str, value: object, types: tuple[type, ...], words: str) -> None:
    if not isinstance(value, types) or (int in types and isinstance(value, bool)):
        raise InvalidArgument(f"{name} must be {words}, got {_describe(value)}")


def _describe(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f": did you mean {near[0]!r}?" if near else "."
