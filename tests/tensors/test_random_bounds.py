"""Numbers drawn in place between two bounds: the lower one is named `from`, which no source code can say."""

import torch

from tests.harness import check


def test_bounds():
    def draw(x):
        whole = x.new_empty(4, 3).random_(-2, 7)
        whole.t().random_(1, 9)
        x[::2].random_(0, 5)
        return whole, torch.empty(6, dtype=torch.uint8).random_(3, to=200), torch.zeros(3).uniform_(0.5, 2)

    for backend in ("eager", "aot_eager"):
        check(draw, torch.zeros(4, 3), backend=backend)


def test_named_bounds():
    def draw(x):
        x.uniform_(**{"from": 0.5, "to": 2.0})
        return x * 2, x.new_zeros(5).random_(**{"from": 2, "to": 9})

    for backend in ("eager", "aot_eager"):
        check(draw, torch.zeros(4, 3), backend=backend)


def test_lower_bound_alone():
    def draw(x):
        return x.long().random_(5, None)

    check(draw, torch.zeros(4))
    check(draw, torch.zeros(4), backend="aot_eager", fullgraph=False, expect_breaks=None)


def test_bounds_the_wrong_way_round():
    check(lambda x: x.clone().random_(5, 2), torch.zeros(4), fullgraph=False, expect_breaks=None, backend="aot_eager")
