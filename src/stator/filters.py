"""Filters of warnings that change for a while: a warning that was shown once is not shown again for that."""

from __future__ import annotations

import itertools
import sys
import warnings
from typing import Any

from stator import _frames


class Unnoticed:
    """Around `catch_warnings`: if the filters are as before, they count as never changed.

    Registries of what was shown are good for one version of the filters, and begin anew with the next. A filter for
    warnings of a module that was loaded meanwhile makes no difference to what was shown before.
    """

    __slots__ = ("before", "filters", "loaded", "version")

    def __enter__(self) -> None:
        self.filters = warnings.filters
        self.before = [*warnings.filters]
        self.version = _frames.filters_version()
        self.loaded = len(sys.modules)

    def __exit__(self, *error: Any) -> None:
        if warnings.filters is self.filters and (self.before == self.filters or self.only_of_new_modules()):
            _frames.put_filters_version(self.version)

    def only_of_new_modules(self) -> bool:
        new = set(itertools.islice(sys.modules, self.loaded, None))
        return self.before == [row for row in self.filters if row in self.before or row[2].__module__ not in new]
