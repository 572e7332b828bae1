"""What a backend warns of is no warning of the program: told when the backend is done, and never raised."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_log = logging.getLogger(__name__)
_TOLD: dict[Any, Any] = {}  # the registry that "default" and "once" look at


@contextmanager
def told_afterwards() -> Iterator[None]:
    """Warnings of the block come out at its end under the program's own filters; those of one that fails do not."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield
    for one in heard:
        try:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, registry=_TOLD)
        except one.category:  # an error by the program's filters, but the program has done nothing wrong
            _log.warning("%s", one.message)
