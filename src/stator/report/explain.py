"""`stator.explain`: what happened when a call was compiled, as data that prints well."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType, MethodType
from typing import Any

from .. import _entry
from ..breaks import BREAKS, PAGES
from ..errors import InvalidArgument, Location
from ..runtime.modules import CompiledModule
from .events import Event, recording

SHOWN = 10  # guards of one entry that are printed; all of them are data
GRAPHS = ("graph", "shared")  # kinds of events that tell of a piece of the program that became a graph


@dataclass(frozen=True)
class Graph:
    """One graph that went to the backend, or one that was not worth it."""

    name: str
    ops: tuple[str, ...]
    code: str

    @property
    def operations(self) -> int:
        return len(self.ops)


@dataclass(frozen=True)
class Reason:
    """Why capture stopped, or why a function ran eagerly; the id is None if its own exception ended it."""

    id: str | None
    reason: str
    remedy: str
    function: str
    location: Location | None
    stack: tuple[Location, ...]

    @property
    def page(self) -> str | None:
        return PAGES.format(self.id) if self.id in BREAKS else None

    @property
    def user_stack(self) -> tuple[Location, ...]:
        return self.stack

    def __str__(self) -> str:
        lines = [f"[{self.id}] {self.reason}" if self.id else self.reason]
        lines += [f"  {name}: {text}" for name, text in (("remedy", self.remedy), ("page", self.page)) if text]
        return "\n".join([*lines, *(place.format() for place in self.stack)])


@dataclass(frozen=True)
class Guards:
    """What has to hold for one entry to be used again."""

    name: str
    sentences: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True)
class Recompile:
    """A call that no entry fitted: the first guard that failed, for each of them."""

    function: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Explanation:
    """What one call did. The names in the second half are those of `torch._dynamo.explain`."""

    name: str
    result: Any
    graphs: tuple[Graph, ...]
    breaks: tuple[Reason, ...]
    skips: tuple[Reason, ...]
    guards: tuple[Guards, ...]
    recompiles: tuple[Recompile, ...]
    seconds: dict[str, float]  # by phase, as far as it happened: capture, backend, call (all of it)
    uncompiled: tuple[Graph, ...] = ()  # graphs that no backend makes faster

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def op_count(self) -> int:
        return sum(graph.operations for graph in self.graphs)

    @property
    def ops_per_graph(self) -> list[list[str]]:
        return [list(graph.ops) for graph in self.graphs]

    @property
    def break_reasons(self) -> list[Reason]:
        """All that kept the call from being one graph: breaks, and functions that ran eagerly because of one."""
        return [*self.breaks, *(skip for skip in self.skips if skip.id)]

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def out_guards(self) -> list[str]:
        return [sentence for entry in self.guards for sentence in entry.sentences]

    @property
    def compile_times(self) -> str:
        return ", ".join(f"{phase} {1000 * seconds:.1f} ms" for phase, seconds in self.seconds.items())

    def _summary(self) -> str:
        counts = (
            (self.graph_count, "graph"),
            (self.op_count, "operation"),
            (self.graph_break_count, "break"),
            (len(self.out_guards), "guard"),
            (len(self.recompiles), "recompile"),
        )
        return f"{self.name}: " + ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)

    def __repr__(self) -> str:
        return f"<Explanation of {self._summary()}>"

    def __str__(self) -> str:
        lines = [self._summary()]
        for number, graph in enumerate(self.graphs, 1):
            lines += [f"graph {number} ({graph.name}): {', '.join(graph.ops) or 'no operations'}"]
        lines += [f"not worth a compilation ({graph.name}): {', '.join(graph.ops)}" for graph in self.uncompiled]
        lines += [f"break {reason}" for reason in self.breaks]
        lines += [f"{skip.function} ran eagerly: {skip}" for skip in self.skips]
        for entry in self.guards:
            lines += [f"guards of {entry.name}: {entry.count}", *_bullets(entry.sentences)]
        for recompile in self.recompiles:
            lines += [f"{recompile.function} was compiled again", *_bullets(recompile.reasons)]
        return "\n".join([*lines, f"time: {self.compile_times}"])


def _bullets(sentences: Sequence[str]) -> Iterable[str]:
    left = len(sentences) - SHOWN
    return [*(f"  - {sentence}" for sentence in sentences[:SHOWN]), *([f"  … and {left} more"] if left > 0 else [])]


class Explainer:
    """Calls a function through a compilation of its own; each call gives the explanation of that call."""

    def __init__(self, function: Any, compiled: Callable[..., Any]) -> None:
        self.function = function
        self.compiled = compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Explanation:
        kinds = (*GRAPHS, "uncompiled", "break", "skip", "guards", "recompile", "capture", "backend")
        started = time.perf_counter()
        with recording(*kinds, here=True) as seen:
            result = self.compiled(*args, **kwargs)
        return explanation(_name(self.function), result, seen, time.perf_counter() - started)

    def __repr__(self) -> str:
        return f"<stator.explain({_name(self.function)}): call it with the arguments of the function>"


def explanation(name: str, result: Any, seen: Sequence[Event], seconds: float) -> Explanation:
    """Events of one call as an explanation."""
    of: dict[str, list[Event]] = {}
    for event in seen:
        of.setdefault(event.kind, []).append(event)
    phases: tuple[str, ...] = ("capture", "backend")
    spent = {kind: sum(event.seconds for event in of[kind]) for kind in phases if kind in of}
    if "capture" in spent:
        spent["capture"] = max(spent["capture"] - spent.get("backend", 0.0), 0.0)  # it includes the backend
    return Explanation(
        name=name,
        result=result,
        graphs=tuple(_graph(event) for event in seen if event.kind in GRAPHS),
        breaks=tuple(map(_reason, of.get("break", ()))),
        skips=tuple(map(_reason, of.get("skip", ()))),
        guards=tuple(Guards(event.name, tuple(event.text.splitlines())) for event in of.get("guards", ())),
        recompiles=tuple(Recompile(_code_name(event), tuple(event.reasons)) for event in of.get("recompile", ())),
        seconds={**spent, "call": seconds},
        uncompiled=tuple(map(_graph, of.get("uncompiled", ()))),
    )


def _graph(event: Event) -> Graph:
    return Graph(event.name, tuple(event.ops), event.text)


def _reason(event: Event) -> Reason:
    get = event.fields.get
    location = get("location")
    return Reason(
        id=get("break_id"),
        reason=get("reason", ""),
        remedy=get("remedy", ""),
        function=_code_name(event),
        location=location,
        stack=tuple(get("stack") or ((location,) if location else ())),
    )


def _code_name(event: Event) -> str:
    code = event.fields.get("code")
    if name := event.fields.get("name"):
        return name
    return code.co_qualname if isinstance(code, CodeType) else "the call"


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def uncompiled(fn: Any) -> Any:
    """What is behind a compiled function, method or module; other things are themselves."""
    if isinstance(fn, CompiledModule):
        return fn._orig_mod
    if isinstance(fn, MethodType) and isinstance(fn.__func__, _entry.Compiled):
        return MethodType(fn.__func__.__wrapped__, fn.__self__)
    return fn.__wrapped__ if isinstance(fn, _entry.Compiled) else fn


def require_explainable(fn: Any, args: tuple[Any, ...], options: dict[str, Any], known: Iterable[str]) -> None:
    """Says clearly what is wrong with a call of `stator.explain`."""
    usage = "write stator.explain(fn, **compile_options)(*args, **kwargs)"
    if not callable(fn):
        raise InvalidArgument(f"stator.explain needs something that can be called, got {fn!r:.60}; {usage}")
    if inspect.isclass(fn):
        raise InvalidArgument(f"stator.explain needs an instance of class {fn.__qualname__}, not the class; {usage}")
    if args:
        raise InvalidArgument(f"stator.explain takes the arguments of {_name(fn)} in a second call: {usage}")
    if unknown := [name for name in options if name not in known]:
        raise InvalidArgument(f"{unknown[0]!r} is no option of stator.compile; {usage}")
