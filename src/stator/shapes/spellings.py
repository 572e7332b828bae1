"""Other spellings of calls that take numbers: deprecated overloads, the first argument by name, a number in front."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from stator.shapes.random_ops import NORMAL

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def plain_spelling(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The same call as the tables of forms know it."""
    if not args and "input" in kwargs:
        args, kwargs = (kwargs["input"],), {name: value for name, value in kwargs.items() if name != "input"}
    row = SPELLINGS.get(func)
    return (row and row(func, args, kwargs)) or (func, args, kwargs)


def _is_tensor(value: Any) -> bool:
    return issubclass(type(value), torch.Tensor)


def _kinds(args: tuple[Any, ...]) -> str:
    """One letter for each argument: a tensor or a number."""
    return "".join("t" if _is_tensor(arg) else "n" for arg in args)


def _scaled(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`x.add_(alpha, y)`."""
    if kwargs or _kinds(args) != "tnt":
        return _in_front(func, args, kwargs)
    return func, (args[0], args[2]), {"alpha": args[1]}


def _valued(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`x.addcmul_(value, y, z)`."""
    return None if kwargs or _kinds(args) != "tntt" else (func, (args[0], *args[2:]), {"value": args[1]})


def _combined(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`x.addmm(beta, alpha, y, z)`, `torch.addmm(beta, x, alpha, y, z)`, and the same without alpha."""
    places = _COMBINED.get(_kinds(args))
    if kwargs or places is None:
        return None
    named: dict[str, Any] = {name: args[places[name]] for name in ("beta", "alpha") if name in places}
    return func, (args[places["self"]], *args[-2:]), named


_COMBINED: dict[str, dict[str, int]] = {
    "tntt": {"self": 0, "beta": 1},
    "tnntt": {"self": 0, "beta": 1, "alpha": 2},
    "nttt": {"beta": 0, "self": 1},
    "ntntt": {"beta": 0, "self": 1, "alpha": 2},
}


def _in_front(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`torch.mul(number, x)` is `number * x`."""
    sign = SIGNS.get(func)
    return None if kwargs or sign is None or _kinds(args) != "nt" else (sign, args, {})


SIGNS: dict[Any, Any] = {
    torch.add: operator.add, torch.sub: operator.sub, torch.subtract: operator.sub, torch.mul: operator.mul,
    torch.multiply: operator.mul,
    torch.remainder: operator.mod, torch.floor_divide: operator.floordiv,
}  # fmt: skip


def _where(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`x.where(condition, other)`."""
    return (torch.where, (args[1], args[0], args[2]), {}) if len(args) == 3 and not kwargs else None


def _bounded(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`x.uniform_(to=number)`."""
    if len(args) != 1 or kwargs.keys() != {"to"}:
        return None
    return func, (*args, 0.0, kwargs["to"]), {}


def _drawn(func: Any, args: Any, kwargs: Any) -> Call | None:
    """`torch.normal` of a tensor and a number."""
    kinds = _kinds(given := (*args, *kwargs.values()))
    if len(given) != 2 or kinds not in ("tn", "nt") or [*kwargs] not in ([], ["std"], ["mean", "std"]):
        return None
    if not given[kinds.index("t")]._meta.size:
        return None
    return NORMAL["std" if kinds == "tn" else "mean"].function, given, {}


SPELLINGS: dict[Any, Callable[[Any, Any, Any], Call | None]] = {
    **dict.fromkeys(SIGNS, _in_front),
    torch.Tensor.where: _where,
    torch.Tensor.uniform_: _bounded,
    torch.normal: _drawn,
}
for _row, _names in (
    (_scaled, ("add", "sub")),
    (_valued, ("addcmul", "addcdiv")),
    (_combined, ("addmm", "addmv", "addr", "baddbmm", "addbmm")),
):
    for _name in _names:
        for _call in (
            getattr(torch, _name),
            getattr(torch.Tensor, _name),
            getattr(torch.Tensor, f"{_name}_"),
            getattr(torch, f"{_name}_", None),
        ):
            if _call is not None:
                SPELLINGS[_call] = _row
