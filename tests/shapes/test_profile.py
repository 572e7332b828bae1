"""A profile remembers across sessions and processes what was seen to change."""

from __future__ import annotations

import json

import pytest
import torch

import stator


@pytest.fixture(autouse=True)
def no_profile():
    yield
    stator.profile_dynamic(None)


def program(x, n, s):
    return x * n + s


def run(compiled, calls):
    for size, n, s in calls:
        x = torch.ones(size)
        torch.testing.assert_close(compiled(x, n, s), program(x, n, s))
    return len(compiled.entries())


CALLS = [(3, 5, 0.5), (4, 6, 0.25), (7, 9, 2.0)]


def test_the_next_session_starts_with_symbols(tmp_path):
    file = tmp_path / "profile.json"
    stator.profile_dynamic(file)
    assert run(stator.compile(program, backend="eager", fullgraph=True), CALLS) == 2
    stator.profile_dynamic(None)
    assert run(stator.compile(program, backend="eager", fullgraph=True), CALLS) == 2
    stator.profile_dynamic(file)  # as in another process
    assert run(stator.compile(program, backend="eager", fullgraph=True), CALLS) == 1
    (rows,) = json.loads(file.read_text())["changed"].values()
    assert {kind for _, kind, _ in rows} == {"size", "int", "float"}


def test_other_functions_are_not_affected(tmp_path):
    stator.profile_dynamic(tmp_path / "profile.json")
    run(stator.compile(program, backend="eager", fullgraph=True), CALLS)
    other = stator.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    other(torch.ones(3))
    other(torch.ones(4))
    assert len(other.entries()) == 2


def test_a_broken_file_says_nothing(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text("nonsense")
    stator.profile_dynamic(file)
    assert run(stator.compile(program, backend="eager", fullgraph=True), CALLS) == 2
    assert "changed" in json.loads(file.read_text())


def test_reset_forgets_a_session_without_a_profile():
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert run(compiled, CALLS) == 2
    stator.reset()
    assert run(compiled, CALLS[:1]) == 1
    assert run(compiled, CALLS[1:]) == 2


class Scaled(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Shifted(torch.nn.Module):
    def forward(self, x):
        return x + 1


def test_modules_are_named_after_their_classes(tmp_path):
    file = tmp_path / "profile.json"
    stator.profile_dynamic(file)
    scaled, shifted = (stator.compile(cls(), backend="eager") for cls in (Scaled, Shifted))
    for size in (3, 4):
        scaled(torch.ones(size))
    assert [name.split(".", 2)[-1] for name in json.loads(file.read_text())["changed"]] == [
        "test_profile.Scaled.forward"
    ]
    stator.reset()
    for size in (3, 4):
        shifted(torch.ones(size))
    assert stator.stats()["graphs"] == 2
