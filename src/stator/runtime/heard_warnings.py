"""Warnings that torch's C code gives: those of functions that run while capturing, and, for backends that trace, those
on the way to a kernel: the entry function has torch give them, by the same call of tensors without data."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from stator import _frames
from stator.filters import Listening
from stator.native.warn import action_for, is_inside, issue, place_of, show
from stator.tensors.lowering import substitute
from stator.tensors.propagate import quiet


class Blank(NamedTuple):
    """A tensor without data, made anew for each call: it may be resized."""

    size: Any
    stride: Any
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device="meta")


class Warner:
    """A call that is made for its warnings; torch gives some of them once in a process."""

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.is_over = False

    def give(self, filename: str, line: int, module: str, namespace: dict[str, Any]) -> None:
        """Run time: as if torch had given them in that line."""
        if self.is_over and not torch.is_warn_always_enabled():
            return
        heard = self.hear()
        self.is_over = not heard
        for row in heard:
            show(str(row.message), row.category, filename, line, module, namespace)

    def hear(self) -> list[warnings.WarningMessage]:
        with Listening() as heard:
            self.call()
        return heard

    def call(self) -> None:
        with torch._C.DisableTorchFunction():
            args, kwargs = tree_map_only(Blank, Blank.tensor, (self.args, self.kwargs), is_leaf=is_blank)
            self.func(*args, **kwargs)


def is_blank(value: Any) -> bool:
    return type(value) is Blank


def note(host: Any, func: Any, args: Any, kwargs: Any, is_factory: bool) -> None:
    """A call was recorded that warns; what cannot be repeated warns nobody."""
    warner = made(func, args, kwargs, is_factory)
    if warner is None or host.recorder.sub is not None:
        return
    heard = rehearsed(warner)
    if not heard and host.may_break:
        raise host.refuse("native-effect", "its kernel warns", function=getattr(func, "__name__", str(func)))
    f = _frames.top_frame()
    filename, line, module, namespace = place_of(f, 1) or ("", 0, "", None)
    if not heard or host.namespaces.get(id(namespace)) is None:
        return
    actions = {action_for(host, f, str(row.message), row.category, module, line) for row in heard}
    if "error" in actions:
        raise host.refuse("native-effect", "a warning that is an error", function=str(func))
    host.recorder.heard.update(str(row.message) for row in heard)
    host.defer(warner.give, [filename, line, module, namespace], None)


def give(host: Any, warning: warnings.WarningMessage) -> None:
    """A function that runs while capturing has warned: the program hears of it where it calls that function."""
    f = _frames.top_frame()
    place, text = place_of(f, 1), str(warning.message)
    action = "error" if place is None else action_for(host, f, text, warning.category, place[2], place[1])
    if action == "ignore":
        return
    if place is None or action == "error" or is_inside(host):
        raise host.refuse("native-effect", "a warning that the program looks at", function=text.partition(" ")[0])
    issue(host, f, warning.message, warning.category, place)


def made(func: Any, args: Any, kwargs: Any, is_factory: bool) -> Warner | None:
    try:
        given = substitute((args, kwargs), blank)
    except TypeError:  # sizes that vary
        return None
    return Warner(func, given[0], {**given[1], "device": "meta"} if is_factory else given[1])


def blank(traced: Any) -> Blank:
    meta = traced._meta
    if any(type(size) is not int for size in (*meta.size, *meta.stride)):
        raise TypeError
    return Blank(tuple(meta.size), meta.stride, meta.dtype)


def rehearsed(warner: Warner) -> list[warnings.WarningMessage]:
    """What the call warns of if it warns at all; nothing if it cannot be made so."""
    try:
        with quiet(None) as heard:
            warner.call()
    except Exception:
        return []
    return heard
