"""A process that forks while another thread compiles: the child has neither the thread nor its locks."""

import gc
import os
import signal
import threading
import time

import torch

import stator
from stator import _frames

PATIENCE = 60.0  # a child that has not ended by then never will


def exit_code(pid: int) -> int | None:
    """How a child ended; None if it had to be killed."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def test_another_thread_compiles():
    begun, go_on = threading.Event(), threading.Event()

    def slow(graph, inputs):
        if not begun.is_set():
            begun.set()
            go_on.wait(PATIENCE)
        return graph.forward

    def program(x):
        y = x * 2
        stator.graph_break()
        return y + 1

    compiled = stator.compile(program, backend=slow)
    thread = threading.Thread(target=compiled, args=(torch.ones(3),))
    thread.start()
    begun.wait(PATIENCE)
    pid = os.fork()
    if not pid:
        alone = not torch.compiler.is_compiling() and not _frames.armed()
        right = compiled(torch.ones(2)).tolist() == [3.0, 3.0]
        os._exit(0 if alone and right and not _frames.armed() else 1)
    try:
        assert exit_code(pid) == 0
    finally:
        go_on.set()
        thread.join()
    assert not torch.compiler.is_compiling()
    assert compiled(torch.ones(3)).tolist() == [3.0, 3.0, 3.0]


def test_another_thread_captures():
    begun, go_on = threading.Event(), threading.Event()

    @stator.assume_constant_result
    def slow():
        begun.set()
        go_on.wait(PATIENCE)
        return 2

    compiled = stator.compile(lambda x: x * slow(), backend="eager")
    before = gc.get_threshold()
    thread = threading.Thread(target=compiled, args=(torch.ones(3),))
    thread.start()
    begun.wait(PATIENCE)
    pid = os.fork()
    if not pid:
        os._exit(0 if gc.get_threshold() == before and gc.isenabled() else 1)
    try:
        assert exit_code(pid) == 0
    finally:
        go_on.set()
        thread.join()
    assert gc.get_threshold() == before


def test_a_program_that_forks():
    def program(x):
        y = x * 2
        pid = os.fork()
        if not pid:
            os._exit(0 if (y + 1).tolist() == [3.0, 3.0] else 1)
        return y + 1, pid

    result, pid = stator.compile(program, backend="eager")(torch.ones(2))
    assert result.tolist() == [3.0, 3.0]
    assert exit_code(pid) == 0
