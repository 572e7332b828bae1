"""A graph as the source of one plain Python function: what runs when the backend is "eager"."""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from torch import fx

from stator.code import lines
from stator.errors import Location
from stator.graph.regions import folded
from stator.graph.restore import Restore

_BINARY: dict[Any, str] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.matmul: "@",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
}
_UNARY: dict[Any, str] = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
_INPLACE: dict[Any, str] = {
    operator.iadd: "+=",
    operator.isub: "-=",
    operator.imul: "*=",
    operator.itruediv: "/=",
    operator.ifloordiv: "//=",
    operator.imod: "%=",
    operator.ipow: "**=",
    operator.imatmul: "@=",
    operator.iand: "&=",
    operator.ior: "|=",
    operator.ixor: "^=",
    operator.ilshift: "<<=",
    operator.irshift: ">>=",
}

_numbers = itertools.count()


class Source:
    """Text of the function and the objects its global names stand for."""

    def __init__(self, graph: fx.Graph) -> None:
        self.globals: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._taken = {node.name for node in graph.nodes}
        self.parameters: list[str] = []
        self.lines: list[str] = []
        self.state = Restore()
        last_uses = _last_uses(graph)
        for node in graph.nodes:
            if node.op not in WRITERS:
                raise ValueError(f"the graph needs {node.target!r} of its module")
            WRITERS[node.op](self, node)
            place = getattr(node.meta.location, "innermost", None) if getattr(node.meta, "warns", False) else None
            if place is not None:
                self.lines[-1] = _in_program(self, node, self.lines[-1], place)
            dead = last_uses.get(node)
            if dead:
                self.lines.append(f"del {', '.join(dead)}")

    @property
    def text(self) -> str:
        """The whole function."""
        head = f"def graph({', '.join(self.parameters)}):"
        if not self.state.used:
            return "\n    ".join([head, *self.lines]) + "\n"
        body = "\n        ".join(["    try:", *self.lines])
        restore = f"{self.constant(self.state)}(locals())"
        return f"{head}\n{body}\n    except BaseException:\n        {restore}\n        raise\n"

    def value(self, value: Any) -> str:
        """An expression for one argument."""
        kind = type(value)
        if kind is fx.Node:
            return value.name
        writer = _VALUES.get(kind)
        if writer is not None:
            return writer(self, value)
        if isinstance(value, tuple):
            return f"{self.constant(kind)}({self._items(value)})" if hasattr(kind, "_fields") else self._tuple(value)
        if isinstance(value, list):
            return f"[{self._items(value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.value(k)}: {self.value(v)}' for k, v in value.items())}}}"
        return self.constant(value)

    def constant(self, value: Any) -> str:
        """A global name for an object, the same one each time."""
        name = self._names.get(id(value))
        if name is None:
            base = str(getattr(value, "__name__", None) or value).rpartition(".")[2]
            base = "_" + base if base.isidentifier() else "_constant"
            name = base
            for number in itertools.count(1):
                if name not in self._taken:
                    break
                name = f"{base}_{number}"
            self._taken.add(name)
            self._names[id(value)] = name
            self.globals[name] = value
        return name

    def call(self, node: fx.Node, function: str, args: Iterable[Any]) -> str:
        """A call expression with the node's keyword arguments."""
        parts = [self.value(arg) for arg in args]
        parts += [f"{name}={self.value(value)}" for name, value in node.kwargs.items()]
        return f"{function}({', '.join(parts)})"

    def _items(self, values: Iterable[Any]) -> str:
        return ", ".join([self.value(value) for value in values])

    def _tuple(self, value: tuple[Any, ...]) -> str:
        return f"({self._items(value)},)" if value else "()"

    def _slice(self, value: slice) -> str:
        return f"slice({self._items((value.start, value.stop, value.step))})"


def _float(source: Source, value: float) -> str:
    return repr(value) if math.isfinite(value) else source.constant(value)


def _plain(source: Source, value: Any) -> str:
    return repr(value)


_VALUES: dict[type, Callable[[Source, Any], str]] = {
    int: _plain,
    str: _plain,
    bool: _plain,
    type(None): _plain,
    type(...): lambda source, value: "...",
    float: _float,
    tuple: Source._tuple,
    slice: Source._slice,
    range: _plain,
}


def _placeholder(source: Source, node: fx.Node) -> None:
    source.parameters.append(node.name)


def _output(source: Source, node: fx.Node) -> None:
    source.lines.append(f"return {source.value(node.args[0])}")


def _method(source: Source, node: fx.Node) -> None:
    owner = source.value(node.args[0])
    source.lines.append(f"{node.name} = {source.call(node, f'{owner}.{node.target}', node.args[1:])}")


def _function(source: Source, node: fx.Node) -> None:
    source.state.note(node)
    source.lines.append(_statement(source, node) if not node.kwargs else f"{node.name} = {_plain_call(source, node)}")


def _plain_call(source: Source, node: fx.Node) -> str:
    return source.call(node, source.constant(node.target), node.args)


def _statement(source: Source, node: fx.Node) -> str:
    target, args, name = node.target, node.args, node.name
    if target in _BINARY:
        return f"{name} = {_operand(source, args[0])} {_BINARY[target]} {_operand(source, args[1])}"
    if target in _UNARY:
        return f"{name} = {_UNARY[target]}{source.value(args[0])}"
    if target in _INPLACE:
        return f"{name} = {source.value(args[0])}; {name} {_INPLACE[target]} {source.value(args[1])}"
    if target is operator.getitem:
        return f"{name} = {source.value(args[0])}[{_index(source, args[1])}]"
    if target is operator.setitem:
        return f"{source.value(args[0])}[{_index(source, args[1])}] = {source.value(args[2])}; {name} = None"
    if target is getattr:
        return f"{name} = {source.value(args[0])}.{args[1]}"
    return f"{name} = {_plain_call(source, node)}"


def _operand(source: Source, value: Any) -> str:
    """Negative numbers need parentheses in front of `**`."""
    text = source.value(value)
    return f"({text})" if text[0] == "-" else text


def _index(source: Source, value: Any) -> str:
    if type(value) is slice:
        return _range(source, value)
    if isinstance(value, tuple) and any(type(item) is slice for item in value):
        return ", ".join(_range(source, v) if type(v) is slice else source.value(v) for v in value) + ","
    return source.value(value)


def _range(source: Source, value: slice) -> str:
    start, stop, step = ("" if v is None else source.value(v) for v in (value.start, value.stop, value.step))
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _in_program(source: Source, node: fx.Node, statement: str, place: Location) -> str:
    """The statement as a call of a function at a line of the program: warnings of C code name that."""
    inputs = [used.name for used in node.all_input_nodes]
    names: dict[str, Any] = {}
    text = "def call({}): {}; return {}"
    exec(text.format(", ".join(inputs), statement, node.name), names)
    used = [name for name in names["call"].__code__.co_names if name in source.globals]
    given = ", ".join([*inputs, *used])
    exec(text.format(given, statement, node.name), names)
    code = names["call"].__code__.replace(co_filename=place.file, co_firstlineno=place.lineno)
    return f"{node.name} = {source.constant(FunctionType(code, _namespace(place.file)))}({given})"


def _namespace(file: str) -> dict[str, Any]:
    """The globals of the module of a file: what was warned of is noted there."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            return vars(module)
    return {"__name__": "__main__"}


WRITERS: dict[str, Callable[[Source, fx.Node], None]] = {
    "placeholder": _placeholder,
    "output": _output,
    "call_method": _method,
    "call_function": _function,
}


def _last_uses(graph: fx.Graph) -> dict[fx.Node, list[str]]:
    """For each node, the names that nobody needs after it; inputs belong to the caller."""
    seen: set[fx.Node] = set()
    dead: dict[fx.Node, list[str]] = {}
    for node in reversed(graph.nodes):
        if node.op == "output":
            seen.update(node.all_input_nodes)
            continue
        names = [used.name for used in node.all_input_nodes if used not in seen and used.op != "placeholder"]
        seen.update(node.all_input_nodes)
        if not node.users and node.op != "placeholder":
            names.append(node.name)
        if names:
            dead[node] = names
    return dead


def compile_source(graph: fx.Graph) -> FunctionType:
    """The graph as a plain function of its inputs; `linecache` knows the source for as long as it lives."""
    source = Source(folded(graph, compile_source))
    text = source.text
    filename = f"<stator graph {next(_numbers)}>"
    exec(compile(text, filename, "exec"), source.globals)
    function: FunctionType = source.globals.pop("graph")
    lines.show(function, filename, text)
    return function
