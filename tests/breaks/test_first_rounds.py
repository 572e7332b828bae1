"""The first round of a loop begins with tensors without gradient: its graph serves the other rounds too."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import stator
from tests.breaks.test_counts import graphs
from tests.harness import check


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.Linear(7, 4)

    def forward(self, x: Any) -> Any:
        state = torch.zeros(x.size(1), 4)
        outputs = []
        for step in x:
            state = torch.tanh(self.cell(torch.cat([step, state], 1)))
            outputs.append(state)
        return torch.stack(outputs), state


class Listed(Recurrent):
    """States in a list of tuples, as layers of cells keep them."""

    def forward(self, x: Any) -> Any:
        states = [(torch.zeros(x.size(1), 4),) for _ in range(2)]
        for step in x:
            for i, (state,) in enumerate(states):
                states[i] = (torch.tanh(self.cell(torch.cat([step, state], 1))) + i,)
        return states


class Halting(NamedTuple):
    state: Any
    steps: int = 0


class Named(Recurrent):
    """A state in a named tuple, another one in a dict."""

    def forward(self, x: Any) -> Any:
        h, kept = Halting(torch.zeros(x.size(1), 4)), {"sum": torch.zeros(x.size(1), 4)}
        for step in x:
            h = h._replace(state=torch.tanh(self.cell(torch.cat([step, h.state], 1))), steps=h.steps + 1)
            kept["sum"] = kept["sum"] + h.state
        return h, kept


class Partly(Recurrent):
    """What is made of the state alone has a gradient from the second round on."""

    def forward(self, x: Any) -> Any:
        state, seen = torch.zeros(x.size(1), 4), []
        for step in x:
            doubled = state * 2
            state = torch.tanh(self.cell(torch.cat([step, state], 1)))
            stator.graph_break()
            seen.append(doubled.requires_grad)
        return state + doubled, seen


class Counted(Recurrent):
    """The best place is an int, and what is detached has no gradient in any round."""

    def forward(self, x: Any) -> Any:
        state = torch.zeros(x.size(1), 4)
        seen = []
        for step in x:
            best, past = state.argmax(1), state.detach() + 1
            state = torch.tanh(self.cell(torch.cat([step, state], 1)))
            if state.sum() > 1000:
                break
            seen += [best, past, state.requires_grad, past.requires_grad]
        return state, seen


LENGTHS = [(torch.randn(n, 2, 3),) for n in (3, 5, 4)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [Recurrent, Listed, Named, Partly, Counted])
def test_gradients(program: Any, backend: str) -> None:
    check(
        program(),
        vary=LENGTHS,
        backend=backend,
        backward=True,
        fullgraph=False,
        tolerance=1e-5,
        expect_breaks=None,
        expect_graphs=None,
        expect_recompiles=None,
    )


@pytest.mark.parametrize("program", [Recurrent, Listed, Named])
def test_one_graph_for_all_rounds(program: Any) -> None:
    assert graphs(program, LENGTHS)[0] == 2  # one is the first call as a whole


def test_states_with_hooks() -> None:
    class Hooked(Recurrent):
        def forward(self, x: Any) -> Any:
            state, seen = torch.zeros(x.size(1), 4), []
            for step in x:
                state = torch.tanh(self.cell(torch.cat([step, state], 1)))
                stator.graph_break()
                state.register_hook(lambda grad: seen.append(grad.sum().item()))
            state.sum().backward()
            return seen, self.cell.weight.grad

    check(Hooked(), vary=LENGTHS, backend="aot_eager", fullgraph=False, tolerance=1e-5, expect_breaks=None,
          expect_graphs=None, expect_recompiles=None)  # fmt: skip
