"""Random programs of views, in-place operations and grad modes: capture must predict eager after every step."""

import random

import pytest
import torch

from stator.graph.backends import compile_graph
from stator.tensors.signals import OpFailed, UnsupportedOp
from tests.tensors.capturing import look, record, same_values

STEPS = [
    lambda a, b: a + b,
    lambda a, b: a * 0.5,
    lambda a, b: a.view(-1).view(a.shape),
    lambda a, b: a.t(),
    lambda a, b: a[1:3],
    lambda a, b: a[:, 1],
    lambda a, b: a.unbind(0)[0],
    lambda a, b: a.split(2)[-1],
    lambda a, b: a.detach(),
    lambda a, b: a.data,
    lambda a, b: a.clone(),
    lambda a, b: a.contiguous(),
    lambda a, b: a.reshape(-1),
    lambda a, b: a.expand(2, *a.shape)[0],
    lambda a, b: a.squeeze(),
    lambda a, b: a.unsqueeze(0).squeeze(0),
    lambda a, b: a.to(torch.float32),
    lambda a, b: torch.cat([a.reshape(-1), b.reshape(-1)])[: a.numel()].view(a.shape),
    lambda a, b: a.add_(1),
    lambda a, b: a.mul_(b.sum()),
    lambda a, b: a.zero_(),
    lambda a, b: a.copy_(b.reshape(-1)[0]),
    lambda a, b: a.__setitem__(0, b.reshape(-1)[0]),
    lambda a, b: a[0].add_(b.mean()),
    lambda a, b: a.t_(),
    lambda a, b: torch.relu_(a),
    lambda a, b: a.tanh(),
    lambda a, b: torch.where(a > 0, a, b.reshape(-1)[0]),
    lambda a, b: a.requires_grad,
    lambda a, b: a.is_contiguous(),
]

MODES = [torch.enable_grad, torch.enable_grad, torch.enable_grad, torch.no_grad, torch.inference_mode]


def make():
    torch.manual_seed(0)
    base = torch.randn(6, 4)
    return {
        "a": torch.randn(4, 4),
        "b": torch.randn(4, 4, requires_grad=True),
        "c": torch.randn(4, 4, requires_grad=True) * 1,
        "d": base[1:5],
        "e": base[2:6],
    }


def choose(seed):
    """A program: for each step, a mode, an operation and the numbers of two operands."""
    rng = random.Random(seed)
    return [
        (rng.choice(MODES if seed % 2 else MODES[:4]), rng.choice(STEPS), rng.random(), rng.random()) for _ in range(12)
    ]


def run(plan, tensors, note):
    """Runs the steps that work; `note` sees all tensors after each one."""
    pool = list(tensors.values())
    for mode, step, i, j in plan:
        a, b = pool[int(i * len(pool))], pool[int(j * len(pool))]
        try:
            with mode():
                result = step(a, b)
        except (RuntimeError, IndexError) as error:
            # What eager refuses because of its autograd history is refused when the graph runs: end the program here.
            note(pool, type(error))
            break
        if isinstance(result, torch.Tensor) and result.dim() <= 2 and not any(result is other for other in pool):
            pool.append(result)
        note(pool, None)
    return pool


def eager_run(plan):
    history = []

    def note(pool, failed):
        try:
            looks = [look(tensor) for tensor in pool]
        except RuntimeError:  # views whose history autograd refuses to rebuild
            looks, failed = [], RuntimeError
        history.append((looks, failed))

    inputs = make()
    pool = run(plan, inputs, note)
    return inputs, pool, history


@pytest.mark.parametrize("seeds", [range(i, i + 25) for i in range(0, 500, 25)], ids=str)
def test_random_programs(seeds):
    for seed in seeds:
        check_seed(seed)


def uses_inference(plan):
    return any(mode is torch.inference_mode for mode, *_ in plan)


def check_seed(seed):
    steps = []
    plan = choose(seed)
    # Looking at is_leaf makes autograd rebuild the history of views, so what fails is found out without looking.
    run(plan, make(), lambda pool, failed: steps.append(failed))
    plan = plan[: steps.index(None) + steps.count(None)] if None in steps else []
    inputs, pool, history = eager_run(plan)
    while history and history[-1][1]:
        history.pop()
        plan = plan[: len(history)]
        inputs, pool, history = eager_run(plan)
    seen, refused = [], []

    def program(**traced):
        def note(pool, failed):
            assert failed is None or (failed is UnsupportedOp and uses_inference(plan)), (seed, failed)
            (seen if failed is None else refused).append([tensor._meta.key for tensor in pool])

        return run(plan, traced, note)

    captured = record(program, make())
    if refused:  # what torch may refuse to do with tensors of inference mode is left to it
        inputs, pool, history = eager_run(plan[: len(seen)])
    for step, ((wanted, _), found) in enumerate(zip(history, seen, strict=True)):
        assert found == wanted, (seed, step)
    fresh = make()
    values = [fresh[name] for name in captured.recorder.inputs]
    results = compile_graph(captured.module, values, "eager")(*values)
    for number, (a, b) in enumerate(zip(pool, results, strict=True)):
        assert same_values(a, b), (seed, number)
        assert look(a) == look(b), (seed, number)
    for name, tensor in inputs.items():
        assert same_values(tensor, fresh[name]), (seed, name)
    changed = [name for name, tensor in make().items() if not same_values(tensor, inputs[name])]
    assert set(changed) <= set(captured.recorder._inputs._by_name)
    written = [name for name, storage in captured.recorder._inputs._by_name.items() if storage.mutated]
    assert set(changed) <= set(written), seed


def test_errors_of_autograd_come_out(monkeypatch):
    """A leaf that requires grad cannot be changed in place, and capture says so."""
    with pytest.raises(OpFailed):
        record(lambda **t: t["b"].add_(1), make())
