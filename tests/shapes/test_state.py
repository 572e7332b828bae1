"""Numbers in the state of a program: what it counts on with varies as soon as anything does."""

import collections
import enum

import pytest
import torch
from torch.optim import lr_scheduler

import stator


class Mode(enum.Enum):
    TRAIN = 1
    TEST = 2


def compilations(make, calls, backend="eager"):
    """How often a function was captured, and graphs compiled, for these calls; each gives what eager gives."""
    theirs, mine = make(), make()
    stator.reset()
    compiled = stator.compile(mine, backend=backend)
    for args in calls:
        expected, found = theirs(*args), compiled(*args)
        assert alike(found, expected), (found, expected)
    stats = stator.stats()
    return stats["frames_captured"], stats["graphs"]


def alike(left, right):
    if type(left) is not type(right) or (isinstance(left, dict) and list(left) != list(right)):
        return False
    if isinstance(left, (list, tuple, dict)):
        left, right = (value.values() if isinstance(value, dict) else value for value in (left, right))
        return len(left) == len(right) and all(map(alike, left, right))
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right


class Average:
    def __init__(self):
        self.count, self.mean = 0, 0.0


def running_mean():
    state = Average()

    def program(x, value):
        state.count += 1
        state.mean += (value - state.mean) / state.count
        return x * state.mean

    return program


def in_a_list():
    state = [0.0, 0]

    def program(x, value):
        state[0] = 0.9 * state[0] + 0.1 * value
        state[1] += 1
        return x * state[0] / state[1]

    return program


def in_a_dict():
    state = {"sum": 0.0, "most": 0.0}

    def program(x, value):
        state["sum"] += value
        state["most"] = max(state["most"], value)
        return x * state["sum"] + state["most"]

    return program


@pytest.mark.parametrize("make", [running_mean, in_a_list, in_a_dict])
def test_what_stays_for_a_while(make):
    """The first value is 0, so averages begin to differ one call later than counters."""
    assert compilations(make, [(torch.ones(3), value * 0.5) for value in range(6)])[0] == 2


def test_lengths_from_the_start():
    """A container that was empty at first: its length varies at once."""

    def program(x, table):
        return x + len(table)

    calls = [(torch.ones(3), dict.fromkeys(range(count))) for count in range(5)]
    assert compilations(lambda: program, calls)[0] == 2


def test_members_of_an_enumeration():
    """One compilation each, and no break."""

    def program(x, mode):
        return x * 2 if mode is Mode.TRAIN else x + 1

    calls = [(torch.ones(3), mode) for mode in (Mode.TRAIN, Mode.TEST) * 3]
    assert compilations(lambda: program, calls) == (2, 2)
    assert stator.stats()["graph_breaks"] == 0


def step(schedule):
    def make():
        generator = torch.Generator().manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(3, generator=generator))
        weight.grad = torch.ones(3)
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        scheduler = schedule(optimizer)

        def program():
            optimizer.step()
            scheduler.step()
            return optimizer.param_groups[0]["lr"], weight.detach().clone()

        return program

    return make


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: lr_scheduler.StepLR(optimizer, 3),
        lambda optimizer: lr_scheduler.ConstantLR(optimizer, 0.5, 4),
        lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 4),
    ],
)
def test_schedules(schedule):
    """Captured once more for each way that the schedule takes, but with two graphs."""
    captured, graphs = compilations(step(schedule), [()] * 8)
    assert captured <= 3 and graphs == 2


class Table(torch.nn.Module):
    """Rows for positions, made again for longer inputs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.ones(4, 3), persistent=False)

    def forward(self, x):
        if x.size(1) > self.rows.size(0):
            self.rows = torch.arange(x.size(1)).float()[:, None] * torch.ones(3)
        return x + self.rows[: x.size(1)]


def test_a_table_that_grows_varies_at_once():
    """One entry that makes it, one that reads it, and the first one."""
    captured, _ = compilations(Table, [(torch.randn(2, n, 3),) for n in (3, 5, 2, 8, 7, 4, 9, 12, 6)])
    assert captured == 3


class Meter:
    def __init__(self):
        self.count, self.total, self.values = 0, 0.0, []

    def update(self, value):
        self.count += 1
        self.total += value
        self.values.append(value)


def counts_by_name():
    counts = collections.defaultdict(int)

    def program(x):
        counts["steps"] += 1
        return x * counts["steps"]

    return program


def counts_when_asked():
    state = Average.__new__(Average)

    def program(x):
        if not hasattr(state, "count"):
            state.count = 0
        state.count += 1
        return x * state.count

    return program


def counts_from_its_class():
    class Counted:
        steps = 0

    state = Counted()

    def program(x):
        state.steps += 1
        return x * state.steps

    return program


def meters_by_name():
    meters = collections.defaultdict(Meter)

    def program(x):
        meters["loss"].update(x.sum().item())
        meters["rate"].update(0.5)
        return x * meters["rate"].total

    return program


def lists_by_name():
    lists = collections.defaultdict(list)

    def program(x):
        lists["loss"].append(x.sum())
        return x * len(lists["loss"])

    return program


@pytest.mark.parametrize(
    "make", [counts_by_name, counts_when_asked, counts_from_its_class, meters_by_name, lists_by_name]
)
def test_what_the_first_call_has_made_varies_at_once(make):
    assert compilations(make, [(torch.ones(3),)] * 6)[0] == 2


class Replay:
    """The latest of what was seen, as learners keep it."""

    def __init__(self, most):
        self.seen = collections.deque(maxlen=most)

    def __len__(self):
        return len(self.seen)


def latest():
    replay = Replay(4)

    def program(x):
        replay.seen.append(x * 2)
        return replay.seen[-1] + 1, len(replay)

    return program


def pushed_out():
    replay = Replay(5)

    def program(x):
        replay.seen.append(x + len(replay))
        return replay.seen[0] + 1, len(replay.seen)

    return program


@pytest.mark.parametrize(("make", "most"), [(latest, 2), (pushed_out, 3)])
def test_what_a_bounded_deque_keeps(make, most):
    """Where the first element is asked for, one that is full has an entry of its own."""
    assert compilations(make, [(torch.ones(3) * i,) for i in range(8)])[0] == most
    assert stator.stats()["graph_breaks"] == 0


class Positions(torch.nn.Module):
    """Positions of the longest sequence so far."""

    def __init__(self):
        super().__init__()
        self.length, self.table = 0, None

    def forward(self, x):
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            self.table = torch.arange(self.length).float()
        return x + self.table[: x.shape[1]]


class Buffers(torch.nn.Module):
    """The same as buffers that the first call registers."""

    def __init__(self):
        super().__init__()
        self.length = 0

    def forward(self, x):
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            self.register_buffer("cosines", torch.arange(self.length).cos(), persistent=False)
        return x + self.cosines[: x.shape[1]]


@pytest.mark.parametrize("kind", [Positions, Buffers])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tables_that_grow_with_the_longest_call(kind, backend):
    """A call that makes one, and one that finds one, of any length."""
    calls = [(torch.ones(3, length),) for length in (5, 7, 4, 9, 12, 6, 8, 17, 11, 3)]
    assert compilations(kind, calls, backend=backend) == (3, 3)
