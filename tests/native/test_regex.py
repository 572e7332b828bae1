"""Compiling regular expressions during capture."""

import operator
import re
import warnings
from fractions import Fraction

import pytest

import stator
from tests.harness import check


def test_debug_prints_each_time():
    check(lambda: re.compile("ab?", re.DEBUG).pattern)


def test_pattern_that_warns_is_refused_and_leaves_nothing_behind():
    text = "[[a]--b]"
    re.purge()
    with pytest.raises(stator.errors.Unsupported), warnings.catch_warnings():
        warnings.simplefilter("error")
        stator.compile(lambda: re.compile(text), backend="eager", fullgraph=True)()
    with pytest.warns(FutureWarning):
        re.compile(text)


def test_purge():
    def program():
        first = re.compile("a+b")
        re.purge()
        return first is re.compile("a+b"), first == re.compile("a+b")

    fn = stator.compile(program, backend="eager", fullgraph=True)
    assert fn() == fn() == (False, True)


def test_bound_methods_and_operators():
    match = re.compile("(a+)").match
    check(lambda: (match("aab").group(1), operator.mul(Fraction(1, 2), 3), operator.add([1], [2])))
    check(lambda: object.__init__(object()))
