"""stator: turns moving Python frames into static graphs."""

import os as _os

from .api import compile, disable, explain, export, is_compiling, reset, stats
from .control.breaking import error_on_graph_break, graph_break
from .control.marks import allow_in_graph, assume_constant_result, substitute_in_graph
from .control.stance import stance
from .errors import (
    BackendError,
    ConstraintViolation,
    ExportError,
    InternalError,
    InvalidArgument,
    InvalidBackend,
    InvalidOptions,
    RecompileError,
    RecompileLimit,
    StatorError,
    Unsupported,
)
from .report import logs as _logs
from .shapes.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
from .shapes.profile import profile_dynamic

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "ConstraintViolation",
    "ExportError",
    "InternalError",
    "InvalidArgument",
    "InvalidBackend",
    "InvalidOptions",
    "RecompileError",
    "RecompileLimit",
    "StatorError",
    "Unsupported",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "error_on_graph_break",
    "explain",
    "export",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "profile_dynamic",
    "reset",
    "stance",
    "stats",
    "substitute_in_graph",
]

_logs.configure(_os.environ.get(_logs.VARIABLE))
