"""What the program demands of sizes that shall vary: in the user's words, with the line and what would pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import stator
from tests.export.same import suggested, violation

a, b, c = Dim("a"), Dim("b"), Dim("c", max=100)


def test_constant():
    def fixed(x):
        if x.shape[0] == 8:
            return x * 2
        return x

    report = violation(fixed, (torch.randn(8),), {"x": {0: a}})
    assert "dimension 0 of `x` (Dim 'a') varies, but the program works for 8 only:" in report
    assert "in test_constant.<locals>.fixed\n        if x.shape[0] == 8:" in report
    assert report.endswith("dynamic_shapes = {'x': None}")


def test_constant_by_dynamic_hint():
    def fixed(x, y):
        return x + y

    report = violation(fixed, (torch.randn(8), torch.randn(8)), {"x": {0: Dim.DYNAMIC}, "y": None})
    assert "dimension 0 of `x` varies, but the program works for 8 only" in report and "return x + y" in report


def test_equal_sizes():
    def add(x, y):
        return x + y

    report = violation(add, (torch.randn(8, 4), torch.randn(8, 4)), {"x": {0: a}, "y": {0: b}})
    assert (
        "dimension 0 of `y` (Dim 'b') and dimension 0 of `x` (Dim 'a') must be equal: give both the same Dim" in report
    )
    assert "return x + y" in report and "^^^^^" in report
    assert "    a = Dim('a')\n    dynamic_shapes = {'x': {0: a}, 'y': {0: a}}" in report


def test_bounds():
    def between(x, y):
        if x.shape[0] > 5 and y.shape[0] <= 50:
            return x.sum() + y.sum()
        return x.sum()

    report = violation(between, (torch.randn(8), torch.randn(9)), {"x": {0: a}, "y": {0: c}})
    assert "dimension 0 of `x` (Dim 'a') must be at least 6" in report
    assert "dimension 0 of `y` (Dim 'c') must be at most 50" in report
    assert "    a = Dim('a', min=6)\n    c = Dim('c', max=50)\n" in report


def test_multiple():
    def halves(x):
        return x.reshape(2, x.shape[0] // 2, 4)

    report = violation(halves, (torch.randn(8, 4),), {"x": {0: a}})
    assert "dimension 0 of `x` (Dim 'a') must be a multiple of 2" in report
    assert "    _a = Dim('_a')\n    dynamic_shapes = {'x': {0: 2 * _a}}" in report


@pytest.mark.parametrize(("shape", "found"), [((4, 3), "{0: 2 * _a, 1: b}"), ((3, 4), "{0: Dim.AUTO, 1: Dim.AUTO}")])
def test_multiple_of_a_product(shape, found):
    """The dimension that is a multiple in the example is the one that is proposed; unless torch asks for more."""

    def halves(x):
        return x.reshape(2, -1)

    report = violation(halves, (torch.randn(*shape),), {"x": {0: a, 1: b}})
    assert f"dynamic_shapes = {{'x': {found}}}" in report


def test_derived():
    def doubled(x, y):
        return torch.cat([x, x]) + y

    report = violation(doubled, (torch.randn(8), torch.randn(16)), {"x": {0: a}, "y": {0: b}})
    assert "dimension 0 of `y` (Dim 'b') must be 2 * a, where a is dimension 0 of `x` (Dim 'a')" in report
    assert "{'x': {0: a}, 'y': {0: 2 * a}}" in report


def test_relation_that_no_dim_can_say():
    def smaller(x, y):
        if x.shape[0] < y.shape[0]:
            return x.sum()
        return y.sum()

    report = violation(smaller, (torch.randn(8), torch.randn(16)), {"x": {0: a}, "y": {0: b}})
    assert "it needs x.shape[0] < y.shape[0], which no Dim can say" in report
    assert "{'x': {0: Dim.AUTO}, 'y': {0: Dim.AUTO}}" in report


def test_what_only_torch_finds():
    def pooled(x):
        y = x + 1
        return nn.functional.max_pool2d(y, 2)

    report = violation(pooled, (torch.randn(2, 3, 16, 16),), {"x": {0: a, 2: b}})
    assert "dimension 2 of `x` (Dim 'b') must be at least 4" in report and "return nn.functional.max_pool2d" in report
    assert "b = Dim('b', min=4)\n    dynamic_shapes = {'x': {0: a, 2: b}}" in report


def test_what_torch_cannot_show():
    def padded(x):
        x = nn.functional.pad(x, (0, -x.shape[1] % 4))
        return x.view(x.shape[0], x.shape[1] // 4, 4).unfold(1, 2, 1)

    report = violation(padded, (torch.randn(3, 10),), {"x": {0: a, 1: b}})
    assert "dimension 1 of `x` (Dim 'b') must be at least 5" in report and "return x.view(" in report
    assert "    b = Dim('b', min=9)\n    dynamic_shapes = {'x': {0: a, 1: b}}" in report


def test_bounds_of_what_is_divided():
    def rounds(x, y):
        if (x.shape[0] + 3) // 4 <= 20 and y.shape[0] // 2 > 3:
            return x * 2
        return x

    report = violation(rounds, (torch.randn(7, 2), torch.randn(9)), {"x": {0: a}, "y": {0: b}})
    assert "dimension 0 of `x` (Dim 'a') must be at most 80" in report
    assert "dimension 0 of `y` (Dim 'b') must be at least 8" in report


def test_one_size_in_the_middle():
    """A condition that fails for a single size far from the example is found by the numbers in it."""

    def hole(x):
        return x if x.shape[0] // 2 == 500 else x + 1

    assert "(x.shape[0] // 2) != 500, which no Dim can say" in violation(hole, (torch.randn(7),), {"x": {0: a}})


def test_constant_int():
    def scaled(x, k):
        return x * 3 if k == 4 else x

    report = violation(scaled, (torch.randn(7), 4), {"x": {0: a}, "k": Dim.DYNAMIC})
    assert "`k` varies, but the program works for 4 only" in report and "if k == 4" in report
    assert "dynamic_shapes = {'x': {0: a}, 'k': None}" in report


def test_several_demands_at_once():
    def picky(x, y, z):
        x = x + y
        if z.shape[0] > 10:
            return x.sum() + z.view(3, -1).sum()
        return x.sum()

    args = torch.randn(4), torch.randn(4), torch.randn(12)
    report = violation(picky, args, {"x": {0: a}, "y": {0: b}, "z": {0: c}})
    assert report.count("\n  - ") == 3
    for text in ("must be equal", "must be a multiple of 3", "must be at least 11"):
        assert text in report


def test_nested_arguments_and_library_code():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, batch, *, scale=1.0):
            return self.fc(batch["items"][0]) * scale

    items = {"items": [torch.randn(3, 4)], "id": 7}
    report = violation(Model(), (items,), {"batch": {"items": [{0: a, 1: b}]}})
    assert "dimension 1 of `batch['items'][0]` (Dim 'b') varies, but the program works for 4 only" in report
    assert "return self.fc(batch" in report  # not the line of torch that it ends in
    assert "dynamic_shapes = {'batch': {'items': [{0: a}], 'id': None}}" in report


def test_all_dims_stay_in_the_suggestion():
    def partly(x, y):
        return (x * 2).sum(), y.view(4, 2)

    args = torch.randn(4, 3), torch.randn(8)
    with pytest.raises(stator.ConstraintViolation) as raised:
        stator.export(partly, args, dynamic_shapes={"x": {0: a, 1: Dim.AUTO}, "y": {0: b}})
    better = suggested(raised.value)
    assert better["y"] is None and better["x"][0].__name__ == "a" and better["x"][1] is Dim.AUTO


class Notes:
    def __init__(self):
        self.values = []


def test_lines_of_changed_containers():
    """Also deep in functions, and of containers that are filled by native code."""
    notes, table, names = Notes(), {}, {"first"}

    def keep(x):
        notes.values.append(x)
        return x

    def appends(x):
        return keep(x * 2)

    def stores(x):
        y = x + 1
        table["last"] = y
        return y

    def fills(x):
        y = x + 1
        names.update(["second", "third"])
        return y

    for program, line in (
        (appends, "keep\n    notes.values.append(x)"),
        (stores, 'stores\n    table["last"] = y'),
        (fills, 'fills\n    names.update(["second", "third"])'),
    ):
        with pytest.raises(stator.ExportError, match="it changes the") as raised:
            stator.export(program, (torch.ones(3),))
        assert line in str(raised.value)
    assert not notes.values and not table and names == {"first"}
