"""Whether this thread is capturing, and which functions capture must not enter."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch.compiler

from stator import forking


class _Thread(threading.local):
    depth = 0


_thread = _Thread()
_lock = forking.lock()  # a signal handler may come back here
_captures = 0  # of all threads: torch's flag belongs to the process
_flag_before = False


def is_compiling() -> bool:
    """True while the calling code is being captured, False when it runs."""
    return _thread.depth > 0


class compiling:
    """Makes `is_compiling` of stator (this thread) and of `torch.compiler` (process) answer True; left once.

    Left, it is as before, also if an interruption came while it was entered or while something in it was left.
    """

    def __init__(self) -> None:
        self.before: int | None = None

    def __enter__(self) -> None:
        self.before = _thread.depth
        _count(1)

    def __exit__(self, *exc: object) -> None:
        if self.before is not None:
            _count(self.before - _thread.depth)
            self.before = None


@contextmanager
def not_compiling() -> Iterator[None]:
    """Undoes `compiling` for user code that has to run for real in the middle of a capture."""
    depth = _thread.depth
    _count(-depth)
    try:
        yield
    finally:
        _count(depth)


def _count(change: int) -> None:
    """So many more captures in this thread. The flag of torch is that of the process, whichever thread comes last."""
    global _captures, _flag_before
    with _lock:
        if change > 0 and _captures == 0:
            _flag_before = torch.compiler._is_compiling_flag
            torch.compiler._is_compiling_flag = True
        _thread.depth += change
        _captures += change
        if change < 0 and _captures == 0:
            torch.compiler._is_compiling_flag = _flag_before


@forking.in_child
def _forget_threads() -> None:
    """Captures of threads that are no more."""
    global _captures
    if _captures and not _thread.depth:
        torch.compiler._is_compiling_flag = _flag_before
    _captures = _thread.depth


def exclude(fn: Callable[..., Any], recursive: bool = True, reason: str | None = None) -> Callable[..., Any]:
    """A function that does what `fn` does and that capture recognises by its code object."""
    made: Callable[..., Any]
    if recursive:

        def excluded(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        made = excluded
    else:

        def excluded_alone(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        made = excluded_alone
    functools.update_wrapper(made, fn)
    made.__dict__.update(  # as torch marks its own, for the frame hook and for torch.compile
        _torchdynamo_disable=True,
        _torchdynamo_disable_recursive=recursive,
        _torchdynamo_disable_msg=reason,
        _torchdynamo_wrapper_id=id(made),
    )
    return made


def _code(recursive: bool) -> CodeType:
    code: CodeType = exclude(is_compiling, recursive).__code__
    return code


# A frame with one of these codes is a break ("disabled-function"). Below the first nothing is captured;
# below the second everything but the function it calls directly may be.
EXCLUDED_WITH_CALLEES = _code(True)
EXCLUDED_ALONE = _code(False)
