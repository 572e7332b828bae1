"""Thread-local objects from outside."""

import threading

import pytest
import torch

import stator

STORE = threading.local()


def test_attributes_are_read_guarded_and_written():
    def program():
        STORE.count = getattr(STORE, "count", 0) + 1
        STORE.items = [STORE.count]
        del STORE.items
        return STORE.count, sorted(STORE.__dict__)

    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert [compiled()[0] for _ in range(3)] == [1, 2, 3]
    assert vars(STORE) == {"count": 3}
    assert not stator.report.events.events("error")
    found = []
    thread = threading.Thread(target=lambda: found.append(compiled()))
    thread.start()
    thread.join()
    assert found == [(1, ["count"])] and STORE.count == 3


def test_absent_attribute():
    def program():
        return STORE.nothing

    with pytest.raises(AttributeError, match="'_thread._local' object has no attribute 'nothing'"):
        stator.compile(program, backend="eager")()


def test_numbers_of_a_thread_vary():
    meter = threading.local()

    def program(x):
        meter.steps = getattr(meter, "steps", 0) + 1
        meter.rate = getattr(meter, "rate", 1.0) * 0.5
        return x * meter.rate + meter.steps

    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)

    def run():
        return [compiled(torch.ones(1)).item() for _ in range(5)]

    found = []
    thread = threading.Thread(target=lambda: found.extend(run()))
    thread.start()
    thread.join()
    assert found == run() == [1.5, 2.25, 3.125, 4.0625, 5.03125]
    assert vars(meter) == {"steps": 5, "rate": 0.5**5}
    assert stator.stats()["recompiles"] == 1
