"""Paths to outside values, checks on them, and the programs made of both."""

from stator.guards import check, path
from stator.guards.check import CHECKS, Check
from stator.guards.constant import is_constant, same
from stator.guards.guardset import Failure, GuardSet
from stator.guards.path import ACCESSORS, Accessor, Missing, Path, arg, const
from stator.guards.state import StateSnapshot, snapshot
from stator.guards.tensor_spec import TensorSpec

__all__ = [
    "ACCESSORS",
    "CHECKS",
    "Accessor",
    "Check",
    "Failure",
    "GuardSet",
    "Missing",
    "Path",
    "StateSnapshot",
    "TensorSpec",
    "arg",
    "check",
    "const",
    "is_constant",
    "path",
    "same",
    "snapshot",
]
