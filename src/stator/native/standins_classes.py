"""Making classes: C code sets the cell behind `__class__` by itself."""

from __future__ import annotations

import types
from typing import Any

from stator.frame import Frame
from stator.native.callers import call_builtin
from stator.native.host import Host
from stator.native.rows import passes_on, standin


@passes_on
@standin(type.__new__)
def make_class(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A class whose body ran in CPython has a cell that the capture must not change."""
    cell = dict.get(args[3], "__classcell__") if len(args) > 3 and isinstance(args[3], dict) else None
    if type(cell) is types.CellType and id(cell) in host.outside_cells:
        raise host.refuse("native-outside-object", "a class whose body has run already", function="type.__new__")
    return call_builtin(host, f, function, args, kwargs)
