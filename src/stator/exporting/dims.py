"""`dynamic_shapes`: what the user says about the sizes of the arguments, checked against the example arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from stator.errors import ConstraintViolation, InvalidArgument, InvalidOptions

ALLOWED = (
    "allowed are a Dim, an expression such as 2 * dim + 1, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, the size itself, or None"
)
PRIMITIVES = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout,
              torch.memory_format, torch.Size)  # fmt: skip


class Linear(NamedTuple):
    """A derived dimension: scale * root + offset."""

    root: str
    scale: int
    offset: int

    def __str__(self) -> str:
        text = self.root if self.scale == 1 else f"{self.scale} * {self.root}"
        return text if not self.offset else f"{text} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"

    @property
    def is_plain(self) -> bool:
        return self.scale == 1 and not self.offset


class Wanted(NamedTuple):
    """What the user says about a size that varies."""

    given: Any  # the Dim, or the hint
    min: int | None
    max: int | None
    strict: bool  # that it becomes a constant is an error
    name: Linear | None  # of a Dim, in terms of the Dim it is derived from
    leaf: Leaf
    dim: int
    unbacked: bool = False
    one: bool = False  # as of `Bounds`: ranges of Dims say it already

    def __str__(self) -> str:
        return self.leaf.size(self.dim)


@dataclass(eq=False)
class Leaf:
    """One argument or part of one: a tensor, or a constant."""

    where: str  # as the user would write it: `batch['ids']`
    value: Any
    dims: dict[int, Wanted] = field(default_factory=dict)
    given: Any = None  # for torch: the specification of this leaf
    number: bool = False  # an int that varies
    keys: tuple[Any, ...] = ()  # the way from the parameter's name to it, as pytree names it

    def said(self, loose: set[str]) -> Any:
        """For torch: the specification; sizes that these Dims name have bounds only."""
        inferred = {
            dim: Dim.AUTO(min=row.min, max=row.max)
            for dim, row in self.dims.items()
            if row.name is not None and row.name.root in loose
        }
        return {**self.given, **inferred} if inferred else self.given

    def size(self, dim: int) -> str:
        return f"`{self.where}`" if self.number else f"dimension {dim} of `{self.where}`"

    @property
    def wanted(self) -> Wanted:
        """What is said about an int that varies."""
        return Wanted(self.given, self.given.min, self.given.max, self.given.type.name == "DYNAMIC", None, self, 0)


class Call(NamedTuple):
    """The arguments by the name of the parameter."""

    signature: inspect.Signature
    arguments: dict[str, Any]

    def flat(self, values: dict[str, Any]) -> tuple[inspect.Signature, dict[str, Any]]:
        """Signature and values by name without `*args` and `**kwargs`: a parameter for each of their parts."""
        rows: list[inspect.Parameter] = []
        flat: dict[str, Any] = {}
        for name, row in self.signature.parameters.items():
            if row.kind is row.VAR_POSITIONAL:
                parts = {f"{name}_{i}": value for i, value in enumerate(values.get(name, ()))}
            elif row.kind is row.VAR_KEYWORD:
                parts = dict(values.get(name, {}))
            else:
                parts = {name: values[name]} if name in values else {}
            kind = row.KEYWORD_ONLY if row.kind in (row.VAR_KEYWORD, row.KEYWORD_ONLY) else row.POSITIONAL_OR_KEYWORD
            rows += [inspect.Parameter(part, kind) for part in parts]
            flat |= parts
        return inspect.Signature(rows), flat


def bind(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Arguments by name, as the function itself would take them."""
    function = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function made in C
        names = [*(f"arg{i}" for i in range(len(args))), *kwargs]
        kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(args) + [inspect.Parameter.KEYWORD_ONLY] * len(kwargs)
        signature = inspect.Signature([inspect.Parameter(*row) for row in zip(names, kinds, strict=True)])
    try:
        return Call(signature, dict(signature.bind(*args, **kwargs).arguments))
    except TypeError as error:
        raise InvalidArgument(f"args and kwargs do not fit the signature {signature}: {error}") from None


class Shapes:
    """The example arguments with what is said about each of them."""

    def __init__(self, call: Call, dynamic_shapes: Any) -> None:
        self.leaves: list[Leaf] = []
        self.dims: dict[str, tuple[int | None, int | None]] = {}  # bounds of each named Dim
        self.values: dict[str, tuple[int, str]] = {}  # size of each root in the example, and where it is seen
        self.loose: set[str] = set()  # Dims that torch is not told
        self.tree = self._arguments(call, dynamic_shapes)

    @property
    def dynamic(self) -> bool:
        return any(leaf.dims or leaf.number for leaf in self.leaves)

    def spec(self) -> dict[str, Any]:
        """`dynamic_shapes` for torch: complete, in the structure of the arguments."""
        given: dict[str, Any] = pytree.tree_map(lambda leaf: leaf.said(self.loose), self.tree)
        return given

    def loosen(self, names: set[str]) -> None:
        """Tells torch the bounds of these Dims only; their relations are left to the program."""
        self.loose |= names

    def relations(self) -> list[list[Wanted]]:
        """The sizes that each Dim names that torch is not told."""
        rows = [row for leaf in self.leaves for row in leaf.dims.values() if row.name is not None]
        return [[row for row in rows if row.name is not None and row.name.root == root] for root in sorted(self.loose)]

    # ---- walking over arguments and specification at once ---------------------------------------

    def _arguments(self, call: Call, spec: Any) -> dict[str, Any]:
        given = self._by_name(call.arguments, spec)
        return {name: self._walk(name, value, given.get(name), (name,)) for name, value in call.arguments.items()}

    def _by_name(self, arguments: dict[str, Any], spec: Any) -> dict[str, Any]:
        names = list(arguments)
        if spec is None:
            return {}
        if isinstance(spec, Mapping):
            for key in spec:
                if key not in arguments:
                    raise InvalidOptions(self._unknown(key, names, arguments))
            return dict(spec)
        if isinstance(spec, (tuple, list)):
            if len(spec) != len(names):
                raise InvalidOptions(
                    f"dynamic_shapes has {_count(len(spec), 'entry')}, but there are {len(names)} arguments: "
                    f"{', '.join(names)}; write one entry for each, None for those whose sizes are fixed"
                )
            return dict(zip(names, spec, strict=True))
        raise InvalidArgument(
            f"dynamic_shapes must be a dict by argument name, or a tuple with one entry for each argument, "
            f"got {_show(spec)}"
        )

    @staticmethod
    def _unknown(key: Any, names: list[str], arguments: dict[str, Any]) -> str:
        text = f"dynamic_shapes names {key!r}, but the arguments are {', '.join(names) or 'none at all'}"
        inner = [name for name, value in arguments.items() if isinstance(value, Mapping) and key in value]
        if inner:
            return f"{text}; if the key of the dict `{inner[0]}` is meant, write {{{inner[0]!r}: {{{key!r}: ...}}}}"
        return text

    def _walk(self, where: str, value: Any, spec: Any, way: tuple[Any, ...]) -> Any:
        if isinstance(value, torch.Tensor):
            return self._leaf(self._tensor(where, value, spec), way)
        node = pytree._get_node_type(value)
        row = pytree.SUPPORTED_NODES.get(node)
        if row is None:
            return self._leaf(self._constant(where, value, spec), way)
        children, context = row.flatten_fn(value)
        keys = _keys(row, value, len(children))
        specs = self._parts(where, value, keys, spec)
        rows = zip(keys, children, specs, strict=True)
        parts = [self._walk(f"{where}{key}", child, entry, (*way, key)) for key, child, entry in rows]
        if node in pytree.BUILTIN_TYPES:
            return row.unflatten_fn(parts, context)
        return tuple(parts) if isinstance(children, tuple) else parts

    @staticmethod
    def _parts(where: str, value: Any, keys: list[Any], spec: Any) -> Sequence[Any]:
        """What is said about each part of a container."""
        names = [_name(key) for key in keys]
        if spec is None:
            return [None] * len(keys)
        if isinstance(spec, Mapping):
            for key in spec:
                if key not in names:
                    known = ", ".join(map(repr, names)) or "missing, as it is empty"
                    raise InvalidOptions(f"dynamic_shapes has {key!r} in `{where}`, whose parts are {known}")
            return [spec.get(name) for name in names]
        if isinstance(value, dict) or not isinstance(spec, (tuple, list)):
            wanted = "a dict by key" if isinstance(value, dict) else "a list with one entry for each part"
            kind = type(value).__qualname__
            raise InvalidOptions(
                f"`{where}` is a {kind} of {_count(len(keys), 'part')}, but dynamic_shapes says {_show(spec)} for it: "
                f"write {wanted}"
            )
        if len(spec) != len(keys):
            raise InvalidOptions(
                f"`{where}` has {_count(len(keys), 'part')}, but dynamic_shapes has {len(spec)} for it"
            )
        return spec

    def _leaf(self, leaf: Leaf, way: tuple[Any, ...]) -> Leaf:
        leaf.keys = way
        self.leaves.append(leaf)
        return leaf

    def _constant(self, where: str, value: Any, spec: Any) -> Leaf:
        leaf = Leaf(where, value)
        if not isinstance(value, PRIMITIVES):
            cls = type(value).__qualname__
            raise InvalidArgument(
                f"`{where}` is an object of class {cls}, which an exported program cannot take: register the class "
                f"with torch.export.register_dataclass or torch.utils._pytree.register_pytree_node, or do not pass the "
                f"object: refer to it in the function, and it becomes part of the program"
            )
        kind = getattr(getattr(spec, "type", None), "name", None)
        if type(value) is int and kind in ("AUTO", "DYNAMIC"):
            leaf.given, leaf.number = spec, value not in (0, 1)
        elif type(value) is int and isinstance(spec, Dim):
            raise InvalidOptions(f"`{where}` is an int: use Dim.DYNAMIC or Dim.AUTO for it, not {_show(spec)}")
        elif spec is not None and kind != "STATIC" and not (type(value) is int and spec == value):
            raise InvalidOptions(
                f"`{where}` is {_show(value)}, which has no sizes, but dynamic_shapes says {_show(spec)} for it: "
                f"write None; it is a constant of the program"
            )
        return leaf

    # ---- one tensor -----------------------------------------------------------------------------

    def _tensor(self, where: str, tensor: torch.Tensor, spec: Any) -> Leaf:
        leaf = Leaf(where, tensor)
        rank = tensor.dim()
        if spec is None:
            return leaf
        if isinstance(spec, Mapping):
            rows = {self._index(leaf, key, rank): dim for key, dim in spec.items()}
        elif isinstance(spec, (tuple, list)):
            if len(spec) != rank:
                shape = tuple(tensor.shape)
                raise InvalidOptions(
                    f"`{where}` has {_count(rank, 'dimension')} (shape {shape}), "
                    f"but dynamic_shapes has {_count(len(spec), 'entry')} for it"
                )
            rows = dict(enumerate(spec))
        else:
            raise InvalidOptions(
                f"`{where}` is a tensor, but dynamic_shapes says {_show(spec)} for it: write a dict from dimension to "
                f"Dim, such as {{0: Dim('batch')}}, or a tuple with one entry for each dimension"
            )
        for dim, given in rows.items():
            self._dimension(leaf, dim, tensor.size(dim), given)
        hints = {dim: row.given for dim, row in leaf.dims.items()}
        leaf.given = hints or None
        return leaf

    @staticmethod
    def _index(leaf: Leaf, key: Any, rank: int) -> int:
        if type(key) is not int or not -rank <= key < rank:
            raise InvalidOptions(
                f"`{leaf.where}` has {_count(rank, 'dimension')}, but dynamic_shapes names dimension {key!r} of it"
            )
        return key % rank

    def _dimension(self, leaf: Leaf, dim: int, size: int, given: Any) -> None:
        kind = getattr(getattr(given, "type", None), "name", None)
        if given is None or kind == "STATIC":
            return
        if type(given) is int:
            if given != size:
                raise ConstraintViolation(f"{leaf.size(dim)} is {size}, but dynamic_shapes says {given}")
        elif kind is not None:
            self._hint(leaf, dim, size, given, kind == "DYNAMIC")
        elif isinstance(given, Dim):
            self._named(leaf, dim, size, given)
        else:
            raise InvalidOptions(f"{leaf.size(dim)}: {_show(given)} says nothing about a size; {ALLOWED}")

    def _hint(self, leaf: Leaf, dim: int, size: int, given: Any, strict: bool) -> None:
        leaf.dims[dim] = Wanted(given, given.min, given.max, strict, None, leaf, dim)
        self._check(leaf, dim, size, given.min, given.max, strict, "Dim.DYNAMIC" if strict else "Dim.AUTO")

    def _named(self, leaf: Leaf, dim: int, size: int, given: Any) -> None:
        root = getattr(given, "root", given)
        name = Linear(root.__name__, *_linear(given))
        bounds = _bound(root.min), _bound(root.max)
        known = self.dims.setdefault(name.root, bounds)
        if known != bounds:
            raise InvalidOptions(
                f"there are two Dims named {name.root!r} with different bounds: {show_dim(name.root, *known)} and "
                f"{show_dim(name.root, *bounds)}; make it once and use that object"
            )
        self._check(leaf, dim, size, _bound(given.min), _bound(given.max), True, f"Dim {str(name)!r}")
        value, rest = divmod(size - name.offset, name.scale)
        if rest:
            raise ConstraintViolation(f"{leaf.size(dim)} is {size}, which is not {name} for any {name.root}")
        before, where = self.values.setdefault(name.root, (value, leaf.size(dim)))
        if before != value:
            raise ConstraintViolation(
                f"Dim {name.root!r} stands for different sizes in the example arguments: {before} by {where}, "
                f"{value} by {leaf.size(dim)}; give the second one a Dim of its own"
            )
        leaf.dims[dim] = Wanted(given, _bound(given.min), _bound(given.max), True, name, leaf, dim)

    @staticmethod
    def _check(leaf: Leaf, dim: int, size: int, low: int | None, high: int | None, strict: bool, name: str) -> None:
        if (low is not None and size < low) or (high is not None and size > high):
            limits = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
            raise ConstraintViolation(f"{leaf.size(dim)} is {size} in the example, but {name} is {limits}")
        if strict and size < 2:
            raise ConstraintViolation(
                f"{leaf.size(dim)} is {size} in the example, but {name} says that it varies: sizes 0 and 1 are always "
                f"constants, as tensors of these sizes behave differently; use example arguments with at least 2 there"
            )


def show_dim(name: str, low: int | None, high: int | None) -> str:
    """A Dim as Python source."""
    parts = [repr(name)]
    parts += [f"min={low}"] if low is not None and low > 2 else []
    parts += [f"max={high}"] if high is not None else []
    return f"Dim({', '.join(parts)})"


def _linear(dim: Any) -> tuple[int, int]:
    """Scale and offset of a Dim in terms of its root."""
    function = getattr(dim, "fn", None)
    if function is None:
        return 1, 0
    offset = int(function(0))
    return int(function(1)) - offset, offset


def _bound(value: Any) -> int | None:
    """A bound of a Dim; the ones that torch puts there by itself are none."""
    try:
        number = int(value)
    except (TypeError, ValueError, AttributeError, OverflowError):  # torch's infinity
        return None
    return number if number > 0 else None


def _keys(row: Any, value: Any, count: int) -> list[Any]:
    """How people reach the parts of a container: keys whose text is `[0]`, `['name']` or `.name`."""
    if row.flatten_with_keys_fn is None:
        return [pytree.SequenceKey(i) for i in range(count)]
    return [key for key, _ in row.flatten_with_keys_fn(value)[0]]


def _name(key: Any) -> Any:
    """What a key is called in a dict of specifications."""
    return next((getattr(key, name) for name in ("key", "name", "idx") if hasattr(key, name)), str(key))


def _count(number: int, word: str) -> str:
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number} {word if number == 1 else plural}"


def _show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"{value!r:.80}"
