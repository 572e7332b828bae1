"""More or fewer values for `*args` and `**kw` each time: one value from the second number of them on."""

import sys
import warnings

import pytest
import torch
from torch import nn

import stator
from tests.harness import check
from tests.shapes.places import most_per_place

COUNTS = (2, 3, 4, 5, 7, 3, 6)


def tensors(count):
    return tuple(torch.arange(4.0) + number for number in range(count))


def added(*parts):
    total = torch.zeros(4)
    for part in parts:
        total = total + part
    return total / len(parts)


def stacked(first, *rest):
    return torch.stack(rest).sum(0) * first


def handed_on(*parts):
    def total(first, *rest):
        for part in rest:
            first = first + part.sin()
        return first

    return total(*parts)


def in_cells(first, *rest):
    def shifted():
        nonlocal first
        first = first + len(rest)
        return torch.cat(rest) + first.sum()

    return shifted(), first


class Method(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(4, 4), 0

    def forward(self, first, *rest, scale=2.0):
        self.calls += 1
        return self.linear(first) * scale + sum(part.mean() for part in rest), self.calls


@pytest.mark.parametrize("program", [added, stacked, handed_on, in_cells, Method])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_positional_values(program, backend):
    make = program if isinstance(program, type) else lambda: program
    calls = [tensors(count) for count in COUNTS]
    assert most_per_place(make, calls, backend=backend) <= (
        3 if program in (Method, in_cells) else 2
    )  # what looks at all of them


def test_keywords():
    def inner(x, **scales):
        for name, scale in scales.items():
            x = x + scale * len(name)
        return x

    def program(x, scales):
        return inner(x, **scales)

    calls = [(torch.ones(4), {f"name{i}": float(i) for i in range(count)}) for count in COUNTS]
    assert most_per_place(lambda: program, calls) <= 3  # the loop goes over a view of the dict


def test_two_numbers_of_values_are_whole():
    compiled = stator.compile(stacked, backend="eager")
    stator.reset()
    for count in (3, 4, 3, 4, 4, 3):
        assert torch.equal(compiled(*tensors(count)), stacked(*tensors(count)))
    stats = stator.stats()
    assert (stats["frames_captured"], stats["graph_breaks"]) == (2, 0)


def test_what_the_program_sees():
    """Defaults are read for each call; frames, warnings and errors are those of the program."""

    def program(first, second=1, *rest, third=2, **more):
        program.__defaults__ = (program.__defaults__[0] + 1,)
        warnings.warn(f"{len(rest)} more", stacklevel=1)
        if len(rest) > 4:
            raise ValueError(f"{len(rest)} are too many")
        return first * third, type(second), sorted(locals()), sys._getframe(1).f_code.co_name, more

    calls = [tensors(count) for count in (1, 2, 3, 4, 1, 5, 8, 2)]
    check(program, vary=calls, fullgraph=False, expect_recompiles=None, expect_breaks=None)


def test_calls_that_do_not_fit():
    def program(first, second, *rest, third=2):
        return first * third + second

    compiled = stator.compile(program, backend="eager")
    for count in (2, 3, 4):
        compiled(*tensors(count))
    with pytest.raises(TypeError) as expected:
        program(*tensors(1))
    with pytest.raises(TypeError) as found:
        compiled(*tensors(1))
    assert str(found.value) == str(expected.value)
    with pytest.raises(TypeError, match="unexpected keyword"):
        compiled(*tensors(3), fourth=1)
    program.__code__ = (lambda first, second, *rest, third=2: first - second).__code__
    for count in (3, 4, 5):
        assert torch.equal(compiled(*tensors(count)), program(*tensors(count)))


class Base(nn.Module):
    def forward(self, *parts):
        return sum(parts) * 2


class Derived(Base):
    def forward(self, *parts, **more):
        return super().forward(*parts) + len(more)


def test_super():
    assert most_per_place(Derived, [tensors(count) for count in COUNTS]) <= 3


def test_functions_that_are_left_alone_stay_so():
    @stator.disable
    def program(*parts):
        return sum(parts), torch.compiler.is_compiling()

    compiled = stator.compile(program, backend="eager")
    for count in COUNTS:
        assert torch.equal(compiled(*tensors(count))[0], program(*tensors(count))[0])
    assert not compiled(*tensors(3))[1]
