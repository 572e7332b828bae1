"""The process environment is changed after the graph ran; breakpoint() calls the program's hook."""

import gc
import os
import subprocess
import sys

import torch

import stator
from tests.harness import check


def test_environment():
    def program(value):
        os.environ["STATOR_TEST"] = value
        seen = os.environ["STATOR_TEST"]
        try:
            os.putenv("a=b", "c")
        except ValueError as error:
            return seen, str(error)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    try:
        for value in ("one", "one", "two"):
            assert compiled(value) == program(value)
            os.unsetenv("STATOR_TEST")
            compiled(value)
            assert subprocess.check_output("echo $STATOR_TEST", shell=True, text=True).strip() == value
    finally:
        del os.environ["STATOR_TEST"]


def test_breakpoint_hook_of_the_program():
    def program(x):
        calls = []
        before = sys.breakpointhook
        sys.breakpointhook = lambda *args, **kwargs: calls.append((args, kwargs))
        try:
            breakpoint(x, y=1)
        finally:
            sys.breakpointhook = before
        return calls

    check(program, 3)


def test_nobody_sees_that_nothing_is_collected_while_capturing() -> None:
    """A thread that asks, switches collections off and puts back what it was told would leave them off for ever."""

    @stator.assume_constant_result
    def asked() -> tuple[bool, int]:
        collections = gc.get_stats()[0]["collections"]
        rows = [[i] for i in range(5000)]
        return gc.isenabled(), gc.get_stats()[0]["collections"] - collections + len(rows) - 5000

    before = gc.get_threshold()
    compiled = stator.compile(lambda x: (x + 1, asked()), backend="eager", fullgraph=True)
    assert compiled(torch.ones(1))[1] == (True, 0)
    assert gc.get_threshold() == before


def test_whether_garbage_is_collected() -> None:
    def asks(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if gc.isenabled() else x + 2

    compiled = stator.compile(asks, backend="eager", fullgraph=True)
    try:
        for enabled, expected in [(True, 1), (False, 2), (True, 1), (False, 2)]:
            (gc.enable if enabled else gc.disable)()
            assert compiled(torch.zeros(1)).item() == expected
    finally:
        gc.enable()
