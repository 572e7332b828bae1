"""Entries of torch's caches on disk belong to one version of stator."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import compile_fx
from torch.compiler import config

import stator
from stator.graph.cache_tag import fingerprint


def test_keys_name_the_version(monkeypatch: Any) -> None:
    tags = []

    def compiled(graph: Any, inputs: Any, **options: Any) -> Any:
        tags.append(config.cache_key_tag)
        return graph.forward

    monkeypatch.setattr(compile_fx, "compile_fx", compiled)
    with config.patch(cache_key_tag="mine-"):
        stator.compile(lambda x: x + 1)(torch.ones(2))
        assert config.cache_key_tag == "mine-"
    assert tags == [f"mine-stator-{fingerprint()}"]


def test_another_version_has_another_one(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setattr("stator.graph.cache_tag.__file__", str(tmp_path / "graph" / "cache_tag.py"))
    (tmp_path / "module.py").write_text("1")
    first = fingerprint.__wrapped__()
    (tmp_path / "module.py").write_text("2")
    assert first != fingerprint.__wrapped__() and len(first) == 16
