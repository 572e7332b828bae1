"""Functions of `linecache`: CPython runs them, so what the program has put into the cache must be there."""

from __future__ import annotations

import linecache
from typing import Any

from stator.frame import Frame
from stator.native.callers import call_python
from stator.native.host import Host
from stator.native.rows import standin


@standin(
    linecache.getline,
    linecache.getlines,
    linecache.checkcache,
    linecache.updatecache,
    linecache.lazycache,
    linecache.clearcache,
)
def stand_lines(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    record = host.records.get(id(linecache.cache))
    if record is not None and (record.hollow is None or record.hollow.operations()):
        name = f"linecache.{function.__name__}"
        raise host.refuse(
            "native-outside-object", f"{name} after a write to linecache.cache", function=name, type="dict"
        )
    return call_python(host, f, function, args, kwargs)
