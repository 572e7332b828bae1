"""Python's arithmetic on numbers from data: no break where no branch needs the value."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F

import stator
from stator.report.events import recording
from tests.harness import check

tensor = torch.tensor
TEN = torch.arange(10.0)


def extremes(x, t):
    mean = x.mean().item()
    return max(mean, 5.0) * x, min(mean, 0.5, 1.0), x.clamp(min=max(mean, 1.0)), max(t.tolist() if t.dim() else [1, 2])


def quotients(x, t):
    mean, n = (x.mean() + t).item(), t.item()
    return x * (1.0 / mean), x / n, math.sqrt(mean) * x, math.sqrt(n), round(mean, 1), float(n) * x, 1.0 / mean


def whole(x, t):
    n = t.item()
    return abs(n - 5), torch.zeros(abs(n - 5)), divmod(n, 2), n << 2, n >> 1, n & 3, ~n, x[: int(n * 0.5)], x[n // 2 :]


def parts(x, t):
    n = t.item()
    first, second = x[: n + 2].chunk(2)
    return first.sum(), second * 2, x.split([n, 10 - n]), x.narrow(0, n, 2), x.tensor_split([n, n + 2])


def longest(x, t):
    lengths = torch.stack([t, t + 2, t + 1]).tolist()
    return max(lengths), min(lengths), torch.zeros(max(lengths))


@pytest.mark.parametrize("program", [extremes, quotients, whole, parts, longest])
def test_no_break(program) -> None:
    compiled = stator.compile(program, backend="eager")
    with recording("break", "skip", "recompile", "error") as seen:
        for n in (4, 1, 6):
            made, expected = compiled(TEN, tensor(n)), program(TEN, tensor(n))
            check_equal(made, expected)
    assert not seen


def check_equal(made, expected) -> None:
    assert type(made) is type(expected)
    if isinstance(made, torch.Tensor):
        assert torch.equal(made, expected)
        assert made.stride() == expected.stride()
    elif isinstance(made, (list, tuple)):
        for one, other in zip(made, expected, strict=True):
            check_equal(one, other)
    else:
        assert made == expected


def test_what_python_cannot_calculate_raises_as_it_does() -> None:
    def inverse(x):
        return x * (1.0 / x.sum().item())

    def root(x):
        return x * math.sqrt(x.sum().item())

    check(inverse, TEN)
    check(inverse, TEN - 4.5)  # zero
    check(root, TEN)
    check(root, -TEN)


def test_layout_of_a_convolution() -> None:
    """The batch is only known to data; the weights decide how the result lies in memory."""
    images = torch.arange(4 * 3 * 6 * 6.0).reshape(4, 3, 6, 6)
    weight = torch.ones(5, 3, 3, 3).to(memory_format=torch.channels_last)

    def strides(mask):
        return torch.nn.functional.conv2d(images[mask], weight)

    compiled = stator.compile(strides, backend="aot_eager")
    for mask in (tensor([True, False, True, True]), tensor([True, True, False, False])):
        made, expected = compiled(mask), strides(mask)
        assert torch.allclose(made, expected)
        assert made.stride() == expected.stride()


BLOCK = torch.arange(60.0).reshape(5, 3, 4)
LAYOUTS = {
    "zeros": lambda n: torch.zeros(3, n),
    "transposed": lambda n: torch.zeros(3, n).t() + 1,
    "column": lambda n: torch.zeros(3, n).unsqueeze(-1) * 2,
    "slices": lambda n: BLOCK[:, :n].clone(),
    "permuted": lambda n: BLOCK[:n].permute(2, 0, 1) * 2,
    "positions": lambda n: torch.nonzero(torch.ones(n, 2)),
    "mask": lambda n: BLOCK[torch.arange(5) < n],
    "expanded": lambda n: torch.ones(1, 3).expand(n, 3),
}


@pytest.mark.parametrize("made", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_layouts_of_sizes_from_data(made) -> None:
    def program(t):
        result = made(t.item())
        return result, result.stride(), result.is_contiguous(), result.storage_offset()

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for n in (5, 2, 1, 0):
        check_equal(compiled(tensor(n)), program(tensor(n)))


def test_a_list_of_a_length_that_changes():
    """Splitting by lengths: how many there are is a constant, also once other sizes have changed."""

    def program(x, places):
        return [part.sum() for part in x.split((places[1:] - places[:-1]).tolist())]

    calls = [(9, [0, 3, 9]), (1, [0, 1, 1]), (7, [0, 0, 7]), (7, [0, 2, 4, 7])]
    vary = [(torch.arange(float(size)), tensor(places)) for size, places in calls]
    check(program, vary=vary, expect_recompiles=2)


def test_parts_of_a_multiple():
    """Rows of several tensors of one length, put together and taken apart again."""

    def program(x, mask):
        rows = x[mask]
        together = torch.cat([rows, rows + 1, rows * 2])
        first, second, third = together.split(rows.shape[0])
        return first - second, third, [part.sum() for part in together.split(len(rows), 0)]

    masks = ([1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 1, 1])
    vary = [(torch.arange(8.0).view(4, 2), tensor(mask).bool()) for mask in masks]
    check(program, vary=vary)
    check(program, vary=[*vary, (torch.ones(4, 2), tensor([0, 0, 0, 0]).bool())])  # raises: there is one part


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_as_many_classes_as_there_are(backend):
    def program(labels):
        return F.one_hot(labels), F.one_hot(labels, num_classes=-1).sum(0), F.one_hot(labels, 9)

    vary = [tensor([3, 1, 2]), tensor([0, 0, 0]), tensor([5, 5, 7]), tensor([1, -2, 1])]
    check(program, vary=vary, backend=backend, expect_recompiles=None)


def test_one_head_for_many():
    """What torch makes of one head that is repeated has a layout that Inductor cannot choose."""

    def program(x, n):
        part = x[:, :, :n]
        return part.repeat_interleave(3, 1), torch.repeat_interleave(part, 2, dim=-3), part.repeat_interleave(2, 2)

    x = torch.arange(24.0).view(2, 1, 4, 3)
    check(program, vary=[(x, tensor(n)) for n in (2, 4, 0, 1)], backend="aot_eager")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_quotients_of_sizes_as_tensors(backend):
    """`torch.div` of two ints is a tensor; used as a size it is the quotient of sizes."""

    def program(x):
        rows, length, _ = x.shape
        chunks = torch.div(length, 4, rounding_mode="trunc")
        more = torch.div(length, 2, rounding_mode="floor") - 1
        return x.view(rows, chunks, 4, -1).sum(2), x.new_zeros(rows, more), chunks, torch.div(length, 2)

    calls = [(torch.randn(b, s, 3),) for b, s in ((2, 8), (3, 8), (3, 16), (4, 24), (2, 40))]
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=2, backend=backend)
    assert report.gained("frames_captured") == 2


def test_a_condition_is_one_of_the_two_bools():
    def program(x):
        first, second, two = bool(x[0] > 0), x[1].item() > 0, len(x)
        asked = first is True, first is not True, False is first, first is second, first is None
        return asked, operator.is_(first, False), operator.is_not(second, False), int((x > 0).sum()) is two, x

    check(program, vary=[(torch.tensor(v),) for v in ([1.0, 2.0], [-1.0, 2.0], [1.0, -2.0], [-1.0, -2.0])])


def test_a_branch_on_which_bool_a_condition_is():
    def program(x):
        match bool(x[0] > 0):
            case True:
                y = x + 1
            case False:
                y = x - 1
        return y if bool(x[1] > 0) is True else -y, id(bool(x[1] > 0)) == id(False)

    rows = [(torch.tensor(v),) for v in ([1.0, 2.0], [-1.0, 2.0], [-1.0, -2.0])]
    check(program, vary=rows, fullgraph=False, expect_breaks=None, expect_recompiles=None)


@pytest.mark.parametrize("dims", [(), (0,), (-2,), ((0, 1),)])
def test_whether_a_size_from_data_is_squeezed_away(dims):
    def program(x):
        rows = (x > 0).nonzero()
        return rows.squeeze(*dims).dim(), torch.squeeze(rows, *dims).shape, x[x > 0].squeeze().dim()

    check(program, vary=[(tensor(v),) for v in ([1, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 1])])


def test_numbers_from_data_in_a_fraction():
    def program(x):
        n = int((x > 0).sum())
        return Fraction(n, 3), x * 2

    check(program, vary=[(tensor(v),) for v in ([1, 0, 1], [1, 0, 0], [1, 1, 1])])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_line_of_as_many_steps_as_data_says(backend):
    def program(x):
        return torch.linspace(-1.0, 2.0, len(x[x > 0]))

    check(program, vary=[(tensor(v),) for v in ([1, 0, 1], [1, 0, 0], [1, 1, 1])], backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "extreme",
    [
        lambda k: k.max(),
        lambda k: torch.min(k, 0),
        lambda k: k.argmin(),
        lambda k: k.amax(dim=(0,)),
        lambda k: torch.aminmax(k, dim=0),
        lambda k: k.kthvalue(1),
        lambda k: torch.max(k, k + 1),
    ],
)
def test_there_is_no_extreme_of_nothing(extreme, backend):
    def program(x, used):
        found = extreme(x[x > 5])
        return found if used else x * 2

    calls = [(torch.arange(float(n)), used) for n in (9, 3, 8) for used in (True, False)]
    check(program, vary=calls, expect_recompiles=None, backend=backend)


def test_assertions_stand_where_their_numbers_are_made():
    """What comes later says that an index is not negative: a compiler must know it when it traces the index."""

    def program(scores, kept):
        best = scores[kept].argmax()
        found = kept[best]
        return found.item(), torch.cat([kept[:best], kept[best + 1 :]])

    graphs = []

    def backend(graph, inputs):
        graphs.append([node.name.partition("_")[0] for node in graph.graph.nodes])
        return graph.forward

    calls = [(torch.tensor(scores), torch.arange(3)) for scores in ([1.0, 3, 2], [4.0, 3, 2], [1.0, 3, 5])]
    check(program, vary=calls, backend=backend, expect_graphs=1, expect_breaks=0)
    assert max(i for i, name in enumerate(graphs[0]) if name == "assert") < graphs[0].index("select")


def test_long_sums_are_results():
    """More terms than Python's parser takes parentheses in one another."""

    def program(t):
        total = 0
        for i in range(250):
            total = total + t[i].item()
        return total

    check(program, vary=[(torch.arange(250),), (torch.arange(250) % 5,)], expect_graphs=1, expect_breaks=0)


def test_long_products_and_remainders_are_numbers_of_their_own():
    """Written out, the product has 2 ** 40 terms, and each remainder all those before it; large ones are Python's."""

    def program(t):
        product, rest, largest = 1, 1, 0
        for i in range(40):
            n = t[i].item()
            product = product * (n + 1)
            rest = rest * 2 % 7 + n * i
            largest = max(largest + 1, n) // 2
        return product, rest, largest

    calls = [(torch.arange(40) % 2,), (torch.arange(40) % 3 - 2,), (torch.arange(40) + 9,)]
    check(program, vary=calls, expect_breaks=0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.float16, torch.bfloat16], ids=str)
def test_sizes_in_tensors_of_few_bits(dtype):
    def program(x):
        n = x.size(0)
        return torch.tensor(n // 2, dtype=dtype), torch.tensor([n, 3], dtype=dtype), x.new_tensor(n, dtype=dtype)

    check(program, vary=[(torch.zeros(n),) for n in (4, 6, 9, 250)], expect_graphs=2, expect_recompiles=1)


def test_sizes_too_large_for_their_tensor():
    def program(x):
        return torch.tensor(x.size(0), dtype=torch.uint8) + 1

    sizes = (4, 6, 300, 255, 256, 9)
    check(program, vary=[(torch.zeros(n),) for n in sizes], fullgraph=False, expect_recompiles=None, expect_graphs=None,
          expect_breaks=None)  # fmt: skip


@pytest.mark.parametrize(
    "program",
    [
        lambda x, mask: torch.nn.functional.binary_cross_entropy(x[~mask], torch.zeros_like(x[~mask])),
        lambda x, mask: x[(x > 0.5) & mask] * x[(x > 0.5) & mask],
        lambda x, mask: x[torch.isfinite(x)] * x.log()[x.isfinite()],
        lambda x, mask: x[mask.logical_not()] - (x * 2)[mask.logical_not()],
    ],
)
def test_a_condition_made_twice_is_one(program):
    calls = [(torch.tensor([0.2, 0.6, 0.9, 0.4]), tensor(mask)) for mask in ([True, False, True, False], [False] * 4)]
    check(program, vary=calls)


def test_a_condition_made_again_after_a_write():
    def program(x, mask):
        before = x[~mask]
        mask[0] = True
        return before.sum() + x[~mask].sum(), before.shape, x[~mask].shape

    check(program, vary=[(torch.rand(4), tensor(mask)) for mask in ([False] * 4, [True, False, True, False])])
