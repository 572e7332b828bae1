"""Torch's caches on disk, kept apart: what stator answers about sizes from data decides what Inductor generates."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from torch.compiler import config


@cache
def fingerprint() -> str:
    """Of the sources: another version may give other answers."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def tagged() -> AbstractContextManager[Any]:
    """While it lasts, the keys of torch's caches name this version of stator, next to the tag that the user gave."""
    patched: AbstractContextManager[Any] = config.patch(cache_key_tag=f"{config.cache_key_tag}stator-{fingerprint()}")
    return patched
