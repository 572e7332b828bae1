"""What a remedy says: the operation, what it feeds, and what to do instead."""

import dis
import pickle
import random
import time

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.breaks import BREAKS
from stator.errors import Location
from stator.report import consumer, remedy
from stator.report.consumer import Use
from tests.report import uses

USES = {
    uses.if_: ("if", ""),
    uses.if_not: ("if", ""),
    uses.through_a_variable: ("if", ""),
    uses.through_a_cell: ("if", ""),
    uses.while_: ("while", ""),
    uses.assert_: ("assert", ""),
    uses.ternary: ("if", ""),
    uses.and_: ("and", ""),
    uses.or_: ("or", ""),
    uses.comprehension: ("if", ""),
    uses.call: ("call", "torch.full"),
    uses.call_in_a_tuple: ("call", "torch.zeros"),
    uses.call_of_a_conversion: ("call", "torch.zeros"),
    uses.call_by_name: ("call", "torch.zeros"),
    uses.star_call: ("call", "torch.zeros"),
    uses.range_: ("call", "range"),
    uses.print_: ("call", "print"),
    uses.text: ("format", ""),
    uses.slice_: ("slice", ""),
    uses.slice_in_a_tuple: ("slice", ""),
    uses.index: ("index", ""),
    uses.store_at_index: ("index", ""),
    uses.item: ("store-item", ""),
    uses.attribute: ("store-attribute", "loss"),
    uses.method: ("attribute", "bit_length"),
    uses.arithmetic: ("arithmetic", ""),
    uses.unused_variable: ("store", "n"),
    uses.unused: ("nothing", ""),
    uses.returned: ("return", ""),
    uses.yielded: ("yield", ""),
    uses.for_: ("for", ""),
    uses.unpacking: ("unpack", ""),
    uses.walrus: ("if", ""),
    uses.chained: ("if", ""),
    uses.append: ("container", ""),
    uses.case: ("case", ""),
    uses.case_guard: ("case", ""),
}


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)


def item_call(function):
    """The place of `x.item()` in a function."""
    for code in codes(function.__code__):
        for instruction in dis.get_instructions(code):
            place = Location(code, instruction.offset)
            if instruction.opname == "CALL" and place.expression == "x.item()":
                return place
    raise LookupError(function)


@pytest.mark.parametrize("function", USES, ids=lambda function: function.__name__)
def test_consumer(function):
    use = item_call(function).use
    assert (use and (use.kind, use.name)) == USES[function]


def test_line_and_variable():
    place = item_call(uses.through_a_variable)
    assert place.use == Use("if", "", place.lineno + 2, "n")
    told = remedy.remedy("data-dependent-value", {}, [place])
    assert told.startswith(f"`x.item()` on line {place.lineno} feeds `if` on line {place.lineno + 2} through `n`; ")
    assert "torch.where" in told and "torch.cond" in told


def test_all_kinds_have_words():
    made = {use[0] for use in USES.values() if use}
    assert {key[1] for key in remedy.ADVICE} | made <= set(remedy.WORDS)


def test_advice_is_about_breaks_that_exist():
    assert {key[0] for key in (*remedy.ADVICE, *remedy.BY_OPERATION, *remedy.COMPARING)} <= set(BREAKS)


@pytest.mark.parametrize("key", remedy.ADVICE, ids="/".join)
def test_advice_reads(key):
    use = Use(key[1], key[2] if len(key) > 2 else "name")
    assert "{" not in remedy._advice(key[0], use).format(consumer=remedy.words(use))


def test_without_source_or_consumer():
    namespace = {}
    exec(compile("def f(x):\n    if x.item(): pass", "<nowhere>", "exec"), namespace)
    code = namespace["f"].__code__
    (offset,) = [each.offset for each in dis.get_instructions(code) if each.opname == "CALL"]
    told = remedy.remedy("data-dependent-value", {"function": "Tensor.item"}, [Location(code, offset)])
    assert told.startswith("`Tensor.item` on line 2 feeds `if`; ")
    assert remedy.remedy("data-dependent-value", {}, []) == BREAKS["data-dependent-value"].remedy
    assert remedy.remedy("data-dependent-value", {}, [Location(code)]) == BREAKS["data-dependent-value"].remedy
    assert consumer.consumer(code, 10_000) is None


def test_the_use_travels_with_the_location():
    place = item_call(uses.through_a_variable)
    assert pickle.loads(pickle.dumps(place)).use == place.use


def fullgraph(function, *args):
    with pytest.raises(stator.Unsupported) as raised:
        stator.compile(function, fullgraph=True, backend="eager")(*args)
    return raised.value


def positive(x):
    return x.sum() > 0


def decide(x):
    return bool(positive(x))


def caller(x):
    if decide(x):
        return x
    return -x


def test_a_returned_value_is_followed_into_the_caller():
    error = fullgraph(caller, torch.ones(2))
    start = caller.__code__.co_firstlineno
    line = decide.__code__.co_firstlineno + 1
    assert error.break_id == "data-dependent-branch"
    assert error.remedy.startswith(f"`bool(positive(x))` on line {line} feeds `if` on line {start + 1}; choose")
    assert [place.function for place in error.stack] == ["caller", "decide"]
    assert error.remedy in str(error)


def test_the_condition_itself():
    def program(x):
        while x.sum() > 0:
            x = x - 1
        return x

    error = fullgraph(program, torch.ones(2))
    line = program.__code__.co_firstlineno + 1
    assert error.remedy.startswith(f"`x.sum() > 0` on line {line} feeds `while`; run a fixed number of steps")


def test_by_operation():
    async def values(x):
        yield x

    error = fullgraph(lambda x: values(x), torch.ones(2))
    assert error.remedy == remedy.BY_OPERATION["cannot-rebuild", "async_generator"]


def test_file_is_named_when_it_is_another_one():
    outer = Location(test_file_is_named_when_it_is_another_one.__code__)
    inner = Location(consumer.expression.__code__)
    assert remedy._operation({"function": "f"}, [outer, inner]).endswith(" of consumer.py")


def test_the_condition_of_a_whole_statement():
    def program(x):
        places = x.nonzero()
        return x[places[0]] if len(places) else x

    assert fullgraph(program, torch.ones(2)).remedy.startswith("`len(places)` on line ")
    assert remedy._test("elif n > 3:\n    x = 1") == "n > 3"
    assert remedy._test("while n and m:\n    x = 1") == "n and m"
    assert remedy._test("x[n]") == "x[n]" and remedy._test("for x in") == "for x in"


def ranked(values):
    return sorted(values, key=lambda value: value.sum())


def ranked_in_place(values):
    values.sort(key=torch.sum)
    return values


def largest(values):
    return max(values, key=lambda value: value.sum() + values[0].sum())


@pytest.mark.parametrize("program, part", [(ranked, "torch.sort"), (ranked_in_place, "torch.sort"), (largest, "amax")])
def test_functions_that_compare(program, part):
    error = fullgraph(program, [torch.ones(2), torch.zeros(2)])
    assert error.break_id == "data-dependent-branch"
    assert " compares tensors by their data; " in error.remedy and part in error.remedy


def test_a_pattern():
    def program(x):
        match x.sum().item():
            case 0.0:
                return x
            case _:
                return -x

    error = fullgraph(program, torch.ones(2))
    assert " feeds `match`; choose" in error.remedy


def test_operations_that_fail():
    def causal(x):
        return F.scaled_dot_product_attention(x, x, x, is_causal=bool((x == 1).all())) + 1

    def caught(x):
        try:
            return x @ torch.ones(7)
        except RuntimeError:
            return x + 1

    assert fullgraph(causal, torch.ones(1, 2, 3, 4)).remedy.startswith("Pass a number that is known before the data is")
    assert fullgraph(caught, torch.ones(3)).remedy.startswith("Where it raises in eager too, test sizes and types")


class Scripted(torch.jit.ScriptModule):
    def forward(self, x):
        return x + 1


def test_what_is_no_plain_tensor():
    module = Scripted()
    assert fullgraph(lambda x: module(x), torch.ones(2)).remedy.startswith("Use it as it was before torch.jit")
    assert "to_dense()" in fullgraph(lambda x: x + x, torch.eye(2).to_sparse()).remedy


def test_numbers_that_python_draws():
    def explore(x):
        if random.random() < 0.5:
            return x + 1
        return x.sin()

    (found,) = stator.explain(explore, backend="eager")(torch.ones(2)).breaks
    assert found.remedy.startswith("`random.random() < 0.5` on line ")
    assert "needs a number that Python draws; pass it as an argument" in found.remedy


def test_clocks_and_files(tmp_path):
    def timed(x):
        return x + (time.perf_counter_ns() > 0)

    assert fullgraph(timed, torch.ones(2)).remedy == remedy._CLOCK
    with open(tmp_path / "log", "w") as file:
        assert fullgraph(lambda x: x + file.write("a"), torch.ones(2)).remedy == remedy._FILE
