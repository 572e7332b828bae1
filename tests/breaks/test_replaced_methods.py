"""Methods of tensors and modules that the program replaces, for good or for a while: captures use them, too."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import stator

ABSENT = object()
LINEAR = torch.nn.Linear(3, 2)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(owner).get(name, ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        delattr(owner, name) if before is ABSENT else setattr(owner, name, before)


CASES: dict[str, tuple[Any, str, Any, Callable[[Any], Any]]] = {
    "method": (torch.Tensor, "relu", lambda x: x.clamp(min=-1), lambda x: x.relu() + 1),
    "of C": (torch.Tensor, "sum", lambda x, *dims: torch.zeros(2), lambda x: x.sum() * 2),
    "conversion": (torch.Tensor, "to", lambda x, *_: x, lambda x: x.to(torch.float64) * 2),
    "device": (torch.Tensor, "cuda", lambda x: x, lambda x: x.cuda() * 2),
    "number": (torch.Tensor, "item", lambda x: 5, lambda x: x * x.sum().item()),
    "operator": (torch.Tensor, "__add__", lambda x, y: x * 100, lambda x: x + 1),
    "property": (torch.Tensor, "shape", property(lambda x: (9, 9)), lambda x: x * x.shape[0]),
    "truth": (torch.Tensor, "__bool__", lambda x: False, lambda x: x * 2 if x.sum() > -1e9 else x * 3),
    "new": (torch.Tensor, "doubled", lambda x: x * 2, lambda x: x.doubled().sin()),
    "text": (torch.Tensor, "__repr__", lambda x: "a tensor", lambda x: (repr(x), x * 2)),
    "member": (torch.nn.Module, "__getattr__", lambda self, name: self._parameters[name] * 2, lambda x: LINEAR(x)),
    "call": (torch.nn.Module, "_call_impl", lambda self, x: self.forward(x) * 5, lambda x: LINEAR(x)),
}


def shown(program: Callable[[Any], Any], x: Any) -> str:
    try:
        return repr(program(x))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@torch.no_grad()
def test_are_called_while_they_are_there(case: Any, backend: str) -> None:
    owner, name, value, program = case
    x = torch.arange(6.0).view(2, 3) - 2

    def inside(x: Any) -> Any:
        with replaced(owner, name, value):
            return program(x)

    first, later = stator.compile(inside, backend=backend), stator.compile(program, backend=backend)
    plain, wanted = shown(program, x), shown(inside, x)
    for _ in range(2):
        assert shown(first, x) == wanted
        assert shown(later, x) == plain
        with replaced(owner, name, value):
            assert shown(later, x) == shown(program, x)
    assert shown(later, x) == plain


def test_other_attributes_of_tensors_do_not_stop_captures() -> None:
    compiled = stator.compile(lambda x: x.sin() * 2, backend="eager", fullgraph=True)
    compiled(torch.ones(3))
    with replaced(torch.Tensor, "nickname", "t"):
        compiled(torch.ones(3))
    compiled(torch.ones(3))
    assert stator.stats()["frames_captured"] <= 2
