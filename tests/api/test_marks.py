"""Functions put into the graph, called once, or replaced while capturing."""

import collections
import enum
import gc
import math
import operator
import weakref

import pytest
import torch
import torch._dynamo

import stator
from stator.control import marks
from tests.harness import check

ONE = torch.ones(2)


class Graphs:
    """A backend that keeps the graphs."""

    def __init__(self):
        self.modules = []

    def __call__(self, module, inputs):
        self.modules.append(module)
        return module.forward

    def targets(self):
        return [node.target for module in self.modules for node in module.graph.nodes if node.op == "call_function"]


def compiled(fn, backend="eager", **options):
    return stator.compile(fn, backend=backend, fullgraph=True, **options)


def refused(fn, *args):
    with pytest.raises(stator.Unsupported) as caught:
        compiled(fn)(*args)
    return caught.value


# ---- allow_in_graph -------------------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "first second")


@stator.allow_in_graph
def opaque(x, y=2, *, scale=1.0):
    return x * y + scale


@stator.allow_in_graph
def nested(pair, rows):
    return {"sum": pair.first + rows[0]["x"], "all": [pair.second, (rows[0]["x"] * 2, 3)]}


@torch.compiler.allow_in_graph
def opaque_torch(x):
    return x.sin() * 2


def uses(x):
    return opaque(x.cos(), 3, scale=0.5) + opaque(x)


def uses_torch(x):
    return opaque_torch(x + 1)


def uses_nested(x):
    made = nested(Pair(x + 1, x - 1), [{"x": x.sin()}])
    first, (second, number) = made["all"]
    return made["sum"], first, second * number, sorted(made)


def uses_from_native(x):
    return sum(map(opaque, [x, x + 1]))


@pytest.mark.parametrize("fn", [uses, uses_torch, uses_nested, uses_from_native])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_opaque_calls(fn, backend):
    check(fn, ONE, backend=backend)
    check(fn, torch.ones(2, requires_grad=True), backend=backend, backward=True)


@pytest.mark.parametrize(("fn", "target"), [(uses, opaque), (uses_torch, opaque_torch), (uses_from_native, opaque)])
def test_one_node_per_call(fn, target):
    graphs = Graphs()
    compiled(fn, graphs)(ONE)
    assert graphs.targets().count(target) == (1 if target is opaque_torch else 2)


def test_opaque_inductor():
    check(uses, ONE, backend="inductor", tolerance=1e-6)


def test_opaque_c_function():
    def fn(x):
        return x + math.hypot(3, 4)

    stator.allow_in_graph(math.hypot)
    try:
        graphs = Graphs()
        assert compiled(fn, graphs)(ONE).tolist() == fn(ONE).tolist()
        assert math.hypot in graphs.targets()
    finally:
        del marks._marks[id(math.hypot)]


def test_opaque_static_method():
    class Holder:
        @staticmethod
        @stator.allow_in_graph
        def double(x):
            return x * 2

    graphs = Graphs()
    assert compiled(lambda x: Holder.double(x) + 1, graphs)(ONE).tolist() == [3, 3]
    assert graphs.targets()[0] is Holder.double


def test_opaque_autograd_function():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    @stator.allow_in_graph
    def twice(x):
        return Twice.apply(x)

    x = torch.ones(2, requires_grad=True)
    compiled(lambda x: twice(x).sum())(x).backward()
    assert x.grad.tolist() == [3, 3]


def test_opaque_mutation_and_aliases():
    @stator.allow_in_graph
    def bump(x):
        x.add_(1)
        return x, x.view(-1)

    def fn(x):
        same, view = bump(x)
        view.mul_(2)
        return same is x, x + 1

    check(fn, ONE)


def test_opaque_result_nobody_uses_still_runs():
    seen = []

    @stator.allow_in_graph
    def note(x):
        seen.append(type(x))
        return x + 1

    def fn(x):
        note(x)
        return x * 2

    step = compiled(fn)
    step(ONE)
    step(ONE)
    assert seen.count(torch.Tensor) == 2


def test_opaque_function_is_run_as_if_for_real():
    @stator.allow_in_graph
    def fn(x):
        return x + 1 if torch.compiler.is_compiling() or stator.is_compiling() else x[:1]

    check(lambda x: fn(x) * 2, ONE)


def test_opaque_function_is_asked_anew():
    width = [2]

    @stator.allow_in_graph
    def fn(x):
        return torch.zeros(width[0])

    assert compiled(lambda x: (fn(x), x + 1))(ONE)[0].shape == (2,)
    width[0] = 3
    assert compiled(lambda x: (fn(x), x + 1))(ONE)[0].shape == (3,)


def test_mark_belongs_to_the_function_object():
    def make(n):
        def fn(x):
            return x + n

        return fn

    first, second = stator.allow_in_graph(make(1)), make(2)
    graphs = Graphs()
    call = compiled(lambda fn, x: fn(x), graphs)
    assert call(first, ONE).tolist() == [2, 2]
    assert call(second, ONE).tolist() == [3, 3]
    assert graphs.targets() == [first, operator.add]


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "argument", [object(), collections.OrderedDict(a=1), Colour.RED, {Colour.RED: 1}, {1, 2}, [object()]]
)
def test_opaque_arguments_that_are_refused(argument):
    assert refused(lambda x: opaque(x, argument), ONE).break_id == "opaque-call"


@pytest.mark.parametrize("result", [object(), collections.OrderedDict(a=1), Colour.RED])
def test_opaque_results_that_are_refused(result):
    @stator.allow_in_graph
    def fn(x):
        return x, result

    assert refused(lambda x: fn(x)[0], ONE).break_id == "opaque-call"


def test_opaque_function_with_a_tensor_of_its_own():
    hidden = torch.ones(2)

    @stator.allow_in_graph
    def fn(x):
        return x + hidden

    assert isinstance(refused(lambda x: fn(x), ONE), stator.Unsupported)
    check(lambda x: fn(x), ONE, fullgraph=False, expect_breaks=None)


def test_opaque_function_that_fails():
    @stator.allow_in_graph
    def fn(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        stator.compile(lambda x: fn(x), backend="eager")(ONE)


def test_list_of_functions():
    def one(x):
        return x

    def two(x):
        return x

    assert stator.allow_in_graph([one, two]) == [one, two]
    assert marks.mark_of(one).kind == marks.mark_of(two).kind == marks.IN_GRAPH


def test_marks_keep_nothing_alive():
    def fn(x):
        return x

    stator.allow_in_graph(fn)
    ref, key = weakref.ref(fn), id(fn)
    del fn
    gc.collect()
    assert ref() is None and key not in marks._marks


@pytest.mark.parametrize("mark", [stator.allow_in_graph, stator.assume_constant_result, stator.substitute_in_graph])
@pytest.mark.parametrize("what", [3, torch.nn.Linear(1, 1), "abc".upper.__class__, [].__class__])
def test_marks_are_for_functions(mark, what):
    with pytest.raises(stator.InvalidArgument, match="takes a function"):
        mark(what)


# ---- assume_constant_result -----------------------------------------------------------------------------------------

calls = []


@stator.assume_constant_result
def measured(n=2, *, factor=1):
    calls.append(n)
    return n * factor


@torch.compiler.assume_constant_result
def measured_torch(n):
    calls.append(n)
    return n * 10


@pytest.mark.parametrize("fn", [measured, measured_torch])
def test_constant_result(fn):
    calls.clear()
    step = compiled(lambda x, n: x * fn(n))
    assert step(ONE, 3).tolist() == (ONE * fn(3)).tolist()
    count = len(calls)
    assert step(ONE, 3).tolist() == (ONE * fn(3)).tolist()
    assert len(calls) == count + 1  # the eager one
    assert step(ONE, 4).tolist() == (ONE * fn(4)).tolist()


def test_constant_result_is_not_guarded():
    value = [2]

    @stator.assume_constant_result
    def read():
        return value[0]

    step = compiled(lambda x: x * read())
    assert step(ONE).tolist() == [2, 2]
    value[0] = 5
    assert step(ONE).tolist() == [2, 2]


def test_constant_tensor():
    table = torch.arange(2.0)

    @stator.assume_constant_result
    def load():
        return table

    graphs = Graphs()
    step = compiled(lambda x: (x + load(), load()), graphs)
    for _ in range(2):
        total, same = step(ONE)
        assert total.tolist() == [1, 2] and same is table
    table.add_(1)
    assert step(ONE)[0].tolist() == [2, 3]
    assert len(graphs.modules) == 1


def test_constant_result_with_new_tensor_and_containers():
    @stator.assume_constant_result
    def load(name, sizes, table):
        assert not stator.is_compiling() and type(sizes) is list and type(table) is dict
        return {"name": name, "weight": torch.full((2,), float(sum(sizes))), "table": table}

    step = compiled(lambda x: x * load("w", [1, 2], {"k": (1, None)})["weight"])
    assert step(ONE).tolist() == step(ONE).tolist() == [3, 3]


def test_constant_method_is_pinned_to_its_object():
    class Config:
        def __init__(self, n):
            self.n = n

        @stator.assume_constant_result
        def width(self):
            return self.n

    first, second = Config(2), Config(3)
    step = compiled(lambda config, x: x * config.width())
    assert step(first, ONE).tolist() == [2, 2]
    assert step(second, ONE).tolist() == [3, 3]


def test_constant_result_from_native_code():
    check(lambda x: [x * n for n in map(measured, [1, 2])], ONE)


def test_constant_function_that_raises():
    @stator.assume_constant_result
    def fails():
        raise KeyError("no")

    def fn(x):
        try:
            fails()
        except KeyError as error:
            return x + 1, error.args

    check(fn, ONE)


def test_constant_arguments_that_are_refused():
    class Thing:
        pass

    thing = Thing()

    def with_tensor(x):
        return x + measured(x)

    def with_inside(x):
        return x + measured(Thing())

    def with_changed(x):
        thing.n = 1
        return x + measured(thing)

    for fn in (with_tensor, with_inside, with_changed):
        assert refused(fn, ONE).break_id == "constant-arguments"
    check(with_tensor, ONE, fullgraph=False, expect_breaks=None)


# ---- substitute_in_graph --------------------------------------------------------------------------------------------


@pytest.fixture
def unregistered():
    before, listed = dict(marks._marks), list(marks._substituted)
    yield
    marks._marks.clear()
    marks._marks.update(before)
    from stator.native.rows import STANDINS

    for function in marks._substituted:
        if function not in listed:
            STANDINS.pop(function, None)
    marks._substituted[:] = listed


ran = []


def test_substitute(unregistered):
    @stator.substitute_in_graph(math.fsum)
    def fsum(seq, /):
        ran.append("polyfill")
        total = 0.0
        for item in seq:
            total = total + item
        return total

    ran.clear()
    assert fsum([1, 2]) == 3.0 and math.fsum([1, 2]) == 3.0 and ran == []

    def direct(x):
        return math.fsum([x, x * 2])

    def decorated(x):
        return fsum([x, x * 2])

    def from_native(x):
        return list(map(math.fsum, [[x, x], [x, 1]]))

    for fn in (direct, decorated):
        assert compiled(fn)(ONE).tolist() == [3, 3]
    assert [one.tolist() for one in compiled(from_native)(ONE)] == [[2, 2], [2, 2]]
    assert ran


def test_substitute_for_a_function_nobody_knows(unregistered):
    assert refused(lambda x: torch._C._log_api_usage_metadata("a", {}), ONE).break_id == "native-unknown"

    @stator.substitute_in_graph(torch._C._log_api_usage_metadata, skip_signature_check=True)
    def log(event, metadata):
        return None

    def logs(x):
        torch._C._log_api_usage_metadata("a", {})
        return x + 1

    assert compiled(logs)(ONE).tolist() == [2, 2]


def test_substitute_for_a_python_function(unregistered):
    def original(x, n=1):
        return x.sum().item() + n

    @stator.substitute_in_graph(original)
    def replacement(x, n=1):
        return x.sum() + n

    assert compiled(lambda x: original(x, n=2))(ONE).tolist() == 4
    assert compiled(lambda x: list(map(original, [x])))(ONE)[0].tolist() == 3
    assert replacement(ONE) == 3.0


def test_constant_folding(unregistered):
    @stator.substitute_in_graph(math.fsum, can_constant_fold_through=True)
    def fsum(seq, /):
        ran.append("fsum")
        return 0.0

    @stator.substitute_in_graph(math.ldexp, can_constant_fold_through=True)
    def ldexp(x, i, /):
        ran.append("ldexp")
        return x

    ran.clear()
    assert compiled(lambda x: x * math.ldexp(1.5, 2))(ONE).tolist() == [6, 6] and ran == []
    assert compiled(lambda x: math.ldexp(x, 2) * 1)(ONE).tolist() == [1, 1] and ran == ["ldexp"]


def test_signatures(unregistered):
    with pytest.raises(stator.InvalidArgument, match="parameters differ"):

        @stator.substitute_in_graph(operator.indexOf)
        def other_names(x, y, /):
            return 0

    @stator.substitute_in_graph(operator.indexOf)
    def anything(*args, **kwargs):
        return 0

    with pytest.raises(stator.InvalidOptions, match="has a substitute already"):

        @stator.substitute_in_graph(operator.indexOf)
        def again(a, b, /):
            return 0

    @stator.substitute_in_graph(operator.countOf, skip_signature_check=True)
    def unchecked(x, y, z):
        return 0

    with pytest.raises(stator.InvalidArgument, match="Python function"):
        stator.substitute_in_graph(math.hypot)(math.hypot)


def test_substitute_registered_with_torch():
    def original(x):
        return x.sum().item()

    @torch.compiler.substitute_in_graph(original)
    def replacement(x):
        return x.sum()

    assert compiled(lambda x: original(x) + 1)(ONE).tolist() == 3
    assert compiled(lambda x: replacement(x) + 1)(ONE).tolist() == 3


# ---- in captured code -----------------------------------------------------------------------------------------------


def test_marking_is_no_part_of_a_program():
    def marking(x):
        @stator.allow_in_graph
        def inner(x):
            return x + 1

        return inner(x)

    def assuming(x):
        stator.assume_constant_result(marking)
        return x + 1

    def substituting(x):
        stator.substitute_in_graph(marking)
        return x + 1

    for fn in (marking, assuming, substituting):
        assert refused(fn, ONE).break_id == "control-in-capture"
        assert stator.compile(fn, backend="eager")(ONE).tolist() == [2, 2]
