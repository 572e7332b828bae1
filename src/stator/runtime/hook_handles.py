"""Handles of hooks on modules: those that are removed again leave no trace, not even in the numbering of hooks.

Torch numbers all hooks of the process. A program that registers a hook and removes it gets numbers of its own, so that
it is compiled once, whatever other hooks there were before. Where a hook stays, it has the number that torch gives it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch.utils.hooks import RemovableHandle

from stator.emit import recipes, recipes_instances, recipes_library
from stator.emit.plan import Heap, Plan, Recipe
from stator.errors import Again
from stator.eval.machine import replace_body
from stator.frame import Frame
from stator.guards import path as paths

FIRST = 1 << 48  # torch does not come here
NUMBERED = paths.const("hooks on modules that stay registered")


def is_free(host: Any, cls: type) -> bool:
    """Whether a class need not be guarded: only its counter changes."""
    return cls is RemovableHandle and NUMBERED not in host.whole_paths


def start(frame: Frame) -> None:
    """`RemovableHandle.__init__`."""
    host = frame.world
    handle, hooks, extra = (host.settled(value) for value in frame.locals[:3])
    number = FIRST + len(host.handles)
    if NUMBERED in host.whole_paths:
        number = host.load_attr(frame, RemovableHandle, "next_id")
        host.store_attr(frame, RemovableHandle, "next_id", number + 1)
    else:
        host.handles.append((number, hooks))
    extras = [extra] if isinstance(extra, dict) else extra if isinstance(extra, list) else []
    references = [host.call(frame, weakref.ref, [table], None) for table in (hooks, *extras)]
    host.store_attr(frame, handle, "hooks_dict_ref", references[0])
    host.store_attr(frame, handle, "id", number)
    host.store_attr(frame, handle, "extra_dict_ref", tuple(references[1:]))


def check(host: Any, lasts: Callable[[int], bool]) -> None:
    """At the end: hooks that stay need torch's numbers, unless what they hang on ends with the capture."""
    tables = [hooks for number, hooks in host.handles if number in host.settled(hooks)]
    if any(id(hooks) in host.records or lasts(id(hooks)) for hooks in tables):
        raise Again(NUMBERED)


def build(obj: Any, solid: Any, heap: Heap) -> Plan:
    if vars(obj).get("id", 0) >= FIRST:
        raise Again(NUMBERED)
    recipe: Recipe = recipes.ROWS.get(id(object), recipes_library.build_other)
    return recipe(obj, object, heap).then(recipes_instances.state(obj, object, heap))


replace_body(vars(RemovableHandle)["__init__"].__code__, start)
recipes.register_whole(RemovableHandle, build)
