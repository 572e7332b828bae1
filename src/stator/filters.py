"""Filters of warnings that change for a while: a warning that was shown once is not shown again for that."""

from __future__ import annotations

import itertools
import sys
import warnings
from threading import get_ident
from typing import Any
from weakref import ref

from stator import _frames, forking


class Unnoticed:
    """Around `catch_warnings`: if the filters are as before, they count as never changed.

    Registries of what was shown are good for one version of the filters, and begin anew with the next. A filter for
    warnings of a module that was loaded meanwhile makes no difference to what was shown before.
    """

    __slots__ = ("before", "filters", "loaded", "version")

    def __enter__(self) -> None:
        self.filters = warnings.filters
        self.before = [*warnings.filters]
        self.version = _frames.filters_version()
        self.loaded = len(sys.modules)

    def __exit__(self, *error: Any) -> None:
        if warnings.filters is self.filters and (self.before == self.filters or self.only_of_new_modules()):
            _frames.put_filters_version(self.version)

    def only_of_new_modules(self) -> bool:
        new = set(itertools.islice(sys.modules, self.loaded, None))
        return self.before == [row for row in self.filters if row in self.before or row[2].__module__ not in new]


class Here:
    """As the pattern of a filter: it matches whatever is said in a thread that listens, and nothing elsewhere."""

    def match(self, text: str) -> bool:
        return get_ident() in _listening


ALL_HERE: Any = ("always", Here(), Warning, None, 0)


class Layer:
    """A list of filters in place of another one, for as long as somebody listens who came while it was in force."""

    __slots__ = ("before", "below", "rows", "version")

    def __init__(self) -> None:
        self.version = _frames.filters_version()
        self.below = warnings.filters
        self.before = [*warnings.filters]
        self.rows = [ALL_HERE, *warnings.filters]

    def put(self, rows: Any) -> None:
        warnings.filters = rows
        warnings._filters_mutated()  # type: ignore[attr-defined]

    def leave(self) -> None:
        """What others have put in or taken out meanwhile stays so."""
        if warnings.filters is not self.rows:
            return
        rest = [row for row in self.rows if row is not ALL_HERE]
        if rest != self.before:
            self.below[:] = rest  # type: ignore[index]
        self.put(self.below)
        if rest == self.before:
            _frames.put_filters_version(self.version)


class Listening:
    """A list of the warnings of this thread, as `catch_warnings(record=True)` with the filter "always" gives it.

    That one changes the process: of two threads that were inside of it at once one leaves its filters and its list
    to everybody, and what a third one warns of meanwhile is lost. Warnings of other threads go their way here. So do
    those in a `catch_warnings` of what runs inside.

    An interruption may come at any call. What had begun or ended by then is put right before it goes on; where it
    comes before the first instruction of `__exit__`, nobody is heard any more as soon as its traceback is gone, and
    the next one who listens puts the filters right.
    """

    __slots__ = ("__weakref__", "heard", "layer", "ways")

    def __enter__(self) -> list[warnings.WarningMessage]:
        self.heard: list[warnings.WarningMessage] = []
        self.ways = ways()
        try:
            with _lock:
                self.layer = _layer_in_force()
                _listening.setdefault(get_ident(), []).append(ref(self))
                if _module["_showwarnmsg"] is not _show:
                    _shown[:] = [_module["_showwarnmsg"]]
                    _module["_showwarnmsg"] = _show
        except BaseException:
            self.end()
            raise
        return self.heard

    def __exit__(self, *error: Any) -> None:
        try:
            self.end()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """May be repeated, and finishes what another one has left undone."""
        with _lock:
            for thread, there in [*_listening.items()]:
                if left := [one for one in there if one() is not None and one() is not self]:
                    _listening[thread] = left
                else:
                    _listening.pop(thread, None)
            kept = [one.layer for there in _listening.values() for each in there if (one := each()) is not None]
            for layer in [layer for layer in _layers if layer not in kept]:
                layer.leave()
                _layers.remove(layer)
            if not _listening and _module["_showwarnmsg"] is _show:
                _module["_showwarnmsg"] = _shown[0]


_lock = forking.lock()
_listening: dict[int, list[ref[Listening]]] = {}  # of each thread, the innermost last
_layers: list[Layer] = []
_module = vars(warnings)
_shown: list[Any] = [_module["_showwarnmsg"]]  # the function that shows what nobody here listens to


def _layer_in_force() -> Layer:
    layer = next((layer for layer in _layers if layer.rows is warnings.filters), None)
    if layer is None:
        _layers.append(layer := Layer())  # first, so that it can be taken back
        layer.put(layer.rows)
    return layer


def _those_here() -> list[Listening]:
    """How this thread listens, the innermost last."""
    return [one for each in _listening.get(get_ident(), ()) if (one := each()) is not None]


def depth() -> int:
    """How often this thread listens."""
    return len(_those_here())


def unwind(depth: int) -> None:
    """No more often than that, where an interruption came between the beginning and its block."""
    for one in _those_here()[depth:]:
        one.end()


def ways() -> tuple[Any, Any]:
    """Where `catch_warnings` has a warning go."""
    return _module["showwarning"], _module["_showwarnmsg_impl"]


def _show(message: Any) -> None:
    """In place of `_showwarnmsg`, while somebody listens."""
    here = _those_here()
    if here and here[-1].ways == ways():
        here[-1].heard.append(message)
    else:
        _shown[0](message)


@forking.in_child
def forget_threads() -> None:
    """Only the thread that forked goes on listening."""
    for number in [number for number in _listening if number != get_ident()]:
        del _listening[number]
    Listening().end()
