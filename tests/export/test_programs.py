"""Functions and modules as programs: arguments and results of any structure, and what torch.export cannot take."""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
import random
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import stator
from tests.export.same import inputs_of, same

batch = Dim("batch")
OUTER = nn.Linear(4, 4)
SCALE = nn.Parameter(torch.full((4,), 2.0))
SHIFT = torch.arange(4.0)
LOGGER = logging.getLogger("tests.export")


@dataclasses.dataclass
class Pair:
    """A registered dataclass."""

    first: torch.Tensor
    count: int
    second: torch.Tensor | None = None


torch.export.register_dataclass(Pair, serialized_type_name="tests.export.Pair")
Point = collections.namedtuple("Point", "u v")
pytree._register_namedtuple(Point, serialized_type_name="tests.export.Point")


def constants(x, n=3, *, flag=True, name="z", factor=0.5, nothing=None):
    return x * n + factor if flag and name == "z" and nothing is None else x


@pytest.mark.parametrize("kwargs", [{}, {"n": 5, "factor": 1.5}, {"name": "y"}, {"flag": False, "nothing": None}])
def test_numbers_and_strings_are_constants(kwargs):
    program = same(constants, (torch.randn(4),), kwargs)
    if kwargs:
        with pytest.raises((AssertionError, ValueError)):
            other = {name: "other" if isinstance(value, str) else 77 for name, value in kwargs.items()}
            program.module()(torch.randn(4), **other)


def variadic(*xs, **named):
    return [x + 1 for x in xs] + [named["k"] * 2]


def test_variadic_arguments():
    shapes = {"xs": ({0: batch}, None), "named": {"k": {0: Dim.AUTO}}}
    more = [((torch.randn(7), torch.randn(5)), {"k": torch.randn(9)})]
    args = (torch.randn(4), torch.randn(5))
    program = same(variadic, args, {"k": torch.randn(3)}, dynamic_shapes=shapes, more=more)
    assert [name for _, name, _ in inputs_of(program)] == ["xs_0", "xs_1", "k"]


def nested(tree, parts, pair):
    return {"sum": tree["x"]["y"] + parts[0], "rest": (pair[0], pair[1] * 2, None, 3), "same": tree}


def test_nested_containers():
    def args(n):
        return {"x": {"y": torch.randn(n)}}, [torch.randn(n)], (torch.randn(2), torch.randn(2))

    shapes = {"tree": {"x": {"y": {0: batch}}}, "parts": [{0: batch}]}
    same(nested, args(4), dynamic_shapes=shapes, save=True, more=[(args(n), {}) for n in (2, 9)])


@pytest.mark.parametrize("spec", [{"first": {0: batch}}, [{0: batch}, None, None]])
def test_dataclass(spec):
    def double(pair):
        return Pair(pair.first * pair.count, pair.count + 1, pair.second)

    arg = Pair(torch.randn(4), 2, torch.randn(3))
    same(double, (arg,), dynamic_shapes={"pair": spec}, more=[((Pair(torch.randn(6), 2, arg.second),), {})])


def test_namedtuple():
    def swap(p):
        return Point(p.v, p.u + 1)

    same(swap, (Point(torch.randn(4), torch.randn(4)),), dynamic_shapes=({"u": {0: batch}, "v": {0: batch}},))


def with_outer_state(x):
    return OUTER(x) * SCALE + SHIFT


def test_function_with_modules_and_tensors_from_outside():
    program = same(
        with_outer_state, (torch.randn(2, 4),), dynamic_shapes={"x": {0: batch}}, more=[((torch.randn(5, 4),), {})]
    )
    assert {(kind, target) for kind, _, target in inputs_of(program)} == {
        ("PARAMETER", "SCALE"),
        ("PARAMETER", "OUTER.weight"),
        ("PARAMETER", "OUTER.bias"),
        ("CONSTANT_TENSOR", "SHIFT"),
        ("USER_INPUT", None),
    }
    assert program.state_dict["OUTER.weight"] is OUTER.weight


def test_int_that_varies():
    def first(x, n):
        return x[:n] * n

    same(first, (torch.randn(8), 4), dynamic_shapes={"n": Dim.DYNAMIC}, save=True, more=[((torch.randn(8), 6), {})])


def test_one_tensor_twice():
    """That two arguments of the example are one tensor means nothing."""

    def weighted(x, y):
        return x + y * 2 if x is not y else x

    x = torch.randn(4)
    same(weighted, (x, x), more=[((torch.randn(4), torch.randn(4)), {})])


def test_arguments_that_are_written_to():
    def bump(x, parts):
        x.add_(1)
        parts["y"].mul_(x)
        return x * 2

    program = same(bump, (torch.randn(4), {"y": torch.randn(4)}), save=True)
    written = program.run_decompositions().graph_signature.user_inputs_to_mutate
    assert sorted(written.values()) == ["parts_y", "x"]


def test_state_of_torch():
    def mixed(x):
        with torch.no_grad():
            frozen = OUTER(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = OUTER(x)
        return frozen + OUTER(x), low

    program = same(mixed, (torch.randn(2, 4),), save=True)
    outputs = [node.meta["val"] for node in program.graph.output_node().args[0]]
    assert [value.dtype for value in outputs] == [torch.float32, torch.bfloat16]
    results = program.module()(torch.randn(2, 4))
    assert [result.requires_grad for result in results] == [True, True]


def test_inference_mode_means_no_grad():
    def inferred(x):
        with torch.inference_mode():
            return OUTER(x)

    program = stator.export(inferred, (torch.randn(2, 4),))
    x = torch.randn(2, 4)
    result = program.module()(x)
    assert torch.equal(result, OUTER(x)) and not result.requires_grad


def test_method_partial_and_compiled():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            raise NotImplementedError

        def encode(self, x):
            return self.fc(x).relu()

    model = Model()
    program = same(model.encode, (torch.randn(2, 4),))
    assert ("PARAMETER", "p_fc_weight", "fc.weight") in inputs_of(program)
    same(functools.partial(constants, n=7), (torch.randn(4),))
    same(stator.compile(constants, backend="eager"), (torch.randn(4),))
    compiled = stator.compile(nn.Linear(4, 4), backend="eager")
    assert [target for _, _, target in inputs_of(stator.export(compiled, (torch.randn(2, 4),)))][:1] == ["weight"]


def test_messages_are_said_once(capsys, caplog):
    def talk(x):
        print("hello")
        warnings.warn("careful", UserWarning, stacklevel=1)
        LOGGER.warning("note %d", 1)
        return x + 1

    with warnings.catch_warnings(record=True) as seen, caplog.at_level("WARNING"):
        warnings.simplefilter("always")
        program = stator.export(talk, (torch.randn(4),))
        program.module()(torch.randn(4))
    assert capsys.readouterr().out == "hello\n"
    assert [str(w.message) for w in seen if w.category is UserWarning] == ["careful"]
    assert [record.message for record in caplog.records if record.name == LOGGER.name] == ["note 1"]


def test_what_the_program_raises():
    def fail(x):
        raise ValueError(f"bad {x.dim()}")

    with pytest.raises(ValueError, match="bad 1"):
        stator.export(fail, (torch.randn(4),), dynamic_shapes={"x": {0: batch}})


def test_branches_that_raise_become_assertions():
    def careful(x):
        if x.sum() > 100:
            raise ValueError("too big")
        if not (x < 50).all():
            raise ValueError("one too big")
        return x * 2

    run = same(careful, (torch.ones(4),), save=True, more=[((-torch.ones(4),), {})]).module()
    for wrong in (torch.full((4,), 40.0), torch.tensor([60.0, -60, 0, 0])):
        with pytest.raises((AssertionError, RuntimeError), match="the program raises an exception for data like this"):
            run(wrong)


def test_lines_and_modules_of_operations():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def helper(self, x):
            return x.sin()

        def forward(self, x):
            return self.helper(self.fc(x))

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.blocks[0](x)

    model, args = Root(), (torch.randn(2, 4),)
    mine, theirs = stator.export(model, args), torch.export.export(model, args, strict=False)
    stacks = [[n.meta.get("nn_module_stack") for n in p.graph.nodes] for p in (mine, theirs)]
    assert stacks[0] == stacks[1] and len(stacks[0][-2]) == 2
    sines = [node for node in mine.graph.nodes if "sin" in node.name]
    assert all("return x.sin()" in node.meta["stack_trace"] for node in sines)
    assert_unflattens(mine, model, args)


def test_traces_through_hooks_show_the_lines_of_the_program() -> None:
    net = torch.nn.Sequential(torch.nn.Tanh())
    net[0].register_forward_hook(lambda module, args, out: out.sin())
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    program = stator.export(net, (torch.ones(3),))
    (sine,) = (node for node in program.graph.nodes if "sin" in str(node.target))
    assert "out.sin()" in sine.meta["stack_trace"] and "<stator" not in sine.meta["stack_trace"]


def assert_unflattens(program: Any, model: nn.Module, args: tuple[Any, ...]) -> None:
    """The modules come back as a tree."""
    tree = torch.export.unflatten(program)
    assert {name for name, _ in tree.named_parameters()} == {name for name, _ in model.named_parameters()}
    torch.testing.assert_close(tree(*args), model(*args))


# Programs that torch.export's non-strict mode does not export, or exports to something else.


class Registry:
    """Objects with behaviour of their own."""

    def __init__(self):
        self.items = {}

    def __setitem__(self, key, value):
        self.items[key] = value

    def total(self):
        return functools.reduce(lambda a, b: a + b, self.items.values())


def builds_objects(x):
    registry = Registry()
    for i, part in enumerate(x.unbind(1)):
        registry[f"part{i}"] = part * i
    return registry.total()


def reads_class_of(x):
    return x * 2 if type(x) is torch.Tensor else x


class ReturnsOldBuffer(nn.Module):
    """The old value is returned after the buffer became another tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        old = self.seen
        self.seen = self.seen + x.sum()
        return old, self.seen


def test_programs_torch_does_not_export():
    same(builds_objects, (torch.randn(3, 4),), dynamic_shapes={"x": {0: batch}})
    same(reads_class_of, (torch.randn(3),))
    model, x = ReturnsOldBuffer(), torch.ones(3)
    same(model, (x,))
    theirs = torch.export.export(ReturnsOldBuffer(), (x,), strict=False).module()
    assert float(theirs(x)[0]) == 3.0  # eager says 0: the result shares memory with the buffer


def test_seeded_randomness_is_in_the_graph():
    program = stator.export(nn.Dropout(0.5), (torch.ones(64),))
    torch.manual_seed(1)
    expected = nn.Dropout(0.5)(torch.ones(64))
    torch.manual_seed(1)
    assert torch.equal(program.module()(torch.ones(64)), expected)


def test_random_of_python_is_refused():
    with pytest.raises(stator.ExportError, match="draws numbers with `random`"):
        stator.export(lambda x: x * random.random(), (torch.ones(2),))


def test_breaks_are_errors():
    with pytest.raises(stator.Unsupported) as raised:
        stator.export(lambda x: x if x.sum() > 0 else -x, (torch.ones(2),))
    assert raised.value.break_id == "data-dependent-branch"
    assert "stator.explain(model)(*args, **kwargs)" in raised.value.__notes__[0]
