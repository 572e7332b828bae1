"""Counts compilations place by place: of the function, of each continuation, of each frame below a break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stator.runtime.cache import Cache
from tests.harness import check


@contextmanager
def counted() -> Iterator[Counter[int]]:
    """How often each cache of entries got one more, by address."""
    found: Counter[int] = Counter()
    caches: list[Cache] = []  # kept, so that no address is used twice
    keep = Cache.keep

    def keep_and_count(cache: Cache, entry: Any, call: Any) -> bool:
        before = cache.captures
        fits = keep(cache, entry, call)
        found[id(cache)] += cache.captures - before
        caches.append(cache)
        return fits

    Cache.keep = keep_and_count  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Cache.keep = keep  # type: ignore[method-assign]


def most_per_place(make: Callable[[], Any], calls: Sequence[tuple[Any, ...]], **options: Any) -> int:
    """The compilations of the place that has most; every call does what it does in eager."""
    with counted() as found:
        check(make(), vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None, **options)
    return max(found.values())
