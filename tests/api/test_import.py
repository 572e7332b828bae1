"""`import stator` brings in nothing that is not needed yet."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.fx.experimental import _config

import stator
from stator.shapes.unloaded import UNWANTED, VALIDATOR, load

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


def output(script: str) -> str:
    """What a script prints in a process of its own, where torch writes no trace."""
    env = {name: value for name, value in os.environ.items() if name != "TORCH_TRACE"}
    env["PYTHONPATH"] = str(Path(stator.__file__).parent.parent)
    return subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout


def test_import_is_light():
    added, has_codecs = map(json.loads, output(SCRIPT).splitlines())
    assert "stator" in added
    assert [name for name in added if name.startswith(HEAVY)] == []
    assert has_codecs  # or pickling would import one behind a look at sys.modules


SYMBOLS = """
import sys
import torch
import stator


@stator.compile(backend="eager", dynamic=True, fullgraph=True)
def step(x, w):
    y = (x @ w).relu()
    return y.view(-1) * x.shape[0] if x.shape[1] > 3 else y.sum()

step(torch.ones(3, 5), torch.ones(5, 6))
step(torch.ones(4, 5), torch.ones(5, 6))
assert stator.stats()["frames_captured"] == 1
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""


def test_symbols_alone_do_not_load_dynamo() -> None:
    """Torch's ShapeEnv would, to ask whether its translations are to be validated and its guards written down."""
    assert output(SYMBOLS).strip() == "[]"


@pytest.mark.parametrize("wanted", [True, False])
def test_who_wants_the_validator_gets_it(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, VALIDATOR, raising=False)
    try:
        with _config.patch(translation_validation=wanted):
            given = load(VALIDATOR, {}, {}, ("translation_validation_enabled",))
    except AssertionError as error:  # torch wants another package for it
        assert "translation validation" in str(error)
        given = None
    assert (given is UNWANTED) is not wanted
