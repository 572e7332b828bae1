"""Runs random programs plainly and with breaks: `python -m tests.breaks.generated FIRST LAST`, with options.

Each program (`generating.py`) is called four times, with other arguments, in a world of its own: plainly, compiled, and
compiled with breaks forced at N random instructions or at all of them. What it returns, raises (with the lines of its
traceback), prints, and leaves behind in its arguments and globals must be the same, and nothing may go wrong inside
stator. `--forced N` says how many such instructions, `--backend` what runs the graphs; `--moments N` adds a table of
ends and scopes so many times; `--reduce` removes statements of a program for as long as it differs in the same manner.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import copy
import decimal
import enum
import fractions
import functools
import gc
import io
import random
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import stator
from stator.eval import forced
from stator.report import events
from tests.breaks import changing, language, library, moments, views
from tests.breaks.generating import PRELUDE, TABLES, source, use
from tests.cpython.breaks_runner import AGAIN

FILES = ("<prelude>", "<program>")
SHARED = ("COUNT", "LOG", "TABLE", "SPACE", "PART", *changing.SHARED, *language.SHARED, *views.SHARED, *library.SHARED)
ROWS = (2, 3, 5, 3)  # of `w`, in each call
TEXTS = ("ab", "a", "xyz7", "12")
CONSTANTS = (
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    slice,
    range,
    enum.Enum,
    np.generic,
    type,
    decimal.Decimal,
    fractions.Fraction,
)


def constant(value: Any) -> bool:
    """Whether it does not matter if two such values are one or several."""
    if type(value) in (tuple, frozenset, torch.Size):
        return all(constant(item) for item in value)
    return isinstance(value, CONSTANTS)


class Picture:
    """Everything that can be seen of some values, aliasing included, as something comparable."""

    versions = True  # what is traced writes to memory of its own

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []

    def of(self, value: Any) -> Any:
        if constant(value) or isinstance(value, types.BuiltinFunctionType):
            return f"{type(value).__name__} {value!r}"
        if id(value) in self.numbers:
            return f"#{self.numbers[id(value)]}"
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)
        return [type(value).__qualname__, self.parts(value)]

    def parts(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            version = None if value.is_inference() or not self.versions else value._version
            history = [value.requires_grad, version, value.is_leaf and self.of(value.grad)]
            return [str(value.dtype), str(value.tolist()), value.stride(), *history]
        if isinstance(value, dict):
            return [[self.of(key), self.of(item)] for key, item in value.items()]
        if isinstance(value, (set, frozenset)):
            return sorted(str(Picture().of(item)) for item in value)
        if isinstance(value, (list, tuple, collections.deque)):
            return [self.of(item) for item in value]
        if isinstance(value, np.ndarray):
            return repr(value)
        if isinstance(value, BaseException):
            frames = traceback.extract_tb(value.__traceback__)
            rows = [(frame.name, frame.lineno) for frame in frames if frame.filename in FILES]
            chain = [self.of(value.__cause__), self.of(value.__context__), value.__suppress_context__]
            return [self.of(value.args), rows, chain, self.of(getattr(value, "exceptions", None))]
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
            return [value.__name__, self.of(value.__defaults__), self.of(value.__kwdefaults__), self.of(cells)]
        if isinstance(value, functools.partial):
            return [self.of(value.func), self.of(value.args), self.of(value.keywords)]
        if hasattr(value, "__slots__"):
            return [self.of(getattr(value, name, None)) for name in value.__slots__]
        return self.of(vars(value)) if hasattr(value, "__dict__") else None


def arguments(number: int, box: Any) -> tuple[Any, ...]:
    x = torch.arange(3.0) - number
    return (
        x,
        torch.full((3,), 0.5),
        number + 2,
        [1, "s", torch.ones(3), None] if number != 2 else [number, None],
        box(torch.ones(3) * number, 7, name=("given", "given", "calm", "new")[number]),
        torch.arange(3.0 * ROWS[number]).view(-1, 3) - number,
        TEXTS[number],
    )


def call(main: Any, args: Any, out: io.StringIO) -> Any:
    try:
        with contextlib.redirect_stdout(out):
            return "returned", main(*args)
    except Exception as error:
        return "raised", error


def observed(text: str, backend: str | None) -> list[Any]:
    """What four calls of a program do."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile("".join(PRELUDE), "<prelude>", "exec", dont_inherit=True), names)
    exec(compile(text, "<program>", "exec", dont_inherit=True), names)
    main = stator.compile(names["main"], backend=backend) if backend else names["main"]
    seen = []
    for number in range(len(ROWS)):
        args, out = arguments(number, names["Box"]), io.StringIO()
        result = call(main, args, out)
        shared = [names[name] for name in SHARED] + [names["Box"].kind]
        seen.append([Picture().of([result, args, shared]), out.getvalue()])
        del result, args, shared  # what ends now does so in an order of its own
        gc.collect()
        while names["LOG"]:
            names["LOG"].clear()
    return seen


def difference(text: str, setting: str | None, want: Any = None, backend: str = "eager") -> str | None:
    """How a program differs if it is compiled, with breaks forced as said."""
    want = observed(text, None) if want is None else want
    stator.reset()
    forced.force(setting)
    try:
        with events.recording("skip", "error") as seen:
            got = observed(text, backend)
    finally:
        forced.force(None)
    told = [event.fields.get("reason") or event.fields.get("text", "") for event in seen if _wrong(event)]
    if wrong := [text for text in told if not text.startswith(AGAIN)]:
        return f"mistake: {wrong[0]}"
    return next((f"call {at}: {_first(a, b)}" for at, (a, b) in enumerate(zip(got, want, strict=True)) if a != b), None)


def _wrong(event: events.Event) -> bool:
    return event.kind == "error" or event.fields.get("break_id") == "internal"


def _first(got: Any, want: Any, where: str = "") -> str:
    """The first place at which two pictures differ."""
    if isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)) and len(got) == len(want):
        return next(
            (_first(a, b, f"{where}.{i}") for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b), ""
        )
    return f"{where}: {str(got)[:300]} instead of {str(want)[:300]}"


def settings(seed: int, count: int) -> list[str | None]:
    """Unforced; then so many instructions at which breaks are forced, or all of them."""
    pick = random.Random(seed)
    return [None, *(pick.choice(["all", str(pick.randrange(3, 60))]) for _ in range(count))]


def smaller(tree: ast.Module, way: int) -> Iterator[tuple[int, ast.Module]]:
    """The program with a statement removed, or (ways 1 and 2) a compound one replaced by one of its blocks."""
    places = [(n, at) for n, block in enumerate(_blocks(tree)) for at in reversed(range(len(block)))]
    for number, (n, at) in enumerate(places):
        made = copy.deepcopy(tree)
        block = _blocks(made)[n]
        inner = _blocks(block[at], deep=False)
        if way <= len(inner):
            block[at : at + 1] = inner[way - 1] if way else []
            if not block:
                block.append(ast.Pass())
            if ast.dump(made) != ast.dump(tree):
                yield number, made


def _blocks(tree: ast.AST, deep: bool = True) -> list[Any]:
    values = [value for node in (ast.walk(tree) if deep else [tree]) for _, value in ast.iter_fields(node)]
    return [value for value in values if isinstance(value, list) and value and isinstance(value[0], ast.stmt)]


def reduced(text: str, setting: str | None, backend: str) -> str:
    """A smaller program that still differs in the same manner."""
    manner = str(difference(text, setting, backend=backend))[:7]

    def differs(made: ast.Module) -> bool:
        try:
            return str(difference(ast.unparse(made), setting, backend=backend)).startswith(manner)
        except Exception:
            return False

    best, last = ast.parse(text), ""
    while ast.dump(best) != last:
        last = ast.dump(best)
        for way in range(3):
            found, begin = True, 0
            while found:
                found = False
                for number, made in smaller(best, way):
                    if number >= begin and differs(made):
                        best, found, begin = made, True, number
                        break
    return ast.unparse(best)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--reduce", action="store_true")
    parser.add_argument("--forced", type=int, default=1)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--moments", type=int, default=0)
    options = parser.parse_args()
    Picture.versions = options.backend == "eager"
    use(TABLES + [moments] * options.moments)
    warnings.simplefilter("ignore")
    for seed in range(options.first, options.last):
        text = source(seed)
        print(f"\r{seed}", end="", file=sys.stderr, flush=True)
        want = observed(text, None)
        if want != observed(text, None):
            print(seed, "plainly", _first(want, observed(text, None)))
            continue
        for setting in settings(seed, options.forced):
            if told := difference(text, setting, want, options.backend):
                print(f"\n== {seed} forced {setting}: {told}")
                print(reduced(text, setting, options.backend) if options.reduce else "", flush=True)
                break


if __name__ == "__main__":
    main()
