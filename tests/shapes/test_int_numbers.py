"""Symbolic ints as numbers of tensor operations: two compilations for any values, with gradients of eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import stator

INDEX = torch.tensor([0, 2])


def stored(x, n):
    y, whole, small = x.clone(), torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int32)
    y[INDEX], whole[0], small[1] = n, n, n
    return y, whole, small


ROWS = {
    "powers": lambda x, n: (x**n, x.abs().clone().pow_(n), n**x, torch.pow(n, x)),
    "bounds": lambda x, n: (x.clamp(-n, n), x.clamp_min(n), F.hardtanh(x, -n, n), F.threshold(x, n, n)),
    "numbers": lambda x, n: (torch.lerp(x, x * 2, n), torch.xlogy(x.abs(), n), torch.nan_to_num(x.log(), nan=n)),
    "fillings": lambda x, n: (x.masked_fill(x > 0, n), F.pad(x, (1, 1), value=n), *stored(x, n)),
    "losses": lambda x, n: (F.smooth_l1_loss(x, x * 3, beta=n), F.huber_loss(x, x * 3, delta=n), F.softshrink(x, n)),
    "sizes": lambda x, n: (torch.linspace(-1, 1, n), F.one_hot(INDEX, n + 2)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ROWS)
def test_numbers(name: str, backend: str) -> None:
    program = ROWS[name]
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for n in (3, 2, 5, 4):
        mine, theirs = (torch.linspace(-4, 5, 10).requires_grad_() for _ in range(2))
        found, expected = compiled(mine, n), program(theirs, n)
        torch.testing.assert_close(found, expected, equal_nan=True)
        for made, x in ((found, mine), (expected, theirs)):
            if any(part.requires_grad for part in made):
                sum(part.sum() for part in made if part.requires_grad).backward()
        torch.testing.assert_close(mine.grad, theirs.grad, equal_nan=True)
    assert len(compiled.entries()) == 2


def test_what_a_tensor_cannot_hold() -> None:
    def program(x, n):
        x[0] = n
        return x

    compiled = stator.compile(program, backend="eager")
    for n in (3, 4, 5):
        assert compiled(torch.zeros(2, dtype=torch.uint8), n)[0] == n
    with pytest.raises(RuntimeError, match="overflow"):
        compiled(torch.zeros(2, dtype=torch.uint8), 300)


def test_ints_that_no_float_is_equal_to() -> None:
    """Of these the float of 64 bits, rounded to 32, is another one than the int rounded to 32."""

    def program(x, n):
        return x.clamp(max=n), x.masked_fill(x > 0, n), F.threshold(x, 0.5, n)

    large = (1 << 60) + (1 << 36) + 1
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = torch.tensor([1.0, 2.0**61, -3.0])
    for n in (3, 4, 1 << 53, large, -large):
        torch.testing.assert_close(compiled(x, n), program(x, n), rtol=0, atol=0)
