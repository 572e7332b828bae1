"""Settings of torch inside of compiled functions: set around the operations that ran under them, and guarded."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import stator
from tests.harness import check


def attention(x):
    q = x.reshape(1, 1, 4, 4)
    with sdpa_kernel(SDPBackend.MATH):
        first = F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        second = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return first, second, torch.backends.cuda.math_sdp_enabled()


def left_open(x):
    torch.use_deterministic_algorithms(True)
    return x * 2, torch.are_deterministic_algorithms_enabled()


def backends(x):
    with torch.backends.mkldnn.flags(enabled=False):  # warns
        y = x @ x
    with torch.backends.cudnn.flags(enabled=False, deterministic=True):
        return y @ x, torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled


def precision(x):
    with torch.backends.cudnn.flags(enabled=False, deterministic=True):
        y = x @ x, torch.backends.cudnn.enabled
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    z = x @ x, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(before)
    return y, z


def autograd_helpers(x):
    with torch.autograd.set_multithreading_enabled(False), torch.autograd.set_detect_anomaly(True):
        y = x * 2
        return y + 1, torch.is_anomaly_enabled()


def in_float64(x):
    torch.set_default_dtype(torch.float64)
    try:
        return x + torch.ones(4), torch.tensor(1.5), torch.get_default_dtype()
    finally:
        torch.set_default_dtype(torch.float32)


def on_a_device(x):
    with torch.device("cpu"):
        y = torch.ones(4)
    with torch.device("meta"):
        z = torch.zeros(2)
    return x + y, z.device


def raises(x):
    with sdpa_kernel(SDPBackend.MATH):
        y = x * 2
        raise ValueError(str(tuple(y.shape)))


def gradient(x):
    with torch.autograd.detect_anomaly(check_nan=False):
        return (x * x).sum()


def factories(x):
    torch.set_default_dtype(torch.float64)
    try:
        y = x + torch.ones(4) + torch.arange(4) + torch.full((4,), 1.5) + torch.linspace(0, 1, 4)
        return y, torch.tensor([1.5, 2.5]), torch.rand(2), torch.eye(2), x * 1.5, torch.arange(2) + 1
    finally:
        torch.set_default_dtype(torch.float32)


def quotients(x):
    torch.set_default_dtype(torch.float64)
    try:
        return torch.arange(4) / 2 + x, torch.arange(4) > 0.1
    finally:
        torch.set_default_dtype(torch.float32)


PROGRAMS = [attention, left_open, precision, autograd_helpers, in_float64, on_a_device, raises]


@pytest.fixture(autouse=True)
def restored():
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("program", "graphs"), [(in_float64, 1), (factories, 1), (quotients, 1)])
def test_default_dtype_of_traces(program, graphs):
    """Factories are told the dtype; what else looks at the default is a break, with nothing to compile before it."""
    stator.reset()
    compiled, x = stator.compile(program, backend="aot_eager"), torch.arange(16.0).reshape(4, 4)
    for _ in range(2):
        torch.manual_seed(0)
        expected = str(program(x))
        torch.manual_seed(0)
        assert str(compiled(x)) == expected
    assert stator.stats()["graphs"] == graphs


def test_traces_under_another_default():
    """Inductor would take float32 for random numbers."""
    torch.set_default_dtype(torch.float64)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph.code)
        return graph.forward

    stator.compile(lambda x: x + torch.rand(4), backend=backend)(torch.ones(4))
    assert "dtype = torch.float64" in graphs[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_one_graph(program):
    def run(x):
        try:
            return program(x)
        except ValueError as error:
            return str(error)

    stator.reset()
    compiled = stator.compile(run, backend="eager", fullgraph=True)
    x = torch.arange(16.0).reshape(4, 4)
    expected = str(run(x))
    torch.use_deterministic_algorithms(False)
    for _ in range(2):
        assert str(compiled(x)) == expected
        torch.use_deterministic_algorithms(False)
    assert torch.backends.cuda.math_sdp_enabled() and torch.backends.mkldnn.enabled and not torch.is_anomaly_enabled()
    assert torch.get_default_dtype() is torch.float32


def test_a_program_that_leaves_a_setting_changed():
    compiled = stator.compile(left_open, backend="eager", fullgraph=True)
    compiled(torch.ones(2))
    assert torch.are_deterministic_algorithms_enabled()


def test_what_is_read_is_guarded():
    def program(x):
        return x + 1 if torch.backends.cuda.flash_sdp_enabled() else x - 1

    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1)).item() == 1
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        assert compiled(torch.zeros(1)).item() == -1
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
    assert compiled(torch.zeros(1)).item() == 1 and stator.stats()["graphs"] == 2


def test_a_graph_that_fails_puts_settings_back():
    def program(x, i):
        with torch.backends.cudnn.flags(enabled=False):
            return x.add_(1)[i]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    compiled(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    assert torch.backends.cudnn.enabled


def test_settings_that_warn():
    check(backends, torch.ones(4, 4), fullgraph=False, expect_breaks=None, expect_graphs=None)


def test_backends_that_trace():
    check(attention, torch.arange(16.0).reshape(4, 4), backend="aot_eager", tolerance=1e-6)
    check(precision, torch.ones(4, 4), backend="aot_eager", fullgraph=False, expect_breaks=None, expect_graphs=None)


def test_anomaly_and_backward():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly"):
        stator.compile(gradient, backend="eager", fullgraph=True)(x).backward()
    assert x.grad.tolist() == [2, 2]
