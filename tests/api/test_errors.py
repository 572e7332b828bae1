"""Errors say what happened, where, and what to do."""

import ast
import pickle
from pathlib import Path

import pytest

import stator
from stator.breaks import BREAKS, fill, lookup
from stator.errors import BackendError, InvalidBackend, Location, RecompileLimit, Unsupported, unsupported

SOURCE = Path(stator.__file__).parent


def program(x):
    äöü = 1
    return äöü + x.item(
        2,
    )


def location_of(code, text):
    """The location of the first instruction whose source starts with a text."""
    for index, (line, _, col, _) in enumerate(code.co_positions()):
        location = Location(code, 2 * index)
        if line and col is not None and location.text.encode()[col:].decode().startswith(text):
            return location
    raise LookupError(text)


def test_location():
    location = location_of(program.__code__, "äöü + x.item")
    assert location.file == __file__
    assert location.function == "program"
    assert location.lineno == program.__code__.co_firstlineno + 2
    assert location.text == "    return äöü + x.item("
    assert str(location) == f"{__file__}:{location.lineno}"


def test_caret_marks_the_expression_up_to_the_line_end():
    lines = location_of(program.__code__, "x.item").format().split("\n")
    assert lines[0] == f'  File "{__file__}", line {program.__code__.co_firstlineno + 2}, in program'
    assert lines[1] == "    return äöü + x.item("
    assert lines[2][lines[1].index("x.item") :] in ("^" * 7, "^")
    assert lines[2].index("^") == lines[1].index("x.item")


def test_location_without_offset_or_source():
    assert Location(program.__code__).lineno == program.__code__.co_firstlineno
    code = compile("x = 1", "<nowhere>", "exec")
    assert Location(code, 2).text == ""
    assert Location(code, 10_000).format() == '  File "<nowhere>", line 1, in <module>'


def test_locations_compare_and_travel():
    location = location_of(program.__code__, "x.item")
    twin = pickle.loads(pickle.dumps(location))
    assert twin == location and hash(twin) == hash(location)
    assert twin.format() == location.format()
    assert location != Location(program.__code__)


def test_unsupported_says_everything():
    location = location_of(program.__code__, "x.item")
    error = unsupported("data-dependent-value", "item() of a tensor", location=location, function="Tensor.item")
    assert error.break_id == "data-dependent-value"
    assert error.reason == "item() of a tensor"
    assert error.location is location
    text = str(error)
    for part in ("[data-dependent-value]", "item() of a tensor", "Tensor.item turns", error.remedy, location.format()):
        assert part in text


def test_unsupported_with_a_stack():
    outer, inner = Location(program.__code__), location_of(program.__code__, "x.item")
    error = Unsupported("data-dependent-branch", detail="", location=None, stack=(outer, inner))
    assert error.location is inner
    assert str(error).index(outer.format()) < str(error).index(inner.format())
    assert error.reason == BREAKS["data-dependent-branch"].explanation


def test_unsupported_travels():
    error = unsupported("outside-type", "a socket", location=Location(program.__code__), type="socket")
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == str(error) and type(twin) is Unsupported


def test_an_id_without_a_row_still_reads():
    assert lookup("brand-new").title == "brand new"
    assert "[brand-new]" in str(Unsupported("brand-new", "why"))


def test_templates_without_fields_read_as_words():
    assert fill("call of {function}", {}) == "call of this function"


@pytest.mark.parametrize("row", BREAKS.values(), ids=lambda row: row.id)
def test_rows_are_complete(row):
    assert row.id == row.id.lower() and " " not in row.id
    assert row.title and row.title[0].islower() and not row.title.endswith(".")
    assert row.explanation.endswith(".") and row.remedy.endswith(".")
    assert fill(row.explanation, {}) and fill(row.remedy, {})


def test_every_id_in_the_code_has_a_row():
    unknown = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", getattr(getattr(node, "func", None), "attr", None))
            if name in ("Unsupported", "unsupported", "RecompileLimit") and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and first.value not in BREAKS:
                    unknown[first.value] = f"{path.name}:{node.lineno}"
    assert not unknown


def test_other_errors():
    assert "there is no backend named 'nope'" in str(InvalidBackend("nope", ["eager"]))
    error = BackendError("mine", ValueError("bad"))
    assert str(error) == "backend 'mine' failed: ValueError: bad"
    assert isinstance(error.__cause__, ValueError)
    assert issubclass(RecompileLimit, Unsupported) and issubclass(Unsupported, RuntimeError)
