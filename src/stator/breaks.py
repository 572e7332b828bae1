"""The one table of reasons why code cannot be captured: stable ids, explanation, remedy.

An id is a readable slug. It never changes its meaning and is never used again for another one;
error messages, events, logs and the pages in `docs/breaks/` all refer to it.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PAGES = "docs/breaks/{}.md"  # where the page of an id is


@dataclass(frozen=True, slots=True)
class Break:
    """One reason for a break; the texts may name fields in braces, which are filled when known."""

    id: str
    title: str
    explanation: str
    remedy: str


class _Fields(dict[str, Any]):
    """Fields of a template; one that nobody gave reads as a plain word instead of failing."""

    def __missing__(self, key: str) -> str:
        return f"this {key.replace('_', ' ')}"


def fill(template: str, fields: Mapping[str, Any]) -> str:
    """Replaces the `{names}` of a template by fields."""
    return string.Formatter().vformat(template, (), _Fields(fields))


_ROWS = (
    # Values that only the running program knows.
    Break(
        "data-dependent-branch",
        "branch on the value of a tensor",
        "Which way the program goes depends on the data in a tensor, and capture only knows its shape and type.",
        "Use torch.where or torch.cond, or take the decision outside of the compiled function.",
    ),
    Break(
        "data-dependent-value",
        "the data of a tensor as a Python value",
        "{function} turns tensor data into a Python value, and capture only knows the tensor's shape and type.",
        "Keep the value in a tensor, or read it outside of the compiled function.",
    ),
    Break(
        "data-dependent-shape",
        "an operation whose result shape depends on data",
        "The shape of the result of {function} depends on the data in its input.",
        "Use a form with a fixed result shape (torch.where, masking), or do it outside of the compiled function.",
    ),
    # Native code.
    Break(
        "native-unknown",
        "call of a native function stator knows nothing about",
        "{function} is implemented in C, and nothing says whether it can run at capture time without effects.",
        "Call it outside of the compiled function, or wrap it in a torch.library custom operator.",
    ),
    Break(
        "native-effect",
        "call of a native function with an effect outside",
        "{function} changes something outside of the program (files, processes, interpreter state).",
        "Call it outside of the compiled function, or exclude the calling function with stator.disable.",
    ),
    Break(
        "native-impure",
        "call of a native function whose result changes from call to call",
        "{function} reads the world (time, randomness, environment), so its result cannot be kept in a compiled entry.",
        "Compute it before the compiled function and pass the result as an argument.",
    ),
    Break(
        "native-outside-object",
        "native access to an object from outside",
        "{function} reads or changes an outside object behind the interpreter's back.",
        "Read the attributes or items in Python code, or pass them as arguments.",
    ),
    Break(
        "native-callback",
        "native code on the stack",
        "The breaking operation runs below native code ({function}), which cannot be resumed in the middle.",
        "Move the operation out of the callback.",
    ),
    # The boundary.
    Break(
        "outside-type",
        "an outside value of a kind that cannot enter capture",
        "{type} objects have no importer: their state cannot be guarded or copied.",
        "Pass the parts that are needed as plain values or tensors.",
    ),
    Break(
        "varying-key",
        "a dict or set is asked for a number or text that varies",
        "{container} is another item on each call: there would be a compilation for each.",
        "Keep what depends on a size under one name, large enough for all sizes, or make it anew; with fullgraph=True "
        "each key is a constant.",
    ),
    Break(
        "outside-write",
        "a write to an outside object that cannot be replayed",
        "The change of {target} cannot be performed after the graph ran.",
        "Return the new value and store it outside of the compiled function.",
    ),
    Break(
        "outside-iterator",
        "an iterator or generator that existed before the call",
        "{type} objects hide their position, so consuming one cannot be guarded and replayed.",
        "Make the iterator inside the compiled function, or pass a list.",
    ),
    Break(
        "cannot-rebuild",
        "an object that cannot be made again by the compiled code",
        "An object of type {type} is returned or stored outside, but there is no recipe to rebuild it.",
        "Return its parts, or make the object outside of the compiled function.",
    ),
    Break(
        "tensor-escaped",
        "a traced tensor survived the capture",
        "A stand-in for a tensor is still referenced after capture: native code or a cache kept it.",
        "Do not store tensors in caches (such as functools.lru_cache) inside the compiled function.",
    ),
    # Tensors.
    Break(
        "tensor-operation",
        "a tensor operation that cannot be recorded",
        "{function} cannot be recorded in a graph.",
        "Use another operation, or call it outside of the compiled function.",
    ),
    Break(
        "tensor-subclass",
        "a tensor subclass that cannot be traced",
        "{type} defines its own behaviour for tensor operations that capture does not follow.",
        "Unwrap it to plain tensors before the compiled function.",
    ),
    Break(
        "tensor-mode",
        "an active torch mode",
        "{type} is active and would see other operations than in eager.",
        "Leave the mode before calling the compiled function.",
    ),
    Break(
        "tensor-numpy",
        "tensor memory handed to foreign code",
        "{function} gives the memory of a tensor to code outside of torch.",
        "Convert outside of the compiled function.",
    ),
    Break(
        "tensor-metadata",
        "a change of tensor metadata that cannot be recorded",
        "{function} changes the shape, storage or autograd state of a tensor that exists outside.",
        "Make a new tensor instead of changing this one.",
    ),
    Break(
        "autograd",
        "autograd used inside the compiled function",
        "{function} needs the autograd graph, which does not exist while capturing.",
        "Do it outside of the compiled function; gradients flow through compiled code.",
    ),
    Break(
        "gradient-hook",
        "a hook on gradients that cannot be part of a graph",
        "{function} has hooks that see or change gradients, and those hang on autograd's functions, "
        "which do not exist while capturing.",
        "Run backward outside of the compiled function, register hooks on tensors inside of it, "
        "or use a custom autograd.Function.",
    ),
    Break(
        "higher-order",
        "a function given to an operator or transform that cannot be a graph of its own",
        "{function} takes functions as graphs of their own: tensors in, new tensors out, and nothing else changes.",
        "Return new tensors of the same kind on every way, and keep prints, writes and branches on data out of there.",
    ),
    Break(
        "random-state",
        "random state that cannot be recorded",
        "{function} reads or changes the state of a random generator outside of the graph.",
        "Seed outside of the compiled function, or draw from torch's default generator.",
    ),
    Break(
        "symbolic-value",
        "a symbolic size where a number is needed",
        "{function} needs the value of a symbolic size.",
        "Mark the dimension static, or compute with the size in torch or plain arithmetic only.",
    ),
    # Frames and the interpreter.
    Break(
        "graph-break-requested",
        "a break that the program asks for",
        "stator.graph_break() or torch._dynamo.graph_break() ends the graph here.",
        "Remove the call, or do not require a full graph.",
    ),
    Break(
        "disabled-function",
        "call of a function excluded from capture",
        "{function} was excluded by stator.disable or torch.compiler.disable.",
        "Remove the exclusion, or do not require a full graph.",
    ),
    Break(
        "async",
        "asynchronous code that needs an event loop",
        "{function} awaits something that is not driven inside the compiled function.",
        "Await outside of the compiled function.",
    ),
    Break(
        "thread",
        "threads and locks",
        "{function} starts, joins or synchronises threads.",
        "Do it outside of the compiled function.",
    ),
    Break(
        "interpreter-watched",
        "a call that lets the program watch the interpreter itself",
        "Behind {function} the program sees every line that runs, every object there is, how deep the stack may be or "
        "each call of a function that it has replaced: also what stator does. CPython runs the whole call.",
        "Call it outside of the compiled function.",
    ),
    Break(
        "compiler-busy",
        "another thread that compiles for very long",
        "Threads take turns compiling, and the other one may be waiting for this one: {function} is not compiled for "
        "now, CPython runs the call.",
        "Do not wait for other threads in a backend or a signal handler; with fullgraph=True the call waits.",
    ),
    Break(
        "long-run",
        "a long stretch of Python without tensors",
        "{function} went through very many rounds of loops or calls without an operation on tensors. Capturing is much "
        "slower than running, so CPython runs the call.",
        "Do such work outside of the compiled function; with fullgraph=True it is captured all the same.",
    ),
    Break(
        "large-graph",
        "a loop that makes a graph very large",
        "The loop in {function} has put {count} into the graph, which grows with every round. The rounds that come are "
        "captured by themselves.",
        "Compile what one round does as a function of its own, and call that in the loop.",
    ),
    Break(
        "varying-loop",
        "a loop with another number of rounds in each call",
        "The loop in {function} has as many rounds as a size or number says that differs from call to call. Unrolled, "
        "it would be compiled once per number; so its body is compiled once, and CPython goes round.",
        "Work on all rounds at once, use torch's scan or while_loop, or keep the number of rounds the same; with "
        "fullgraph=True the loop is unrolled.",
    ),
    Break(
        "varying-number",
        "a call is made with another number each time, and can be compiled for one only",
        "A call in {function} takes a number or text that differs from call to call, and how many tensors it gives, or "
        "how it works, depends on that. Compiled, it would be once for each; so CPython makes it.",
        "Use an operation that takes tensors or sizes instead; with fullgraph=True each number is a constant.",
    ),
    Break(
        "lazy-module",
        "a module whose parameters do not exist yet",
        "{type} makes its parameters on the first call, so that call runs without being compiled.",
        "Run the model once before compiling it.",
    ),
    Break(
        "forced-break",
        "a break that a test asked for",
        "STATOR_FORCE_BREAK is set.",
        "Unset STATOR_FORCE_BREAK.",
    ),
    # Calls about the compiler.
    Break(
        "control-in-capture",
        "the compiler is told what to do from inside a capture",
        "{function} changes how programs are compiled, which one that is being compiled cannot do.",
        "Call it outside of the compiled function.",
    ),
    Break(
        "constant-arguments",
        "arguments that a function with a constant result cannot take",
        "{function} was marked with assume_constant_result and runs once while capturing, "
        "with constants or with objects that the program has not changed, never with tensors.",
        "Pass constants, or remove the mark.",
    ),
    Break(
        "opaque-call",
        "a function marked with allow_in_graph that cannot be one node",
        "{function} can only take and return tensors, constants, and lists, tuples and dicts of them.",
        "Pass and return those, or remove the mark.",
    ),
    # The compiler itself.
    Break(
        "recompile-limit",
        "too many compilations of one function",
        "{function} was compiled for {limit} different situations, and the next one differs again.",
        "Look at the reasons with STATOR_LOGS=recompiles and pass what varies as a tensor.",
    ),
    Break(
        "backend-error",
        "a backend that failed",
        "The backend raised an error while it compiled the graph.",
        'Fix or change the backend; backend="eager" runs the graph as it was recorded.',
    ),
    Break(
        "internal",
        "an error inside stator",
        "Capture failed for a reason that is not the program's fault.",
        "Please report it with the traceback shown.",
    ),
)

BREAKS: dict[str, Break] = {row.id: row for row in _ROWS}


def lookup(break_id: str) -> Break:
    """The row of an id; an id without a row gets one that says just its name."""
    row = BREAKS.get(break_id)
    return row or Break(break_id, break_id.replace("-", " "), "", "Exclude the function with stator.disable.")
