"""functools.lru_cache on functions from outside: hits are honoured, misses run the function once and fill the cache."""

import collections
import contextlib
import functools
import io
import math

import pytest
import torch

import stator
from tests.harness import check

SEEN = []


@functools.lru_cache(maxsize=None)
def table(n):
    return tuple(math.cos(i) for i in range(n))


@functools.lru_cache(maxsize=2)
def mask(n, *, scale=1.0):
    return torch.ones(n, n).tril() * scale


@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.cache
def noisy(n):
    SEEN.append(n)
    print("made", n)
    return [n]


@functools.lru_cache(typed=True)
def typed(n):
    return type(n).__name__


@functools.cache
def failing(n):
    raise ValueError(n)


class Encoder(torch.nn.Module):
    @functools.lru_cache(maxsize=4)  # noqa: B019
    def positions(self, n, scale=1.0):
        return torch.arange(n) * scale

    def forward(self, x):
        return x + self.positions(3, scale=2.0) + self.positions(3)


def call_failing(x):
    try:
        return x + failing(1)
    except ValueError as error:
        return x - error.args[0]


PROGRAMS = {
    "constant": (lambda x: x * torch.tensor(table(3)), 0),
    "tensor": (lambda x: mask(3) @ x, 1),
    "keywords": (lambda x: mask(3, scale=2.0) @ x + mask(3).sum(), 1),
    "identity": (lambda x: (mask(3) is mask(3), x), 1),
    "evicted": (lambda x: x + sum(mask(n).sum() for n in (1, 2, 3, 1)), None),
    "recursive": (lambda x: x * fibonacci(10), 1),
    "effects": (lambda x: (x + len(noisy(3)), noisy(3).copy()), 1),
    "typed": (lambda x: (typed(1), typed(1.0), typed(True), x), 0),
}
CACHES = (table, mask, fibonacci, noisy, typed, failing)


@pytest.fixture(autouse=True)
def empty_caches():
    for cache in CACHES:
        cache.cache_clear()
    SEEN.clear()


def run(program, calls):
    for cache in CACHES:
        cache.cache_clear()
    SEEN.clear()
    results = [str(program(torch.ones(3))) for _ in range(calls)]
    return results, [cache.cache_info() for cache in CACHES], list(SEEN)


@pytest.mark.parametrize("name", PROGRAMS)
def test_hits_and_misses_are_those_of_eager(name, capsys):
    program, recompiles = PROGRAMS[name]
    expected, printed = run(program, 4), capsys.readouterr().out
    stator.reset()
    compiled = stator.compile(program, fullgraph=True, backend="eager")
    assert run(compiled, 4) == expected
    assert capsys.readouterr().out == printed
    if recompiles is not None:
        assert stator.stats()["recompiles"] == recompiles


def test_a_cached_method():
    check(Encoder(), torch.ones(3), expect_recompiles=1, expect_graphs=1)


def test_the_cached_object_itself():
    compiled = stator.compile(lambda x: (mask(3), x + 1), fullgraph=True, backend="eager")
    first, second = compiled(torch.ones(3))[0], compiled(torch.ones(3))[0]
    assert first is second is mask(3)


def test_a_filled_cache_is_honoured():
    held = mask(3)
    held.fill_(7)
    compiled = stator.compile(lambda x: mask(3) @ x, fullgraph=True, backend="eager")
    assert compiled(torch.ones(3)).tolist() == [21, 21, 21]
    mask.cache_clear()
    assert compiled(torch.ones(3)).tolist() == [1, 2, 3]
    held = mask(3)
    held.fill_(2)
    assert compiled(torch.ones(3)).tolist() == [6, 6, 6]


def test_a_constant_that_the_cache_no_longer_agrees_with():
    scale = [1]

    @functools.cache
    def scaled(n):
        return n * scale[0]

    compiled = stator.compile(lambda x: x * scaled(3), fullgraph=True, backend="eager")
    assert compiled(torch.ones(1)).item() == 3
    scaled.cache_clear()
    scale[0] = 2
    assert scaled(3) == 6
    scale[0] = 1
    assert compiled(torch.ones(1)).item() == 6  # as eager: the cache says so


def test_a_cached_function_that_raises_is_a_break():
    check(call_failing, torch.ones(3), fullgraph=False, expect_breaks=None, expect_graphs=None)


def test_tensors_as_keys_are_a_break():
    @functools.cache
    def doubled(x):
        return x * 2

    compiled = stator.compile(lambda x: doubled(x) + 1, backend="eager")
    x = torch.ones(3)
    assert compiled(x).tolist() == [3, 3, 3] and doubled.cache_info().currsize == 1
    with pytest.raises(stator.Unsupported, match="native-outside-object"):
        stator.compile(lambda x: doubled(x) + 1, fullgraph=True, backend="eager")(x)


class Recipe:
    def __init__(self, names):
        self.names = names


@functools.lru_cache
def recipe(pattern):
    return Recipe(pattern.split())


@functools.lru_cache
def shape(plan, sizes):
    known = dict(zip(plan.names, sizes, strict=True))
    return known["b"] * known["n"], known["d"]


def rearranged(x):
    return x.reshape(shape(recipe("b n d"), tuple(x.shape))) + 1


def test_sizes_that_vary_are_no_keys():
    recipe.cache_clear()
    shape.cache_clear()
    compiled = stator.compile(rearranged, fullgraph=True, backend="eager")
    for batch in range(2, 9):
        x = torch.randn(batch, 3, 4)
        assert torch.equal(compiled(x), rearranged(x))
    assert stator.stats()["graphs"] <= 3


def test_effects_and_arguments_that_vary():
    SEEN.clear()
    compiled = stator.compile(lambda x: x + noisy(x.shape[0])[0], backend="eager", dynamic=True)
    x = torch.ones(5)
    assert compiled(x).tolist() == compiled(x).tolist() == [6] * 5
    assert SEEN == [5]


TABLE = collections.defaultdict(list, first=[1])


@functools.lru_cache(16)
def halves(n):
    return n // 2


def test_next_to_a_table_that_changes():
    """The function has no effects, whatever the program did before."""

    def program(x):
        TABLE["second"] = [2]
        count = len([name for name in TABLE])
        return x.reshape(halves(x.shape[0]), 2) * count

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for n in (4, 6, 8):
        assert compiled(torch.ones(n)).shape == (n // 2, 2)


@functools.lru_cache(maxsize=None)
def rows_of(length, width):
    if length % width != 0:
        raise ValueError(f"{length} is no multiple of {width}")
    return length // width


def test_a_cached_function_that_checks_a_size_from_data():
    """As einops does: a check that fails hands the call to CPython, so it is no effect."""

    def program(x):
        found = x[x >= 0]
        return found.view(rows_of(found.shape[0], 3), 3) * 2

    even, odd = torch.arange(-3.0, 9.0), torch.arange(-3.0, 8.0)
    check(program, vary=[(even,), (even + 3,)], expect_recompiles=0, expect_graphs=1)
    compiled = stator.compile(program, backend="eager")
    for x in (even, odd):
        rows_of.cache_clear()
        expected = outcome(program, x)
        rows_of.cache_clear()
        assert outcome(compiled, x) == expected


def outcome(program, x):
    try:
        return program(x).tolist()
    except ValueError as error:
        return str(error)


@functools.lru_cache(maxsize=3)
def weighted(n, by=1):
    return n * 2 + halves(n) * by


@functools.lru_cache
def buffer(n):
    return torch.zeros(n)


@functools.lru_cache
def collected(n):
    return [n]


@functools.lru_cache
def positions(n):
    return {"places": torch.arange(n), "count": [n, n + 1]}


def grows(x):
    return x + buffer(x.shape[0]).add_(1)


def gives(x):
    return buffer(x.shape[0])


def appends(x):
    seen = collected(x.shape[0])
    seen.append(1)
    return x + len(seen)


def weighs(x):
    return x * weighted(x.shape[0], by=3) + halves(x.shape[0])


def uses(x):
    table = positions(x.shape[0])
    return x + table["places"] * len(table["count"])


@pytest.mark.parametrize("program", [grows, gives, appends, weighs, uses])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_that_vary_are_counted(program, backend):
    """What the cache gave before is given again, and it knows of all calls."""
    caches = [halves, weighted, buffer, collected, positions]

    def outcome(function):
        for cache in caches:
            cache.cache_clear()
        seen, rows, first = [], [], {}
        for n in (2, 3, 4, 5, 3, 4, 6, 5):
            made = function(torch.ones(n))
            rows.append((made.tolist(), first.setdefault(n, made) is made, [cache.cache_info() for cache in caches]))
            seen.append(made)
        return rows

    assert outcome(stator.compile(program, backend=backend)) == outcome(program)


def test_results_that_nobody_sees_are_whole_graphs():
    for cache in (positions, halves, weighted):
        cache.cache_clear()
    vary = [(torch.ones(n),) for n in (3, 4, 5, 6)]
    check(uses, vary=vary, expect_recompiles=None)
    check(weighs, vary=vary, expect_recompiles=None)


class Recipe:
    def __init__(self, pattern):
        self.order = [pattern.index(name) for name in sorted(pattern)]


@functools.lru_cache
def recipe_of(pattern):
    return Recipe(pattern)


@functools.lru_cache
def cooked(recipe, sizes):
    return recipe.order, [sizes[place] for place in recipe.order]


def rearranged(x):
    order, sizes = cooked(recipe_of("cab"), tuple(x.shape))
    return x.permute(order).reshape(sizes) + 1


def test_parts_of_what_a_cache_was_asked_with():
    """The list comes out, into the other cache, but as a part of the recipe it is the same for all calls with that."""
    recipe_of.cache_clear()
    cooked.cache_clear()
    compiled = stator.compile(rearranged, backend="eager", fullgraph=True)
    made = [compiled(torch.ones(2, n, n + 1)).shape for n in (3, 4, 5, 6)]
    assert made == [(3, 4, 2), (4, 5, 2), (5, 6, 2), (6, 7, 2)]
    assert stator.stats()["frames_captured"] == 2


FACTOR, MODE, SETTINGS = 2, "grow", {"factor": 2}


def factor(n):
    return n * FACTOR


@functools.lru_cache(None)
def scaled(n):
    return factor(n) + 1


@functools.lru_cache(None)
def moded(n):
    return n + 1 if MODE == "grow" else n - 1


@functools.lru_cache(None)
def set_up(n):
    return n * SETTINGS["factor"]


@functools.lru_cache(None)
def ramp(n):
    return torch.arange(n) * FACTOR


def change_factor(value):
    global FACTOR
    FACTOR = value


def change_mode(value):
    global MODE
    MODE = "grow" if value == 2 else "shrink"


def change_settings(value):
    SETTINGS["factor"] = value


READERS = {scaled: change_factor, moded: change_mode, set_up: change_settings, ramp: change_factor}
WORLD = ((2, 3), (2, 4), (2, 5), (5, 3), (5, 6), (5, 4), (5, 7), (2, 3), (2, 6), (8, 9), (2, 9))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("reader", READERS)
def test_what_a_cache_held_before_the_world_changed(reader, dynamic):
    """Eager gives what the function made of the world of the first call with this number."""

    def program(x, n):
        return x + reader(n).sum() if reader is ramp else x + reader(n)

    def outcomes(call):
        reader.cache_clear()
        found = []
        for value, n in WORLD:
            READERS[reader](value)
            found.append(call(torch.ones(2), n).tolist())
        READERS[reader](2)
        return found, reader.cache_info()

    expected = outcomes(program)
    stator.reset()
    assert outcomes(stator.compile(program, backend="eager", dynamic=dynamic)) == expected


@pytest.mark.parametrize("held", [(), (1, 3), (3, 2), (2, 1)])
def test_a_cache_that_drops_what_the_call_has_asked_for(held):
    @functools.lru_cache(maxsize=2)
    def made(n):
        print("made", n)
        return [n * 2]

    def all_in_turn(x):
        found = [made(1), made(2), made(1), made(3), made(2)]
        return x + sum(map(sum, found)), found[0] is found[2], found[1] is found[4]

    def finds_what_was_there(x):
        return x + sum(made(4) + made(5) + made(3))

    for program in (all_in_turn, finds_what_was_there):
        outputs = []
        for run in (program, stator.compile(program, backend="eager")):
            made.cache_clear()
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                for number in held:
                    made(number)
                outputs.append([repr(run(torch.ones(2) * step)) for step in range(3)])
            outputs[-1].append((output.getvalue(), made.cache_info()))
        assert outputs[0] == outputs[1]
