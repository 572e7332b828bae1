"""Symbolic sizes through backends, forward and training."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.harness import check

TWO = {"expect_recompiles": 1, "expect_graphs": 2}  # compilations


class Block(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 16), nn.Embedding(64, 16)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        return x


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8)
        self.second, self.down = nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 8, 1, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.relu(self.second(x) + self.down(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), lambda n: torch.randn(n, 8)),
    "transformer": (Transformer, lambda n: torch.randint(0, 20, (n, 2 * n + 1))),
    "residual": (Residual, lambda n: torch.randn(n, 3, 8, 8)),
}
CASES = [(name, backend) for name in MODELS for backend in ("eager", "aot_eager")] + [("mlp", "inductor")]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name, backend", CASES)
def test_models(name, backend, train):
    make, data = MODELS[name]
    model = make().train(train)
    twin = copy.deepcopy(model)
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    for n in (4, 5, 7, 3, 11):
        x = data(n)
        with torch.set_grad_enabled(train):
            got, want = compiled(x), twin(x)
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
        if train:
            for net, out in ((model, got), (twin, want)):
                net.zero_grad()
                out.square().mean().backward()
            for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-4, rtol=1e-3)
            for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
                torch.testing.assert_close(mine, theirs)
    assert stator.stats()["graphs"] == 2
    assert stator.stats()["frames_skipped"] == 0


def test_a_backend_sees_symbols_as_placeholders():
    seen = []

    def backend(graph, inputs):
        seen.append((graph, inputs))
        return graph.forward

    compiled = stator.compile(lambda x: x.view(-1) * (x.shape[0] + 1), backend=backend, fullgraph=True, dynamic=True)
    for n in (4, 5):
        x = torch.ones(n, 1)
        assert torch.equal(compiled(x), torch.ones(n) * (n + 1))
    ((graph, inputs),) = seen
    assert len(graph.graph.find_nodes(op="placeholder")) == len(inputs) == 2
    assert {type(value).__name__ for value in inputs} == {"FakeTensor", "SymInt"}


def test_ints_through_aot():
    def program(x, n):
        return x[:n].sum() * n, x.roll(n)

    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    for n in (2, 3, 5, 7):
        x = torch.randn(12)
        for got, want in zip(compiled(x, n), program(x, n), strict=True):
            torch.testing.assert_close(got, want)
    assert len(compiled.entries()) == 2


def test_operations_that_check_their_result():
    """They become operators without a schema in the trace."""

    def program(x):
        a = x @ x.t() + torch.eye(x.shape[0])
        return torch.linalg.cholesky(a).sum() + torch.linalg.inv(a).sum() + torch.linalg.solve(a, x).sum()

    compiled = stator.compile(program, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (3, 4, 5):
        x, twin = (torch.randn(n, n, generator=torch.manual_seed(n)).requires_grad_() for _ in range(2))
        torch.testing.assert_close(compiled(x), program(twin))
        compiled(x).backward()
        program(twin).backward()
        torch.testing.assert_close(x.grad, twin.grad)
    assert stator.stats()["graphs"] == 1


def test_backward_is_told_the_numbers_from_data():
    """A size of a gradient may be calculated from data; where no input tells the number, it is a break."""
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

    def backend(graph, inputs):
        def backward(inner, fakes):
            for value in fakes:
                for number in (value,) if isinstance(value, torch.SymInt) else value.shape:
                    if isinstance(number, torch.SymInt):
                        (bound if number.node.expr.is_Symbol else needed).update(number.node.expr.free_symbols)
            return make_boxed_func(inner.forward)

        return aot_module_simplified(
            graph, inputs, fw_compiler=lambda inner, _: make_boxed_func(inner.forward), bw_compiler=backward
        )

    def program(x, batch, weight):
        groups = x.new_zeros(int(batch.max()) + 1, 3).index_add(0, batch, x)
        kept = groups[groups.sum(1) > 0]
        return groups @ weight, torch.cat([kept, kept]) @ weight

    bound, needed = set(), set()
    compiled = stator.compile(program, backend=backend)
    for last in (2, 3):
        batch = torch.tensor([0, 1, 1, 0, last])
        x, twin = (torch.ones(5, 3, requires_grad=True) for _ in range(2))
        weight = torch.randn(3, 3)
        mine, theirs = compiled(x, batch, weight), program(twin, batch, weight)
        torch.testing.assert_close(mine, theirs)
        sum(one.square().sum() for one in mine).backward()
        sum(one.square().sum() for one in theirs).backward()
        torch.testing.assert_close(x.grad, twin.grad)
    assert needed <= bound


def test_gradients_of_convolutions_for_many_rows():
    """Torch asks for 16 rows when it chooses code for a convolution, also for its backward."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
    check(
        model, vary=[(torch.randn(n, 2, 7, 7),) for n in (3, 4, 15, 16, 17)], backend="aot_eager", **TWO, tolerance=1e-4
    )


def test_counts_of_chunks():
    """Whether there is one chunk only is nothing that a backend has to know."""

    def program(x):
        chunks = F.pad(x, (0, 0, 0, -x.shape[1] % 4)).view(len(x), -1, 4, x.shape[2])
        return (chunks * chunks.sum(2, keepdim=True)).sum(2)

    lengths = (5, 7, 4, 12, 3, 9)
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate(lengths)]
    check(program, vary=calls, backend="aot_eager", **TWO, tolerance=1e-5)


def test_backward_with_inductor_where_gradients_have_sums_of_sizes():
    """Each trace of AOTAutograd has names of its own for numbers from data; Inductor sees that they are the same."""
    from stator.graph import backends

    def program(x, counts):
        first, second = counts.tolist()
        return torch.cat([x[:first] * 2, x[first : first + second].sin()]), x[: 2 * first + 1].cos()

    compiled = stator.compile(program, backend="inductor", fullgraph=True)
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends._log, "debug", lambda *args, **kwargs: said.append(args))
        for counts in ([2, 3], [1, 1], [0, 2], [3, 0]):
            x, twin = (torch.linspace(0, 1, 32).view(8, 4).requires_grad_() for _ in range(2))
            for fn, one in ((compiled, x), (program, twin)):
                sum(result.square().sum() for result in fn(one, torch.tensor(counts))).backward()
            torch.testing.assert_close(x.grad, twin.grad)
    assert not said
    assert stator.stats()["graphs"] == 1


def test_inputs_that_share_memory_have_sizes_that_vary():
    """Views of one tensor, as `where` gives them, are as any other inputs unless the graph writes to them."""

    def program(x, rows, columns):
        return x[rows, columns].sin() * rows

    def writing(x, rows, columns):
        rows.add_(1)
        return x[rows, columns] * columns

    for fn in (program, writing):
        stator.reset()
        compiled = stator.compile(fn, backend="aot_eager")
        for n in (2, 3, 5, 7, 6):
            x = torch.randn(9, 9)
            mine, theirs = ((torch.arange(2 * n) % 7).view(n, 2).unbind(1) for _ in range(2))
            assert torch.equal(compiled(x, *mine), fn(x, *theirs))
            assert torch.equal(mine[0], theirs[0])
        assert stator.stats()["graphs"] == 2


def test_results_of_inductor_have_strides_of_eager():
    """Also where these are sizes from data: what was made contiguous is so."""

    def program(x, mask):
        kept = x[mask]
        return kept.t().contiguous().tanh(), (kept @ kept.t()).t() * 2, kept.t() + 1

    compiled = stator.compile(program, backend="inductor", fullgraph=True)
    for n in (3, 5):
        x, mask = torch.randn(8, 4), torch.arange(8) < n
        for mine, theirs in zip(compiled(x, mask), program(x, mask), strict=True):
            torch.testing.assert_close(mine, theirs)
            assert mine.stride() == theirs.stride()


def test_sizes_given_as_numbers_are_those_of_the_tensors():
    """A size marked as any that the graph takes as a number, too: Inductor must not see two symbols."""
    seen = []

    def backend(graph, inputs):
        numbers = [one.node._expr for one in inputs if isinstance(one, torch.SymInt)]
        sizes = [one.shape[0].node.expr for one in inputs if isinstance(one, torch.Tensor)]
        seen.append((numbers, sizes))
        return graph.forward

    def program(x):
        return x.view(x.shape[0], 2, 2) + x.shape[0]

    x = torch.ones(3, 4)
    stator.mark_unbacked(x, 0)
    assert torch.equal(stator.compile(program, backend=backend)(x), program(x))
    ((numbers, sizes),) = seen
    assert numbers == sizes
