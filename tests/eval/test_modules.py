"""Imports and pickle while the program has its own entries in sys.modules."""

from __future__ import annotations

import pickle
import sys
import types

import stator


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_pickle_and_import_see_a_replaced_module() -> None:
    module = sys.modules[__name__]

    def program() -> tuple[bool, bool, int]:
        stand_in = types.ModuleType("math")
        stand_in.answer = 42
        before = sys.modules["math"]
        sys.modules["math"] = stand_in
        try:
            import math

            copy = pickle.loads(pickle.dumps(Point(3)))
            return type(copy) is Point, copy.x == 3, math.answer
        finally:
            sys.modules["math"] = before

    assert stator.compile(program, backend="eager", fullgraph=True)() == (True, True, 42)
    assert sys.modules[__name__] is module
    assert not hasattr(sys.modules["math"], "answer")


def test_keywords_must_be_strings() -> None:
    def program() -> str:
        try:
            (lambda **k: k)(**{1: 2})
        except TypeError as error:
            return str(error)
        return ""

    assert stator.compile(program, backend="eager", fullgraph=True)() == program()
