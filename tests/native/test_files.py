"""Files that are only read are read while capturing, and guarded."""

from __future__ import annotations

import contextlib
import gc
import os
import warnings
from pathlib import Path

import pytest
import torch

import stator


def test_reading_is_captured_and_guarded(tmp_path: Path) -> None:
    file = tmp_path / "numbers.txt"
    file.write_text("1\n2\n")
    name = str(file)

    def f(x: torch.Tensor) -> torch.Tensor:
        with open(name) as lines:  # noqa: PTH123
            return x + sum(int(line) for line in lines)

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1)) == 3
    assert compiled(torch.zeros(1)) == 3
    assert stator.stats()["recompiles"] == 0
    file.write_text("10\n20\n")
    assert compiled(torch.zeros(1)) == 30
    os.utime(file, ns=(0, 0))
    assert compiled(torch.zeros(1)) == 30


@pytest.mark.parametrize("mode", ["w", "a", "r+", "x"])
def test_writing_is_not_captured(tmp_path: Path, mode: str) -> None:
    name = str(tmp_path / "out")

    def f(x: torch.Tensor) -> torch.Tensor:
        with open(name, mode):  # noqa: PTH123
            return x

    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(f, backend="eager", fullgraph=True)(torch.zeros(1))
    assert caught.value.break_id == "native-effect"
    assert not os.path.exists(name)  # noqa: PTH110


def test_files_of_abandoned_captures_are_closed(tmp_path: Path) -> None:
    name = str(tmp_path / "numbers.txt")
    Path(name).write_text("1\n2\n")

    def f(x: torch.Tensor) -> torch.Tensor:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(name, "rb"))  # noqa: PTH123, SIM115
            return x + file.fileno() * 0 + len(file.read())

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert stator.compile(f, backend="eager")(torch.zeros(1)) == 4
        gc.collect()
    assert not [row for row in seen if row.category is ResourceWarning]


def test_messages_about_files_run_no_code_of_the_program(tmp_path: Path) -> None:
    """A path made of a varying text: asked for its `repr` while capturing, it would keep a text stand-in."""
    told = []

    class Place(os.PathLike[str]):
        def __init__(self, name: str) -> None:
            self.name = name

        def __fspath__(self) -> str:
            return str(tmp_path / self.name)

        def __repr__(self) -> str:
            told.append(self.name)
            return self.name

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        place = Place(f"out{n}")
        with open(place, "w") as file:
            file.write("text")
        return x + n

    compiled = stator.compile(f, backend="eager")
    for n in range(2, 6):
        assert torch.equal(compiled(torch.zeros(1), n), torch.zeros(1) + n)
    assert not told
    assert sorted(os.listdir(tmp_path)) == [f"out{n}" for n in range(2, 6)]  # noqa: PTH208
