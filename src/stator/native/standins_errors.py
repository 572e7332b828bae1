"""Stand-ins for what C does with exceptions: printing them."""

from __future__ import annotations

import io
import sys
from typing import Any

from stator import _frames
from stator.frame import Frame, native
from stator.guards.check import KEYS
from stator.native.host import Host
from stator.native.rows import standin


@standin(sys.__excepthook__)
def stand_excepthook(host: Host, f: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Renders the exception, then writes it to whatever sys.stderr is."""
    if kwargs or len(args) != 3 or not isinstance(args[1], BaseException):
        raise host.refuse("native-effect", "call of sys.excepthook", function="sys.excepthook")
    text = rendered(host, f, args[1], args[2])
    stream = host.load_attr(f, host.enter_const(sys), "stderr")
    if stream is None:
        return None
    record = host.records.get(id(stream))
    if record is not None and record.inner is record.obj:
        return host.defer(stream.write, [text], None)
    return host.call(f, host.load_attr(f, stream, "write"), [text], None)


def rendered(host: Host, f: Frame, error: BaseException, traceback: Any) -> str:
    """The text of an exception; names of globals and builtins matter to it, for its suggestions."""
    buffer = io.StringIO()
    step = traceback
    while step is not None:
        for names in (step.tb_frame.f_globals, step.tb_frame.f_builtins):
            namespace = host.namespaces.get(id(names))
            if namespace is not None:
                host.guards.add(namespace.dict_path(), KEYS, tuple(namespace.real), host.origin())
        step = step.tb_next
    displaying, host.displaying = host.displaying, True
    try:
        native(f, _frames.display_error, buffer, error, traceback)
    finally:
        host.displaying = displaying
    return buffer.getvalue()
