"""The recorder's contract: inputs, calls, attributes, what is refused, and the graph at the end."""

import gc
import operator
import pickle
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from stator.errors import InternalError, Unsupported
from stator.tensors.recorder import Recorder
from stator.tensors.signals import (
    DataDependent,
    NotLeaf,
    OpFailed,
    OutsideAttribute,
    TensorSignal,
    UnsupportedOp,
    UnsupportedTensor,
)
from stator.tensors.traced import TracedTensor, is_traced, stands_for
from tests.tensors.capturing import record


def make():
    torch.manual_seed(0)
    return {"x": torch.randn(4, 6), "w": nn.Parameter(torch.randn(6, 6))}


TENSORS = make()


@pytest.fixture
def recorder():
    with Recorder() as recorder:
        yield recorder


@pytest.fixture
def x(recorder):
    return recorder.input(TENSORS["x"], "x")


@pytest.fixture
def w(recorder):
    return recorder.input(TENSORS["w"], "w")


class TestInput:
    def test_one_stand_in_per_tensor(self, recorder):
        tensor = TENSORS["x"]
        assert recorder.input(tensor, "a") is recorder.input(tensor, "b")
        assert recorder.inputs == ["a"]
        assert recorder.tensor("a") is tensor

    def test_names(self, recorder):
        names = ["self.layers[0].weight", "x", "x", "for", "sum", "0", "_", "Größe"]
        for name in names:
            with recorder.paused():
                tensor = torch.ones(1)
            recorder.input(tensor, name)
        assert recorder.inputs == ["self_layers_0_weight", "x", "x_1", "for_", "sum_", "_0", "value", "gr_e"]

    def test_answers_as_the_real_tensor(self, x, w):
        assert isinstance(x, torch.Tensor)
        assert not isinstance(x, nn.Parameter)
        assert isinstance(w, nn.Parameter)
        assert x.__class__ is torch.Tensor
        assert stands_for(w) is nn.Parameter
        assert is_traced(x)
        assert weakref.ref(x)() is x
        assert hash(x) == id(x._recorder.real(x))
        assert {x: 1}[x] == 1

    @pytest.mark.parametrize(
        "tensor",
        [
            torch.eye(2).to_sparse(),
            torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
            torch.ones(2).as_subclass(type("Mine", (torch.Tensor,), {"__add__": torch.Tensor.sub})),
            torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
        ],
        ids=["sparse", "quantised", "subclass", "nested"],
    )
    def test_kinds_without_a_stand_in(self, recorder, tensor):
        with pytest.raises(UnsupportedTensor):
            recorder.input(tensor, "x")


class TestCall:
    def test_functions_methods_bound_methods_and_operators(self, recorder, x):
        results = [
            recorder.call(torch.add, (x, 1)),
            recorder.call(torch.Tensor.add, (x, 1)),
            recorder.call(x.add, (1,)),
            recorder.call(x.split, (2,))[0],
            recorder.call(operator.add, (x, 1)),
            recorder.call(torch.Tensor.__radd__, (x, 1)),
            recorder.call(F.relu, (x,), {"inplace": False}),
            recorder.call(torch.ops.aten.relu.default, (x,)),
            recorder.call(torch.Tensor.T.__get__, (x,)),
        ]
        assert all(type(result) is TracedTensor for result in results)
        for func in (torch.add, x.add, x.split, F.gelu, torch.ops.aten.add, torch.zeros, torch.arange):
            assert recorder.takes(func)

    def test_what_is_not_an_operation(self, recorder):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        for func in (
            print,
            len,
            operator.add,
            operator.iadd,
            nn.Linear,
            nn.init.zeros_,
            torch.compile,
            torch.func.vmap,
            Double.apply,
            [].append,
        ):
            assert not recorder.takes(func)
        assert not recorder.takes(F.triplet_margin_with_distance_loss)

        class Loud:
            def __hash__(self):
                raise AssertionError

            __getattr__ = __eq__ = __hash__

        assert not recorder.takes(Loud())
        with pytest.raises(UnsupportedOp):
            recorder.call(Double.apply, ())

    def test_operators_are_written_as_operators(self):
        def program(x, w):
            y = (2 - x) * w[:4]
            y += 1
            return (y @ w).neg() == 0, x.add(1, alpha=2)

        captured = record(program, make())
        assert captured.targets == [
            operator.sub,
            operator.getitem,
            operator.mul,
            "add_",
            operator.matmul,
            operator.neg,
            operator.eq,
            "add",
        ]
        assert captured.module.code.count("2 - x") == 1

    def test_in_place_operator_on_a_number(self, recorder, x):
        assert recorder.call(operator.iadd, (2, x)) is not x
        assert recorder.call(operator.iadd, (x, 2)) is x

    def test_several_results(self):
        def program(x, w):
            values, indices = x.max(1)
            top = x.topk(2)
            assert type(top).__name__ == "topk"
            a, *_, b = x.unbind(0)
            return values, top.indices, a, b

        captured = record(program, make())
        assert captured.targets.count(operator.getitem) == 4

    def test_iteration(self, x):
        assert len(list(x)) == 4
        a, b, c, d = x
        assert [row.shape for row in x[:2]] == [(6,), (6,)]
        with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
            iter(x.sum())
        with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
            len(x.sum())

    def test_iteration_through_the_recorder(self, recorder, x):
        assert len(list(recorder.call(torch.Tensor.__iter__, (x,)))) == 4

    def test_arguments_of_many_kinds(self, x):
        x * np.float32(2)
        x.sum(dim=np.int64(1))
        x.view(torch.Size([6, 4]))
        x.sum(dim=[0, 1])
        torch.stack(torch.max(x, 1).values.unbind())
        x[range(2)]
        torch.full((2,), float("nan"))
        torch.full((2,), float("-inf"))
        x.to(device=torch.device("cpu"), dtype=torch.float64)

    def test_custom_operators(self, recorder, x):
        @torch.library.custom_op("stator_test::twice", mutates_args=())
        def twice(t: torch.Tensor) -> torch.Tensor:
            return t * 2

        @twice.register_fake
        def _(t):
            return torch.empty_like(t)

        assert recorder.takes(twice)
        assert twice(x).shape == (4, 6)
        assert recorder.call(twice, (x,)).shape == (4, 6)
        module = recorder.finish([])
        targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
        assert targets == [torch.ops.stator_test.twice.default] * 2  # kept: it may have effects

    def test_custom_operator_that_writes(self, recorder, x):
        @torch.library.custom_op("stator_test::clear", mutates_args=("t",))
        def clear(t: torch.Tensor) -> None:
            t.zero_()

        clear(x)
        assert recorder.mutated == ["x"]


class TestRefused:
    @pytest.mark.parametrize(
        "expression",
        [
            "x.item()",
            "bool(x)",
            "int(x)",
            "float(x)",
            "complex(x)",
            "x.tolist()",
            "range(x.sum().long())",
            "1.0 in x",
            "x[x > 0]",
            "x.nonzero()",
            "torch.unique(x)",
            "torch.masked_select(x, x > 0)",
            "torch.equal(x, x)",
            "repr(x)",
            "f'{x}'",
            "x if x.any() else x",
            "x[: x.argmax()]",
        ],
    )
    def test_data(self, expression, x):
        with pytest.raises(DataDependent):
            eval(expression)

    def test_break_ids(self, x):
        for expression, break_id in [
            ("bool(x)", "data-dependent-branch"),
            ("x.item()", "data-dependent-value"),
            ("x[x > 0]", "data-dependent-shape"),
            ("x.sum().backward()", "autograd"),
            ("x.data_ptr()", "tensor-numpy"),
            ("x.const_data_ptr()", "tensor-numpy"),
            ("x.storage_type()", "tensor-numpy"),
            ("x.grad_fn.name() if x.grad_fn else x.register_hook(print)", "autograd"),
            ("recorder.call(torch.Tensor.set_, (x, x))", "tensor-metadata"),
            ("torch.zeros(2, requires_grad=True)", "autograd"),
            ("(x > 0).requires_grad_()", "tensor-metadata"),
            ("recorder.call(torch.initial_seed, ())", "random-state"),
            ("x._version", "tensor-operation"),
            ("x.to_sparse()", "tensor-operation"),
        ]:
            with pytest.raises(Unsupported) as caught:
                eval(expression, globals(), {"x": x, "recorder": x._recorder})
            assert caught.value.break_id == break_id, expression

    def test_errors_of_operations(self, x):
        with pytest.raises(OpFailed) as caught:
            x @ x
        assert isinstance(caught.value.original, RuntimeError)
        with pytest.raises(OpFailed):
            x.view(5)
        with pytest.raises(OpFailed):
            torch.cat([x, x[0]])

    def test_type_errors_that_python_itself_raises(self, x):
        with pytest.raises(TypeError):
            x + object()
        with pytest.raises(TypeError):
            x < None

    def test_nothing_is_logged(self, x, capfd):
        with pytest.raises(OpFailed):
            x @ x
        assert capfd.readouterr().err == ""

    def test_functions_that_warn_are_interpreted(self, x, recwarn):
        with pytest.raises(NotLeaf):
            F.softmax(x)
        assert not recwarn.list
        with pytest.raises(NotLeaf):
            F.relu(x, inplace=object())

    def test_real_tensors(self, x):
        with x._recorder.paused():
            real = torch.ones(4, 6)
        assert real.shape == (4, 6)  # looking at one is allowed
        with pytest.raises(UnsupportedTensor):
            x + real
        with pytest.raises(UnsupportedTensor):
            real + 1

    def test_after_the_capture(self):
        captured = record(lambda x, w: x + 1, make())
        with pytest.raises(InternalError):
            captured.result + 1

    def test_of_another_capture(self):
        captured = record(lambda x, w: x + 1, make())
        with pytest.raises(UnsupportedOp) as caught:
            record(lambda x, w: x + captured.result, make())
        assert caught.value.break_id == "tensor-escaped"

    def test_signals_can_be_pickled(self):
        for signal in (DataDependent("item"), UnsupportedOp("f", "why"), OpFailed(ValueError("x"), "f")):
            twin = pickle.loads(pickle.dumps(signal))
            assert type(twin) is type(signal)
            assert isinstance(twin, TensorSignal)
            assert str(twin) == str(signal)


class TestAttributes:
    def test_from_metadata(self, recorder, x, w):
        rows = [
            ("shape", (4, 6)),
            ("ndim", 2),
            ("dtype", torch.float32),
            ("device", torch.device("cpu")),
            ("layout", torch.strided),
            ("requires_grad", False),
            ("is_leaf", True),
            ("grad_fn", None),
            ("itemsize", 4),
            ("nbytes", 96),
            ("is_cuda", False),
            ("__class__", torch.Tensor),
        ]
        for name, value in rows:
            assert recorder.attribute(x, name) == value
            assert getattr(x, name) == value

    def test_bound_methods(self, recorder, x):
        assert recorder.call(recorder.attribute(x, "view"), (6, 4)).shape == (6, 4)
        assert recorder.call(recorder.attribute(x, "split"), (1,))[3].shape == (1, 6)
        assert recorder.call(recorder.attribute(x, "__add__"), (1,)).shape == (4, 6)

    def test_tensors(self, recorder, x):
        assert recorder.attribute(x, "T").shape == (6, 4)
        assert recorder.attribute(x, "data")._storage is x._storage

    def test_outside(self, recorder, x, w):
        recorder.real(w).mark = 1
        for traced, name in ((w, "grad"), (w, "mark")):
            with pytest.raises(OutsideAttribute) as caught:
                recorder.attribute(traced, name)
            assert caught.value.tensor is recorder.real(traced)
        for name, value in (("grad", None), ("data", x), ("mark", 2)):
            with pytest.raises(OutsideAttribute):
                recorder.set_attribute(w, name, value)

    def test_missing(self, recorder, x):
        with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'colour'"):
            recorder.attribute(x, "colour")
        assert not hasattr(x, "colour")

    def test_of_tensors_made_inside(self, recorder, x):
        y = x + 1
        recorder.set_attribute(y, "mark", 3)
        assert recorder.attribute(y, "mark") == 3
        assert recorder.attribute(y, "grad") is None
        recorder.set_attribute(y, "requires_grad", False)
        recorder.set_attribute(y, "requires_grad", True)
        assert recorder.attribute(y, "requires_grad") and recorder.attribute(y, "is_leaf")
        with pytest.raises(UnsupportedOp):
            recorder.set_attribute(y * 2, "requires_grad", False)

    def test_data_of_an_input(self, recorder, x, w):
        recorder.replace_data(w, x)
        assert w.shape == (4, 6)
        assert w.requires_grad
        assert w.is_leaf


class TestFinish:
    def test_dead_code_goes_and_effects_stay(self):
        def program(x, w):
            x * 2
            x.exp().sum()
            torch.rand(3)
            x[0].add_(1)
            w.view(-1)
            return x + 1

        captured = record(program, make())
        assert captured.targets == [torch.rand, operator.getitem, "add_", operator.add]
        assert captured.recorder.inputs == ["x"]

    def test_graph_is_well_formed(self):
        captured = record(lambda x, w: (x @ w).split(2), make())
        captured.module.graph.lint()
        for node in captured.module.graph.nodes:
            assert node in captured.module.graph.find_nodes(
                op=node.op, target=node.target if node.op == "call_function" else None
            )
        assert len(captured.module.graph.nodes) == 7
        copy = torch.fx.Graph()
        copy.graph_copy(captured.module.graph, {})

    def test_inputs_that_come_late_are_still_placeholders_in_front(self):
        first, second = torch.ones(2), torch.ones(2)
        with Recorder() as recorder:
            a = recorder.input(first, "a")
            b = a + 1
            c = recorder.input(second, "c")
            module = recorder.finish([b + c])
        assert [node.op for node in module.graph.nodes][:2] == ["placeholder", "placeholder"]
        assert torch.equal(module(torch.ones(2), torch.ones(2))[0], torch.full((2,), 3.0))

    def test_inputs_as_outputs(self):
        captured = record(lambda x, w: (w, x, x), make())
        assert captured.module(*captured.inputs) == (captured.inputs[1], captured.inputs[0], captured.inputs[0])

    def test_survivors(self):
        kept = []

        def program(x, w):
            y = x + 1
            kept.append(x * 2)
            return y

        captured = record(program, make())
        captured.result = None
        captured.traced.clear()
        gc.collect()
        assert captured.recorder.survivors() == kept
        kept.clear()
        assert captured.recorder.survivors() == []

    def test_location_of_nodes(self):
        class Place:
            asked = 0

            def format(self):
                Place.asked += 1
                return '  File "model.py", line 3, in forward\n    x + 1'

        captured = record(lambda x, w: x + 1, make(), location=Place)
        assert Place.asked == 0
        node = captured.result._node
        assert "model.py" in node.stack_trace
        assert Place.asked == 1
        assert "model.py:3 in forward" in captured.module.print_readable(print_output=False)

    def test_example_values_on_demand(self):
        captured = record(lambda x, w: x.split(2), make())
        split, item, _ = [node for node in captured.module.graph.nodes if node.op.startswith("call")]
        assert "example_value" not in dict(split.meta)
        assert [value.shape for value in split.meta["example_value"]] == [(2, 6), (2, 6)]
        assert item.meta.get("example_value").shape == (2, 6)
        assert "example_value" in item.meta.copy()
        placeholder = next(iter(captured.module.graph.nodes))
        assert placeholder.meta["example_value"].shape == (4, 6)

    def test_example_values_in_the_middle_of_a_trace(self):
        """A trace that fails describes the node."""
        from torch._subclasses.functional_tensor import FunctionalTensorMode

        module = record(lambda x: x * 2, {"x": torch.ones(4, 6, requires_grad=True)}).module
        product = next(node for node in module.graph.nodes if node.op == "call_function")
        with FunctionalTensorMode():
            assert product.meta["example_value"].shape == (4, 6)
