"""Subclasses of Tensor and torch-function modes inside of compiled functions."""

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import stator
from stator.report.events import recording
from tests.harness import check


class Plain(torch.Tensor):
    """Results of operations are of the class, too."""


class Units(torch.Tensor):
    """Carries a unit, which operations calculate with."""

    unit: int

    def __new__(cls, data: Any, unit: int = 0) -> Any:
        made = torch.as_tensor(data).as_subclass(cls)
        made.unit = unit
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        units = [arg.unit for arg in args if isinstance(arg, Units)]
        if isinstance(result, Units):
            result.unit = sum(units) if func in (torch.mul, torch.Tensor.mul) else (units or [0])[0]
        return result

    @property
    def doubled(self) -> Any:
        return self * 2

    def shifted(self, by: float) -> Any:
        return self + by


class Boxes(torch.Tensor):
    """Operations give plain tensors, but for a few that keep the format."""

    layout_name: str

    @classmethod
    def wrap(cls, tensor: Any, name: str) -> Any:
        made = tensor.as_subclass(cls)
        made.layout_name = name
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return cls.wrap(result, args[0].layout_name) if func in (torch.Tensor.clone, torch.Tensor.to) else result


class Wrapped:
    """No tensor, but torch's functions take it."""

    def __init__(self, tensor: Any, name: str) -> None:
        self.tensor, self.name = tensor, name

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = next(arg.name for arg in args if isinstance(arg, Wrapped))
        given = [arg.tensor if isinstance(arg, Wrapped) else arg for arg in args]
        return Wrapped(func(*given, **(kwargs or {})), name)


class Tagged(torch.nn.Parameter):
    """A parameter with a tag."""

    def __new__(cls, data: Any, tag: str) -> Any:
        made = super().__new__(cls, data)
        made.tag = tag
        return made


class Strange(torch.Tensor):
    def __add__(self, other: Any) -> Any:
        return "added"


layer = torch.nn.Linear(3, 3)


def plain(x: Any) -> Any:
    y = F.relu(layer(x)) + torch.stack([x, x])[0]
    first, second, _ = x
    return y, y.shape, type(first).__name__, len(x), x.t().sum(), torch.max(x, 0)[0], isinstance(y, Plain), second


def written(x: Any) -> Any:
    x.add_(1)
    x[0] = 5
    x.note = "seen"
    y = x.clone()
    y.tag = (1, 2)
    return y, x.note


def units(x: Any) -> Any:
    a, b = Units(x, 1), Units(x + 1, 2)
    y = (a * b).shifted(1.0).doubled
    return y, y.unit, y.as_subclass(torch.Tensor) * 2


def boxes(x: Any) -> Any:
    y = Boxes.wrap(x, "corners")
    return y.clone(), y * 2, y.clone().layout_name, type(y + 1).__name__


def wrapped(x: Any) -> Any:
    y = torch.mul(torch.sin(Wrapped(x, "inner")), 2)
    return y.tensor, y.name


class Doubling(TorchFunctionMode):
    """Changes an operation, and counts all."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", str(func)))
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


def mode(x: Any) -> Any:
    outer, inner = Doubling(), Doubling()
    with outer:
        y = torch.sin(x) + torch.ones(3)
        with inner:
            y = F.relu(y)[0] @ x
        size = y.shape
    return y, torch.sin(x), outer.seen, inner.seen, size, torch.overrides._len_torch_function_stack()


INSIDE = [units, boxes, wrapped, mode]


@pytest.mark.parametrize("program", INSIDE, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_made_inside(program: Any, backend: str) -> None:
    x = torch.randn(3, 3, requires_grad=program is not mode)
    check(program, x, backend=backend, expect_graphs=1, tolerance=1e-6)


def differs(mine: Any, eager: Any) -> bool:
    if isinstance(eager, torch.Tensor):
        same = type(mine) is type(eager) and vars(mine) == vars(eager)
        return not (same and torch.equal(mine.as_subclass(torch.Tensor), eager.as_subclass(torch.Tensor)))
    if isinstance(eager, (tuple, list)):
        return len(mine) != len(eager) or any(map(differs, mine, eager))
    return bool(mine != eager)


@pytest.mark.parametrize("program", [plain, written], ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_from_outside(program: Any, backend: str) -> None:
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for seed in range(2):
        data = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed))
        mine, eager = data.clone().as_subclass(Plain), data.clone().as_subclass(Plain)
        assert not differs(compiled(mine), program(eager))
        assert not differs(mine, eager)
    assert stator.stats()["graphs"] == 1


def test_the_class_and_its_attributes_are_guarded() -> None:
    compiled = stator.compile(lambda x: (x * x, x.unit), backend="eager", fullgraph=True)
    for unit in (1, 2):
        y, found = compiled(Units(torch.ones(2), unit))
        assert (type(y), y.unit, found) == (Units, 2 * unit, unit)
    with pytest.raises(AttributeError):
        compiled(torch.ones(2))


def test_parameters_with_attributes() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Tagged(torch.ones(3), "w")

        def forward(self, x: Any) -> Any:
            return (x * self.weight).sum(), self.weight.tag

    net = Net()
    compiled = stator.compile(net, backend="aot_eager", fullgraph=True)
    loss, tag = compiled(torch.arange(3.0))
    loss.backward()
    assert tag == "w" and torch.equal(net.weight.grad, torch.arange(3.0))


def test_breaks_keep_the_class() -> None:
    def program(x: Any) -> Any:
        y = Units(x, 3) * 2
        if x.sum() > 0:
            y = y + 1
        return y * y, y.unit

    inputs = [(torch.ones(2),), (-torch.ones(2),)]
    check(program, vary=inputs, fullgraph=False, expect_breaks=1, expect_recompiles=None)


def test_modes_go_on_behind_a_break() -> None:
    def program(x: Any) -> Any:
        seen = Doubling()
        with seen:
            y = torch.sin(x)
            if y.sum() > 0:
                y = y + 1
            y = torch.sin(y)
        return y, seen.seen, torch.sin(x)

    inputs = [(torch.ones(2),), (-torch.ones(2),)]
    check(program, vary=inputs, fullgraph=False, expect_breaks=None, expect_recompiles=None)


class Labelled(torch.Tensor):
    """What is made of one keeps the attributes of the first."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        given = next((each.__dict__ for each in args if isinstance(each, Labelled)), None)
        if isinstance(result, Labelled) and given:
            result.__dict__.update(given)
        return result


def test_attributes_of_an_object_are_not_asked_for_by_its_class() -> None:
    def program(x: Any) -> Any:
        y = x.as_subclass(Labelled)
        y.label = {"size": 3}
        z = y + 1
        return z.as_subclass(torch.Tensor), type(z).__name__, z.label

    with recording("break", "skip") as seen:
        check(program, torch.ones(2), fullgraph=False, expect_breaks=None, expect_graphs=None)
    assert {event.break_id for event in seen} == {"tensor-metadata"}


def test_what_cannot_be_stood_in_for() -> None:
    compiled = stator.compile(lambda x: (x + 1, 2), backend="eager")
    assert compiled(torch.ones(2).as_subclass(Strange)) == ("added", 2)
    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(2).as_subclass(Strange))
    assert caught.value.break_id == "tensor-subclass"


class Metres(torch.Tensor):
    """Refuses to be added to anything else."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.add, torch.add, torch.Tensor.add_, torch.Tensor.__lt__):
            raise TypeError(f"no {func.__name__} for {len(types)}")
        return super().__torch_function__(func, types, args, kwargs)


class Answering:
    def __radd__(self, other: Any) -> str:
        return "radd"


def refused(x: Any) -> Any:
    def iadd() -> None:
        y = x
        y += 1

    calls: Any = [
        lambda: x + x, lambda: x + torch.ones(2), lambda: 1 + x, lambda: x < 1, lambda: torch.add(x, x),
        lambda: x.add(1), lambda: x + Answering(), lambda: x.__add__(1), lambda: operator.add(x, 1),
        lambda: (x * 2).sum(), iadd,
    ]  # fmt: skip
    found: list[Any] = []
    for call in calls:
        try:
            found.append(call())
        except TypeError as error:
            found.append(str(error))
    return found


def test_type_errors_in_operators() -> None:
    x = torch.ones(2).as_subclass(Metres)
    assert repr(stator.compile(refused, backend="eager")(x)) == repr(refused(x))


def test_recompiling_does_not_ask_the_class() -> None:
    """Which sizes are one is found out without its `__torch_function__`."""
    asked: list[Any] = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    def program(x: Any) -> Any:
        return x * 2 if x.shape[0] > 4 else x + 1

    compiled = stator.compile(program, backend="eager")
    for count in (3, 2, 6, 1, 7):
        x = torch.ones(count, 2).as_subclass(Watching)
        asked.clear()
        program(x)
        wanted = [*asked]
        asked.clear()
        compiled(x)
        assert asked == wanted
