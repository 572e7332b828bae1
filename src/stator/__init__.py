"""stator: turns moving Python frames into static graphs."""

import os as _os

from .api import compile, disable, explain, is_compiling, reset, stats
from .errors import (
    BackendError,
    InternalError,
    InvalidArgument,
    InvalidBackend,
    InvalidOptions,
    RecompileLimit,
    StatorError,
    Unsupported,
)
from .report import logs as _logs

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "InternalError",
    "InvalidArgument",
    "InvalidBackend",
    "InvalidOptions",
    "RecompileLimit",
    "StatorError",
    "Unsupported",
    "compile",
    "disable",
    "explain",
    "is_compiling",
    "reset",
    "stats",
]

_logs.configure(_os.environ.get(_logs.VARIABLE))
