"""The most specific advice for a break: by what the operation is, and by what the program does with its result."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..breaks import fill, lookup
from .consumer import LONGEST, Use

if TYPE_CHECKING:
    from ..errors import Location

BRANCH, VALUE, SHAPE = "data-dependent-branch", "data-dependent-value", "data-dependent-shape"

CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
FILES = ("TextIOWrapper", "FileIO", "BufferedReader", "BufferedWriter", "BufferedRandom")

_CHOOSE = "choose between both results with torch.where, or use torch.cond"
_STEPS = "run a fixed number of steps and mask the rest with torch.where, or loop outside of the compiled function"
_ASSERT = "use torch._assert_async, or check it outside of the compiled function"
_SHOW = "return the tensor and print it outside of the compiled function"
_KEEP = "keep the tensor itself, and read it outside of the compiled function"
_MASK = "keep the full shape and mask with torch.where(condition, value, 0)"

_CLOCK = "Take the time outside of the compiled function, before and after its call."
_FILE = "Read and write files outside of the compiled function, or exclude the function that does with stator.disable."
_FIND = "compare with a stack of all of them, (torch.stack(values) == value), or do it outside of the compiled function"

_DRAWN = "pass it as an argument, or draw with torch.rand and choose with torch.where"
_FAILS = "Where it raises in eager too, test sizes and types before it; where it does not, do it outside."
_ARRAY = "Convert it first: an array with torch.from_numpy, a number of numpy with item()."
_CHANGES = "Most compilations differ in this alone: pass it as a tensor, keep it the same, or use it outside."
_KNOWN = "Pass a number that is known before the data is, or choose with torch.where."

# (break, kind of consumer[, its name]) → what to do instead.
ADVICE: dict[tuple[str, ...], str] = {
    **{(row, "if"): _CHOOSE for row in (BRANCH, VALUE)},
    **{(row, "case"): _CHOOSE for row in (BRANCH, VALUE)},
    **{(row, "while"): _STEPS for row in (BRANCH, VALUE)},
    **{(row, "assert"): _ASSERT for row in (BRANCH, VALUE)},
    **{(row, "and"): "use torch.logical_and on the tensors" for row in (BRANCH, VALUE)},
    **{(row, "or"): "use torch.logical_or on the tensors" for row in (BRANCH, VALUE)},
    **{(row, "format"): _SHOW for row in (BRANCH, VALUE, SHAPE)},
    **{(row, "call", "print"): _SHOW for row in (BRANCH, VALUE, SHAPE)},
    **{(row, "return"): _KEEP for row in (BRANCH, VALUE)},
    **{(row, "store"): _KEEP for row in (BRANCH, VALUE)},
    **{(row, "store-attribute"): _KEEP for row in (BRANCH, VALUE)},
    **{(row, "store-global"): _KEEP for row in (BRANCH, VALUE)},
    **{(row, "store-item"): _KEEP for row in (BRANCH, VALUE)},
    **{(row, "container"): _KEEP for row in (BRANCH, VALUE)},
    (BRANCH, "call", "any"): "use torch.any",
    (BRANCH, "call", "all"): "use torch.all",
    (VALUE, "nothing"): "remove it: the result is not used",
    (VALUE, "arithmetic"): "compute with the tensor itself: one without dimensions broadcasts like a number",
    (VALUE, "index"): "index with the tensor itself (torch.index_select, torch.gather)",
    (VALUE, "slice"): "take a slice of fixed length, or mask with torch.where(torch.arange(n) < count, value, 0)",
    (VALUE, "call"): "pass the tensor itself if {consumer} takes one, or do the call outside of the compiled function",
    (VALUE, "call", "range"): _STEPS,
    (VALUE, "subscripted"): "take the parts from the tensor itself",
    (VALUE, "for"): "iterate over the tensor itself (its rows are tensors), or over an argument of the function",
    (VALUE, "unpack"): "unpack the tensor itself (x.unbind()), whose parts are tensors",
    (SHAPE, "for"): "run over all rows and mask the ones that do not count with torch.where",
    (SHAPE, "attribute", "shape"): "count with mask.sum(), which has a fixed shape",
    (SHAPE, "attribute", "numel"): "count with mask.sum(), which has a fixed shape",
    (SHAPE, "attribute", "size"): "count with mask.sum(), which has a fixed shape",
    (SHAPE, "attribute", "sum"): "sum the masked values: torch.where(condition, value, 0).sum()",
    (SHAPE, "attribute", "mean"): "divide the masked sum, torch.where(condition, value, 0).sum(), by mask.sum()",
    **{(SHAPE, kind): _MASK for kind in ("arithmetic", "call", "attribute", "index", "return", "store", "subscripted")},
    ("native-impure", "if"): "take the decision outside of the compiled function and pass it as an argument",
    ("native-impure", "arithmetic"): "pass the number as an argument: one that changes needs no new compilation",
    ("native-impure", "format"): "build the text outside of the compiled function",
    ("native-impure", "nothing"): "remove it, or do it outside of the compiled function: the result is not used",
    ("tensor-numpy", "call"): "use the torch function that does what {consumer} does, or call it outside",
    ("tensor-numpy", "return"): "return the tensor and convert it outside of the compiled function",
    ("tensor-numpy", "if"): "compare tensors with `is` or torch.equal outside of the compiled function",
    ("disabled-function", "nothing"): "call it before or after the compiled function: the result is not used",
}

# (break, function that is called) → what to do instead, where its comparisons are what breaks.
COMPARING: dict[tuple[str, str], str] = {
    (BRANCH, "sorted"): "sort all at once with torch.sort, or by the torch.argsort of the stacked keys",
    (BRANCH, "sort"): "sort all at once with torch.sort, or by the torch.argsort of the stacked keys",
    (BRANCH, "max"): "use torch.maximum, or torch.stack(values).amax(0)",
    (BRANCH, "min"): "use torch.minimum, or torch.stack(values).amin(0)",
    **{(BRANCH, name): _FIND for name in ("index", "count", "remove")},
}

# (break, function, its owner, or type) → what to do instead, where the operation alone says enough.
BY_OPERATION: dict[tuple[str, str], str] = {
    ("cannot-rebuild", "async_generator"): "Consume the asynchronous generator inside, or make it outside.",
    ("cannot-rebuild", "Tensor.__deepcopy__"): "Copy a tensor with x.detach().clone(), or copy before compiling.",
    ("data-dependent-value", "torch.tensor"): "Put tensors together with torch.stack instead of torch.tensor([...]).",
    ("data-dependent-value", "torch.as_tensor"): "Put tensors together with torch.stack.",
    ("data-dependent-value", "Tensor.__repr__"): "Return the tensor and print it outside of the compiled function.",
    ("data-dependent-value", "Tensor.__format__"): "Return the tensor and print it outside of the compiled function.",
    **{("native-impure", f"time.{clock}{unit}"): _CLOCK for clock in CLOCKS for unit in ("", "_ns")},
    **{("native-impure", f"datetime.{name}"): _CLOCK for name in ("now", "today", "utcnow")},
    **{("native-outside-object", file): _FILE for file in FILES},
    ("outside-type", "ndarray"): "Convert it with torch.from_numpy before the compiled function.",
    ("outside-iterator", "generator"): "Pass list(generator), or call the generator function inside.",
    ("tensor-numpy", "Tensor.data_ptr"): "Compare tensors with `is`; addresses belong to the running program.",
    (
        "native-unknown",
        "torch.jit",
    ): "Use it as it was before torch.jit compiled it: Python is compiled anyway.",
    ("outside-type", "changing"): _CHANGES,
    ("tensor-subclass", "A sparse tensor"): "Pass x.to_dense(), or indices and values for torch.index_add.",
    ("tensor-operation", "operation that fails"): _FAILS,
    **{("tensor-operation", array): _ARRAY for array in ("ndarray", "TracedArray")},
    ("tensor-operation", "number from data"): _KNOWN,
    ("tensor-metadata", "Tensor.detach_"): "Use x.detach(), which makes a new tensor.",
    ("tensor-metadata", "Tensor.requires_grad_"): "Set requires_grad before the compiled function.",
}

# How a kind of consumer is called in a sentence.
WORDS: dict[str, str] = {
    "if": "`if`",
    "case": "`match`",
    "while": "`while`",
    "assert": "`assert`",
    "and": "`and`",
    "or": "`or`",
    "call": "a call of `{name}`",
    "index": "an index",
    "slice": "a slice",
    "subscripted": "an indexing",
    "store": "`{name}`",
    "store-attribute": "the attribute `{name}`",
    "store-global": "the global `{name}`",
    "store-item": "an item of a container",
    "attribute": "`.{name}`",
    "format": "a text",
    "for": "a `for` loop",
    "unpack": "an unpacking",
    "return": "`return`",
    "yield": "`yield`",
    "nothing": "nothing",
    "container": "a container",
    "arithmetic": "arithmetic",
    "raise": "`raise`",
}


def remedy(break_id: str, fields: Mapping[str, Any], stack: Sequence[Location]) -> str:
    """What to do about a break at the end of a stack of places, outermost first."""
    if advice := _by_operation(break_id, fields):
        return advice
    if stack and (advice := COMPARING.get((break_id, _called(stack[-1].expression)))):
        return f"{_operation(fields, stack)} compares tensors by their data; {advice}."
    if stack and break_id in (BRANCH, VALUE) and _draws(stack[-1].expression):
        return f"{_operation(fields, stack)} needs a number that Python draws; {_DRAWN}."
    use = consumer_of(stack)
    advice = _advice(break_id, use) if use is not None else None
    if use is None or advice is None:
        return fill(lookup(break_id).remedy, fields)
    consumer = words(use)
    return f"{_operation(fields, stack)} feeds {consumer}{_way(use, stack)}; {advice.format(consumer=consumer)}."


def consumer_of(stack: Sequence[Location]) -> Use | None:
    """What consumes the result of the innermost place; a value that is returned is followed into the caller."""
    found = None
    for place in reversed(stack):
        use = place.use
        if use is None:
            break
        found = use
        if use.kind != "return":
            break
    return found


def words(use: Use) -> str:
    """The consumer in a sentence."""
    return "a call" if use.kind == "call" and not use.name else WORDS[use.kind].format(name=use.name)


def _advice(break_id: str, use: Use) -> str | None:
    return ADVICE.get((break_id, use.kind, use.name)) or ADVICE.get((break_id, use.kind))


def _by_operation(break_id: str, fields: Mapping[str, Any]) -> str | None:
    function = str(fields.get("function", ""))
    kind = str(fields.get("type", ""))
    names = (function, function.rpartition(".")[0], kind, kind.partition(" ")[0])
    return next((BY_OPERATION[break_id, name] for name in names if (break_id, name) in BY_OPERATION), None)


def _called(text: str) -> str:
    """The name of the function or method that an expression is a call of."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    function = tree.func if isinstance(tree, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _draws(text: str) -> bool:
    """Whether a function of a module or generator called `random` is called in an expression."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    calls = (part for part in ast.walk(tree) if isinstance(part, ast.Call))
    return any("random" in ast.unparse(call.func).split(".")[:-1] for call in calls)


def _operation(fields: Mapping[str, Any], stack: Sequence[Location]) -> str:
    """The breaking expression and its line; the file too when it is not the one of the outermost frame."""
    place = stack[-1]
    text = " ".join(_test(place.expression).split())
    if not text or len(text) > LONGEST:
        text = str(fields.get("function", "this operation"))
    file = "" if place.file == stack[0].file else f" of {PurePath(place.file).name}"
    return f"`{text}` on line {place.lineno}{file}"


def _test(text: str) -> str:
    """What is tested, where the text is that of a whole statement or conditional expression."""
    try:
        (part,) = ast.parse(text.removeprefix("el") if text.startswith("elif") else text).body
    except (SyntaxError, ValueError):
        return text
    found = part.value if isinstance(part, ast.Expr) else part
    return ast.unparse(found.test) if isinstance(found, (ast.If, ast.While, ast.IfExp)) else text


def _way(use: Use, stack: Sequence[Location]) -> str:
    """Where the consumer is, when that is another line, and the variable that leads there."""
    line = f" on line {use.line}" if use.line and use.line != stack[-1].lineno else ""
    return f"{line} through `{use.via}`" if use.via else line
