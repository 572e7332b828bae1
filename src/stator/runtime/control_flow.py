"""`torch.cond`, `while_loop` and the like: both branches, or the body of a loop, are captured as graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.cond import CondOp, cond, cond_op
from torch._higher_order_ops.map import MapImpl, map_impl
from torch._higher_order_ops.map import map as map_function
from torch._higher_order_ops.scan import ScanOp, scan, scan_op
from torch._higher_order_ops.while_loop import WhileLoopOp, while_loop, while_loop_op

from stator.errors import Unsupported
from stator.frame import Frame
from stator.native.callers import CALLERS, call_python
from stator.native.rows import standin
from stator.runtime import unrolling
from stator.runtime.bodies import Captured, capture, flatten, tensors_of
from stator.runtime.transforms import without
from stator.shapes.scalar import TracedBool, TracedInt
from stator.tensors.bodies import Body
from stator.tensors.control_flow import (
    Branch,
    Padded,
    Padding,
    cut,
    operator,
    padding,
    record_operator,
)
from stator.tensors.meta import Meta, intern
from stator.tensors.rules.layout import row_major
from stator.tensors.traced import TracedTensor


@standin(cond, while_loop, scan, associative_scan, map_function)
def interpret(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """These functions of torch prepare the call of an operator; what cannot be captured is a break before them."""
    if function is associative_scan and host.counts_rounds and unrolling.may_break(host) and halves(host, args, kwargs):
        raise host.refuse("varying-loop", function=function.__name__)
    return call_python(host, f, function, args, kwargs)


def halves(host: Any, args: list[Any], kwargs: dict[str, Any] | None) -> bool:
    """Whether a scan goes on with half of the elements until one is left, and their number varies."""
    given = dict(zip(("combine_fn", "xs", "dim"), args, strict=False)) | (kwargs or {})
    dim, sizes = given.get("dim"), [x._meta.size for x in tensors_of(flatten(host, given.get("xs"), "xs")[0])]
    if type(dim) is not int:
        return False
    numbers = [size[dim] for size in sizes if -len(size) <= dim < len(size) and type(size[dim]) is TracedInt]
    if numbers:
        unrolling.drop_guesses(host, set().union(*(number.expr.free_symbols for number in numbers)))
    return bool(numbers)


class Values:
    """What an operator is given: first what its functions are called with, then what they take from around them.

    The latter is the same for all functions and in all steps: each value once. No tensor is given twice: a copy is.
    """

    def __init__(self, host: Any, f: Frame, given: Sequence[TracedTensor]) -> None:
        self.host, self.f = host, f
        self.given: list[Any] = []
        self.more: list[Any] = []
        self.values: list[Any] = []
        for value in given:
            self.given.append(self.copied(value))

    @property
    def all(self) -> list[Any]:
        return [*self.given, *self.values]

    def place(self, value: Any) -> int:
        for index, known in enumerate(self.more):
            if known is value or (type(value) is TracedInt and type(known) is TracedInt and known.expr == value.expr):
                return len(self.given) + index
        self.more.append(value)
        self.values.append(self.copied(value))
        return len(self.given) + len(self.more) - 1

    def copied(self, value: Any) -> Any:
        """The value, or a copy of a tensor that the operator is given already."""
        if any(value is one for one in self.given):
            return self.host.record(self.f, torch.clone, (value,), None)
        return value

    def branch(self, captured: Captured) -> Branch:
        """A function of what it is called with, and of all that the functions take from around them."""
        return Branch(captured.body, [*range(len(captured.body.places)), *map(self.place, captured.taken)])


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
    host: Any, name: str, call: Any, emulate: Any, values: Sequence[Any], metas: Sequence[Meta], bodies: Sequence[Body]
) -> list[TracedTensor]:
    function = operator(name, call, emulate, bodies)
    try:
        return record_operator(host.recorder, function, values, metas, any(body.random for body in bodies))
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
    given = [*leaves, *(value for one in branches for value in one.taken if type(value) is TracedTensor)]
    learns = torch.is_grad_enabled() and any(value._meta.requires_grad for value in given)
    plans = paddings(host, first.outputs, second.outputs, learns)
    values = Values(host, f, leaves)
    yes, no = (values.branch(one) for one in branches)
    metas = first.outputs
    if any(plans):
        yes, no = Padded(yes, plans), Padded(no, plans)
        metas = padded(plans, metas)

    def call(*values: Any) -> Any:
        return cond_op(values[-1], yes, no, values[:-1])

    values.values.append(pred)
    made = finish(host, "cond", call, yes, values.all, metas, [first.body, second.body])
    return first.body.result.fill(cut(host.recorder, made, plans) if any(plans) else made)


def paddings(host: Any, first: Sequence[Meta], second: Sequence[Meta], learns: bool) -> list[Padding | None]:
    """For results whose sizes differ between the branches, which only data tells then: what they are padded to.

    torch has no gradients for those.
    """
    plans: list[Padding | None] = [None] * len(first)
    if len(first) == len(second) and host.recorder.sub is None and not learns:
        try:
            plans = [padding(one, other) for one, other in zip(first, second, strict=True)]
        except ValueError:
            plans = [None] * len(first)
    if not any(plans) or host.recorder.follow() is None:
        plans = [None] * len(first)
        check_equal(host, "torch.cond", first, second, WORDS)
    else:
        equal = [(one, other) for one, other, plan in zip(first, second, plans, strict=True) if plan is None]
        check_equal(host, "torch.cond", [one for one, _ in equal], [other for _, other in equal], WORDS)
    return plans


def padded(plans: Sequence[Padding | None], metas: Sequence[Meta]) -> list[Meta]:
    """What the branches give: results of the larger sizes, then the sizes they have."""
    found = [meta if plan is None else sized(meta, plan.size) for meta, plan in zip(metas, plans, strict=True)]
    count = sum(len(plan.dims) for plan in plans if plan is not None)
    number = intern(((), (), 0, torch.int64, torch.device("cpu"), False, True, False, False, False))
    return [*found, *[number] * count]


def sized(meta: Meta, size: tuple[int, ...]) -> Meta:
    """The same metadata of a contiguous tensor of these sizes."""
    return intern((size, row_major(size), 0, *meta.key[3:]))


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
    if leaves and not more and not kwargs and any(type(leaf) is int for leaf in leaves):
        return unrolled(host, f, test_fn, body_fn, leaves)
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
    values = Values(host, f, leaves)
    again, step = values.branch(test), values.branch(body)
    count = len(leaves)

    def call(*values: Any) -> Any:
        return while_loop_op(lambda *v: again(*v)[0], step, values[:count], values[count:])

    made = finish(host, name, call, step, values.all, body.outputs, [test.body, body.body])
    return body.body.result.fill(made)


MOST_ROUNDS = 100  # of a loop that numbers of Python count


def unrolled(host: Any, f: Frame, test_fn: Any, body_fn: Any, leaves: Sequence[Any]) -> Any:
    """A loop whose rounds Python can count, as these rounds."""
    name, now = "while_loop", list(leaves)
    for _ in range(MOST_ROUNDS):
        again = host.call(f, test_fn, list(now), None)
        if type(again) is not bool:
            raise host.refuse("higher-order", "while_loop: a condition on numbers and tensors", function=name)
        if not again:
            return tuple(fresh(host, f, leaves, value) for value in now)
        found = host.call(f, body_fn, list(now), None)
        if type(found) not in (tuple, list) or len(found) != len(now) or not all(map(alike, now, found)):
            raise host.refuse("higher-order", "while_loop: the body gives other values than it is given", function=name)
        now = list(found)
    raise host.refuse("higher-order", f"while_loop: more than {MOST_ROUNDS} rounds", function=name)


def alike(before: Any, after: Any) -> bool:
    if type(before) is not TracedTensor or type(after) is not TracedTensor:
        return type(before) is type(after)
    return facts(before._meta) == facts(after._meta)


def fresh(host: Any, f: Frame, leaves: Sequence[Any], value: Any) -> Any:
    """What comes out is nothing that went in."""
    if type(value) is TracedTensor and any(value._storage is leaf._storage for leaf in tensors_of(leaves)):
        return host.record(f, torch.Tensor.clone, (value,), None)
    return value


# ---- scan and map ---------------------------------------------------------------------------------------------------


def stacked(host: Any, name: str, meta: Meta, count: Any) -> Meta:
    """Metadata of so many tensors in one."""
    size = (count, *meta.size)
    if not all(type(number) is int for number in size):
        raise host.refuse("higher-order", f"{name}: sizes that differ from call to call", function=name)
    strides = [1]
    for number in reversed(size[1:]):
        strides.append(strides[-1] * max(number, 1))
    key = facts(meta).key
    return intern((size, tuple(reversed(strides)), 0, *key[3:]))


def element(count: int) -> Any:
    """Metadata inside of a function: of arguments after the first so many, one element."""
    return lambda index, outer: same(index, outer) if index < count else without(outer._meta, 0)


def length(host: Any, name: str, xs: Sequence[Any]) -> Any:
    sizes = [leaf._meta.size[0] for leaf in xs if leaf._meta.size]
    if not sizes or len(sizes) < len(xs) or any(size != sizes[0] for size in sizes):
        raise host.refuse("higher-order", f"{name}: lengths that do not fit", function=name)
    return sizes[0]


def call_scan(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`scan(combine_fn, init, xs)`."""
    name = "scan"
    names = dict(zip(("combine_fn", "init", "xs", "additional_inputs"), args, strict=False)) | (kwargs or {})
    init, xs = list(names["init"]), list(names["xs"])
    if names["additional_inputs"] or len(tensors_of([*init, *xs])) < len(init) + len(xs):
        raise host.refuse("higher-order", "scan: arguments that are no tensors", function=name)
    count, carried = length(host, name, xs), len(init)
    body = capture(host, f, name, names["combine_fn"], [*init, *xs], {}, element(carried))
    check_owned(host, name, "the function", body)
    check_equal(host, name, [leaf._meta for leaf in init], body.outputs[:carried], ("the start", "what is carried"))
    values = Values(host, f, [*init, *xs])
    step = values.branch(body)
    both = carried + len(xs)

    def call(*values: Any) -> Any:
        return scan_op(step, list(values[:carried]), list(values[carried:both]), tuple(values[both:]))

    def emulate(*values: Any) -> Any:
        made = step(*values[:carried], *(x[0] for x in values[carried:both]), *values[both:])
        return *made[:carried], *(one.new_empty((count, *one.shape)) for one in made[carried:])

    metas = [*body.outputs[:carried], *(stacked(host, name, meta, count) for meta in body.outputs[carried:])]
    return body.body.result.fill(finish(host, name, call, emulate, values.all, metas, [body.body]))


def call_map(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """`map(f, xs, *args)`."""
    name = "map"
    inner, xs, more = args
    xs, more = list(xs), list(more)
    if kwargs or len(tensors_of([*xs, *more])) < len(xs) + len(more):
        raise host.refuse("higher-order", "map: arguments that are no tensors", function=name)
    count, mapped = length(host, name, xs), len(xs)
    body = capture(
        host, f, name, inner, [*xs, *more], {},
        lambda index, outer: without(outer._meta, 0) if index < mapped else same(index, outer),
    )  # fmt: skip
    check_owned(host, name, "the function", body)
    values = Values(host, f, [*xs, *more])
    step = values.branch(body)

    def call(*values: Any) -> Any:
        return map_impl(step, list(values[:mapped]), list(values[mapped:]))

    def emulate(*values: Any) -> Any:
        made = step(*(x[0] for x in values[:mapped]), *values[mapped:])
        return tuple(one.new_empty((count, *one.shape)) for one in made)

    metas = [stacked(host, name, meta, count) for meta in body.outputs]
    return body.body.result.fill(finish(host, name, call, emulate, values.all, metas, [body.body]))


CALLERS[id(CondOp)] = call_cond
CALLERS[id(ScanOp)] = call_scan
CALLERS[id(MapImpl)] = call_map
CALLERS[id(WhileLoopOp)] = call_while
