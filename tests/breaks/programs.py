"""Programs of every kind of statement, small enough to break them at each instruction in turn."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def program(*args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append((fn, args))
        return fn

    return register


X = torch.arange(6.0).reshape(2, 3)
Y = torch.ones(2, 3) * 0.5


@program(X, Y)
def straight(x: Any, y: Any) -> Any:
    a = x + y
    b = a * 2 - x
    return a, b.sum()


@program(X, Y)
def nested_expression(x: Any, y: Any) -> Any:
    return torch.stack([x + 1, torch.cat([y[:1], x[1:]]), max(x, y, key=lambda t: t.shape[0])], dim=len([1, 2]) - 2)


@program(X, 3)
def loop(x: Any, n: int) -> Any:
    for i in range(n):
        x = x + i
        if i == 1:
            continue
        x = x * 2
    else:
        x = x - 1
    return x


@program(X, [1.0, 2.0, 3.0])
def loop_over_list(x: Any, factors: list[float]) -> Any:
    out = []
    for i, factor in enumerate(factors):
        if factor > 2.5:
            break
        out.append(x * factor + i)
    return out


@program(X)
def while_loop(x: Any) -> Any:
    n = 0
    while n < 3:
        x = x.sin()
        n += 1
    return x, n


@program(X, Y)
def comprehension(x: Any, y: Any) -> Any:
    values = [t * k for k, t in enumerate((x, y)) if k >= 0]
    table = {k: v for k, v in zip("ab", values, strict=True)}
    return table, {n for n in range(3)}, sum(v.sum() for v in values)


@program(X)
def closure(x: Any) -> Any:
    total = 0
    scale = 2.0

    def add(t: Any) -> Any:
        nonlocal total
        total += 1
        return t * scale

    first = add(x)
    scale = 3.0
    second = add(x)
    return first, second, total, add


def helper(x: Any, *rest: Any, scale: float = 2.0, **options: Any) -> Any:
    y = x * scale
    for item in rest:
        y = y + item
    if options.get("neg"):
        return inner_helper(-y)
    return inner_helper(y)


def inner_helper(x: Any) -> Any:
    a = x + 1
    return a.relu() + x


@program(X, Y)
def calls(x: Any, y: Any) -> Any:
    return helper(x, y, 1, scale=0.5) + helper(*[y, x], **{"neg": True})


@program(X)
def handled(x: Any) -> Any:
    try:
        y = x + 1
        raise ValueError("no", 1)
    except ValueError as error:
        y = x * len(error.args)
        text = str(error)
    finally:
        x = x + 2
    return y, x, text


def thrower(x: Any) -> Any:
    y = x * 2
    if y.shape[0] == 2:
        raise KeyError("deep")
    return y


@program(X)
def handled_below(x: Any) -> Any:
    log = []
    try:
        try:
            x = x + 1
            thrower(x)
        except ValueError:
            log.append("wrong")
        finally:
            log.append("finally")
    except KeyError as error:
        log.append(repr(error))
        x = x - 3
    return x, log


@program(X)
def raises(x: Any) -> Any:
    y = x + 1
    try:
        thrower(y)
    except KeyError as error:
        raise RuntimeError("outer") from error
    return y


@program(X)
def chained(x: Any) -> Any:
    try:
        try:
            thrower(x)
        except KeyError:
            raise ValueError("second")
    except ValueError as error:
        return x + 1, repr(error.__context__), repr(error)


class Manager:
    def __init__(self, swallow: bool) -> None:
        self.swallow = swallow
        self.log: list[str] = []

    def __enter__(self) -> Manager:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.log.append(f"exit {kind and kind.__name__}")
        return self.swallow


@program(X)
def managed(x: Any) -> Any:
    with Manager(True) as outer, Manager(False) as inner:
        x = x + 1
        thrower(x)
    with Manager(False) as last:
        x = x * 2
    return x, outer.log, inner.log, last.log


@contextlib.contextmanager
def scope(log: list[str]) -> Iterator[int]:
    log.append("in")
    try:
        yield 5
    finally:
        log.append("out")


@program(X)
def managed_by_generator(x: Any) -> Any:
    log: list[str] = []
    with scope(log) as value:
        x = x * value
    return x, log


@program(X)
def without_grad(x: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a = x * w
        inside = torch.is_grad_enabled()
    b = x * w
    return a, b.requires_grad, inside, torch.is_grad_enabled()


class Point:
    count = 0

    def __init__(self, x: Any, y: Any) -> None:
        self.x = x
        self.y = y

    @property
    def total(self) -> Any:
        return self.x + self.y

    def scaled(self, k: float) -> Point:
        return type(self)(self.x * k, self.y * k)

    def __add__(self, other: Point) -> Point:
        return Point(self.x + other.x, self.y + other.y)


class Derived(Point):
    def scaled(self, k: float) -> Point:
        made = super().scaled(k + 1)
        made.x = made.x + 1
        return made


@program(X, Y)
def objects(x: Any, y: Any) -> Any:
    p = Derived(x, y)
    q = p.scaled(2.0) + p
    q.name = "q"
    del q.name
    return q.total, p.total, hasattr(q, "name")


def numbers(x: Any, n: int) -> Iterator[Any]:
    for i in range(n):
        got = yield x * i
        if got is not None:
            x = x + got


@program(X)
def generator(x: Any) -> Any:
    made = numbers(x, 4)
    first = next(made)
    second = made.send(1.0)
    return first, second, list(made)


@program(X)
def delegating(x: Any) -> Any:
    def outer() -> Iterator[Any]:
        result = yield from numbers(x, 2)
        yield result

    return list(outer()), sum(t.sum() for t in numbers(x, 3))


@program(X)
def unpacking(x: Any) -> Any:
    a, (b, *rest) = 1, [x, 2, 3, 4]
    first, second = x
    *head, tail = (x, a, b)
    return a, b, rest, first, second, head, tail


@program(X, {"k": [1, 2]})
def items(x: Any, d: dict[str, Any]) -> Any:
    d["new"] = x + 1
    d["k"][0] += 5
    value = d.pop("k")
    del value[1]
    d.setdefault("z", []).append(x)
    return d, value, "new" in d, x[0, 1:], x[..., None].shape


@program(X, ("point", 2, 3))
def matching(x: Any, command: Any) -> Any:
    match command:
        case ("point", int(a), b) if b > 5:
            return x
        case ("point", a, *others):
            result = x * a + others[0]
        case {"k": v}:
            result = v
        case _:
            result = None
    match {"k": 7, "other": 1}:
        case {"k": v, **others}:
            result = result + v + len(others)
    return result


@program(X)
def formatting(x: Any) -> Any:
    name, width = "ab", 6
    print(f"{name!r:>{width}} {x.shape[0]:03d}", "end")
    return f"{width}", "%s-%d" % (name, width), x


class Registering(type):
    def __call__(cls, x: Any, *rest: Any, **options: Any) -> Any:
        made = super().__call__(x * 2, *rest, **options)
        made.label = f"{cls.__name__} {len(rest)}"
        return made


class Registered(metaclass=Registering):
    label = ""

    def __init__(self, x: Any, scale: float = 1.0) -> None:
        self.x = x * scale


@program(X)
def made_by_a_metaclass(x: Any) -> Any:
    made = [Registered(x + 1, 3.0), Registered(x, scale=0.5)]
    return [(one.x.sin(), one.label) for one in made]


@program(X)
def class_inside(x: Any) -> Any:
    scale = 3

    class Local:
        factor = scale

        def apply(self, t: Any) -> Any:
            return t * self.factor

    made = Local()
    return made.apply(x), [Local().apply(x).sum() for _ in range(2)]


@program(X)
def boolean_logic(x: Any) -> Any:
    n = x.shape[0]
    a = n and n > 1 or None
    b = not a
    assert n == 2, "size"
    c = x if n else -x
    return a, b, c, 1 < n < 3, n is not None


@program(X)
def lambdas(x: Any) -> Any:
    add = lambda t, k=1: t + k  # noqa: E731
    part = functools.partial(add, k=5)
    return part(x), list(map(add, [x])), functools.reduce(lambda s, t: s + t, [x, x, x])


@program(X)
def in_place(x: Any) -> Any:
    y = x.clone()
    y += 1
    y[0] = 7
    y.mul_(2)
    x.add_(1)
    return y, x


@program(X, 4)
def recursion(x: Any, n: int) -> Any:
    if n == 0:
        return x
    return recursion(x + n, n - 1) * 2


@program(X)
def group(x: Any) -> Any:
    seen = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError as group:
        seen.append(len(group.exceptions))
        x = x + 1
    except* (KeyError, TypeError) as group:
        seen.append(len(group.exceptions))
        x = x * 2
    return x, seen


GLOBAL = 1


@program(X)
def globals_and_imports(x: Any) -> Any:
    global GLOBAL
    import math
    from collections import OrderedDict

    before = GLOBAL
    GLOBAL = before + 1
    table = OrderedDict(a=x * math.pi)
    GLOBAL = before
    return table, before


@program(X)
def local_names(x: Any) -> Any:
    a, b = 1, 2
    del b
    names = sorted(locals())
    return names, x + a
