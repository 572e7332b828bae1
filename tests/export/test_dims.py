"""Which sizes vary: every way to say it, and every way to say it wrong."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim, ShapesCollection

import stator
from tests.export.same import same

a, b = Dim("a"), Dim("b")
half = Dim("half", max=100)


def total(x, y):
    return x.sum(1) + 1, y * 2


def calls(*sizes):
    return [((torch.randn(n, 3), torch.randn(m, 3)), {}) for n, m in sizes]


@pytest.mark.parametrize(
    "spec",
    [
        {"x": {0: a}, "y": {0: b}},
        {"x": {0: a, 1: None}, "y": {0: b, 1: 3}},
        {"x": (a, None), "y": [b, Dim.STATIC]},
        ({0: a}, (b, 3)),
        [{-2: a}, {0: b}],
        {"x": {0: Dim.AUTO}, "y": {0: Dim.DYNAMIC}},
        {"x": {0: Dim("a", min=2, max=64)}, "y": {0: Dim.AUTO(min=2, max=64)}},
    ],
)
def test_ways_to_say_it(spec):
    same(total, (torch.randn(4, 3), torch.randn(5, 3)), dynamic_shapes=spec, more=calls((2, 7), (9, 2)))


def test_unnamed_arguments_are_static():
    program = same(total, (torch.randn(4, 3), torch.randn(5, 3)), dynamic_shapes={"x": {0: a}}, more=calls((8, 5)))
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        program.module()(torch.randn(4, 3), torch.randn(6, 3))


def test_bounds_are_checked_when_it_runs():
    program = stator.export(lambda x: x * 2, (torch.randn(4),), dynamic_shapes=({0: Dim("n", min=3, max=6)},))
    (bounds,) = program.range_constraints.values()
    assert (bounds.lower, bounds.upper) == (3, 6)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        program.module()(torch.randn(7))


@pytest.mark.parametrize("spec", [({0: half}, {0: 2 * half}), ({0: half}, {0: half * 2})])
def test_derived(spec):
    def doubled(x, y):
        return torch.cat([x, x]) + y

    more = [((torch.randn(n), torch.randn(2 * n)), {}) for n in (3, 7)]
    same(doubled, (torch.randn(4), torch.randn(8)), dynamic_shapes=spec, save=True, more=more)


def test_derived_with_offset_and_without_root():
    def shifted(x, y):
        return x[1:] + y

    more = [((torch.randn(n + 1), torch.randn(n)), {}) for n in (3, 7)]
    same(shifted, (torch.randn(5), torch.randn(4)), dynamic_shapes=({0: half + 1}, {0: half}), more=more)
    same(lambda x: x.view(2, -1), (torch.randn(8),), dynamic_shapes=({0: 2 * half},), more=[((torch.randn(6),), {})])


def test_conditions_that_hold_for_all_sizes():
    """What torch cannot prove, and no Dim needs to say."""

    def halves(x):
        n = x.shape[0] // 2
        return x[:n].sum(), x[n:].sum(), n

    def rounded_up(x):
        if pad := -x.shape[1] % 8:
            x = nn.functional.pad(x, (0, pad))
        return x.view(x.shape[0], -1, 8).mean(-1)

    spec = {"x": {0: Dim("n", min=4)}}
    program = same(halves, (torch.randn(7),), dynamic_shapes=spec, save=True, more=sized((4,), (9,), (100,)))
    assert [(int(r.lower), str(r.upper)) for r in program.range_constraints.values()] == [(4, "int_oo")]
    spec = {"x": {0: Dim("b", max=20), 1: Dim("s", min=9)}}
    same(rounded_up, (torch.randn(2, 13),), dynamic_shapes=spec, save=True, more=sized((3, 16), (5, 9), (2, 99)))


def sized(*shapes):
    return [((torch.randn(shape),), {}) for shape in shapes]


def test_names_that_torch_is_not_told_still_relate():
    def apart(x, y, z):
        n = x.shape[0] // 2
        return x[:n].sum(), x[n:].sum(), y.sum(), z * 2

    n = Dim("n", min=4)
    spec = {"x": {0: n}, "y": {0: n}, "z": {0: 2 * n + 1}}
    more = [((torch.randn(n), torch.randn(n), torch.randn(2 * n + 1)), {}) for n in (4, 10)]
    run = same(apart, (torch.randn(7), torch.randn(7), torch.randn(15)), dynamic_shapes=spec, more=more).module()
    for wrong in ((10, 11, 21), (10, 10, 20), (3, 3, 7)):
        with pytest.raises((AssertionError, RuntimeError)):
            run(*map(torch.randn, wrong))


def test_a_named_size_and_an_int():
    """Together they have a bound, which is checked for the int that a call gives."""

    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.zeros(1, 32, 8))

        def forward(self, x, start):
            self.kept[:, start : start + x.shape[1]] = x
            return self.kept * 1

    spec = {"x": {1: Dim("n", max=8)}, "start": Dim.DYNAMIC}
    more = [((torch.randn(1, n, 8), start), {}) for n, start in ((2, 7), (4, 28))]
    same(Cache(), (torch.randn(1, 3, 8), 4), dynamic_shapes=spec, save=True, more=more)


def test_shapes_collection():
    x, y = torch.randn(4, 3), torch.randn(5, 3)
    shapes = ShapesCollection()
    shapes[x] = {0: Dim.DYNAMIC}
    same(total_module(), (x, y), dynamic_shapes=shapes, more=calls((6, 5)))


class Total(nn.Module):
    def forward(self, x, y):
        return total(x, y)


def total_module():
    return Total()


def test_what_the_program_asked_is_checked_when_it_runs():
    """Decisions of the Python program become conditions of the exported one."""

    def decide(x, y):
        if x.shape[0] > 5 and x.shape[0] % 2 == 0 and x.shape[0] < y.shape[0]:
            return x.sum() + y.sum()
        return x.sum() - y.sum()

    spec = {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    program = same(decide, (torch.randn(8), torch.randn(12)), dynamic_shapes=spec)
    run = program.module()
    run(torch.randn(10), torch.randn(11))
    for wrong in ((4, 12), (7, 12), (12, 8)):
        with pytest.raises((AssertionError, RuntimeError)):
            run(*map(torch.randn, wrong))


def checked(x, n):
    k = n.item()
    torch._check(k > 2)
    return torch.zeros(k) + x.sum()


# Sizes and numbers that only data tells: program -> calls with different ones.
FROM_DATA = {
    "nonzero": (lambda x: x.nonzero() * 2, [(torch.tensor([0.0, 1, 2]),), (torch.zeros(3),), (torch.ones(3),)]),
    "mask": (lambda x: x[x > 0].sum(), [(torch.randn(8),), (-torch.ones(8),)]),
    "item": (lambda n, y: y * n.sum().item(), [(torch.tensor([3]), torch.ones(2)), (torch.tensor([9]), torch.ones(2))]),
    "slice": (lambda x, n: x[: n.item()] * 2, [(torch.randn(8), torch.tensor(3)), (torch.randn(8), torch.tensor(8))]),
    "check": (checked, [(torch.randn(2), torch.tensor(3)), (torch.randn(2), torch.tensor(9))]),
}  # fmt: skip


@pytest.mark.parametrize("name", FROM_DATA)
def test_sizes_from_data(name):
    program, (example, *more) = FROM_DATA[name]
    exported = same(program, example, more=[(call, {}) for call in more])
    if name == "check":
        with pytest.raises((AssertionError, RuntimeError)):
            exported.module()(torch.randn(2), torch.tensor(2))


def test_size_from_data_next_to_named_ones():
    def picked(x, y):
        return x[x[:, 0] > 0] @ y

    def call(n):
        return (torch.randn(n, 4), torch.randn(4, 2)), {}

    same(picked, call(5)[0], dynamic_shapes={"x": {0: a}}, save=True, more=[call(9), call(3)])


def args():
    return torch.randn(4, 3), torch.randn(5, 3)


# dynamic_shapes -> error and text.
WRONG = [
    ({"z": None}, stator.InvalidOptions, "names 'z', but the arguments are x, y"),
    (({0: a},), stator.InvalidOptions, "has 1 entry, but there are 2 arguments: x, y"),
    ({"x": {2: a}}, stator.InvalidOptions, "`x` has 2 dimensions, but dynamic_shapes names dimension 2 of it"),
    ({"x": (a,)}, stator.InvalidOptions, "`x` has 2 dimensions (shape (4, 3)), but dynamic_shapes has 1 entry for it"),
    ({"x": {0: "q"}}, stator.InvalidOptions, "dimension 0 of `x`: 'q' says nothing about a size; allowed are a Dim"),
    ({"x": {0: 5}}, stator.ConstraintViolation, "dimension 0 of `x` is 4, but dynamic_shapes says 5"),
    ({"x": 3}, stator.InvalidOptions, "`x` is a tensor, but dynamic_shapes says 3 for it: write a dict"),
    (3, stator.InvalidArgument, "dynamic_shapes must be a dict by argument name, or a tuple"),
    (
        {"x": {0: a}, "y": {0: a}},
        stator.ConstraintViolation,
        "Dim 'a' stands for different sizes in the example arguments: 4 by dimension 0 of `x`, 5 by dimension 0 of `y`",
    ),
    ({"x": {0: Dim("a", min=10)}}, stator.ConstraintViolation, "is 4 in the example, but Dim 'a' is at least 10"),
    ({"x": {0: Dim("a", max=3)}}, stator.ConstraintViolation, "is 4 in the example, but Dim 'a' is at most 3"),
    (
        {"x": {0: Dim("a", max=30)}, "y": {0: a}},
        stator.InvalidOptions,
        "two Dims named 'a' with different bounds: Dim('a', max=30) and Dim('a'); make it once",
    ),
    ({"x": {0: 2 * a}, "y": {0: 2 * b}}, stator.ConstraintViolation, "is 5, which is not 2 * b for any b"),
]


@pytest.mark.parametrize(("spec", "kind", "text"), WRONG)
def test_wrong_specifications(spec, kind, text):
    with pytest.raises(kind) as raised:
        stator.export(total, args(), dynamic_shapes=spec)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"d": {"z": None}}, "dynamic_shapes has 'z' in `d`, whose parts are 'x', 'n'"),
        ({"d": (None, None)}, "`d` is a dict of 2 parts, but dynamic_shapes says (None, None) for it: write a dict"),
        ({"x": {0: a}}, "names 'x', but the arguments are d, parts; if the key of the dict `d` is meant, write {'d':"),
        ({"d": {"n": a}}, "`d['n']` is an int: use Dim.DYNAMIC or Dim.AUTO for it"),
        ({"d": {"n": {0: a}}}, "`d['n']` is 3, which has no sizes"),
        ({"parts": [None]}, "`parts` has 2 parts, but dynamic_shapes has 1 for it"),
        ({"parts": [{0: a}, None]}, "`parts[0]` has 0 dimensions, but dynamic_shapes names dimension 0 of it"),
    ],
)
def test_wrong_nested_specifications(spec, text):
    def program(d, parts):
        return d["x"] * parts[0]

    with pytest.raises(stator.InvalidOptions) as raised:
        stator.export(program, ({"x": torch.randn(3), "n": 3}, [torch.tensor(2.0), None]), dynamic_shapes=spec)
    assert text in str(raised.value)


@pytest.mark.parametrize("dim", [a, Dim.DYNAMIC])
@pytest.mark.parametrize("size", [0, 1])
def test_zero_and_one_are_constants(dim, size):
    with pytest.raises(stator.ConstraintViolation, match="use example arguments with at least 2 there"):
        stator.export(lambda x: x * 2, (torch.randn(size),), dynamic_shapes=({0: dim},))


class Unknown:
    """No pytree."""


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: stator.export(total, list(args())), "args must be a tuple of arguments, got list"),
        (lambda: stator.export(total, args(), [1]), "kwargs must be a dict of arguments, got list"),
        (lambda: stator.export(nn.LazyLinear(2), args()[:1]), "the model has lazy modules"),
        (lambda: stator.export(Total, args()), "stator.export needs a function or a module"),
        (lambda: stator.export(total, (torch.randn(2),)), "do not fit the signature (x, y): missing a required"),
        (lambda: stator.export(total, (torch.randn(2, 3), Unknown())), "`y` is an object of class Unknown, which an"),
        (lambda: stator.export(lambda x: [Unknown()], (torch.randn(2),)), "`result[0]` is an object of class Unknown"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, text):
    with pytest.raises(stator.InvalidArgument) as raised:
        call()
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "program", [lambda x: x * (0.5, 2.0, 4.0)[x.shape[0] - 2], lambda x: x.new_zeros(x.shape[0].bit_length())]
)
def test_what_only_python_calculates_of_a_size_makes_it_a_constant(program):
    with pytest.raises(stator.ConstraintViolation, match="works for 4 only"):
        stator.export(program, (torch.ones(4),), dynamic_shapes=({0: Dim("n", min=2, max=4)},))
