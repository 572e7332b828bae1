"""Idioms are read by what instructions mean; which instructions these are is a table of the Python version."""

from __future__ import annotations

import dis
import inspect
import re

import pytest

from stator.code import cuts, messages, terms
from stator.code.cuts import cut_after
from stator.code.decode import CodeInfo
from stator.code.messages import message_call
from stator.code.terms311 import TERMS
from stator.eval.machine import code_info


def test_rows_are_opcodes() -> None:
    assert TERMS.keys() <= dis.opmap.keys()


@pytest.mark.parametrize("module", [cuts, messages, terms])
def test_no_opcode_is_named(module: object) -> None:
    words = re.findall(r"\b[A-Z_]{4,}\b", inspect.getsource(module))  # type: ignore[arg-type]
    assert not set(words) & dis.opmap.keys()


def first(function: object, name: str) -> tuple[CodeInfo, int]:
    info = code_info(function.__code__)  # type: ignore[attr-defined]
    return info, info.names.index(name)


def both(x, n, m):
    if n > 0 or m > 0:
        x = x[:, : n - 1, :m].contiguous()
    return x


def other(x, n, m):
    if n > 0 or m > 0:
        x = x[:, : n - 1, :m].clone()
    return x


def test_cut() -> None:
    info, unit = first(both, "COMPARE_OP")
    cut = cut_after(info, unit)
    assert cut is not None
    assert cut.others == [(">", [("variable", 2), ("constant", 0)])]
    assert cut.variable == 0
    assert [term for term, _ in cut.key if term in ("slice", "tuple")] == ["slice", "slice", "slice", "tuple"]
    assert info.names[cut.copies] == "CALL"  # type: ignore[index]
    assert cut_after(info, unit - 1) is None  # no comparison
    assert cut_after(*first(other, "COMPARE_OP")) is None


def test_message() -> None:
    assert message_call(*first(lambda check, n: check(n > 2, f"{n} is {n.x[0]}"), "FORMAT_VALUE")) == 0
    assert message_call(*first(lambda check, n: check(n > 2, f"so {n} is {n.x[0]}"), "FORMAT_VALUE")) == 1
    assert message_call(*first(lambda check, n: check(n > 2, f"{n}"), "FORMAT_VALUE")) == 0
    assert message_call(*first(lambda check, n: check(n > 2, text=f"{n}"), "FORMAT_VALUE")) is None
    assert message_call(*first(lambda check, n: check(n > 2, f"{n}", 3), "FORMAT_VALUE")) is None
    assert message_call(*first(lambda check, n: check(n > 2, f"{n} {n:{n}}"), "FORMAT_VALUE")) is None
