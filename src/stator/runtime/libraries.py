"""Libraries by what their code does: which files hold no tensor work of their own, and which are left as a whole."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig

import torch

_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_NOT_STDLIB = (os.path.join(_STDLIB, "site-packages"), os.path.join(_STDLIB, "dist-packages"))
_FROZEN = "<frozen "
_TORCH = os.path.dirname(torch.__file__) + os.sep
_FOREIGN = (_TORCH, _FROZEN, "<stator ", "<eval_with_key>")

# Packages whose Python code does not compute with tensors.
_NO_TENSORS = (
    "numpy", "scipy", "pandas", "PIL", "cv2", "skimage", "sklearn", "matplotlib", "networkx", "sympy", "tqdm", "yaml",
    "requests", "wandb", "tensorboard",
)  # fmt: skip

# Modules of the standard library that deal with files, processes, threads and the network: where one call breaks inside
# of them, the next one soon does.
_WORLDLY = frozenset({
    "asyncio", "bz2", "concurrent", "configparser", "csv", "dbm", "ftplib", "genericpath", "getpass", "glob",
    "gzip", "http", "linecache", "locale", "logging", "lzma", "multiprocessing", "os", "pathlib", "platform",
    "posixpath", "queue", "selectors", "shelve", "shutil", "signal", "smtplib", "socket", "socketserver", "sqlite3",
    "ssl", "subprocess", "tarfile", "tempfile", "threading", "tokenize", "urllib", "webbrowser", "zipfile",
})  # fmt: skip

# Parts of torch that do, or that work below a class of tensors which is not captured.
_WHOLE_TORCH = tuple(
    os.path.join(_TORCH, *part.split("/"))
    for part in ("_weights_only_unpickler.py", "hub.py", "nested/", "package/", "profiler/", "serialization.py")
)

# What keeps objects by their addresses, which are others in each call.
_BY_ADDRESS = frozenset({"copy"})

# Those that take numbers apart: what they keep of one, such as numerators, is another constant each time.
_EXACT = frozenset({"decimal", "_pydecimal", "fractions", "statistics"})


_LEFT_WHOLE = _WORLDLY | _EXACT | _BY_ADDRESS


def is_standard(filename: str) -> bool:
    return filename.startswith(_STDLIB) and not filename.startswith(_NOT_STDLIB)


@functools.lru_cache(4096)
def has_no_tensors(filename: str) -> bool:
    """Whether a file, of which code is running, is part of one of those packages."""
    homes = [home for name in _NO_TENSORS for home in getattr(sys.modules.get(name), "__path__", ())]
    return any(filename.startswith(home + os.sep) for home in homes)


def is_foreign(filename: str) -> bool:
    """Whether functions of a file are not compiled by themselves, only as part of the user's."""
    return is_standard(filename) or filename.startswith(_FOREIGN) or has_no_tensors(filename)


@functools.lru_cache(4096)
def is_left_whole(filename: str) -> bool:
    """Whether a break inside of a call of that file's functions is at the call."""
    if filename.startswith(_FROZEN):
        return filename.removeprefix(_FROZEN).rstrip(">") in _WORLDLY
    if is_standard(filename):
        return filename.removeprefix(_STDLIB).partition(os.sep)[0].removesuffix(".py") in _LEFT_WHOLE
    return filename.startswith(_WHOLE_TORCH) or has_no_tensors(filename)
