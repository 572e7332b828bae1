"""Small programs that once went wrong, reduced from larger ones."""

from __future__ import annotations

import copy
import importlib
import io
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable

import stator
from tests.corpus.registry import built, case, r


@case((r(3),), (r(3),), (r(3),))
def numpy_draws(x: Any) -> Any:
    """Cython functions are no pure functions."""
    lam = np.random.beta(1.0, 1.0)
    if np.random.rand() < 0.5:
        x = x + np.random.randint(4)
    return x * lam


@stator.disable(recursive=False)
def called_below(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def broken(a: Any, *args: Any, **kwargs: Any) -> Any:
    stator.graph_break()
    return a + 1, args, kwargs


@case((r(3), np.ones(2)), (r(3), np.ones(3)))
def keywords_with_arrays(x: Any, q: Any) -> Any:
    """A container that could not be imported in the first attempt is not half full in the second."""
    return called_below(broken, x, 1, r=q), called_below(broken, x, q, r=2), called_below(broken, x, [2, q], r={"a": q})


@built((r(3),), (r(2),), backward=True)
def data_in_place() -> Any:
    class DataInPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, x: Any) -> Any:
            self.w.data *= 2
            y = self.w * x
            self.w.data *= 2
            z = self.w * x
            self.w.data = self.w.data + 1
            self.w.data.mul_(3)
            self.w.data.mul_(3)
            return y.detach() + z.detach() + self.w * x

    return DataInPlace()


SEEN: list[int] = []


@case((r(3), torch.tensor([1])), (r(3), torch.tensor([5])), (r(3), torch.tensor([2])), globals=("SEEN",))
def fails_after_effects(x: Any, i: Any) -> Any:
    """Whether an index is in range is known when the graph runs; what came before it has happened."""
    with torch.no_grad():
        y = x * 2 + torch.rand(3)
        SEEN.append(len(SEEN))
        print("before")
        return y[i]


@case((r(3), torch.tensor([1])), (r(3), torch.tensor([5])), (r(3), torch.tensor([2])))
def handles_failure(x: Any, i: Any) -> Any:
    try:
        return torch.dropout(x, 0.5, True)[i] + 1
    except IndexError:
        return x


@case((torch.eye(2),), (-torch.eye(2),), (torch.eye(2),))
def asks_by_failing(x: Any) -> Any:
    """An operation whose result nobody uses, but whose failure somebody does."""
    try:
        torch.linalg.cholesky(x)
    except RuntimeError:
        return "not positive definite"
    return x + 1


@case((torch.eye(2),), (torch.zeros(2, 2),))
def fails_unused(x: Any) -> Any:
    torch.linalg.inv(x)
    return x + 1


@case((r(3), torch.tensor([1]), 1), (r(3), torch.tensor([5]), 1), (r(3), torch.tensor([2]), 1))
def fails_behind_break(x: Any, i: Any, n: int) -> Any:
    steps = [n]
    try:
        if x.sum() > -1000:
            steps.append(2)
        x = x.gather(0, i)
        steps.append(3)
    except RuntimeError as error:
        steps.append(str(error))
    finally:
        steps.append(4)
    return x, steps


@case((r(2, 3, grad=True),), (r(3, 3, grad=True),))
class Printing(nn.Module):
    """What is printed shows parameters and histories as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x: Any) -> Any:
        y = (x * self.w).sum(-1)
        print(self.w, self.frozen, x, y[0], y)
        z = y * 2
        print(z)
        z += 1
        with torch.no_grad():
            self.w.add_(1)
        print(z, self.w)
        return z


@built((r(3),), (r(2, 3),))
def deepcopy_of_module() -> Any:
    """Parameters have a `__deepcopy__` of their own."""
    layer = nn.Linear(3, 2)

    def run(x: Any) -> Any:
        twin = copy.deepcopy(layer)
        return twin(x), type(twin.weight).__name__

    return run


@case((r(2, 3),), (r(2, 3),), (r(4, 3),), (r(5, 3),))
def old_constructors(x: Any) -> Any:
    """`new` and the old classes take a torch.Size as sizes, a tuple as data."""
    made = [x.data.new(x.size()), x.new(torch.Size((2, x.shape[0]))), x.new(torch.Size(())), x.new(*x.size())]
    made += [torch.Tensor(x.size()), torch.LongTensor(x.shape[1:]), x.new(x.size(0)), x.new(size=x.size())]
    return [tensor.fill_(1) for tensor in made], x.new((2, 3)), x.new([4]), x.new(), torch.Tensor((2, 3))


@case((r(2, 3, grad=True), r(3)), (r(2, 3, grad=True), r(3)), (r(4, 3, grad=True), r(3)))
def variables(x: Any, y: Any) -> Any:
    """`Variable` makes a tensor without history, of the same memory."""
    hidden = Variable(torch.zeros(x.size(0), 3)), Variable(x), Variable(x * 2, requires_grad=True)
    seen = Variable(data=y)
    seen += 1
    loss = (hidden[2] * hidden[1] + hidden[0]).sum()
    return hidden, loss, isinstance(y, Variable), hidden[1].requires_grad, hidden[2].is_leaf, y * 2


@case((r(2, 3),), (r(2, 3),), (r(4, 3),))
def tensors_as_data(x: Any) -> Any:
    """Tensors without dimensions are read as numbers by `torch.tensor`, and decide on the dtype like those."""
    mean, first, place = x.mean(), x[0, 0], x.argmax()
    made = [torch.tensor([mean, first]), torch.tensor([[mean, 2], [3, first.double()]]), torch.tensor([place, 1])]
    made += [torch.tensor([mean.half(), 1.0]), torch.tensor([place, 1.5]), torch.as_tensor([mean], dtype=torch.float64)]
    mean += 1
    return made, torch.FloatTensor([mean, first]), torch.tensor([mean, x.shape[0]]), torch.tensor([place > 0])


@case((r(3),), (r(4),))
def modules_by_name(x: Any) -> Any:
    """A module that is looked up by name does not make all loaded ones part of the program."""
    found = importlib.import_module("torch.nn.functional").relu(x), importlib.import_module("math").pi
    try:
        importlib.import_module("torch.no_such_module")
    except ImportError as error:
        return found, str(error), error.name
    return found


@case((io.BytesIO(), r(3)), (io.BytesIO(), r(3)))
def saved_outside(file: Any, x: Any) -> Any:
    """torch writes files through C++ objects, which are not made before the program makes them."""
    torch.save([x], file)
    return file.tell(), len(file.getvalue())


@torch.jit.script
def scripted_swish(x: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
    return x * torch.sigmoid(x * beta)


@torch.jit.script
def scripted_check(x: torch.Tensor, n: int) -> torch.Tensor:
    if x.shape[0] != n:
        raise ValueError("sizes differ")
    x[0] += 1
    print(x.shape[0])
    return x.view(n, -1)


@torch.jit.script
def scripted_pairs(a: tuple[torch.Tensor, int], b: torch.Tensor | None = None) -> tuple[torch.Tensor, int]:
    return a[0] * a[1] if b is None else a[0] + b, a[1] + 1


@case((r(2, 3), 2), (r(4, 3), 4), (r(4, 3), 3))
def scripted_functions(x: Any, n: Any) -> Any:
    """Functions of TorchScript convert arguments, print and raise in their own ways."""
    gates = scripted_swish(x), scripted_swish(x, 2), scripted_swish(beta=n / 2, x=x)
    gates = gates, scripted_pairs((x, n)), scripted_pairs((x, 3), x)
    try:
        return gates, scripted_check(x, n), scripted_swish(x, None)
    except Exception as error:
        return gates, type(error).__name__
