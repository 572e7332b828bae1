"""Source of entry functions: rebuilding objects and applying effects."""

from .emitter import Emitter
from .plan import CannotRebuild, Source

__all__ = ["CannotRebuild", "Emitter", "Source"]
