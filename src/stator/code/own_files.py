"""Files of stator: tracebacks of exceptions that leave compiled code do not show frames of them (traceback.c)."""

from __future__ import annotations

import os

import stator

OWN_FILES = (os.path.dirname(stator.__file__) + os.sep, "<stator ")  # names of stator's own files begin so
