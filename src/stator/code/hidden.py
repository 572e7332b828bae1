"""Frames that no report shows: those of stator, and the two of `nn.Module` between a call and `forward`."""

from __future__ import annotations

from types import CodeType

from torch import nn

from stator.code.own_files import OWN_FILES

_MODULE_FILE = nn.Module._call_impl.__code__.co_filename
HOOKS_FILE = "<stator hooks>"  # calls of modules with hooks as stator spells them
_MODULE_CALLS = frozenset({"Module._wrapped_call_impl", "Module._call_impl"})


def is_module_call(code: CodeType) -> bool:
    """Whether this is `nn.Module.__call__`, or what is left of it behind a break."""
    return code.co_qualname in _MODULE_CALLS and code.co_filename == _MODULE_FILE


def is_hooked_call(code: CodeType) -> bool:
    """Whether this is the part of `nn.Module.__call__` that runs hooks."""
    return code.co_qualname == "Module._call_impl.<locals>.inner" and code.co_filename == _MODULE_FILE


def goes_over_hooks(code: CodeType) -> bool:
    """Whether the loops of this are over the hooks of a module."""
    return code.co_filename == HOOKS_FILE or is_hooked_call(code)


def is_hidden(code: CodeType) -> bool:
    return is_module_call(code) or code.co_filename.startswith(OWN_FILES)
