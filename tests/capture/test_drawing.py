"""Numbers of `random` and `numpy.random`: drawn by the entry function, in the order of the program."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import stator


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    python, numpys = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(numpys)


def results(program: Callable[..., Any]) -> tuple[list[str], Any, str]:
    """What four calls give, and the states of the generators after them."""
    random.seed(5)
    np.random.seed(6)
    found = [str(program(torch.arange(6.0) + i)) for i in range(4)]
    return found, random.getstate(), str(np.random.get_state())


def scaled(x: Any) -> Any:
    return (x * 2) * random.random() + 1


def rolled(x: Any) -> Any:
    return x.roll(random.randint(0, 3)) + random.uniform(-1, 1)


def returned(x: Any) -> Any:
    number = random.random()
    return x * number, number


def cut(x: Any) -> Any:
    count = random.randrange(5)
    return x[: count + 1].sum(), count


def repeated(x: Any) -> Any:
    for _ in range(3):
        x = x * random.random()
    return x


def mixed_up(x: Any) -> Any:
    share = np.random.beta(0.4, 0.4)
    return share * x + (1 - share) * x.flip(0)


def noisy(x: Any) -> Any:
    return x * np.random.rand() + np.random.randn()


def moved(x: Any) -> Any:
    return x.roll(np.random.randint(0, 4)) + np.random.uniform(-1, 1)


def both(x: Any) -> Any:
    return x * random.random() - np.random.normal(0, 2) + random.random()


def permuted(x: Any) -> Any:
    order = np.random.permutation(6)
    return x[torch.from_numpy(order)] + torch.from_numpy(np.random.rand(6)), order


def noise(x: Any) -> Any:
    added = np.random.normal(0, 1, size=(2, 6))
    added *= 2
    added[0] = 1.0
    return torch.tensor(added, dtype=torch.float32) * x, np.random.randint(0, 5, size=3)


def chosen(x: Any) -> Any:
    return x * random.choice([1, 2, 3]) + random.choice((0.5, 1.5)), random.randrange(2, 20, 3), random.getrandbits(5)


def shuffled_indices(x: Any) -> Any:
    order = list(range(6))
    random.shuffle(order)
    return x[order], x[torch.tensor(order[:2])], order


def sampled(x: Any) -> Any:
    places = random.sample(range(6), 3)
    return x[places], random.choices([1.5, 2.5], k=2), random.choices(range(4), weights=[1, 2, 3, 4])


def distributed(x: Any) -> Any:
    return x * random.gauss(0, 1) + random.normalvariate(1, 2) - random.expovariate(2) * random.triangular(0, 1, 0.5)


def seeded_inside(x: Any) -> Any:
    random.seed(3)
    np.random.seed(4)
    return x * random.random() + random.gauss(0, 1) + np.random.rand()


def local_generators(x: Any) -> Any:
    generator, older, own = np.random.default_rng(5), np.random.RandomState(6), random.Random(7)
    order = np.arange(6)
    generator.shuffle(order)
    return x[torch.from_numpy(order)] * generator.random() + torch.from_numpy(older.randn(6)) + own.random()


def numpy_scalars(x: Any) -> Any:
    return x * np.random.choice([1, 2, 3]), np.random.choice([4, 5])


ONE_GRAPH = [
    chosen,
    shuffled_indices,
    sampled,
    distributed,
    seeded_inside,
    local_generators,
    numpy_scalars,
    permuted,
    noise,
    scaled,
    rolled,
    returned,
    cut,
    repeated,
    mixed_up,
    noisy,
    moved,
    both,
]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("program", ONE_GRAPH)
def test_one_graph(program: Any, fullgraph: bool) -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    expected = results(program)
    assert results(stator.compile(program, backend=backend, fullgraph=fullgraph)) == expected
    assert len(graphs) == 1


@pytest.mark.parametrize("program", [scaled, cut, mixed_up, moved, permuted, noise, chosen, shuffled_indices])
def test_traced(program: Any) -> None:
    expected = results(program)
    assert results(stator.compile(program, backend="aot_eager")) == expected


def branching(x: Any) -> Any:
    y = x + 1
    if random.random() < 0.5:
        y = y * 3
    return y - np.random.rand()


def shuffled(x: Any) -> Any:
    parts = [x, x + 1, x * 2]
    random.shuffle(parts)
    return parts[0] * {"a": 1, "b": 2}[random.choice("ab")] + random.gauss(0, 1)


def put_back(x: Any) -> Any:
    state = random.getstate()
    first = random.random()
    random.setstate(state)
    return x * first + random.random()


def failing(x: Any) -> Any:
    """The graph fails on some calls: the numbers are drawn again by CPython."""
    place = random.randrange(4) + np.random.randint(0, 2)
    x = x + random.gauss(0, 1)
    try:
        return x[torch.tensor([place + 3])]
    except IndexError as error:
        return str(error), random.random(), random.gauss(0, 1)


def invalid(x: Any) -> Any:
    try:
        return x * np.random.beta(-1, 1)
    except ValueError as error:
        return str(error)


def seeding(x: Any) -> Any:
    random.seed(3)
    np.random.seed(4)
    return x * random.random() + np.random.rand() + np.random.uniform(0, np.inf if x[0] < 0 else 1.0)


@pytest.mark.parametrize("program", [branching, shuffled, failing, invalid, seeding, put_back])
def test_with_breaks(program: Any) -> None:
    expected = results(program)
    assert results(stator.compile(program, backend="eager")) == expected


def flipped(x: Any) -> Any:
    return x + 1 if random.random() < 0.5 else x.flip(0)


@pytest.mark.parametrize("program", [flipped, shuffled, put_back])
def test_guarded_state(program: Any) -> None:
    """A full graph of a program that needs to know the numbers is one for this state of the generator."""
    expected = results(program)
    assert results(stator.compile(program, backend="eager", fullgraph=True)) == expected


class Augment(torch.nn.Module):
    """Generators of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(1)
        self.generator = np.random.default_rng(2)

    def forward(self, x: Any) -> Any:
        return x * self.rng.random() + self.rng.randint(1, 6) + self.generator.normal(0, 2) * self.generator.random()


def test_own_generators() -> None:
    stator.reset()
    module, compiled = Augment(), stator.compile(Augment(), backend="eager", fullgraph=False)
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(3)), module(torch.ones(3)))
    assert stator.stats()["recompiles"] == 0


def sets_next(x: Any, rng: random.Random) -> Any:
    rng.gauss_next = 5.0
    return x * rng.gauss(0, 1), rng.gauss(0, 1)


def clears_next(x: Any, rng: random.Random) -> Any:
    rng.gauss_next = None
    return x * rng.gauss(0, 1)


def reads_next(x: Any, rng: random.Random) -> Any:
    drawn = rng.gauss(0, 1)
    return x * drawn, rng.gauss_next


@pytest.mark.parametrize("program", [sets_next, clears_next, reads_next])
def test_kept_number(program: Any) -> None:
    """A generator keeps every second number of `gauss` in an attribute, which the program may see and change."""
    generators = random.Random(1), random.Random(1)
    compiled = stator.compile(program, backend="eager")
    for rng in generators:
        rng.gauss(0, 1)
    for _ in range(3):
        mine, expected = compiled(torch.ones(1), generators[0]), program(torch.ones(1), generators[1])
        torch.testing.assert_close(mine, expected, rtol=0, atol=0)
        assert generators[0].getstate() == generators[1].getstate()


def test_another_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """All methods of numpy's generators are of one type: which one it is, is guarded."""

    def program(x: Any) -> Any:
        return x * np.random.beta(2.0, 3.0)

    compiled = stator.compile(program, backend="eager")
    compiled(torch.ones(2))
    monkeypatch.setattr(np.random, "beta", np.random.gamma)
    found = []
    for run in (program, compiled):
        np.random.seed(1)
        found.append(run(torch.ones(2)))
    assert torch.equal(*found)


def drawn(x: Any) -> Any:
    values = [1, 2, 3, 4]
    random.shuffle(values)
    return x * random.expovariate(2.0) + random.gauss(1.0, 2.0), values, random.random()


def patched(owner: Any, x: Any) -> Any:
    """The program draws numbers of its own."""
    numbers = iter([0.25, 0.5, 0.75, 0.1, 0.2])
    before = vars(owner).copy()
    owner.random, owner._randbelow = lambda *_: next(numbers), lambda *_: 0
    try:
        return drawn(x), list(numbers)
    finally:
        del owner.random
        if "_randbelow" in before:
            owner._randbelow = before["_randbelow"]
        else:
            del owner._randbelow


@pytest.mark.parametrize("owner", [random.Random, random.random.__self__])
def test_other_sources(owner: Any) -> None:
    """What a program has put in the place of a generator's methods draws the numbers."""
    compiled = stator.compile(drawn, backend="eager")
    whole = stator.compile(patched, backend="eager", fullgraph=False)

    def once(first: Any, second: Any) -> str:
        random.seed(3)
        return str([first(torch.ones(2)), second(owner, torch.ones(2)), first(torch.ones(2))])

    expected = once(drawn, patched)
    for _ in range(2):
        assert once(compiled, patched) == expected
        assert once(compiled, whole) == expected
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{__name__}.drawn", compiled)
            assert once(compiled, patched) == expected


def test_a_generator_of_the_program() -> None:
    """Its class sets its state in two steps, with a break between them."""

    def program(x: Any) -> Any:
        own = random.Random()
        equal = [own.uniform(2.0, 2.0) for _ in range(3)]
        own.seed(4)
        first = own.gauss(0.0, 1.0)
        own.gauss_next = 0.5
        return x * equal[0], first, own.gauss(0.0, 2.0), own.random()

    compiled = stator.compile(program, backend="eager", fullgraph=False)
    for _ in range(3):
        assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


def test_not_exported() -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * np.random.rand()

    with pytest.raises(stator.ExportError, match="draws numbers"):
        stator.export(Module(), (torch.ones(2),))
