"""The captured program as a module with the parameters and buffers of the original one, for torch to trace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from stator.errors import InvalidArgument
from stator.exporting.capture import Captured
from stator.exporting.dims import PRIMITIVES, Wanted
from stator.exporting.outside import refusal
from stator.exporting.run import run
from stator.guards.path import ARG, Path
from stator.guards.relation import INT

Getter = Callable[[list[Any], list[Any]], Any]  # (leaves, values of the call) -> a load of the entry function


def mirror(module: nn.Module, known: dict[int, nn.Module] | None = None) -> nn.Module:
    """A module with the same parameters, buffers and submodules under the same names, and nothing else."""
    known = {} if known is None else known
    if id(module) in known:
        return known[id(module)]
    made = known[id(module)] = nn.Module()
    made.training = module.training
    made._parameters.update(module._parameters)
    made._buffers.update(module._buffers)
    made._non_persistent_buffers_set.update(module._non_persistent_buffers_set)
    for name, child in module._modules.items():
        made._modules[name] = None if child is None else mirror(child, known)
    return made


class Program:
    """Finds everything that the captured program needs in a module and in the arguments of a call."""

    def __init__(
        self, captured: Captured, root: nn.Module | None, signature: inspect.Signature, relations: list[list[Wanted]]
    ) -> None:
        self.captured = captured
        self.relations = relations  # sizes that belong together, for torch to be told
        self.root = root
        call = captured.call
        leaves = pytree.tree_leaves((call.args, call.kwargs))
        self.leaves = {id(leaf): i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
        self.members = {} if root is None else named_members(root)
        self.constants = {} if root is None else named_constants(root)
        self.module = make_module(root, signature, self.forward)
        self.assigned: list[tuple[str, Any]] = []
        self.traced: dict[int, Any] = {}  # by id of a tensor of the example: what torch traced it as
        captured.hooks.assign = lambda name, value: self.assigned.append((name, value))
        captured.hooks.run = functools.partial(run, captured.graph)
        self.check_mutated()
        self.loads = [self.getter(path) for path in captured.entry.loads]
        self.operands = {
            operand: self.getter(operand.path)
            for condition in captured.conditions
            for operand in condition.sources.values()
        }

    def value(self, path: Path) -> Any:
        return path.load(self.captured.call.values)

    def check_mutated(self) -> None:
        """Tensors that change are arguments or buffers."""
        for path, place in self.captured.mutated:
            tensor = self.value(path)
            if id(tensor) not in self.leaves and id(tensor) not in self.members:
                raise refusal(
                    f"it writes to the tensor `{self.captured.describe(path)}`, which is neither an argument nor a "
                    f"buffer: an exported program would have a copy of its own; make it a buffer with register_buffer",
                    place,
                )

    # ---- where things come from -----------------------------------------------------------------

    def getter(self, path: Path) -> Getter:
        """How a call finds what the captured program reads at a path."""
        value = self.value(path)
        if isinstance(value, torch.Tensor):
            if id(value) in self.leaves:
                index = self.leaves[id(value)]
                return lambda leaves, values: leaves[index]
            return self.member(self.members.get(id(value)) or self.add(value, path))
        if path.chain()[0].accessor is ARG:
            return lambda leaves, values: path.load(values)
        return lambda leaves, values: value

    def member(self, name: str) -> Getter:
        owner, _, last = name.rpartition(".")
        keep = name in self.captured.kept

        def get(leaves: list[Any], values: list[Any]) -> Any:
            found = getattr(self.module.get_submodule(owner), last)
            return found.clone() if keep else found

        return get

    def add(self, tensor: torch.Tensor, path: Path) -> str:
        """A tensor from elsewhere becomes a member: a constant, or a parameter if it is one."""
        known = self.constants.get(id(tensor))
        name = known or self.free_name(path)
        owner, _, last = name.rpartition(".")
        module = submodule(self.module, owner)
        if isinstance(tensor, nn.Parameter):
            module.register_parameter(last, tensor)
        else:
            setattr(module, last, tensor)
        self.members[id(tensor)] = name
        return name

    def free_name(self, path: Path) -> str:
        """A name for a tensor that is reached by a path, after the names on the way that people know."""
        value, names = self.outer_module(path)
        if value is not None:
            return ".".join(names)
        base = "".join(c if c.isalnum() else "_" for c in self.captured.describe(path)).strip("_") or "tensor"
        taken = set(self.members.values())
        name, number = base, 0
        while name in taken or hasattr(self.module, name):
            number += 1
            name = f"{base}_{number}"
        return name

    def outer_module(self, path: Path) -> tuple[nn.Module | None, list[str]]:
        """The outermost module on the way, and the names from there."""
        steps = path.chain()
        for i, step in enumerate(steps[:-1]):
            value = self.value(step)
            if isinstance(value, nn.Module):
                rest = [str(s.key) for s in steps[i + 1 :] if s.key not in MEMBERS and type(s.key) in (str, int)]
                first = "".join(c if c.isalnum() else "_" for c in self.captured.describe(step)).strip("_")
                return value, [first, *rest]
        return None, []

    # ---- running --------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The captured program on arguments of the same structure."""
        call = self.captured.call
        kwargs = {name: kwargs[name] for name in call.kwargs}
        leaves = pytree.tree_leaves((args, kwargs))
        values = [*args, *kwargs.values()]
        self.traced = {known: leaves[i] for known, i in self.leaves.items()}
        self.check_conditions(leaves, values)
        self.assigned.clear()
        result = self.captured.entry.function(*[load(leaves, values) for load in self.loads])
        for name, value in self.assigned:
            owner, _, last = name.rpartition(".")
            value = value.detach() if value.requires_grad else value
            getattr(self.module.get_submodule(owner), last).copy_(value)
        self.assigned.clear()
        check_result(result)
        return result

    def check_conditions(self, leaves: list[Any], values: list[Any]) -> None:
        """What was found out about sizes, for torch to know too: it holds for the example, and must for any call."""

        def read(operand: Any) -> Any:
            found = self.operands[operand](leaves, values)
            return found if operand.kind == INT else found.size(operand.index)

        for condition in self.captured.conditions:
            torch._check(condition.holds(read))
        for rows in self.relations:
            self.check_related([(row.name, leaves[self.leaves[id(row.leaf.value)]].size(row.dim)) for row in rows])

    @staticmethod
    def check_related(rows: list[tuple[Any, Any]]) -> None:
        """Sizes with names that are derived from one Dim agree with it."""
        said, other = rows[0]
        for name, size in rows:
            torch._check((size - name.offset) % name.scale == 0)
            torch._check((size - name.offset) * said.scale == (other - said.offset) * name.scale)


def check_result(result: Any) -> None:
    """Says which part of the result cannot be one of an exported program."""
    for keys, part in pytree.tree_flatten_with_path(result)[0]:
        if not isinstance(part, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, *PRIMITIVES)):
            where = f"`result{pytree.keystr(keys)}`" if keys else "the result"
            raise InvalidArgument(
                f"{where} is an object of class {type(part).__qualname__}, which an exported program cannot return: "
                f"register the class with torch.utils._pytree.register_pytree_node, or if it is a dataclass with "
                f"torch.export.register_dataclass, or return its parts"
            )


MEMBERS = frozenset({"_parameters", "_buffers", "_modules"})


def make_module(root: nn.Module | None, signature: inspect.Signature, run: Callable[..., Any]) -> nn.Module:
    """A module with the signature of the original and the members of `root`, whose forward is `run`."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    rest = [row.replace(name=f"{row.name}_") if row.name == "self" else row for row in signature.parameters.values()]
    vars(forward)["__signature__"] = inspect.Signature([first, *rest])
    kind = type(root) if root is not None else nn.Module
    names = {"forward": forward, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made = type(kind.__name__, (nn.Module,), names)()
    if root is not None:
        copy = mirror(root)
        for name in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules", "training"):
            made.__dict__[name] = copy.__dict__[name]
    return made


def named_members(root: nn.Module) -> dict[int, str]:
    """Names of parameters and buffers, by id; the first one of a shared tensor."""
    found: dict[int, str] = {}
    for name, tensor in (*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False)):
        found.setdefault(id(tensor), name)
    return found


def named_constants(root: nn.Module) -> dict[int, str]:
    """Names of tensors that are plain attributes of modules, by id."""
    found: dict[int, str] = {}
    for name, module in root.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                found.setdefault(id(value), f"{name}.{key}" if name else key)
    return found


def submodule(module: nn.Module, name: str) -> nn.Module:
    """The submodule of that name, made if need be."""
    for part in name.split(".") if name else ():
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    return module
