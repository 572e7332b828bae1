"""Programs that check data; not in a test module, where pytest rewrites `assert`."""

import torch

import stator


def asserting(x):
    print("before", x.shape)
    assert (x > 0).all(), f"not positive: {x.shape}"
    y = x * 2
    if torch.isnan(y).any():
        message = f"nan in {y.shape}"
        raise ValueError(message)
    return y


def number(x):
    if x.clamp(max=0).sum():
        raise ValueError("negative")
    return x.sqrt()


def handled(x):
    try:
        if (x < 0).any():
            raise ValueError("negative")
    except ValueError:
        return x - 1
    return x + 1


def with_effects(x, seen):
    seen.append(x.shape)
    noise = torch.rand(4)
    assert x.min() > 0
    seen.append(noise)
    return x + noise


def behind_a_break(x):
    y = x + 1
    stator.graph_break()
    assert (x > 0).all()
    return y * 2


def writing(x, y):
    y.add_(1)
    assert (x > 0).all()
    return x + y


def trained(x, weights, rates):
    """Checks, then an update of everything."""
    p = x.softmax(0)
    if not torch.isfinite(p).all():
        raise ValueError("not finite")
    for one, rate in zip(weights, rates, strict=True):
        one.mul_(rate).add_(p.sum())
    assert (p >= 0).all()
    return p
