"""Who can tell that capture is going on, and who is kept out of it."""

import sys
import threading

import pytest
import torch

import stator
from stator.runtime.compiling import EXCLUDED_ALONE, EXCLUDED_WITH_CALLEES, compiling, not_compiling


def answers():
    return stator.is_compiling(), torch.compiler.is_compiling()


def test_flags():
    assert answers() == (False, False)
    with compiling():
        assert answers() == (True, True)
        with compiling():
            assert answers() == (True, True)
        assert answers() == (True, True)
        with not_compiling():
            assert answers() == (False, False)
        assert answers() == (True, True)
    assert answers() == (False, False)


def test_flags_after_an_error():
    with pytest.raises(ValueError), compiling():
        raise ValueError
    assert answers() == (False, False)


@pytest.mark.parametrize("number", range(1, 7))
def test_flags_after_an_interruption(number):
    """At any call or return while contexts are entered and left."""
    left, within = number, compiling()

    def interrupt(frame, event, argument):
        nonlocal left
        if event in ("call", "return") and frame.f_code.co_filename == compiling.__enter__.__code__.co_filename:
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        within.__enter__()
        with not_compiling():
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    within.__exit__()
    assert answers() == (False, False)
    test_flags()


def test_threads_overlapping_in_any_order():
    entered, leave = threading.Event(), threading.Event()
    seen = []

    def other():
        with compiling():
            entered.set()
            leave.wait(10)
        seen.append(answers())

    thread = threading.Thread(target=other)
    with compiling():
        thread.start()
        entered.wait(10)
    assert answers() == (False, True)  # torch's flag belongs to the process
    leave.set()
    thread.join()
    assert seen == [(False, False)] and answers() == (False, False)


def double(x):
    """Twice."""
    return 2 * x


def test_disabled_function():
    excluded = stator.disable(double)
    assert excluded(2) == 4 and excluded.__name__ == "double" and excluded.__doc__ == "Twice."
    assert excluded.__code__ is EXCLUDED_WITH_CALLEES
    assert stator.disable(double, recursive=False).__code__ is EXCLUDED_ALONE
    assert EXCLUDED_ALONE is not EXCLUDED_WITH_CALLEES


def test_disable_as_decorator():
    @stator.disable
    def one():
        return 1

    @stator.disable(recursive=False, reason="slow")
    def two():
        return 2

    assert (one(), two()) == (1, 2)
    assert one.__code__ is EXCLUDED_WITH_CALLEES and two.__code__ is EXCLUDED_ALONE


def test_disabled_method_and_class():
    class Thing:
        @stator.disable
        def method(self, x):
            return x + 1

        def __call__(self, x):
            return x + 2

    assert Thing().method(1) == 2
    assert stator.disable(Thing) is Thing
    assert Thing()(1) == 3 and Thing.__call__.__code__ is EXCLUDED_WITH_CALLEES


def test_disabled_module():
    module = torch.nn.Linear(1, 1)
    excluded = stator.disable(module)
    x = torch.ones(1, 1)
    assert torch.equal(excluded(x), module(x)) and excluded._orig_mod is module


def test_disable_needs_a_callable():
    with pytest.raises(TypeError, match="can be called"):
        stator.disable(3)
