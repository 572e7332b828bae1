"""A ratchet: tests of CPython that come out the same with graph breaks as in plain Python."""

from __future__ import annotations

import pytest

from tests.cpython.breaks_runner import Choice, run_module

SAME = [("test_raise", ""), ("test_with", ""), ("test_scope", "")]  # module, forced breaks


@pytest.mark.parametrize(("module", "force"), SAME)
def test_same(module: str, force: str) -> None:
    record = run_module(module, Choice(force=force))
    assert record["all"] > 30
    assert record["different"] == {}
