"""Branches that cut off padding: one compilation for sizes with and without it, as in eager each time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.harness import check

LENGTHS = (7, 9, 8, 12, 5, 16, 4, 3)


def padded(x, width=4):
    rows, length = x.shape[:2]
    pad = (width - length % width) % width
    y = F.pad(x, (0, 0, 0, pad)).reshape(rows, -1, width, x.shape[2]).cumsum(2).reshape(rows, length + pad, -1)
    return y, pad


def cut_local(x):
    length = x.shape[1]
    y, pad = padded(x)
    if pad != 0:
        y = y[:, :length, :]
    return y * 2


def cut_copied(x):
    length = x.shape[1]
    y, pad = padded(x)
    if length < length + pad:
        y = y[:, :length, :].contiguous()
    return y.view(-1, 3) + 1, y.stride()


def at_least_one_chunk(x):
    """The maximum is the number of chunks, as there is one at least."""
    length = x.shape[1]
    chunks = max(1, (length + 3) // 4)
    y = F.pad(x, (0, 0, 0, 4 * chunks - length)).reshape(len(x), chunks, min(4, 4 * chunks), 3).cumsum(2).flatten(1, 2)
    if 4 * chunks > length:
        y = y[:, :length, :]
    return y * 2


def windows(x):
    _, height, width, _ = x.shape
    pads = (0, 0, 0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4)
    y = F.pad(x, pads)
    y = y * 2
    if pads[3] > 0 or pads[5] > 0:
        y = y[:, :height, :width, :].contiguous()
    return y.view(len(x), -1)


def windows_in_any_case(x):
    """A slice that may be all there is: its copy is another tensor then, or none."""
    _, height, width, _ = x.shape
    y = F.pad(x * 2, (0, 0, 0, -width % 4, 0, -height % 4))
    return y[:, :height, :width, :].contiguous().view(len(x), -1) + 1


def windows_of_swin(x):
    height, width, channels = x.shape[1:]
    amounts = (0, 0, 0, -width % 4, 0, -height % 4)
    y = F.pad(x * 2, amounts)
    y = y.view(len(x), -1, 4, y.shape[2], channels).cumsum(2).flatten(1, 2)
    was_padded = amounts[3] > 0 or amounts[5] > 0
    if was_padded:
        y = y[:, :height, :width, :].contiguous()
    return y.view(len(x), height * width, channels) + 1


def windows_not_shifted(x, shift=0):
    """Another variable holds the same tensor, which nothing reads any more."""
    height, width, channels = x.shape[1:]
    right, below = -width % 4, -height % 4
    y = F.pad(x * 2, (0, 0, 0, right, 0, below))
    windows = y.view(len(x), -1, 4, y.shape[2], channels).cumsum(2).flatten(1, 2)
    if shift > 0:
        y = torch.roll(windows, shift, 1)
    else:
        y = windows
    if right > 0 or below > 0:
        y = y[:, :height, :width, :].contiguous()
    return y.view(len(x), height * width, channels) + 1


def images(sizes):
    return [(torch.randn(2 + i, height, width, 3),) for i, (height, width) in enumerate(sizes)]


SIZES = ((7, 9), (8, 9), (9, 8), (12, 16), (5, 6), (4, 8), (13, 4))
LATE = ((8, 12), (16, 4), (9, 8), (7, 5), (8, 9), (20, 12))


@pytest.mark.parametrize("program", [cut_local, cut_copied, at_least_one_chunk])
@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[2:]])
def test_one_compilation_with_and_without_padding(program, lengths):
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate(lengths)]
    report = check(program, vary=calls, expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


@pytest.mark.parametrize("program", [windows, windows_in_any_case, windows_of_swin, windows_not_shifted])
@pytest.mark.parametrize("sizes", [SIZES, LATE])
def test_several_conditions(program, sizes):
    report = check(program, vary=images(sizes), expect_recompiles=1, expect_graphs=None)
    assert report.gained("frames_captured") == 2


def written_copy(x):
    height = x.shape[1]
    y = F.pad(x * 2, (0, 0, 0, 0, 0, -height % 4))
    copy = y[:, :height].contiguous()
    copy.add_(1)
    return copy, y


def both_known(x):
    y = F.pad(x * 2, (0, 0, 0, 0, 0, -x.shape[1] % 4))
    cut = y[:, : x.shape[1]]
    copy = cut.contiguous()
    return copy, cut, copy is cut


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [written_copy, both_known, windows_in_any_case])
def test_a_copy_that_may_be_none(program, backend):
    check(program, vary=images(SIZES), expect_recompiles=None, expect_graphs=None, backend=backend)


def test_gradients():
    calls = [(torch.randn(2 + i, n, 3, requires_grad=True),) for i, n in enumerate(LENGTHS[:6])]
    report = check(cut_local, vary=calls, expect_recompiles=1, expect_graphs=None, backward=True)
    assert report.gained("frames_captured") == 2


def test_compilers_decide_for_themselves():
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate((7, 9, 8, 5, 12))]
    check(cut_copied, vary=calls, expect_recompiles=None, expect_graphs=None, backend="aot_eager")


def known_elsewhere(x):
    length = x.shape[1]
    y, pad = padded(x)
    kept = [y]
    if pad > 0:
        y = y[:, :length, :]
    return kept[0] is y, y + 1


def of_input(x):
    length = x.shape[1] // 2 * 2
    y = x
    if x.shape[1] > length:
        y = y[:, :length, :]
    return y


def other_size(x):
    length = x.shape[1]
    y, pad = padded(x)
    if pad > 0:
        y = y[:, : length - 1, :]
    return y * 2


def other_part(x):
    length = x.shape[1]
    y, pad = padded(x)
    if pad > 0:
        y = y[:, 1:length, :]
    return y * 2


def from_the_end(x):
    y, pad = padded(x)
    less = 0 - pad
    if pad > 0:
        y = y[:, :less, :]
    return y * 2


def more_in_it(x):
    length = x.shape[1]
    y, pad = padded(x)
    if pad > 0:
        y = y[:, :length, :]
        length = 0
    return y * 2 + length


def read_once_more(x):
    length = x.shape[1]
    y, pad = padded(x)
    other = y
    if pad > 0:
        y = y[:, :length, :]
    return y * 2, other is y


def noted(x):
    length = x.shape[1]
    y, pad = padded(x)
    was_padded = pad > 0
    if was_padded:
        y = y[:, :length, :]
    return y * 2, was_padded


def otherwise(x):
    length = x.shape[1]
    y, pad = padded(x)
    if pad > 0:
        y = y[:, :length, :]
    else:
        y = y + 1
    return y * 2


def not_the_same(x):
    length = x.shape[1]
    y, pad = padded(x)
    y = y.transpose(1, 2)
    if pad > 0:
        y = y[:, :, :length].contiguous()
    return y


@pytest.mark.parametrize(
    "program",
    [
        known_elsewhere,
        of_input,
        other_size,
        other_part,
        from_the_end,
        more_in_it,
        noted,
        read_once_more,
        otherwise,
        not_the_same,
    ],
)
def test_branches_that_differ(program):
    """What is another program on each side stays one."""
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate((7, 9, 8, 5, 12, 10))]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None)


# ---- what is too long -------------------------------------------------------------------------------------------


def truncated(x, most=8):
    if x.shape[1] > most:
        x = x[:, :most]
    return x.cumsum(1)


def truncated_ids(x, most):
    if most < x.shape[1]:
        x = x[..., 0:most, :]
    return x * 2, x.shape[1] + 1


def truncated_twice(x, mask):
    if x.size(1) > 6:
        x = x[:, :6]
    if mask.size(1) > 6:
        mask = mask[:, :6]
    return (x * mask[..., None]).sum(1)


LONG = (7, 9, 5, 12, 8, 16, 4)


@pytest.mark.parametrize("lengths", [LONG, LONG[1:]])
def test_one_compilation_for_short_and_long(lengths):
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate(lengths)]
    check(truncated, vary=calls, expect_recompiles=1, expect_graphs=None)
    check(truncated_twice, vary=[(x, x[..., 0].clone()) for (x,) in calls], expect_recompiles=1, expect_graphs=None)


def test_a_number_says_what_is_too_long():
    calls = [(torch.randn(2 + i, length, 3), 4 + i) for i, length in enumerate(LONG)]
    check(truncated_ids, vary=calls, expect_recompiles=1, expect_graphs=None)


def cut_off(x):
    if x.shape[1] > 8:
        x = x[:, :8]
    return x


def returned(x):
    return cut_off(x)


def compared(x):
    y = cut_off(x)
    return y * 2 if y is x else y * 3


def marked(x):
    x.note = 3
    return getattr(cut_off(x), "note", 2) + x


def written(x):
    y = cut_off(x)
    y += 1
    return y * 2


def without_history(x):
    with torch.no_grad():
        if x.shape[1] > 8:
            x = x[:, :8]
    return x * 2


def of_the_other(x, y):
    if y.shape[1] > 8:
        x = x[:, :8]
    return x * 2


def from_the_end(x):
    if x.shape[1] > 8:
        x = x[:, -8:]
    return x * 2


@pytest.mark.parametrize("program", [returned, compared, marked, written, from_the_end])
def test_who_sees_whether_it_was_cut(program):
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate(LONG)]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None)
    calls = [(torch.randn(2 + i, length, 3),) for i, length in enumerate(LONG[1:])]
    check(program, vary=calls, expect_recompiles=None, expect_graphs=None)


def test_history_is_not_cut():
    calls = [(torch.randn(2 + i, length, 3, requires_grad=True),) for i, length in enumerate(LONG)]
    check(without_history, vary=calls, expect_recompiles=None, expect_graphs=None)
    calls = [(torch.randn(2, 4 + i), torch.randn(2, length)) for i, length in enumerate(LONG)]
    check(of_the_other, vary=calls, expect_recompiles=None, expect_graphs=None)
