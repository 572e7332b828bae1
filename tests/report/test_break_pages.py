"""Every break has a page, every page has a row, and the programs on the pages do what the pages say."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import stator
from stator.breaks import BREAKS
from stator.eval import forced
from stator.eval.machine import Machine
from stator.native import policy
from stator.report import events, pages
from stator.runtime import turns
from stator.tensors import data_dependent, rows
from tests.harness import check

SOURCE = Path(stator.__file__).parent
PAGES = Path(__file__).parents[2] / "docs" / "breaks"
BLOCK = re.compile(r"^```python (bad|fixed)\n(.*?)^```$", re.M | re.S)

# Breaks that do not end a call even if a full graph is required: they are events only.
NOT_RAISED = {"lazy-module"}
# Limits that do not hold if a full graph is required.
NOT_IN_FULL_GRAPHS = {"compiler-busy", "long-run", "large-graph", "varying-loop", "varying-key", "varying-number"}


def run_block(break_id, kind):
    """The names that a block of a page defines; its lines are those of the page."""
    page = PAGES / f"{break_id}.md"
    text = page.read_text()
    (found,) = [match for match in BLOCK.finditer(text) if match[1] == kind]
    source = "\n" * text.count("\n", 0, found.start(2)) + found[2]
    names = {"__name__": f"page_{break_id}_{kind}"}
    exec(compile(source, str(page), "exec"), names)
    calls = [names["args"], *names.get("more", ())]
    return SimpleNamespace(fn=names["fn"], calls=calls, backend=names.get("backend", "eager"), names=names)


@pytest.fixture(autouse=True)
def whole_machine(monkeypatch):
    """Two pages break the interpreter, or ask for breaks; it is as before after the test."""
    monkeypatch.setattr(Machine, "interpret", Machine.interpret)
    monkeypatch.setattr(turns, "PATIENCE", 0.1)
    before = list(forced.FORCED)
    yield
    forced.FORCED[:] = before


@pytest.mark.parametrize("break_id", BREAKS)
def test_bad_version_breaks(break_id):
    page = run_block(break_id, "bad")
    compiled = stator.compile(page.fn, fullgraph=True, backend=page.backend)
    if break_id in NOT_IN_FULL_GRAPHS:
        compiled(*page.calls[0])
        assert not events.events("skip") and not events.events("break")
        return
    if break_id in NOT_RAISED:
        for args in page.calls:
            compiled(*args)
        (skip,) = events.events("skip")
        assert skip.break_id == break_id and skip.remedy
        return
    with pytest.raises(stator.StatorError) as raised:
        for args in page.calls:
            compiled(*args)
    error = raised.value
    assert error.break_id == break_id
    report = error.report()
    assert report["stack"][0].file == str(PAGES / f"{break_id}.md")
    assert report["location"] is report["stack"][-1] and SOURCE not in Path(report["location"].file).parents
    if isinstance(error, stator.Unsupported):
        assert f"[{break_id}]" in str(error) and f"docs/breaks/{break_id}.md" in str(error)


@pytest.mark.filterwarnings("ignore:stator runs this function eagerly")
@pytest.mark.parametrize("break_id", BREAKS)
def test_bad_version_runs_and_is_reported(break_id):
    page = run_block(break_id, "bad")
    compiled = stator.compile(page.fn, backend=page.backend)
    for args in page.calls:
        compiled(*args)
    assert break_id in [event.break_id for kind in ("skip", "break") for event in events.events(kind)]


@pytest.mark.parametrize("break_id", BREAKS)
def test_fixed_version_is_captured(break_id):
    page = run_block(break_id, "fixed")
    calls = page.calls if len(page.calls) > 1 else page.calls * 2
    report = check(page.fn, vary=calls, backend=page.backend, namespace=page.names, expect_graphs=1)
    assert all(seen.raised is None for seen in report.eager)


def test_pages_and_rows_belong_together():
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(BREAKS)


@pytest.mark.parametrize("row", BREAKS.values(), ids=lambda row: row.id)
def test_page_is_complete(row):
    text = (PAGES / f"{row.id}.md").read_text()
    assert text.startswith(f"# {row.id}\n\n{row.title[0].upper()}{row.title[1:]}.\n\n## Cause\n")
    assert "\n## How to remove it\n" in text
    assert [match[1] for match in BLOCK.finditer(text)] == ["bad", "fixed"]


def test_index_is_the_table():
    assert (PAGES / "README.md").read_text() == pages.index(), "run: python -m stator.report.pages docs/breaks"


RAISING = {"refuse": 0, "unsupported": 0, "Unsupported": 0, "RecompileLimit": 0}
SIGNALS = {"UnsupportedOp": 2, "UnsupportedTensor": 2, "UnsupportedState": 2, "DataDependent": 2}


def constants(node):
    """The strings that an expression may be."""
    if isinstance(node, ast.IfExp):
        return constants(node.body) | constants(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def ids_in(tree):
    """Break ids that a module names where it raises or declares one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            position = {**RAISING, **SIGNALS}.get(name)
            if position is not None and len(node.args) > position:
                yield from constants(node.args[position])
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(target, "id", None) == "break_id" for target in targets):
                yield from constants(node.value)


def used_ids():
    found = {name for path in SOURCE.rglob("*.py") for name in ids_in(ast.parse(path.read_text()))}
    found |= set(policy.EXCEPTIONS.values()) - {"run", "frames"}
    found |= {policy.decide(SimpleNamespace(__module__="nobody", __name__="knows"))}
    found |= set(data_dependent.METHODS.values()) | set(data_dependent.FUNCTIONS.values())
    return found | set(rows._REFUSED_METHODS) | set(rows._REFUSED_FUNCTIONS)


def test_every_id_in_the_source_has_a_row_and_every_row_is_used():
    assert used_ids() == set(BREAKS)


def test_ids_are_found_where_they_are_named():
    text = 'raise host.refuse("a")\nraise UnsupportedOp(what, "", "b")\nclass C:\n    break_id = "c" if x else "d"'
    assert set(ids_in(ast.parse(text))) == {"a", "b", "c", "d"}


def test_native_code_without_a_frame_in_between_is_no_excuse():
    import functools

    part = functools.partial(torch.add, torch.ones(3))
    with pytest.raises(stator.Unsupported):
        stator.compile(part, fullgraph=True, backend="eager")(torch.ones(3))
