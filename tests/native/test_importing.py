"""Modules that are loaded for the first time while a program is captured."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import stator
from stator.runtime import prepared

SOURCE = """
import torch

COMPILING = torch.compiler.is_compiling()
TABLE = torch.ones(3) * 2
TOTAL = TABLE.sum().item()
"""
NAME = "loaded_while_capturing"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(NAME, None)


def by_statement(x: Any) -> Any:
    import loaded_while_capturing  # type: ignore[import-not-found]

    return x * loaded_while_capturing.TABLE + loaded_while_capturing.TOTAL


def by_function(x: Any) -> Any:
    module = importlib.import_module(NAME)
    return x * module.TABLE + module.TOTAL


@pytest.mark.parametrize("program", [by_statement, by_function])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_loaded_as_without_a_capture(program: Callable[..., Any], fullgraph: bool) -> None:
    """Loading is no part of the program: tensors of the module are real, and nothing is being compiled."""
    compiled = stator.compile(program, backend="eager", fullgraph=fullgraph)
    x = torch.arange(3.0)
    for _ in range(2):
        assert torch.equal(compiled(x), x * 2 + 6)
    module = sys.modules[NAME]
    assert type(module.TABLE) is torch.Tensor and module.TABLE.tolist() == [2, 2, 2]
    assert module.TOTAL == 6.0 and module.COMPILING is False


PACKAGE = """
def __getattr__(name):
    if name == "part":
        import lazy_package.part as part

        return part
    raise AttributeError(name)
"""


@pytest.mark.parametrize("fullgraph", [False, True])
def test_package_that_loads_its_parts_when_asked(tmp_path: Path, fullgraph: bool) -> None:
    """The attribute that loading sets is there at once."""
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "part.py").write_text("FACTOR = 3\n")
    package: Any = importlib.import_module("lazy_package")
    try:
        compiled = stator.compile(lambda x: x * package.part.FACTOR, backend="eager", fullgraph=fullgraph)
        x = torch.arange(3.0)
        for _ in range(3):
            assert torch.equal(compiled(x), x * 3)
        report = stator.explain(compiled)(x)
        assert report.graph_count == 1 and not report.recompiles
    finally:
        for name in ("lazy_package", "lazy_package.part"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_parts_that_are_looked_for_first(tmp_path: Path, fullgraph: bool) -> None:
    """What was not there is there from the next call on, which goes another way: that it was missing stays a guard."""
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text("FACTOR = 3\n")
    package: Any = importlib.import_module("lazy_package")

    def program(x: Any) -> Any:
        if not hasattr(package, "part"):
            importlib.import_module("lazy_package.part")
            x = x + 1
        return x * package.part.FACTOR

    try:
        compiled = stator.compile(program, backend="eager", fullgraph=fullgraph)
        assert [compiled(torch.ones(1)).item() for _ in range(3)][1:] == [3.0, 3.0]
    finally:
        for name in ("lazy_package", "lazy_package.part"):
            sys.modules.pop(name, None)


def looking(x: Any) -> Any:
    before = NAME in sys.modules
    import loaded_while_capturing

    return x * loaded_while_capturing.TABLE, before, NAME in sys.modules


def counting(x: Any) -> Any:
    before = len(sys.modules)
    module = importlib.import_module(NAME)
    return x * module.TABLE, len(sys.modules) > before


@pytest.mark.parametrize("program", [looking, counting])
def test_after_a_look_for_it(program: Callable[..., Any]) -> None:
    """The program has seen that a module is not loaded: the import is a break, so that it stays true until then."""
    x, found = torch.arange(3.0), []
    for run in (program, stator.compile(program, backend="eager")):
        sys.modules.pop(NAME, None)
        found.append(str([run(x) for _ in range(2)]))
    assert found[0] == found[1]
    sys.modules.pop(NAME)
    with pytest.raises(stator.Unsupported, match="after a look"):
        stator.compile(program, backend="eager", fullgraph=True)(x)


def test_after_a_look_for_others() -> None:
    """Libraries look for frameworks, and load what belongs to the one that is there."""

    def program(x: Any) -> Any:
        if "no_such_framework" in sys.modules:
            return x
        import loaded_while_capturing

        return x * loaded_while_capturing.TABLE

    x = torch.arange(3.0)
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert [compiled(x).tolist() for _ in range(2)] == [[0.0, 2.0, 4.0]] * 2


def test_libraries_that_look_for_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have found it before the first capture, so an entry does not exclude itself."""
    found = types.ModuleType("einops._backends")
    found.get_backend = lambda tensor: KINDS.setdefault(type(tensor), tensor.ndim)  # type: ignore[attr-defined]
    KINDS.clear()
    monkeypatch.setitem(sys.modules, "einops._backends", found)
    monkeypatch.setattr(prepared, "_waiting", dict(prepared.LIBRARIES))

    def program(x: Any) -> Any:
        return x * (1 if type(x) in KINDS else KINDS.setdefault(type(x), 1))

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        compiled(torch.ones(2))
    assert stator.stats()["graphs"] == 1
    assert torch.nn.Parameter in KINDS


KINDS: dict[type, int] = {}


def everything_of_a_module(x: Any) -> Any:
    return x + len(__import__("encodings.latin_1", fromlist=["*"]).__name__), NAME in sys.modules


def everything_of_a_package(x: Any) -> Any:
    return x + len(__import__("json", fromlist=["*", "decoder"]).__all__), NAME in sys.modules


@pytest.mark.parametrize("program", [everything_of_a_module, everything_of_a_package])
def test_everything_of_what_is_loaded(program: Callable[..., Any]) -> None:
    """Nothing is loaded, so a look at which modules there are does not matter."""
    sys.modules.pop(NAME, None)

    def looks_first(x: Any) -> Any:
        return NAME in sys.modules, program(x)

    x = torch.arange(3.0)
    compiled = stator.compile(looks_first, backend="eager", fullgraph=True)
    assert [str(compiled(x)) for _ in range(2)] == [str(looks_first(x))] * 2


@pytest.mark.parametrize("program", [by_statement, by_function])
def test_loaded_anew(program: Callable[..., Any]) -> None:
    """A module that was taken out of sys.modules is loaded again."""
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x, seen = torch.arange(3.0), []
    for _ in range(3):
        assert torch.equal(compiled(x), x * 2 + 6)
        assert torch.equal(compiled(x), x * 2 + 6)
        seen.append(sys.modules.pop(NAME))
    assert len(set(map(id, seen))) == 3
    assert stator.stats()["recompiles"] == 2
