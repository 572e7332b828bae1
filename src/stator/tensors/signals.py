"""Typed reasons why a tensor operation cannot be recorded; each one is an `Unsupported` with its break id."""

from __future__ import annotations

from typing import Any

from stator.errors import Unsupported


def describe(func: Any) -> str:
    """A readable name of a torch function, method or attribute."""
    owner = getattr(func, "__self__", None)
    name = getattr(func, "__name__", None) or str(func)
    if name in ("__get__", "__set__") and owner is not None:
        return f"Tensor.{getattr(owner, '__name__', '?')}"
    if getattr(func, "__objclass__", None) is not None or "Tensor." in getattr(func, "__qualname__", ""):
        return f"Tensor.{name}"
    module = getattr(func, "__module__", None) or "torch"
    return f"{module}.{name}".replace("torch._C._nn.", "torch.nn.functional.").replace("_VariableFunctionsClass.", "")


class TensorSignal(Unsupported):
    """Base of everything that recording can refuse."""

    break_id = "tensor-operation"

    def __init__(self, what: str, detail: str = "", break_id: str | None = None) -> None:
        super().__init__(break_id or type(self).break_id, detail, fields={"function": what, "type": what})
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.detail, self.break_id)


class UnsupportedOp(TensorSignal):
    """This operation is not recorded (yet)."""


class UnsupportedTensor(TensorSignal):
    """A tensor of a kind that has no stand-in."""

    break_id = "tensor-subclass"


class UnsupportedState(TensorSignal):
    """A torch mode or setting under which recording would see other operations than eager."""

    break_id = "tensor-mode"


class DataDependent(TensorSignal):
    """The result depends on the data of a tensor, which does not exist while capturing."""

    break_id = "data-dependent-value"

    def __init__(self, op: str, detail: str = "", break_id: str | None = None) -> None:
        super().__init__(op, detail, break_id)
        self.op = op


class HiddenNumber(DataDependent):
    """The operation reads a number out of a tensor argument, which its result does not show."""


class OpFailed(TensorSignal):
    """The operation raised; eager has to run it to raise the error in its own words."""

    kind = "operation that fails"

    def __init__(self, original: BaseException, what: str = "the operation") -> None:
        first = str(original).partition("\n")[0]  # torch's own stack follows
        super().__init__(what, f"{what} raised {type(original).__name__}: {first}")
        self.fields["type"] = self.kind
        self.original = original
        self.__cause__ = original

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.original, self.what)


class NumberFromData(OpFailed):
    """The operation takes a plain number or bool where the program gives it one that only data tells."""

    kind = "number from data"


class NotLeaf(TensorSignal):
    """This Python function does more than run operations on its arguments: interpret its body instead."""

    def __init__(self, func: Any, why: str) -> None:
        super().__init__(describe(func), f"its body has to be interpreted: {why}")
        self.func = func
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.func, self.why)


class OutsideAttribute(TensorSignal):
    """The attribute lives on the real tensor outside: read or write it by its path, not in the graph."""

    break_id = "tensor-metadata"

    def __init__(self, tensor: Any, name: str) -> None:
        super().__init__(f"Tensor.{name}", f"attribute {name!r} belongs to a tensor from outside")
        self.tensor = tensor
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tensor, self.name)
