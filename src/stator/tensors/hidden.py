"""Functions that write into arguments without telling the version counter: running statistics of normalisations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

# function: position and name of the flag that makes it write, its default, positions and names of what is written
_ROWS: dict[Any, tuple[tuple[int, str], bool, tuple[tuple[int, str], ...]]] = {
    F.batch_norm: ((5, "training"), False, ((1, "running_mean"), (2, "running_var"))),
    F.instance_norm: ((5, "use_input_stats"), True, ((1, "running_mean"), (2, "running_var"))),
    torch.batch_norm: ((5, "training"), False, ((3, "running_mean"), (4, "running_var"))),
    torch.instance_norm: ((5, "use_input_stats"), True, ((3, "running_mean"), (4, "running_var"))),
    torch.native_batch_norm: ((5, "training"), False, ((3, "running_mean"), (4, "running_var"))),
}


def hidden_writes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[int]:
    """Ids of the arguments that a call writes in secret."""
    row = _ROWS.get(func)
    if row is None:
        return set()
    flag, default, written = row
    if not _argument(flag, args, kwargs, default):
        return set()
    return {id(value) for place in written if (value := _argument(place, args, kwargs, None)) is not None}


def _argument(place: tuple[int, str], args: tuple[Any, ...], kwargs: dict[str, Any], default: Any) -> Any:
    index, name = place
    return args[index] if index < len(args) else kwargs.get(name, default)
