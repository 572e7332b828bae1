"""CPython's own tests with breaks allowed: `python -m tests.cpython.breaks_runner [OPTION…] MODULE…`.

Each test method runs twice plainly and twice compiled with `fullgraph=False`; the two outcomes (passed, skipped, or
type and message of the exception) must be the same. A module runs in a process of its own, which is started again after
a crash or a test that took too long. Prints one JSON object per module: how many tests there are, how many pass
plainly, how many captured a frame and how many broke, what went wrong unseen by the program, and what differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any

from tests.cpython.runner import PLAIN, cases, loaded

WALL = 600  # seconds, for one child
ADDRESS = re.compile(r"0x[0-9a-f]+")
AGAIN = ("captured with constants", "captured without numbers")  # a first attempt failed, no mistake
SLOW = 75  # exit status of a child whose test took too long


def identifier(case: unittest.TestCase) -> str:
    return f"{type(case).__qualname__}.{case._testMethodName}"


class Outcome(unittest.TestResult):
    """What became of one test."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: set[str] = set()
        self.text = ""

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self.kinds.add(f"{err[0].__name__}: {re.sub(ADDRESS, '0x', str(err[1]))}")
        self.text = self.text or self._exc_info_to_string(err, test)

    addFailure = addError  # noqa: N815

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self.kinds.add("skipped")

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self.kinds.add("failed as expected")

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self.kinds.add("unexpected success")

    def __str__(self) -> str:
        return ", ".join(sorted(self.kinds)) or "passed"


def outcome(case: unittest.TestCase, compiled: Callable[[Any], Any]) -> Outcome:
    """The outcome of calling a test's method, wrapped by `compiled`, twice, with a renewed fixture."""
    name = case._testMethodName
    method = getattr(case, name)

    def twice() -> None:
        vars(case).pop(name, None)
        run = compiled(method)
        run()
        case.tearDown()
        case.doCleanups()
        case.setUp()
        run()

    twice.__dict__.update(getattr(method, "__dict__", {}))  # skip and expectedFailure marks
    vars(case)[name] = twice
    result = Outcome()
    try:
        unittest.TestSuite([case]).run(result)  # with the fixtures of its class and its module
    except KeyboardInterrupt:
        result.kinds.add("KeyboardInterrupt")
    finally:
        vars(case).pop(name, None)
    return result


def compiled(method: Any) -> Any:
    import stator

    stator.reset()
    return stator.compile(method, backend="eager", fullgraph=False)


def compared(case: unittest.TestCase, half: Callable[[], None]) -> dict[str, Any]:
    """What a test did; "different" is there if it did not come out the same both ways. `half` is called in between."""
    import stator

    if not hasattr(getattr(case, case._testMethodName), "__code__"):
        return {}
    again = type(case)(case._testMethodName)
    plain = outcome(case, lambda method: method)
    half()
    stator.reset()
    broken = outcome(again, compiled)
    figures = stator.stats()
    record = {
        "plain": not plain.kinds,
        "captured": figures["frames_captured"],
        "breaks": figures["graph_breaks"],
        "mistakes": mistakes(),
    }
    if plain.kinds == broken.kinds:
        return record
    return record | {"different": {"plain": str(plain), "compiled": str(broken), "text": broken.text}}


def mistakes() -> list[str]:
    """What went wrong inside stator itself, without being seen by the program."""
    from stator.report.events import events

    caught = [event for event in events() if event.fields.get("break_id") == "internal" or event.kind == "error"]
    told = {event.fields.get("reason") or event.fields.get("text", "") for event in caught}
    return sorted(text for text in told if not text.startswith(AGAIN))


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which tests run, and how."""

    only: str = ""  # those whose name holds this text
    every: int = 1  # of these each so many
    offset: int = 0  # beginning with this one
    force: str = ""  # the forced break
    seconds: float = 30  # of CPU time, for one test


def child(module: str, fd: int, done: list[str], choice: Choice) -> None:
    """Runs the tests of one module that are not done yet, and writes a line before and after each."""
    import torch

    import stator
    from stator.eval import forced

    # Modules that a test takes out of sys.modules must not come twice.
    stator.compile(lambda x: x + len(x), backend="eager", dynamic=True)(torch.ones(3))
    forced.force(choice.force or None)
    parent = os.getpid()

    def emit(record: dict[str, Any]) -> None:
        if os.getpid() == parent:
            os.write(fd, json.dumps(record).encode() + b"\n")

    def late(signum: int, frame: Any) -> None:
        faulthandler.dump_traceback(sys.__stderr__)
        os._exit(SLOW)

    def half() -> None:
        signal.setitimer(signal.ITIMER_PROF, choice.seconds)
        emit({"half": round(time.process_time() - began, 2)})

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    from test import support

    support.use_resources = []
    for name, function in PLAIN.items():
        setattr(unittest.TestCase, name, function)
    named = {identifier(case): case for case in cases(loaded(module)) if choice.only in identifier(case)}
    found = dict(list(named.items())[choice.offset :: choice.every])
    os.chdir(tempfile.mkdtemp())
    emit({"all": len(found)})
    for name, case in found.items():
        if name in done:
            continue
        emit({"start": name})
        signal.signal(signal.SIGPROF, late)
        signal.setitimer(signal.ITIMER_PROF, choice.seconds)
        began = time.process_time()
        record = compared(case, half)
        signal.setitimer(signal.ITIMER_PROF, 0)
        emit({"end": name, **record, "seconds": round(time.process_time() - began, 2)})
    emit({"finished": True})
    os._exit(0)


EVERYTHING = Choice()


def run_module(module: str, choice: Choice = EVERYTHING) -> dict[str, Any]:
    """The differences of one module's tests, by name."""
    record: dict[str, Any] = {"module": module, "all": 0, "plain": 0, "captured": 0, "breaks": 0}
    record |= {"mistakes": {}, "different": {}}
    done: list[str] = []
    while True:
        before = len(done)
        lines, status, errors = run_child(module, done, choice)
        started = [line["start"] for line in lines if "start" in line]
        ended = {line["end"]: line for line in lines if "end" in line}
        record["all"] = next((line["all"] for line in lines if "all" in line), record["all"])
        record["different"] |= {name: line["different"] for name, line in ended.items() if "different" in line}
        for name in ("plain", "captured", "breaks"):
            record[name] += sum(bool(line.get(name)) for line in ended.values())
        record["mistakes"] |= {name: line["mistakes"] for name, line in ended.items() if line.get("mistakes")}
        done += started
        if lines and "finished" in lines[-1]:
            return record
        if lines and "end" not in lines[-1] and started:
            half = "compiled" if "half" in lines[-1] else "plain"
            what = f"too slow (plain: {lines[-1].get('half')} s)" if status == SLOW else f"crash {status}"
            record["different"][started[-1]] = {half: what, "text": errors[-6000:]}
        if len(done) == before:
            record["different"]["module"] = {"compiled": f"crash {status}", "text": errors[-6000:]}
            return record


def run_child(module: str, done: list[str], choice: Choice) -> tuple[list[dict[str, Any]], int, str]:
    """The lines one child wrote, its exit status, and its stderr."""
    with tempfile.TemporaryFile("w+") as lines, tempfile.TemporaryFile("w+", errors="replace") as errors:
        fd = lines.fileno()
        options = [f"--{name}={value}" for name, value in dataclasses.asdict(choice).items()]
        command = [sys.executable, "-m", "tests.cpython.breaks_runner", f"--child={fd}", *options, module]
        extra = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
        text = json.dumps(done)
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[fd],
            text=True,
            env=os.environ | extra,
        )
        try:
            process.communicate(text, timeout=WALL)
            status = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = SLOW
        lines.seek(0)
        errors.seek(0)
        return [json.loads(line) for line in lines], status, errors.read()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="+")
    for field in dataclasses.fields(Choice):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    parser.add_argument("--child", type=int)
    options = parser.parse_args()
    choice = Choice(*(getattr(options, field.name) for field in dataclasses.fields(Choice)))
    if options.child is not None:
        child(options.modules[0], options.child, json.load(sys.stdin), choice)
    for module in options.modules:
        print(json.dumps(run_module(module, choice)), flush=True)


if __name__ == "__main__":
    main()
