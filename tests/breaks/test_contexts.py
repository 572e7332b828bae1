"""Breaks inside blocks that change torch's state: the state goes on behind the break, and ends with the block."""

from typing import Any

import pytest
import torch

import stator
from stator.eval import forced
from tests.harness import check


def autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        if y.sum() > 0:
            y = y * 2
        y = y @ x
    return y, y.dtype, x @ x


def autocast_off_inside(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            y = y.float() @ x
            if y.sum() > 0:
                y = y * 2
            y = y @ x
        y = y @ x
    return y, x @ x, torch.is_autocast_enabled("cpu")


def inference(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        z = y * 3
    return z, z.is_inference(), (x + 1).is_inference(), torch.is_grad_enabled()


@torch.inference_mode()
def decorated(x: Any) -> Any:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y * 3


def calls_decorated(x: Any) -> Any:
    return decorated(x).clone(), x * 2


def inference_and_grad(x: Any) -> Any:
    with torch.no_grad():
        with torch.inference_mode(), torch.enable_grad():
            y = x * 2
            if y.sum() > 0:
                y = y + 1
            inside = torch.is_grad_enabled()
        outside = torch.is_grad_enabled()
        z = x * 2
    return y, z, inside, outside


def device(x: Any) -> Any:
    with torch.device("meta"):
        y = torch.ones(2)
        if x.sum() > 0:
            y = torch.zeros(3)
        z = torch.ones(1)
    return y.device, z.device, torch.ones(2).device, torch.ones(2) + 1, torch.get_default_device()


def two_devices(x: Any) -> Any:
    with torch.device("meta"), torch.device("cpu"):
        if x.sum() > 0:
            x = x + torch.ones(3, 3)
        y = torch.ones(2)
    return x, y.device, torch.ones(2).device


def raises(x: Any) -> Any:
    try:
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            if y.sum() > 0:
                y = y + 1
            raise ValueError("inside")
    except ValueError as error:
        return x @ x, str(error), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


def inference_within(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.inference_mode():
            y = x @ x
            if y.sum() > 0:
                y = y + 1
        z = x @ x
    return y.dtype, z, x @ x


def rounds(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(6):
            x = (x @ x).tanh().float()
            if x.sum() > 0:
                x = x + 1
    return x @ x


@torch.compiler.disable
def outside_sees() -> Any:
    return torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.ones(1).device


def seen_outside(x: Any) -> Any:
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"):
        first = outside_sees()
    return first, outside_sees(), x + 1


PROGRAMS = [
    autocast,
    autocast_off_inside,
    inference,
    calls_decorated,
    inference_and_grad,
    device,
    two_devices,
    raises,
    inference_within,
    rounds,
    seen_outside,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_blocks_go_on_behind_a_break(program: Any) -> None:
    inputs = [(torch.randn(3, 3),) for _ in range(3)] + [(torch.full((3, 3), sign),) for sign in (0.5, -0.5)]
    report = check(program, vary=inputs, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert report.gained("graph_breaks") > 0
    assert report.gained("frames_skipped") == 0, "a call ran eagerly"


@pytest.mark.parametrize("program", [autocast, inference, device], ids=lambda program: program.__name__)
def test_backends_that_trace(program: Any) -> None:
    inputs = [(torch.randn(3, 3),) for _ in range(2)]
    options = dict(fullgraph=False, expect_breaks=None, expect_recompiles=None, backend="aot_eager")
    check(program, vary=inputs, tolerance=1e-2, **options)


def test_a_default_device_around_the_call() -> None:
    def made(x: Any) -> Any:
        return torch.ones(2).device, torch.zeros(3) + 1, x + 1

    def under(function: Any) -> Any:
        def run(x: Any) -> Any:
            with torch.device("meta"):
                return function(x)

        return run

    import stator

    compiled = stator.compile(made, backend="eager")
    for _ in range(2):
        for mine, eager in zip(under(compiled)(torch.ones(2)), under(made)(torch.ones(2)), strict=True):
            assert getattr(mine, "device", mine) == getattr(eager, "device", eager)


class Twice(torch.nn.Module):
    """Uses one weight on both sides of a break."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            stator.graph_break()
            z = self.linear(x + y)
            stator.graph_break()
            return y + self.linear(z)


def casts(result):
    """How many casts the history of a tensor has."""
    seen, pending = set(), [result.grad_fn]
    while pending:
        step = pending.pop()
        if step is not None and step not in seen:
            seen.add(step)
            pending += [below for below, _ in step.next_functions]
    return sum(step.name().startswith("ToCopy") for step in seen)


def test_a_weight_is_cast_once_in_a_block_of_autocast():
    model, x = Twice(), torch.randn(2, 3)
    compiled = stator.compile(model, backend="eager")
    expected = model(x)
    for _ in range(2):
        result = compiled(x)
        assert torch.equal(result, expected)
        assert casts(result) == casts(expected)
    with torch.no_grad():
        model.linear.weight.add_(1)  # nothing of what was cast is left
    assert torch.equal(compiled(x), model(x))


def some_in_inference_mode(x):
    y = x * 3
    with torch.inference_mode():
        z = y.view(-1)
        w = y * 2
    return y, z, w, y + 1


def all_in_inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        x.add_(1)
    return y, y[0]


def some_outside_of_inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        with torch.inference_mode(False):
            z = x * 2
    return y, z


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [some_in_inference_mode, all_in_inference_mode, some_outside_of_inference_mode])
def test_tensors_of_inference_mode(program, backend):
    compiled = stator.compile(program, backend=backend)
    expected = [one.is_inference() for one in program(torch.ones(2, 2))]
    for _ in range(2):
        results = compiled(torch.ones(2, 2))
        assert [one.is_inference() for one in results] == expected
        assert all(map(torch.equal, results, program(torch.ones(2, 2))))
        assert not torch.is_inference_mode_enabled()
    assert not (torch.ones(1) + 1).is_inference()


def test_each_block_of_autocast_casts_anew():
    weight = torch.randn(3, 3, requires_grad=True)

    def two_blocks(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ weight
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return y.float() @ weight

    x = torch.randn(2, 3)
    compiled = stator.compile(two_blocks, backend="eager", fullgraph=True)
    assert [casts(compiled(x)) for _ in range(2)] == [casts(two_blocks(x))] * 2


def test_breaks_at_each_instruction_of_entering() -> None:
    def program(x: Any) -> Any:
        with torch.inference_mode():
            y = x + 1
        return y, y.is_inference(), torch.is_inference_mode_enabled()

    for number in range(1, 24):
        forced.force(str(number))
        stator.reset()
        check(program, torch.ones(2), fullgraph=False, expect_breaks=None, expect_graphs=None)
