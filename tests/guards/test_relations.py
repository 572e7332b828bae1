"""RELATION: integer programs over sizes, strides and ints; C and the Python twin agree."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
import torch

from stator._entry import RELATION_OPS
from stator.guards import path as paths
from stator.guards.guardset import GuardSet
from stator.guards.relation import (
    FLOAT,
    INT,
    INT_FUNCTIONS,
    NUMBER,
    REAL_TWINS,
    ROUNDINGS,
    SIZE,
    STRIDE,
    TWINS,
    WHOLE,
    Operand,
    Relation,
)

OPS = RELATION_OPS


def code(*steps: str | tuple[str, int]) -> tuple[int, ...]:
    out: list[int] = []
    for step in steps:
        name, arg = (step, 0) if isinstance(step, str) else step
        out += (OPS[name], arg)
    return tuple(out)


def outcome(relation: Relation, args: tuple[object, ...]) -> bool:
    guards = GuardSet()
    guards.relation(relation)
    hit = isinstance(guards.compile([]).run(args), list)
    assert hit == (guards.first_failure(args) is None)
    return hit


def test_sizes_strides_and_ints() -> None:
    x = Operand(paths.arg(0), SIZE, 1)
    step = Operand(paths.arg(0), STRIDE, 0)
    n = Operand(paths.arg(1), INT)
    relation = Relation(
        (x, step, n),
        code(("LOAD", 0), ("LOAD", 1), "EQ", ("LOAD", 2), ("CONST", 3), "MOD", ("CONST", 0), "EQ", "AND"),
        "{0} == {1} and {2} % 3 == 0",
    )
    assert outcome(relation, (torch.zeros(2, 5), 6))
    assert not outcome(relation, (torch.zeros(5, 2).t(), 6))
    assert not outcome(relation, (torch.zeros(2, 5), 7))
    assert not outcome(relation, (torch.zeros(2, 5), 1 << 70))
    assert not outcome(relation, (torch.zeros(2, 5), True))
    guards = GuardSet()
    guards.relation(relation)
    failure = guards.first_failure((torch.zeros(2, 5), 7))
    assert failure is not None and "is 7" in failure.sentence and "% 3 == 0" in failure.sentence


def test_malformed_programs_are_refused() -> None:
    operand = (Operand(paths.arg(0), INT),)
    for steps in ((), ("ADD",), (("LOAD", 1),), (("LOAD", 0), ("LOAD", 0)), (("LOAD", 0), ("POW", -1))):
        guards = GuardSet()
        guards.relation(Relation(operand, code(*steps), ""))
        with pytest.raises(ValueError, match="malformed"):
            guards.compile([])


def test_random_programs_agree_with_the_twin() -> None:
    rng = random.Random(1)
    operands = tuple(Operand(paths.arg(i), INT) for i in range(3))
    binary = [name for name in OPS if name in TWINS]
    outcomes = set()
    for _ in range(400):
        steps: list[str | tuple[str, int]] = [("LOAD", rng.randrange(3))]
        for _ in range(rng.randrange(1, 9)):
            kind = rng.randrange(4)
            if kind == 0:
                steps.append(("POW", rng.randrange(4)))
            elif kind == 1:
                steps += [("CONST", rng.choice([0, 1, -1, 7, -3, 2**40, -(2**62)])), rng.choice(binary)]
            elif kind == 2:
                steps += [("LOAD", rng.randrange(3)), rng.choice(binary)]
            else:
                steps.append("NOT")
        relation = Relation(operands, code(*steps), "")
        args = tuple(rng.choice([0, 1, -1, 5, -7, 12, 2**31, 2**63 - 1, -(2**63)]) for _ in range(3))
        outcomes.add(outcome(relation, args))
    assert outcomes == {True, False}


def test_functions_of_ints_agree_with_the_twin() -> None:
    numbers = (0, 1, -1, 2, 3, 5, -7, 62, 63, 65, 2**31, 10**18, 2**62, 2**63 - 1, -(2**63))
    operands = tuple(Operand(paths.arg(i), INT) for i in range(2))
    for name, number in OPS.items():
        if not name.startswith("int"):
            continue
        function = INT_FUNCTIONS[name[3], number]
        steps: list[str | tuple[str, int]] = [("LOAD", i) for i in range(int(name[3]))]
        for args in itertools.product(numbers, repeat=2):
            try:
                made = function(*args[: int(name[3])])
            except Exception:
                made = 0
            made = made if -(2**63) <= made < 2**63 else 0
            for wanted in (made, made + 1 if made < 2**63 - 1 else 0):
                relation = Relation(operands, code(*steps, (f"CALL{name[3]}", number), ("CONST", wanted), "EQ"), "")
                outcome(relation, args)


def test_random_programs_of_doubles_agree_with_the_twin() -> None:
    rng = random.Random(2)
    one, two = ([number for name, number in OPS.items() if name.startswith(f"{arity} ")] for arity in (1, 2))
    outcomes = set()
    for _ in range(600):
        numbers = tuple(Operand(paths.arg(0), NUMBER, bound=rng.choice([0.0, 1.0, -2.5, 1e300])) for _ in range(2))
        operands = (Operand(paths.arg(0), FLOAT), Operand(paths.arg(1), INT), *dict.fromkeys(numbers))
        steps: list[str | tuple[str, int]] = [("LOAD", 0)]
        for _ in range(rng.randrange(1, 7)):
            kind = rng.randrange(4)
            if kind == 0:
                steps.append(rng.choice(["NEG", "NOT", ("CALL1", rng.choice(one))]))
            elif kind == 1:
                steps += [("LOAD", rng.randrange(len(operands))), ("CALL2", rng.choice(two))]
            else:
                steps += [("LOAD", rng.randrange(len(operands))), rng.choice(list(REAL_TWINS))]
        relation = Relation(operands, code(*steps), "", real=True)
        value = rng.choice([0.0, -0.0, 0.5, -3.25, 1e-300, 7.0, math.inf, math.nan])
        outcomes.add(outcome(relation, (value, rng.choice([0, 1, -4, 10, 2**53 + 1]))))
    assert outcomes == {True, False}


def whole(inner: Relation, rounding: int = 0) -> Operand:
    return Operand(inner.operands[0].path, WHOLE, rounding, inner=inner)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_numbers_that_are_rounded_doubles(rounding: Callable[[float], int]) -> None:
    operands = Operand(paths.arg(0), FLOAT), Operand(paths.arg(1), SIZE, 0)
    inner = Relation(operands, code(("LOAD", 0), ("LOAD", 1), "MUL"), "({0} * {1})", real=True)
    twice = Relation((whole(inner, ROUNDINGS[rounding]),), code(("LOAD", 0), ("CONST", 2), "MUL"), "({0} * 2)")
    wanted = Operand(paths.arg(2), INT)
    relation = Relation((whole(twice), wanted), code(("LOAD", 0), ("LOAD", 1), "EQ"), "{0} == {1}")
    x = torch.zeros(3)
    for value in (0.5, -0.5, 0.49999, 1.0, -1.5, 2.5 / 3, -7.9, 1e15):
        made = 2 * rounding(value * 3)
        assert outcome(relation, (value, x, made)) and not outcome(relation, (value, x, made + 1))
    for value in (math.inf, math.nan, 1e16, 1):
        assert not outcome(relation, (value, x, 0))
    guards = GuardSet()
    guards.relation(relation)
    failure = guards.first_failure((0.5, x, 77))
    assert failure is not None and f"({rounding.__name__}((arg0 * arg1.size(0))) * 2) == arg2" in failure.sentence
    assert f"is {2 * rounding(1.5)}" in failure.sentence
