"""Tracebacks of exceptions that leave compiled code show the user's frames only (see csrc/entry/traceback.c)."""

from __future__ import annotations

import os

import stator

OWN_FILES = (os.path.dirname(stator.__file__) + os.sep, "<stator ")  # names of stator's own files begin so
