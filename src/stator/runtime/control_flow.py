"""`torch.cond`, `while_loop` and the like: both branches, or the body of a loop, are captured as graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._higher_order_ops.cond import CondOp, cond, cond_op
from torch._higher_order_ops.while_loop import WhileLoopOp, while_loop, while_loop_op

from stator.errors import Unsupported
from stator.frame import Frame
from stator.native.host import CALLERS, call_python
from stator.native.rows import standin
from stator.runtime.bodies import Captured, capture, flatten, tensors_of
from stator.shapes.scalar import TracedBool, TracedInt
from stator.tensors.bodies import Body
from stator.tensors.control_flow import Branch, operator, record_operator
from stator.tensors.meta import Meta
from stator.tensors.traced import TracedTensor


@standin(cond, while_loop)
def interpret(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """These functions of torch prepare the call of an operator; what cannot be captured is a break before them."""
    return call_python(host, f, function, args, kwargs)


class Values:
    """What an operator is given: each tensor once, however many functions use it."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def place(self, value: Any) -> int:
        for index, known in enumerate(self.all):
            if known is value or (type(value) is TracedInt and type(known) is TracedInt and known.expr == value.expr):
                return index
        self.all.append(value)
        return len(self.all) - 1

    def branch(self, captured: Captured, given: Sequence[Any]) -> Branch:
        return Branch(captured.body, [self.place(value) for value in (*given, *captured.taken)])


def same(index: int, outer: TracedTensor) -> Meta:
    return outer._meta.with_autograd(False, True)


def check_owned(host: Any, name: str, which: str, captured: Captured) -> None:
    """Results must be new tensors, each with memory of its own."""
    if not all(captured.owned) or captured.shared:
        raise host.refuse(
            "higher-order", f"{name}: {which} returns an argument, a view of one, or a tensor twice", function=name
        )


def describe(meta: Meta) -> str:
    return f"{str(meta.dtype).removeprefix('torch.')}{list(meta.size)} with strides {tuple(meta.stride)}"


def facts(meta: Meta) -> Any:
    return meta.with_autograd(False, True).with_inference(False)


def check_equal(host: Any, name: str, first: Sequence[Meta], second: Sequence[Meta], words: tuple[str, str]) -> None:
    """Refuses results that would not look the same either way."""
    if len(first) != len(second):
        detail = f"{words[0]} gives {len(first)} tensors, {words[1]} {len(second)}"
        raise host.refuse("higher-order", f"{name}: {detail}", function=name)
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if facts(one) is not facts(other):
            detail = f"tensor {number} of {words[0]} is {describe(one)}, that of {words[1]} {describe(other)}"
            raise host.refuse("higher-order", f"{name}: {detail}", function=name)


def finish(
    host: Any, name: str, call: Any, emulate: Any, values: Values, metas: Sequence[Meta], bodies: Sequence[Body]
) -> list[TracedTensor]:
    function = operator(name, call, emulate, bodies)
    try:
        return record_operator(host.recorder, function, values.all, metas, any(body.random for body in bodies))
    except Unsupported as error:
        raise host.located(error) from None


# ---- cond -----------------------------------------------------------------------------------------------------------

WORDS = ("the true branch", "the false branch")


def call_cond(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`torch.cond(pred, true_fn, false_fn, operands)`."""
    names = dict(zip(("pred", "true_fn", "false_fn", "operands"), args, strict=False)) | (kwargs or {})
    operands = names.get("operands", ())
    pred = condition(host, f, names["pred"])
    if type(pred) is not TracedTensor:
        return host.call(f, names["true_fn"] if pred else names["false_fn"], list(operands), None)
    leaves, _ = flatten(host, operands, "torch.cond")
    if type(operands) not in (tuple, list) or not all(type(leaf) is TracedTensor for leaf in leaves):
        raise host.refuse("higher-order", "torch.cond: operands that are no tensors", function="torch.cond")
    branches = [capture(host, f, "torch.cond", names[n], operands, {}, same) for n in ("true_fn", "false_fn")]
    first, second = branches
    for words, one in zip(WORDS, branches, strict=True):
        check_owned(host, "torch.cond", words, one)
    if first.body.result != second.body.result:
        raise host.refuse("higher-order", "torch.cond: the branches return different things", function="torch.cond")
    check_equal(host, "torch.cond", first.outputs, second.outputs, WORDS)
    values = Values()
    values.place(pred)
    yes, no = (values.branch(one, leaves) for one in branches)

    def call(pred: Any, *values: Any) -> Any:
        return cond_op(pred, Shifted(yes), Shifted(no), values)

    made = finish(host, "cond", call, yes, values, first.outputs, [first.body, second.body])
    return first.body.result.fill(made)


class Shifted:
    """A branch of values that come without the condition."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.__name__ = self.__qualname__ = branch.__name__

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return self.branch(None, *values)


def condition(host: Any, f: Frame, pred: Any) -> Any:
    """The condition as a bool, or as a tensor with one bool."""
    if type(pred) is TracedBool and host.recorder.symbols.is_unbacked(pred):
        pred = host.record(f, torch.scalar_tensor, (pred,), {"dtype": torch.bool})
    if type(pred) is not TracedTensor:
        if type(pred) not in (bool, int, float, TracedBool):
            raise host.refuse("higher-order", f"torch.cond: a condition of type {type(pred).__qualname__}",
                              function="torch.cond")  # fmt: skip
        return bool(pred)
    if torch.Size(pred._meta.size).numel() != 1:
        raise host.refuse("higher-order", "torch.cond: a condition of several elements", function="torch.cond")
    if pred._meta.dtype is not torch.bool:
        pred = host.record(f, torch.Tensor.ne, (pred, 0), None)
    return pred if not pred._meta.size else host.record(f, torch.Tensor.reshape, (pred, ()), None)


# ---- while_loop -----------------------------------------------------------------------------------------------------


def call_while(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`while_loop(cond_fn, body_fn, carried)`."""
    test_fn, body_fn, carried, more = args
    name = "while_loop"
    leaves, _ = flatten(host, carried, name)
    if more or kwargs or not leaves or len(tensors_of(leaves)) < len(leaves):
        raise host.refuse("higher-order", "while_loop: carried values that are no tensors", function=name)
    test = capture(host, f, name, test_fn, leaves, {}, same)
    body = capture(host, f, name, body_fn, leaves, {}, same)
    if len(test.outputs) != 1 or test.outputs[0].dtype is not torch.bool or test.outputs[0].size.numel() != 1:
        raise host.refuse("higher-order", "while_loop: the condition is no tensor with one bool", function=name)
    check_owned(host, name, "the condition", test)
    check_owned(host, name, "the body", body)
    metas = [leaf._meta for leaf in leaves]
    check_equal(host, name, metas, body.outputs, ("what is carried", "what the body gives"))
    values = Values()
    if [values.place(leaf) for leaf in leaves] != list(range(len(leaves))):
        raise host.refuse("higher-order", "while_loop: a tensor is carried twice", function=name)
    again, step = values.branch(test, leaves), values.branch(body, leaves)
    count = len(leaves)

    def call(*values: Any) -> Any:
        return while_loop_op(lambda *v: again(*v)[0], step, values[:count], values[count:])

    made = finish(host, name, call, step, values, body.outputs, [test.body, body.body])
    return body.body.result.fill(made)


CALLERS[id(CondOp)] = call_cond
CALLERS[id(WhileLoopOp)] = call_while
