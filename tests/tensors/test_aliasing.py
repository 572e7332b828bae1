"""Identity, shared memory, and how requires_grad travels between views and their base."""

import pytest
import torch

import stator
from tests.tensors.capturing import check, record


def plain():
    torch.manual_seed(0)
    return {"x": torch.randn(4, 6), "w": torch.randn(6, requires_grad=True)}


def test_operations_that_give_their_argument_back_record_nothing():
    captured = record(lambda x, w: [x.contiguous(), x.float(), x.to(x), torch.dropout(x, 0.5, False)], plain())
    assert all(result is captured.traced["x"] for result in captured.result)
    assert captured.targets == []


def test_view_of_a_view_is_a_view_of_the_base():
    captured = check(lambda x, w: x.view(-1)[3:].view(3, 7), plain)
    assert captured.result._family is captured.traced["x"]._family


def test_in_place_on_a_view_makes_the_base_require_grad():
    def program(x, w):
        view, other, copy = x[0], x[1:], x.detach()
        view.mul_(w)
        assert x.requires_grad
        assert view.requires_grad
        assert other.requires_grad
        assert not copy.requires_grad
        assert not x.is_leaf
        return x * 1, other * 2, copy * 3

    check(program, plain)


def test_in_place_on_the_base_makes_its_views_require_grad():
    def program(x, w):
        view = x[0]
        x.add_(w)
        assert view.requires_grad
        return view * 1

    check(program, plain)


def test_in_place_under_no_grad_leaves_autograd_alone():
    def program(x, w):
        with torch.no_grad():
            x.add_(w)
        assert not x.requires_grad
        return x * 1

    check(program, plain)


def test_memory_of_inputs_that_share_it():
    def make():
        base = torch.zeros(4, 2)
        return {"a": base[:2], "b": base[1:], "base": base, "w": torch.ones(2, requires_grad=True)}

    def program(a, b, base, w):
        a.mul_(w)
        assert base.requires_grad
        assert b.requires_grad
        return base + 1, b + 1

    captured = check(program, make)
    assert captured.recorder.mutated == ["a", "b", "base"]


def test_which_inputs_are_written_to():
    def program(x, w):
        y = x.view(-1)
        y[0] = 1.0
        z = x.clone()
        z.zero_()
        return z + w[0]

    assert record(program, plain()).recorder.mutated == ["x"]


def test_running_statistics_are_written_to():
    def program(x, mean, var):
        torch.nn.functional.batch_norm(x, mean, var, training=True)

    captured = record(program, {"x": torch.randn(2, 3, 4), "mean": torch.zeros(3), "var": torch.ones(3)})
    assert captured.recorder.mutated == ["mean", "var"]
    assert captured.targets == [torch.nn.functional.batch_norm]


def test_metadata_changes_in_place():
    def program(x, w):
        y = x.t_()
        assert y is x
        assert x.shape == (6, 4)
        assert x.stride() == (1, 6)
        return y.reshape(-1)

    check(program, plain)


def test_out_argument_is_resized():
    def make():
        return {"x": torch.ones(3, 4), "out": torch.empty(0)}

    def program(x, out):
        result = torch.add(x, 1, out=out)
        assert result is out
        assert out.shape == (3, 4)
        return out * 2

    check(program, make)


def test_results_that_share_memory_with_each_other():
    def program(x, w):
        y = x + 1
        parts = y.split(2)
        parts[0].add_(1)
        return y, *parts

    check(program, plain)


def test_data_of_a_tensor_made_inside():
    def program(x, w):
        y = x.clone()
        y.data = x[:2] * 3
        assert y.shape == (2, 6)
        y.add_(1)
        return y

    check(program, plain)


def test_detached_results_can_be_changed_freely():
    def program(x, w):
        y = (x * w).detach()
        y.zero_()
        assert not y.requires_grad
        return y, x * w

    check(program, plain)


def of_no_gradients(x):
    y = x * 2
    with torch.no_grad():
        view = y[0]
    return y, view


def of_a_base_that_changed(x):
    y = x * 2
    views = y.unbind()
    y.add_(1)
    return y, views[1]


@pytest.mark.parametrize("made", [of_no_gradients, of_a_base_that_changed])
@pytest.mark.parametrize("where", ["inside", "behind a break", "outside"])
def test_views_that_autograd_keeps_as_they_are(made, where):
    """Eager refuses to write to them: so does what a trace gave."""

    def program(x):
        y, view = made(x)
        if where == "outside":
            return y, view
        if where == "behind a break":
            stator.graph_break()
        view.mul_(2)
        return y.sum()

    x = torch.ones(4, 3, requires_grad=True)
    results = stator.compile(program, backend="aot_eager")
    with pytest.raises(RuntimeError, match="is being modified inplace|has been modified inplace"):
        found = results(x)
        found[1].mul_(2)
