"""`import stator` brings in nothing that is not needed yet."""

import json
import os
import subprocess
import sys
from pathlib import Path

import stator

SCRIPT = """
import json, sys
import torch
before = set(sys.modules)
import stator
print(json.dumps(sorted(set(sys.modules) - before)))
stator.compile(len)
print(json.dumps("encodings.raw_unicode_escape" in sys.modules))
"""
HEAVY = ("torch._inductor", "torch._dynamo", "triton", "numpy", "sympy", "torch.fx.experimental.symbolic_shapes")


def test_import_is_light():
    env = {**os.environ, "PYTHONPATH": str(Path(stator.__file__).parent.parent)}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    added, has_codecs = map(json.loads, run.stdout.splitlines())
    assert "stator" in added
    assert [name for name in added if name.startswith(HEAVY)] == []
    assert has_codecs  # or pickling would import one behind a look at sys.modules
