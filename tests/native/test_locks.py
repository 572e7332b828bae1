"""Outside locks are not touched while capturing; compiled code holds the ones that the program took."""

import functools
import threading

import pytest
import torch

import stator
from tests.harness import check

OUTER = threading.Lock()
LOCKS = {"lock": threading.Lock, "rlock": threading.RLock}


def is_free(lock):
    """Whether another thread can take it."""
    seen = []

    def attempt():
        seen.append(lock.acquire(blocking=False))
        if seen[0]:
            lock.release()

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return seen[0]


@pytest.mark.parametrize("kind", LOCKS)
def test_lock_is_given_back(kind):
    lock = LOCKS[kind]()

    def program(x):
        with lock:
            return x + 1

    compiled = stator.compile(program, fullgraph=True, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [2, 2] and is_free(lock)


@pytest.mark.parametrize("kind", LOCKS)
def test_lock_is_free_after_a_capture_that_failed(kind):
    lock = LOCKS[kind]()

    def program(x):
        with lock:
            return x.tolist() if x.data_ptr() else None

    with pytest.raises(stator.Unsupported):
        stator.compile(program, fullgraph=True, backend="eager")(torch.ones(2))
    assert is_free(lock)
    assert stator.compile(program, backend="eager")(torch.ones(2)) == [1, 1] and is_free(lock)


def test_lock_made_inside():
    def program(x):
        with threading.Lock():
            return x + 1

    check(program, torch.ones(2))


class Ledger:
    """What a lock protects; other threads may change it as long as nobody holds the lock."""

    def __init__(self):
        self.lock, self.table, self.count = threading.Lock(), {}, 0

    def add(self, x):
        with self.lock:
            self.count += 1
            self.table["last"] = self.count
        return x * 2

    def read(self, x):
        with self.lock:
            count = self.count
        return x + count


@pytest.mark.parametrize("dynamic", [None, False])
def test_nothing_is_lost_between_threads(dynamic):
    ledger = Ledger()
    compiled = stator.compile(ledger.add, backend="eager", dynamic=dynamic)
    compiled(torch.ones(2))
    threads = [threading.Thread(target=lambda: [compiled(torch.ones(2)) for _ in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.count == ledger.table["last"] == 61


@pytest.mark.parametrize("method", ["add", "read"])
def test_what_is_protected_is_looked_at_under_the_lock(method):
    ledger = Ledger()
    compiled = stator.compile(getattr(ledger, method), backend="eager")
    for _ in range(2):
        compiled(torch.ones(2))
    seen = []
    with ledger.lock:  # the other thread may not have looked yet
        thread = threading.Thread(target=lambda: seen.append(compiled(torch.ones(2))))
        thread.start()
        thread.join(0.2)
        ledger.count = 10
    thread.join()
    assert (ledger.count, seen[0].tolist()) == ((11, [2, 2]) if method == "add" else (10, [11, 11]))


def test_locks_around_output_are_no_break():
    def program(x):
        with OUTER:
            print("sum", 1)
        return x + 1

    check(program, torch.ones(2), fullgraph=False)


class Sized:
    @functools.cached_property
    def weight(self):
        return torch.arange(3.0)


def test_cached_properties_are_no_break():
    check(lambda x: x * Sized().weight, torch.ones(3), fullgraph=False)
    sized = Sized()
    check(lambda x: x * sized.weight, torch.ones(3), fullgraph=False, expect_recompiles=None)
