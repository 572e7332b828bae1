"""Breaks on request, and regions where a break is an error."""

import subprocess
import sys
import threading

import pytest
import torch
import torch._dynamo

import stator
from tests.harness import check

ONE = torch.ones(2)


@pytest.fixture(autouse=True)
def no_region_is_left():
    yield
    assert stator.control.breaking._thread.regions == []
    assert torch._dynamo.utils._error_on_graph_break is False


def compiled(fn, **options):
    return stator.compile(fn, backend="eager", **options)


def test_graph_break_outside_of_capture():
    assert stator.graph_break() is None and stator.graph_break("why") is None


def asks(x):
    y = x + 1
    stator.graph_break("to look at y")
    return y * 2


def asks_torch(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def asks_from_native(x):
    list(map(stator.graph_break, ["from C"]))
    return x + 1


@pytest.mark.parametrize("fn", [asks, asks_torch, asks_from_native])
def test_requested_break(fn):
    check(fn, ONE, fullgraph=False, expect_breaks=None)
    with pytest.raises(stator.Unsupported) as caught:
        compiled(fn, fullgraph=True)(ONE)
    assert caught.value.break_id == "graph-break-requested"


@pytest.mark.parametrize("fn", [asks, asks_torch])
def test_requested_break_makes_two_graphs(fn):
    check(fn, ONE, fullgraph=False, expect_breaks=1, expect_graphs=2)


def test_requested_break_says_why_and_where():
    with pytest.raises(stator.Unsupported, match="to look at y") as caught:
        compiled(asks, fullgraph=True)(ONE)
    assert caught.value.location.text.strip() == 'stator.graph_break("to look at y")'


def test_wrong_arguments_of_graph_break_are_the_programs_error():
    def wrong(x):
        try:
            stator.graph_break(1, 2)
        except TypeError:
            return x + 1

    check(wrong, ONE)


SCRIPT = """
import sys
import torch
import stator

def f(x):
    import torch._dynamo
    torch._dynamo.graph_break()
    return x + 1

assert "torch._dynamo" not in sys.modules
try:
    stator.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
except stator.Unsupported as error:
    print(error.break_id)
"""


def test_torch_spelling_is_recognised_when_the_program_imports_it():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["graph-break-requested"]


def data_dependent(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def raises(fn, *args, **options):
    """Whether a break in the function is an error."""
    try:
        compiled(fn, **options)(*args)
    except stator.Unsupported:
        return True
    return False


REGIONS = [stator.error_on_graph_break, torch._dynamo.error_on_graph_break]


@pytest.mark.parametrize("region", REGIONS)
def test_region_around_a_call(region):
    assert not raises(data_dependent, ONE)
    with region(True):
        assert raises(data_dependent, ONE)
        with region(False):
            assert not raises(data_dependent, ONE)
        assert raises(data_dependent, ONE)
    assert not raises(data_dependent, ONE)


@pytest.mark.parametrize("region", REGIONS)
def test_region_inside(region):
    def strict(x):
        with region(True):
            return data_dependent(x)

    def lenient(x):
        with region(True):
            y = x + 1
            with region(False):
                return data_dependent(y)

    def before(x):
        with region(True):
            y = x + 1
        return data_dependent(y)

    def after_an_exception(x):
        try:
            with region(True):
                raise KeyError
        except KeyError:
            return data_dependent(x)

    assert raises(strict, ONE)
    for fn in (lenient, before, after_an_exception):
        assert not raises(fn, ONE)
        check(fn, ONE, fullgraph=False, expect_breaks=None)


@pytest.mark.parametrize("region", REGIONS)
def test_region_as_decorator(region):
    strict = region(True)(data_dependent)

    @region(True)
    def lenient(x):
        return region(False)(data_dependent)(x)

    assert raises(lambda x: strict(x), ONE)
    assert raises(strict, ONE)
    assert not raises(lenient, ONE)
    if region is stator.error_on_graph_break:
        assert strict.__name__ == "data_dependent"


@pytest.mark.parametrize("region", REGIONS)
def test_region_is_no_break(region):
    @region(True)
    def inner(x):
        return x * 2

    def fn(x):
        with region(True):
            y = inner(x)
            with region(False):
                return y + 1

    check(fn, ONE)


@pytest.mark.parametrize("region", REGIONS)
def test_full_graph_wins(region):
    def fn(x):
        with region(False):
            return data_dependent(x)

    assert raises(fn, ONE, fullgraph=True)


@pytest.mark.parametrize("region", REGIONS)
def test_region_across_a_break(region):
    """What comes behind a break inside a region is still in it, and leaves it."""

    def lenient(x):
        with region(False):
            y = x + 1
            stator.graph_break()
            y = data_dependent(y * 2)
        return y - 1

    def strict_after(x):
        with region(False):
            stator.graph_break()
            y = x * 2
            with region(True):
                y = data_dependent(y)
        return y

    def strict_behind(x):
        with region(False):
            stator.graph_break()
        return data_dependent(x)

    check(lenient, ONE, fullgraph=False, expect_breaks=None)
    assert not raises(lenient, ONE)
    assert raises(strict_after, ONE)
    with region(True):
        assert not raises(lenient, ONE)
        assert raises(strict_behind, ONE)
    assert not raises(strict_behind, ONE)


def test_region_inside_a_region_outside():
    def fn(x):
        with stator.error_on_graph_break(False):
            return data_dependent(x)

    with stator.error_on_graph_break(True):
        assert not raises(fn, ONE)
        assert raises(data_dependent, ONE)


def test_regions_belong_to_the_thread():
    seen = []
    with stator.error_on_graph_break(True):
        thread = threading.Thread(target=lambda: seen.append(raises(data_dependent, ONE)))
        thread.start()
        thread.join()
    assert seen == [False]


def test_region_that_stays_open_is_an_effect():
    region = stator.error_on_graph_break(True)

    def opens(x):
        region.__enter__()
        return x + 1

    def closes(x):
        region.__exit__(None, None, None)
        return x + 1

    opening, closing = compiled(opens, fullgraph=True), compiled(closes, fullgraph=True)
    for _ in range(2):
        opening(ONE)
        assert raises(data_dependent, ONE)
        closing(ONE)
        assert not raises(data_dependent, ONE)
    with stator.error_on_graph_break(False):
        opening(ONE)
        assert stator.control.breaking._thread.regions == [False, True]
        closing(ONE)


def test_capture_that_fails_in_a_region_leaves_it():
    def fn(x):
        with stator.error_on_graph_break(True):
            stator.graph_break()

    assert raises(fn, ONE)
    assert not raises(data_dependent, ONE)


def test_regions_take_bools_and_functions():
    with pytest.raises(stator.InvalidArgument, match="True or False"):
        stator.error_on_graph_break(1)
    with pytest.raises(stator.InvalidArgument, match="decorates functions"):
        stator.error_on_graph_break(True)(3)


class Noting:
    """A context manager that keeps what left it."""

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, kind, error, traceback):
        self.log.append(kind)


def jumps_to_the_end(x, log):
    with Noting(log):
        if x.sum() > 2:
            log.append("positive")
    with stator.error_on_graph_break(True):
        stator.graph_break()


def falls_through(x, log):
    with Noting(log), torch.no_grad():
        stator.graph_break()
        with stator.error_on_graph_break(True):
            x = data_dependent(x)
    return x


def in_an_outer_frame(x, log):
    try:
        with Noting(log):
            falls_through(x, log)
    finally:
        log.append("finally")


def caught(x, log):
    try:
        falls_through(x, log)
    except stator.Unsupported as error:
        log.append(error.break_id)
    return x + 1


def in_a_loop(x, log):
    for i in range(3):
        with Noting(log):
            stator.graph_break()
            if i == 1:
                with stator.error_on_graph_break(True):
                    data_dependent(x)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (falls_through, ["enter", stator.Unsupported]),
        (in_an_outer_frame, ["enter", "enter", stator.Unsupported, stator.Unsupported, "finally"]),
        (in_a_loop, ["enter", None, "enter", stator.Unsupported]),
        (jumps_to_the_end, ["enter", stator.Unsupported]),
    ],
)
def test_an_error_behind_a_break_ends_the_blocks_around_it(fn, expected):
    for _ in range(2):
        log = []
        with pytest.raises(stator.Unsupported):
            compiled(fn)(ONE, log)
        assert len(log) == len(expected), log
        for got, kind in zip(log, expected, strict=True):
            assert got is kind or got == kind or issubclass(got, kind)
        assert torch.is_grad_enabled()


def test_an_error_behind_a_break_can_be_caught():
    log = []
    assert compiled(caught)(ONE, log).tolist() == [2, 2]
    assert log[-1] == "data-dependent-branch"


def breaks_in_a_handler(x):
    try:
        raise KeyError
    except KeyError:
        return data_dependent(x)


def test_a_break_in_a_handler_leaves_no_exception_behind():
    for _ in range(2):
        compiled(breaks_in_a_handler)(ONE)
        assert sys.exc_info() == (None, None, None)


def test_an_error_behind_a_break_is_the_only_one():
    seen = []

    class Looking:
        def __enter__(self):
            pass

        def __exit__(self, kind, error, traceback):
            seen.append((sys.exc_info()[1] is error, error.__context__))
            return True

    def fn(x):
        with Looking():
            stator.graph_break()
            with stator.error_on_graph_break(True):
                data_dependent(x)
        return x

    compiled(fn)(ONE)
    assert seen == [(True, None)] and sys.exc_info() == (None, None, None)
