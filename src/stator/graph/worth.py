"""Which graphs are worth a compilation: not those that only read, search, decide, or do little behind a break."""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable
from typing import Any

import torch
from torch import fx

from stator.tensors.array_calls import array_call, array_call_once

READING = frozenset({"item", "detach", "reshape", "to", "unbind"})  # methods on the way from a tensor to its numbers


def only_reads(graph: fx.GraphModule) -> bool:
    """Whether a graph gives numbers that its inputs hold, or what Python makes of them: nothing to compile."""
    for node in graph.graph.nodes:
        if node.op == "call_method":
            reads = node.target in READING
        elif node.op == "output":
            reads = all(map(_is_number, node.all_input_nodes))
        else:
            reads = node.op == "placeholder" or node.target in _HANDLING or _is_calculation(node.target)
        if not reads:
            return False
    return True


# Operations whose result is as long as data says: every backend calls the kernel that torch has.
SEARCHES = frozenset({"nonzero", "argwhere", "unique", "unique_consecutive", "masked_select"})


def only_searches(graph: fx.GraphModule) -> bool:
    """Whether one such operation is all there is, and views of what it takes and gives."""
    found = kernels(graph)
    return len(found) == 1 and _called(found[0]) in SEARCHES


# Operations that only look at memory, and those that are one kernel of torch's: alone, there is nothing to fuse.
VIEWS = frozenset({
    "detach", "diagonal", "expand", "expand_as", "flatten", "movedim", "narrow", "permute", "reshape", "select",
    "split", "squeeze", "swapaxes", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as",
})  # fmt: skip
ATTRIBUTES = frozenset({"H", "T", "data", "imag", "mH", "mT", "real"})  # which are views, too
KERNELS = frozenset({
    "abs", "add", "addcdiv", "addcmul", "all", "amax", "amin", "and_", "any", "arange", "argmax", "argmin",
    "argsort", "bernoulli", "bincount", "cat", "ceil", "clamp", "clone", "contiguous", "copy_", "cos", "cumsum",
    "div", "double", "embedding", "empty", "eq", "erf", "exp", "expm1", "eye", "fill_", "flip", "float", "floor",
    "floordiv", "full", "full_like", "gather", "ge", "getitem", "gt", "index_select", "int", "invert", "le", "linspace",
    "log", "log1p", "logical_and", "logical_not", "logical_or", "long", "lt", "masked_fill", "max", "maximum", "mean",
    "min", "minimum", "mod", "mul", "multinomial", "ne", "neg", "new_empty", "new_full", "new_ones", "new_zeros",
    "norm", "normal", "ones", "ones_like", "or_", "pow", "prod", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "randperm", "reciprocal", "relu", "roll", "round", "rsqrt", "scatter", "setitem", "sigmoid",
    "sign", "sin", "sort", "sqrt", "square", "stack", "std", "sub", "sum", "tanh", "tensor", "to", "topk",
    "truediv", "uniform", "var", "where", "xor", "zero_", "zeros", "zeros_like",
})  # fmt: skip


# On the way to Python: a condition is compared with 0, and what becomes an int must be finite.
CONVERSIONS = frozenset({"abs", "detach", "lt", "ne", "to"})


def kernels(graph: fx.GraphModule) -> list[fx.Node]:
    """The operations of a graph that do more than look at memory, or calculate with numbers."""
    numbers: set[fx.Node] = set()
    for node in graph.graph.nodes:
        if _is_symbol(node) or (_is_operator(node.target) and numbers.issuperset(node.all_input_nodes)):
            numbers.add(node)
    reads: set[fx.Node] = set()  # what becomes of a number on its way to Python, and what is made sure of it
    for node in reversed(graph.graph.nodes):
        leads = _called(node) in CONVERSIONS and node.users and reads.issuperset(node.users)
        if leads or _is_number(node) or _called(node) == "assert_holds":
            reads.add(node)
    free = numbers | reads
    return [node for node in graph.graph.nodes if node not in free and not _is_free(node, numbers)]


# What a branch asks; made of a few other kernels, the time is in the branch.
DECISIONS = frozenset({
    "all", "allclose", "and_", "any", "eq", "equal", "ge", "gt", "invert", "isclose", "isfinite", "isinf", "isnan",
    "le", "logical_and", "logical_not", "logical_or", "lt", "ne", "not_", "or_",
})  # fmt: skip
FEW = 2


def only_decides(graph: fx.GraphModule) -> bool:
    """Whether conditions and numbers made of a few other kernels, views, and what is made of nothing are all."""
    results = next(node for node in reversed(graph.graph.nodes) if node.op == "output").all_input_nodes
    if not all(_called(node) in DECISIONS or _is_free(node) or not node.all_input_nodes for node in results):
        return False
    found = [node for node in kernels(graph) if _called(node) not in DECISIONS]
    return len(found) <= FEW and all(map(_is_plain_kernel, found))


def is_one_kernel(graph: fx.GraphModule) -> bool:
    """Whether a graph runs at most one kernel, and one that no backend makes faster by itself."""
    found = kernels(graph)
    if len(found) > 1:
        return False
    return all(map(_is_plain_kernel, found))


# Between two breaks, a call of compiled code costs more than a few small kernels; what follows a loop runs once where
# the loop ran many times, and may be more.
LITTLE = 16_384  # elements
HANDFUL = 4


def is_little(graph: fx.GraphModule, inputs: Iterable[Any], most: int) -> bool:
    """Whether a graph runs so few kernels, on tensors that are small."""
    elements = sum(one.numel() for one in inputs if isinstance(one, torch.Tensor))
    return elements <= LITTLE and len(kernels(graph)) <= most


# Operations that ask a tensor for its size, type and device only.
MODELLED = frozenset({
    "empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like",
    "randint_like", "randn_like", "zeros_like",
})  # fmt: skip
FILLING = frozenset(
    {"full", "full_like", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "zeros", "zeros_like"}
)
MOST_FILLED = 16


def only_prepares(graph: fx.GraphModule, inputs: Iterable[Any]) -> bool:
    """Whether a graph makes a few tensors of no data: each is one kernel, which no backend makes faster."""
    given = zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True)
    users = (user for node, one in given if isinstance(one, torch.Tensor) for user in node.users)
    if not all(_called(user) in MODELLED for user in users):
        return False
    found = kernels(graph)
    rest = [node for node in found if _called(node) not in FILLING]
    return len(rest) <= HANDFUL and len(found) <= MOST_FILLED and all(map(_is_plain_kernel, found))


def _is_plain_kernel(node: fx.Node) -> bool:
    name = _called(node)
    return name in KERNELS or (name.endswith("_") and name[:-1] in KERNELS)


def _is_symbol(node: fx.Node) -> bool:
    """An int that the graph is given, or that data tells."""
    if node.op == "placeholder":
        return type(getattr(node.meta, "value", None)) is torch.SymInt
    return node.target in ("item", torch.ops.aten.sym_size.int)


def _is_operator(target: Any) -> bool:
    return getattr(target, "__module__", "") == operator.add.__module__


def _is_free(node: fx.Node, numbers: Container[Any] = ()) -> bool:
    """Whether a node starts no kernel, or only brings a number to Python."""
    if node.op in ("placeholder", "output") or _is_number(node) or _is_python(node.target):
        return True
    if (node.target is torch.full and node.args[0] == ()) or (node.target is torch.tensor and _is_one(node.args[0])):
        return True  # a number that becomes a tensor, or one of those that it is made of
    if (index := _index(node)) is not None:
        return all(type(one) in _PLACES or one in numbers for one in index)
    if node.target is getattr:
        return node.args[1] in ATTRIBUTES
    return node.target in _HANDLING or _called(node) in VIEWS


def _called(node: fx.Node) -> str:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return str(node.args[0]).rpartition(":")[2] if name in _OF_NUMPY else name


def _index(node: fx.Node) -> Any:
    """What a node looks up in a tensor or an array, as a tuple; None: it does something else."""
    if node.target is operator.getitem:
        key = node.args[1]
    elif _called(node) == "getitem":
        (_, key), _ = node.args[2:]
    else:
        return None
    return key if isinstance(key, tuple) else (key,)


def _is_one(number: Any) -> bool:
    return isinstance(number, (int, float))


_OF_NUMPY = frozenset({array_call.__name__, array_call_once.__name__})  # which call what their first argument names
_PLACES = frozenset({int, slice, type(None), type(Ellipsis)})  # an index of these makes a view


_HANDLING = frozenset({torch._C._set_grad_enabled, torch.scalar_tensor, operator.getitem})


def _is_number(node: fx.Node) -> bool:
    """An int, or a tensor that a float is read from."""
    return node.target == "item" or (node.target == "to" and node.args[1:] == (torch.float64,))


def _is_calculation(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "stator"


def _is_python(target: Any) -> bool:
    """Python's own arithmetic on numbers."""
    return _is_calculation(target) and target in (
        torch.ops.stator.python_float.default,
        torch.ops.stator.python_int.default,
    )
