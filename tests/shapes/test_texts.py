"""Strings that vary, texts with numbers that vary, and both as keys: compiled twice unless somebody looks into them."""

import itertools
import re
import string

import pytest
import torch

import stator
from stator.report.events import events, recording
from tests.harness import check
from tests.shapes.test_state import compilations


def passed_on():
    def program(x, step, name):
        return x * 2, name, [name] * 2, f"{name}/loss {step:03d}", "%s-%d" % (name, step), " ".join([name, str(step)])

    return program


def kept():
    log, table, seen, latest = [], {}, set(), {"text": ""}

    def program(x, step, name):
        log.append(f"step {step}")
        table[step] = x.sum()
        table[f"at {step}"] = name
        table.update({name: step})
        seen.add(name)
        seen.add(step)
        latest["text"] = name + "!"
        return x + step, list(log), dict(table), sorted(map(str, seen)), dict(latest)

    return lambda x, step, name: (program(x, step, name), log, table, seen, latest)


def printed():
    def program(x, step, name):
        print(f"{name}: {step}")
        return x + 1

    return program


def test_passed_on():
    calls = [(torch.ones(2), step, f"n{step}") for step in range(3, 9)]
    assert compilations(passed_on, calls)[0] == 2


def test_kept():
    """What the program only writes to is not looked at."""
    log, table, seen = [], {}, set()

    def program(x, step, name):
        log.append(f"step {step}")
        table[step] = name
        table[f"at {step}"] = step
        table[name] = 1.5
        seen.add(name)
        return x + step

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for step in range(2, 9):
        compiled(torch.ones(2), step, f"n{step}")
        assert log[-1] == f"step {step}" and type(log[-1]) is str and type(list(table)[-3]) is int
        assert list(table.items())[-3:] == [(step, f"n{step}"), (f"at {step}", step), (f"n{step}", 1.5)]
        assert f"n{step}" in seen and len(seen) == step - 1
    assert stator.stats()["frames_captured"] == 2


@pytest.mark.parametrize("make", [kept, printed])
def test_equal_to_eager(make, capsys):
    """Reads after such writes, in the order of the program."""
    for steps in (range(2, 8), [3, 3, 4, 3]):
        compilations(make, [(torch.ones(2), step, f"n{step}") for step in steps])
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == lines[1::2]


def test_looked_into():
    """A text that is compared, indexed or used to look something up is a constant."""
    table = {"a1": 1.0, "b2": 2.0}

    def program(x, name):
        key = f"{name}{len(name)}"
        table[name] = 0.0
        if name in table and name.startswith("a"):
            x = x + 10
        return x * table.get(key, 3.0) + len(key), name[0], {name: 1}, hash(name) == hash(str(name)), name == "a"

    compilations(lambda: program, [(torch.ones(2), name) for name in ("a", "b", "a", "cc", "b", "a1")])


def test_writes_and_reads_of_one_dict():
    def make():
        table = {}

        def program(x, step):
            table[step] = step * 2
            del table[step]
            table[step] = step
            found = table[step]
            table[step + 1] = found
            return x * found, len(table), step in table, bool(table), list(table)

        return program

    compilations(make, [(torch.ones(2), step) for step in (2, 3, 4, 2, 9)])


class Meta(type):
    pass


class Group(ExceptionGroup):
    pass


def makes_exceptions(x, text, n):
    group = Group("in " + text, [ValueError(text)])
    outer = ExceptionGroup("of " + text, [group])
    return x + n, str(group), group.message, Meta("C" + text, (), {}).__name__, str(outer)


def sets_fields(x, text, n):
    syntax, importing, undecoded = SyntaxError("a"), ImportError("b"), UnicodeDecodeError("ascii", b"abcdef", 1, 2, "r")
    syntax.lineno, syntax.filename, importing.msg = n, text, "of " + text
    undecoded.start, undecoded.reason = n, "x" + text
    return x + n, str(syntax), str(importing), str(undecoded)


def carries_exceptions(x, text, n):
    x = x + 1
    stator.graph_break()
    errors = [ExceptionGroup("a" + text, [KeyError(n)]), SyntaxError("m", (text, n, n, "t" + text)), OSError(n, text)]
    x = x * 2
    stator.graph_break()
    return x, list(map(str, errors)), list(map(repr, errors))


@pytest.mark.parametrize("f", [makes_exceptions, sets_fields, carries_exceptions])
@pytest.mark.parametrize("step", [0, 1])
def test_exceptions_know_texts_and_numbers_that_vary(f, step):
    compiled = stator.compile(f, backend="eager")
    for k in range(6):
        assert compiled(torch.ones(2), f"t{k}", 2 + k * step)[1:] == f(torch.ones(2), f"t{k}", 2 + k * step)[1:]
    assert not [event for event in events() if event.fields.get("break_id") == "internal"]


def test_containers_of_numbers():
    """Sizes are shown as a whole in messages."""

    def program(x, step, rate):
        shapes = f"{x.shape} {tuple(x.shape)!r} {list(x.size())} {{}} {[]}", str(x.shape) + repr((step,))
        return x + step, shapes, format(x.shape), f"{dict(n=step, size=x.shape[:1], rates=[rate, None, 'a', (2.5,)])}"

    calls = [(torch.randn(2 + i, 3 + 2 * i), 5 + i, 0.5 + i) for i in range(4)]
    check(program, vary=calls, expect_recompiles=1, expect_graphs=None)


def test_lists_that_hold_themselves():
    def program(x, step):
        own = [step]
        own.append(own)
        return x + step, f"{own}"

    check(program, vary=[(torch.ones(2), 5), (torch.ones(2), 6)], expect_recompiles=None, expect_graphs=None)


class Framed:
    def __format__(self, spec):
        return f"<{spec}|{len(spec)}>"


def widths(x, n):
    return x + n, f"{'x':>{n}}", f"{1.5:{n}.2f}", f"{n:{n}}", f"{n:0{n}d}", f"{Framed():{n}}", f"{Framed():a{n}b}"


def widths_by_method(x, n):
    return x + n, "{:>{}}".format("x", n), "%*d" % (n, 5), format("x", f">{n}"), "{:.{p}f}".format(1.5, p=n)  # noqa: UP032


def templates(x, n):
    return x + n, string.Template("$a of $b").substitute(a=n, b=f"{n}!"), re.sub("a", lambda _: f"{n}", "banana")


@pytest.mark.parametrize("program", [widths, widths_by_method, templates])
def test_texts_that_c_looks_into_are_no_mistakes(program):
    """A format specification, and what C gets from a function that it calls, are known texts."""
    calls = [(torch.ones(2), n) for n in (5, 6, 7, 12, 5)]
    with recording("error") as errors:
        check(program, vary=calls, fullgraph=False, expect_breaks=None, expect_recompiles=None)
    assert not errors


def told(run):
    """What a call gives, or the error it raises."""
    try:
        return run()
    except TypeError as error:
        return str(error)


def from_generators(x, n):
    return x + 1, told(lambda: ", ".join(str(m) for m in [n, n + 1])), told(lambda: f"{n}".join(c for c in "ab"))


def from_callbacks(x, n):
    return x + 1, told(lambda: re.sub("a", lambda match: f"{n}", "banana"))


def from_iterators(x, n):
    rest = map(lambda value: value, ["a", "b", f"{n}"])
    next(rest)
    given = (map(str, [n, 2]), iter([f"{n}"]), reversed([f"{n}", "z"]), {f"{n}": 1}, filter(None, [f"{n}", ""]))
    given += (map(lambda value: value, ["a", n]), iter(["a", n]), itertools.repeat(f"{n}", 2), {1: 2}.values(), 5)
    return x + 1, [told(lambda each=each: "-".join(each)) for each in given], "".join(rest), list(rest)


@pytest.mark.parametrize("program", [from_generators, from_callbacks, from_iterators])
def test_texts_that_c_is_given_one_by_one(program):
    """C raises for what is no str; a program that handles TypeError must not see that."""
    check(program, vary=[(torch.ones(2), n) for n in (5, 6, 9, 4)], expect_recompiles=None)
