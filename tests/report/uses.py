"""Small functions, each of which uses `x.item()` in another way. Not a test module: asserts stay asserts."""

import torch


def if_(x):
    if x.item():
        return 1


def if_not(x):
    if not x.item() > 3:
        return 1


def through_a_variable(x):
    n = x.item()
    y = x + 1
    if n > 3:
        return y


def through_a_cell(x):
    n = x.item()
    if n > 3:
        return lambda: n


def while_(x):
    while x.item() > 3:
        x = x - 1


def assert_(x):
    assert x.item(), "message"


def ternary(x):
    return x if x.item() else -x


def and_(x):
    return x.item() and x


def or_(x):
    return x.item() or x


def comprehension(x):
    return [v for v in (1, 2) if x.item()]


def call(x):
    return torch.full((3,), x.item())


def call_in_a_tuple(x):
    return torch.zeros((3, x.item()), dtype=x.dtype)


def call_of_a_conversion(x):
    return torch.zeros(int(max(x.item(), 1)))


def call_by_name(x):
    return torch.zeros(size=x.item())


def star_call(x, xs):
    return torch.zeros(x.item(), *xs)


def range_(x):
    for i in range(x.item()):
        x = x + i
    return x


def print_(x):
    print(x.item())


def text(x):
    return f"loss {x.item():.2f}"


def slice_(x):
    return x[: x.item()]


def slice_in_a_tuple(x):
    return x[..., 1 : x.item()]


def index(x):
    return x[x.item()]


def store_at_index(x, y):
    y[x.item()] = 1


def item(x, y):
    y["loss"] = x.item()


def attribute(x, y):
    y.loss = x.item()


def method(x):
    return x.item().bit_length()


def arithmetic(x):
    return x * (x.item() + 1)


def unused_variable(x):
    n = x.item()


def unused(x):
    x.item()


def returned(x):
    return x.item()


def yielded(x):
    yield x.item()


def for_(x):
    for value in x.item():
        pass


def unpacking(x):
    a, b = x.item()


def walrus(x):
    if (n := x.item()) > 3:
        return n


def chained(x):
    if 0 < x.item() < 3:
        return x


def append(x):
    return [x.item() for _ in (1, 2)]


def case(x):
    match x.item():
        case 3:
            return 1


def case_guard(x):
    match x.ndim:
        case 1 if x.item():
            return 1
