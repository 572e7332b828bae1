"""Runs one of CPython's own test modules, each test compiled as a full graph: `python -m tests.cpython.runner NAME`.

Prints one JSON object: the names of all tests, and for each that did not pass the reason. A test passes if its
compiled method returns, twice, and its code object was captured and never executed by CPython.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import unittest
from collections.abc import Iterator
from typing import Any

import stator


@contextlib.contextmanager
def no_subtest(self: Any, msg: Any = None, **params: Any) -> Iterator[None]:
    yield


def plain_equal(self: Any, first: Any, second: Any, msg: Any = None, seq_type: Any = None) -> None:
    self.assertTrue(first == second, msg)


# Output for people only: difflib and subtests cost more than what they check.
PLAIN = {
    "subTest": no_subtest,
    **dict.fromkeys(["assertSequenceEqual", "assertDictEqual", "assertMultiLineEqual"], plain_equal),
}

ELSEWHERE = {"test_assertions": "unittest.test.test_assertions", "test_str": "test.test_unicode"}


def cases(suite: Any) -> Iterator[unittest.TestCase]:
    """All test cases of a suite except doctests and asynchronous ones."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        elif not isinstance(item, unittest.IsolatedAsyncioTestCase) and "doctest" not in type(item).__module__:
            yield item


def compiled_twice(case: unittest.TestCase, function: Any) -> None:
    """Call the compiled test method, renew the fixture, call it again."""
    stator.reset()
    method = function.__get__(case)
    run = stator.compile(method, backend="eager", fullgraph=True)
    run()
    case.tearDown()
    case.doCleanups()
    case.setUp()
    run()
    assert function.__code__ in stator.stats()["captured_codes"], "not captured"
    assert not stator.report.events.events("skip"), "ran in CPython"
    assert not stator.report.events.events("error"), stator.report.events.events("error")[0].text


class Result(unittest.TestResult):
    """Keeps the exceptions themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.raised: list[BaseException] = []

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self.raised.append(err[1])

    addFailure = addError  # noqa: N815


def outcome(case: unittest.TestCase) -> str | None:
    """None if the case passes compiled, else the reason; cases that do not pass plain count as passed."""
    name = case._testMethodName
    function = getattr(type(case), name)
    plain = unittest.TestResult()
    type(case)(name).run(plain)
    if plain.failures or plain.errors or plain.skipped or not hasattr(function, "__code__"):
        return None
    result = Result()
    vars(case)[name] = lambda: compiled_twice(case, function)
    case.run(result)
    if not result.raised:
        return None
    error = result.raised[0]
    return getattr(error, "break_id", None) or f"{type(error).__name__}: {error}"


def main(module: str) -> None:
    for name, function in PLAIN.items():
        setattr(unittest.TestCase, name, function)
    found = {f"{type(c).__name__}.{c._testMethodName}": c for c in cases(loaded(module))}
    failed = {name: reason for name, case in found.items() if (reason := outcome(case)) is not None}
    print(json.dumps({"all": list(found), "failed": failed}))


def loaded(module: str) -> unittest.TestSuite:
    name = ELSEWHERE.get(module, f"test.{module}")
    return unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))


if __name__ == "__main__":
    main(sys.argv[1])
