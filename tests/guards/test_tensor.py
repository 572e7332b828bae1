"""TensorSpec and the TENSOR check: every fact is noticed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stator import _entry
from stator.guards import GuardSet, TensorSpec, arg, check
from stator.guards.tensor_spec import LAYOUT_KNOWN


class Child(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    """Its sizes are answered by Python code."""

    asked = 0

    @staticmethod
    def __new__(cls) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (2, 3), dispatch_sizes_strides_policy="sizes")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Wrapper.asked += 1
        raise NotImplementedError(func)


class Loud(torch.Tensor):
    """Every look at an attribute from Python is user code."""

    asked = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Loud.asked += 1
        return super().__torch_function__(func, types, args, kwargs)


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.zeros(2, 3)


def tracked() -> torch.Tensor:
    return torch.zeros(2, 3, requires_grad=True) * 2


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.zeros(2, 3),
    "long": lambda: torch.zeros(2, 3, dtype=torch.int64),
    "half": lambda: torch.zeros(2, 3, dtype=torch.bfloat16),
    "bool": lambda: torch.zeros(2, 3, dtype=torch.bool),
    "wide": lambda: torch.zeros(2, 4),
    "flat": lambda: torch.zeros(6),
    "scalar": lambda: torch.zeros(()),
    "empty": lambda: torch.zeros(0, 3),
    "many": lambda: torch.zeros(1, 2, 1, 2, 1, 2, 1),
    "many transposed": lambda: torch.zeros(1, 2, 1, 2, 1, 2, 1).transpose(0, 1),
    "transposed": lambda: torch.zeros(3, 2).t(),
    "expanded": lambda: torch.zeros(3).expand(2, 3),
    "meta": lambda: torch.zeros(2, 3, device="meta"),
    "grad": lambda: torch.zeros(2, 3, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.zeros(2, 3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False),
    "inference": inference,
    "complex": lambda: torch.zeros(2, 3, dtype=torch.complex64),
    "conjugate": lambda: torch.zeros(2, 3, dtype=torch.complex64).conj(),
    "negative": lambda: torch.zeros(2, 3, dtype=torch.complex64).conj().imag,
    "sparse": lambda: torch.zeros(2, 3).to_sparse(),
    "csr": lambda: torch.zeros(2, 3).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    "child": lambda: torch.zeros(2, 3).as_subclass(Child),
    "loud": lambda: torch.zeros(2, 3).as_subclass(Loud),
    "wrapper": Wrapper,
}


def program_for(spec: TensorSpec) -> tuple[GuardSet, _entry.GuardProgram]:
    guards = GuardSet()
    guards.add(arg(0), check.TENSOR, spec)
    return guards, guards.compile([])


def test_layout_is_known() -> None:
    assert LAYOUT_KNOWN and _entry.tensor_mode() == "direct"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_told_apart(kind: str) -> None:
    Loud.asked = Wrapper.asked = 0
    guards, program = program_for(TensorSpec.of(KINDS[kind]()))
    for other, make in KINDS.items():
        tensor = make()
        hit = program.run((tensor,)) == []
        assert hit == (other == kind), other
        assert hit == (guards.first_failure((tensor,)) is None), other
    assert Loud.asked == Wrapper.asked == 0


def test_dynamic_dimensions() -> None:
    spec = TensorSpec.of(torch.zeros(2, 3)).with_dims((None, 3), (None, 1))
    guards, program = program_for(spec)
    assert program.run((torch.zeros(7, 3),)) == []
    assert guards.first_failure((torch.zeros(7, 3),)) is None
    for wrong in (torch.zeros(2, 4), torch.zeros(2, 3, 1), torch.zeros(3, 2).t()):
        assert program.run((wrong,)) == 0
        assert guards.first_failure((wrong,)) is not None
    _, program = program_for(spec.with_dims((None, None), None))
    assert program.run((torch.zeros(3, 2).t(),)) == []


def test_leaf_only_if_asked() -> None:
    leaf = torch.zeros(2, requires_grad=True)
    inner = torch.zeros(2, requires_grad=True) * 2
    _, program = program_for(TensorSpec.of(leaf))
    assert program.run((inner,)) == []
    guards, program = program_for(TensorSpec.of(leaf, leaf=True))
    assert program.run((leaf,)) == [] and program.run((inner,)) == 0
    guards.names = ["x"]
    failure = guards.first_failure((inner,))
    assert failure is not None and "leaf is True, now False" in failure.sentence


def test_offset_and_contents_do_not_matter() -> None:
    base = torch.arange(12.0)
    _, program = program_for(TensorSpec.of(base[:3]))
    assert program.run((base[5:8],)) == []


def test_sentence() -> None:
    guards, _ = program_for(TensorSpec.of(torch.zeros(2, 3)))
    guards.names = ["x"]
    failure = guards.first_failure((torch.zeros(2, 4, dtype=torch.float64),))
    assert failure is not None
    assert failure.sentence == (
        "x is Tensor(torch.float32, cpu, (2, 3)): dtype is torch.float32, now torch.float64; "
        "sizes are (2, 3), now (2, 4); strides are (3, 1), now (4, 1)"
    )


def test_python_answers_if_the_layout_is_unknown() -> None:
    from stator.guards import tensor_spec

    try:
        assert _entry.tensor_learn([(torch.zeros(2), 1, 2, (2,), (1,))]) is False
        assert _entry.tensor_mode() == "python"
        guards, program = program_for(TensorSpec.of(torch.zeros(2, 3)))
        assert program.run((torch.ones(2, 3),)) == []
        assert program.run((torch.ones(2, 4),)) == 0
    finally:
        assert tensor_spec._learn()


def test_gradients_are_reached() -> None:
    x = torch.zeros(2, requires_grad=True)
    program = GuardSet().compile([arg(0).get("grad")])
    assert program.run((x,)) == [None]
    x.sum().backward()
    loaded = program.run((x,))
    assert isinstance(loaded, list) and loaded[0] is x.grad
    Loud.asked = 0
    loud = torch.zeros(2).as_subclass(Loud)
    assert program.run((loud,)) == [None]
    assert Loud.asked == 0
