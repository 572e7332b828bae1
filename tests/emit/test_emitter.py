"""The emitter itself: minimal sources, statements in order, names, constants, and the life of an entry function."""

import gc
import inspect
import linecache
import traceback
import weakref

import pytest

from stator.emit import CannotRebuild, Emitter, Source
from stator.errors import InternalError

OUT = [object(), object()]


def with_outputs(count=1):
    names = {id(obj): f"g{i}" for i, obj in enumerate(OUT[:count])}
    emitter = Emitter(lambda obj: names.get(id(obj)))
    graph = emitter.constant(lambda *inputs: [*inputs], "graph")
    emitter.unpack([*names.values()], "{0}(l0, l1)", graph)
    return emitter


def source(emitter, result, params=("l0", "l1")):
    return emitter.function("entry", params, result).__stator_source__


def test_minimal_sources():
    assert source(with_outputs(), OUT[0]) == "def entry(l0, l1): return graph(l0, l1)[0]\n"
    assert source(with_outputs(), (OUT[0], 1)) == "def entry(l0, l1): return (graph(l0, l1)[0], 1)\n"
    assert source(with_outputs(2), (OUT[0], OUT[1])) == (
        "def entry(l0, l1):\n    g0, g1 = graph(l0, l1)\n    return (g0, g1)\n"
    )
    assert (
        source(with_outputs(), [OUT[0], OUT[0]]) == "def entry(l0, l1):\n    g0, = graph(l0, l1)\n    return [g0, g0]\n"
    )
    assert source(with_outputs(0), None) == "def entry(l0, l1):\n    graph(l0, l1)\n    return None\n"
    assert source(Emitter(lambda obj: None), None, ()) == "def entry(): return None\n"


def test_entry_runs():
    entry = with_outputs(2).function("entry", ["l0", "l1"], {"b": [OUT[1]], "a": OUT[0]})
    assert entry(3, 4) == {"b": [4], "a": 3} and [*entry(3, 4)] == ["b", "a"]


def test_graph_call_stays_before_effects():
    emitter = with_outputs()
    emitter.statement("{0}.append({1})", Source("l0"), OUT[0])
    text = source(emitter, None)
    assert text == "def entry(l0, l1):\n    g0, = graph(l0, l1)\n    l0.append(g0)\n    return None\n"
    emitter = with_outputs()
    emitter.raw("l0.clear()")
    assert source(emitter, OUT[0]).splitlines()[1:] == ["    g0, = graph(l0, l1)", "    l0.clear()", "    return g0"]


def test_statements_share_objects():
    shared = [1]
    emitter = Emitter(lambda obj: None)
    emitter.statement("{0}.append({1})", Source("l0"), shared)
    emitter.statement("{0}.append({1})", Source("l0"), {"again": shared})
    entry = emitter.function("entry", ["l0"], shared)
    out = []
    result = entry(out)
    assert out == [[1], {"again": [1]}] and out[0] is out[1]["again"] is result is not shared


def test_value_names_can_be_used_in_raw_text():
    emitter = Emitter(lambda obj: None)
    inner = []
    name = emitter.value([inner])
    literal = emitter.value("it's")
    emitter.raw(f"l0.extend([{name}, {name}, {literal}])")
    entry = emitter.function("entry", ["l0"], inner)
    out = []
    result = entry(out)
    assert out[0] is out[1] and out[0][0] is result and out[2] == "it's"
    assert type(name) is Source and name.isidentifier()


def test_names_in_user_strings_are_left_alone():
    emitter = with_outputs()
    assert "'v0 v1 g0 {0}'" in source(emitter, ["v0 v1 g0 {0}", [OUT[0]], [2]])


def test_call_and_literals_as_targets():
    emitter = Emitter(lambda obj: None)
    seen = []
    emitter.call(emitter.constant(seen.append), [1])
    emitter.statement("{0}({1}.bit_length())", emitter.constant(seen.append), 5)
    emitter.function("entry", [], None)()
    assert seen == [[1], 3]


def test_constants_have_one_name():
    emitter = Emitter(lambda obj: None)
    first, second = object(), object()
    assert emitter.constant(first, "thing") == emitter.constant(first) == "thing"
    assert emitter.constant(second, "thing") == "thing_2"
    with pytest.raises(ValueError, match="thing"):
        emitter.function("entry", ["thing"], None)


def test_resolve_comes_first():
    text = "known"
    emitter = Emitter(lambda obj: "l0" if obj is text or obj is int else None)
    assert emitter.function("entry", ["l0"], [text, int])(5) == [5, 5]


def test_result_as_source_or_as_text():
    assert Emitter(lambda obj: None).function("entry", ["a"], Source("a + 1"))(1) == 2
    assert Emitter(lambda obj: None).function("entry", ["a"], "a + 1")(1) == "a + 1"


def test_source_is_in_linecache_while_the_function_lives():
    entry = Emitter(lambda obj: None).function("entry", ["a"], Source("1 / a"), label="forward")
    name = entry.__code__.co_filename
    assert name.startswith("<stator entry ") and name.endswith(" of forward>")
    assert inspect.getsource(entry) == entry.__stator_source__
    linecache.checkcache()
    with pytest.raises(ZeroDivisionError) as caught:
        entry(0)
    assert "return 1 / a" in "".join(traceback.format_exception(caught.value))
    del entry, caught
    gc.collect()
    assert name not in linecache.cache


def test_entry_keeps_only_what_it_needs():
    class Big(list):
        pass

    example = Big([1])
    ref = weakref.ref(example)
    emitter = Emitter(lambda obj: None)
    entry = emitter.function("entry", [], [example])
    del emitter, example
    gc.collect()
    assert ref() is None and entry() == [[1]]


def test_failure_leaves_the_emitter_usable():
    emitter = Emitter(lambda obj: None)
    good = [1]
    with pytest.raises(CannotRebuild):
        emitter.value([good, memoryview(b"")])
    assert emitter.function("entry", [], good)() == [1]


def test_changed_builtins_do_not_matter(monkeypatch):
    entry = Emitter(lambda obj: None).function("entry", [], [bytearray(b"a"), ArithmeticError(1)])
    monkeypatch.setattr("builtins.bytearray", None)  # not one that other threads may need at this moment
    monkeypatch.setattr("builtins.ArithmeticError", None)
    made = entry()
    assert made[0] == b"a" and made[1].args == (1,)


def test_names_that_nobody_defines():
    """A handler in an entry function would hide such a mistake."""
    emitter = Emitter(lambda obj: None)
    emitter.raw("l0.append(len(nobody))")
    with pytest.raises(InternalError, match="nobody"):
        emitter.function("entry", ["l0"], None)


def test_a_function_may_be_called_like_a_constant():
    emitter = with_outputs()
    assert emitter.function("graph", ("l0", "l1"), OUT[0])(1, 2) == 1
