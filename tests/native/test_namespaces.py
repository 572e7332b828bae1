"""Code run in namespaces that are no plain dicts, calls with odd keywords, and what `locals()` shows."""

import inspect

import torch

import stator
from tests.harness import check


@stator.disable
def opaque(value):
    return value


class Answering(dict):
    def __getitem__(self, key):
        return f"<{key}>"


class Refusing(dict):
    def __getitem__(self, key):
        raise LookupError(key)


def outcome(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


def test_globals_of_a_dict_subclass():
    def program():
        names = Answering(x=1)
        code = "def f(): return x, missing"
        exec(code, names)
        return eval("x", names), dict.get(names, "f")()

    check(program)


def test_builtins_of_the_program():
    def program():
        return [outcome(eval, "x", {"__builtins__": b}) for b in ({}, {"x": 1}, Answering(), Refusing(x=1), 123)]

    check(program)


def test_class_statement_without_builder():
    def program():
        return [outcome(exec, "class A: pass", {"__builtins__": b}) for b in (Refusing(), {})]

    check(program)


def test_deleting_a_name_in_a_mapping():
    class Mapping(dict):
        def __delitem__(self, key):
            raise ValueError(key)

    def program():
        return outcome(exec, "x = 1\ndel x", {}, Mapping())

    check(program)


def test_eval_without_arguments():
    def program():
        return outcome(eval), outcome(exec)

    check(program)


def test_keywords_that_are_no_strings():
    def program():
        return outcome(lambda: dict(**{1: 2})), outcome(lambda: outcome(**{1: 2}))

    check(program)


def test_import_with_wrong_arguments():
    def program():
        return outcome(__import__, "sys", name="sys"), outcome(__import__, "math", fancy=1), outcome(__import__, 1)

    check(program)


def sharing(count, weight):
    def shares(x):
        nonlocal count
        if not count:
            return weight
        count += 1
        seen = dict(locals())
        return seen["count"], seen["weight"] * x, eval("count"), sorted(inspect.currentframe().f_locals), dir()

    return shares


def test_locals_in_cells_made_before():
    """They show what the program has put into them by now; tensors among them are inputs of the graph."""
    check(sharing(1, torch.ones(2)), torch.ones(2), expect_recompiles=None, expect_graphs=1)


def cell_behind_a_break(x):
    later = opaque(x) + 1
    seen = sorted(locals())
    return seen, (lambda: later)()


def test_locals_in_cells_filled_behind_a_break():
    check(cell_behind_a_break, torch.ones(2), fullgraph=False, expect_breaks=1)
