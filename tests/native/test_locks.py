"""Outside locks are not touched while capturing; compiled code holds the ones that the program took."""

import threading

import pytest
import torch

import stator
from tests.harness import check

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
