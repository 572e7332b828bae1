"""One line per family of operations: capture predicts what eager does, and the graph does the same."""

import operator  # noqa: F401 - used by the expressions

import pytest
import torch
import torch.nn.functional as F  # noqa: F401 - used by the expressions

from tests.tensors.capturing import check


def make():
    torch.manual_seed(0)
    return {
        "x": torch.randn(4, 6),
        "y": torch.randn(4, 6),
        "v": torch.randn(6),
        "w": torch.nn.Parameter(torch.randn(6, 6)),
        "r": torch.randn(4, 6, requires_grad=True) * 1,  # the result of an operation
        "g": torch.randn(4, 6, requires_grad=True),
        "i": torch.arange(4),
        "b": torch.randn(4, 6) > 0,
        "t": torch.randn(6, 4).t(),
        "o": torch.randn(10, 6)[3:7],  # with a storage offset
        "e": torch.randn(4, 1).expand(4, 6),
        "c": torch.randn(4, 6, dtype=torch.complex64),
        "s": torch.tensor(2.0),
        "h": torch.randn(4, 6).half(),
        "z": torch.randn(2, 4, 6),
        "q": torch.randn(2, 4, 5, 8),
        "p": torch.randn(2, 5, 4, 8).transpose(1, 2),
        "img": torch.randn(2, 3, 8, 8),
        "last": torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        "k": torch.randn(5, 3, 3, 3),
        "mean": torch.zeros(3),
        "var": torch.ones(3),
    }


EXPRESSIONS = """
x + 1; 1 + x; x - y; 2 - x; x * y; x / 2; 3 / x; x // 2; 7 // x; x % 3; 7 % x; x ** 2; 2 ** x; x @ w; -x; +x; ~b
abs(x); x == y; x != y; x < 1; 1 < x; x >= y; b & b; b | b; b ^ b; 1 & i; i << 1; i >> 1; 2 >> i; x + s; s + x; x + h
h + 1; i / 2; x[0]; x[:, 1]; x[..., None]; x[1:3, ::2]; x[[0, 2]]; x[i]; x[i, i]; x[None]; x[-1]; x[0, 0]
x[:, [1, 2]]; x[i][:, 1:]; x.contiguous(); t.contiguous(); x.float(); x.to(torch.float32); x.double(); x.to('cpu')
x.cpu(); x.to(y); h.float(); x.type(torch.float32); x.type_as(y); x.clone(); x.detach(); r.detach(); g.detach()
x.data; r.data; g.data; h.to(x.dtype); x.view(-1); x.view(6, 4); x.view_as(y); x.reshape(4, 6); x.reshape(-1)
t.reshape(-1); x.flatten(); x.t(); x.T; x.mT; x.H; x.transpose(0, 1); x.permute(1, 0); x.squeeze(); x.unsqueeze(0)
x.expand(4, 6); x.expand(2, 4, 6); v.expand(3, 6); x.expand_as(y); x.repeat(2, 1); x.narrow(0, 1, 2); x.select(0, 1)
x.split(2); x.split([1, 3]); x.chunk(2, 1); x.unbind(); x.unbind(1); torch.split(x, 3, 1); x.tensor_split(3)
torch.hsplit(x, 2); x.diagonal(); torch.diag(w); x.swapaxes(0, 1); x.as_strided((2, 2), (6, 1)); x.movedim(0, 1)
x.unflatten(1, (2, 3)); x.view(torch.int32); x.unfold(1, 2, 2); x.squeeze(0); c.real; c.imag; x.real; c.conj()
torch.view_as_real(c); c * 2; c.conj() * c; c.abs(); c.conj().T; c.H; c.resolve_conj(); x.to(torch.complex64)
c.conj().resolve_conj(); c.conj().is_conj(); c.conj().imag; torch.polar(x, y); torch.complex(x, y); x.sum(); x.sum(1)
x.mean(-1, keepdim=True); x.max(); x.max(1); x.min(0); x.argmax(1); x.sort(1); x.topk(2); x.std(); torch.median(x, 1)
x.var(0); torch.var_mean(x); x.norm(); x.cumsum(1); x.logsumexp(1); x.prod(); x.any(); b.all(); x.amax(1)
torch.aminmax(x); x.cummax(1); torch.kthvalue(x, 2); torch.mode(x); x.count_nonzero(); torch.histc(x); F.relu(x)
F.relu(y, inplace=True); F.gelu(x); F.silu(x); F.softmax(x, -1); F.log_softmax(x, 1); F.linear(x, w)
F.linear(x, w, v); F.layer_norm(x, (6,)); F.dropout(x, 0.5, False); F.dropout(x, 0.0, True); F.dropout(x)
F.embedding(i, w); F.conv2d(img, k); F.conv2d(last, k); F.conv2d(img, k, padding=1, stride=2); F.max_pool2d(img, 2)
F.max_pool2d(last, 2); F.avg_pool2d(img, 2); F.adaptive_avg_pool2d(img, 1); F.group_norm(img, 3); F.instance_norm(img)
F.local_response_norm(img, 2); F.batch_norm(img, mean, var); F.batch_norm(img, mean, var, training=True)
F.batch_norm(last, mean, var, training=True); F.interpolate(img, scale_factor=2)
F.interpolate(last, size=(4, 4), mode='bilinear'); F.pad(x, (1, 1)); F.unfold(img, 2)
F.pad(img, (1, 1, 1, 1), mode='reflect'); F.cross_entropy(x, i); F.mse_loss(x, y); F.nll_loss(x, i)
F.smooth_l1_loss(x, y); F.binary_cross_entropy_with_logits(x, y); F.one_hot(i, 4); F.normalize(x)
F.cosine_similarity(x, y); F.glu(x); F.elu(x); F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(p, p, p); F.hardtanh(x); F.softplus(x); F.mish(x)
F.scaled_dot_product_attention(q, q, q, is_causal=True); F.rms_norm(x, (6,)); F.pairwise_distance(x, y)
F.leaky_relu(x); F.threshold(x, 0.1, 20); F.prelu(x, s.reshape(1)); F.conv_transpose2d(img, k.transpose(0, 1))
F.conv1d(z, torch.ones(2, 4, 3)); torch.cat([x, y]); torch.stack([x, y], 1); torch.where(b, x, y)
torch.where(b, x, 0.0); torch.maximum(x, y); torch.clamp(x, 0, 1); torch.matmul(z, w); torch.bmm(z, z.mT)
torch.einsum('ab,bc->ac', x, w); torch.addmm(v, x, w); torch.outer(v, v); torch.tril(w)
torch.baddbmm(z @ z.mT, z, z.mT); torch.triu(w, 1); torch.gather(x, 1, b.long()); x.scatter(1, b.long(), 1.0)
torch.take(x, i); x.index_select(0, i); x.masked_fill(b, 0.0); torch.roll(x, 1); torch.flip(x, [0]); torch.rot90(x)
torch.broadcast_tensors(x, v); torch.meshgrid(v, v, indexing='ij'); torch.cdist(x, y); torch.exp(x); torch.sigmoid(x)
torch.isnan(x); torch.lerp(x, y, 0.5); torch.addcmul(x, x, y); torch.atan2(x, y); torch.kron(x, y)
torch.linalg.norm(x); torch.linalg.inv(w); torch.linalg.qr(w); torch.linalg.svd(x); torch.linalg.solve(w, v)
torch.fft.fft(x); torch.fft.rfft(x); torch.logaddexp(x, y); torch.diff(x); torch.bucketize(x, v.sort()[0])
torch.block_diag(x, y); torch.cartesian_prod(v, v); torch.tensordot(x, y, 2); torch.vander(v); torch.nan_to_num(x)
torch.repeat_interleave(x, 2); torch.tile(x, (2,)); torch.ravel(x); torch.ravel(t); torch.atleast_2d(x)
torch.empty_like(t).zero_(); torch.zeros_like(last); torch.ones_like(x); torch.full_like(t, 2.0); x.new_zeros(3)
x.new_full((2,), 1); x.new_tensor([1.0, 2.0]); torch.zeros(3); torch.ones(2, 3); torch.arange(5)
torch.arange(0, 1, 0.1); torch.full((2,), 3); torch.tensor([1, 2]); torch.tensor(1.5); torch.linspace(0, 1, 5)
torch.eye(3); torch.zeros(2, dtype=torch.int64); torch.tensor([[True]]); torch.as_tensor([1.0, 2.0])
torch.scalar_tensor(3); torch.tril_indices(3, 3); torch.empty(0); torch.hann_window(5); torch.randn(3)
torch.rand(2, 3); torch.randint(0, 9, (4,)); torch.randperm(5); torch.bernoulli(x.sigmoid()); x.new_empty(3).normal_()
torch.multinomial(x.abs(), 2); torch.rand_like(x); F.gumbel_softmax(x); F.rrelu(x, training=True)
torch.normal(x, x.abs()); x.add_(1); x.mul_(y); x.zero_(); x.copy_(y); x.fill_(2); x.clamp_(0); x.masked_fill_(b, 1)
x.index_fill_(0, i, 1); x.neg_(); x.t_(); x.squeeze_(); x.unsqueeze_(0); x.transpose_(0, 1); x.resize_(2, 3)
x.scatter_(1, b.long(), 2.0); x.index_add_(0, i, y); operator.iadd(x, 1); operator.imul(x, y)
operator.setitem(x, 0, 1.0); operator.setitem(x, (slice(None), 1), y[:, 0]); operator.setitem(x, b, 0.0)
operator.ipow(x, 2); operator.ifloordiv(x, 2); operator.iadd(2, x); operator.imatmul(x, w); x.add_(r); x[0].add_(r[0])
x.view(-1).mul_(r.view(-1)); x.sub_(1); torch.add(x, y, out=torch.empty(0)); x.relu_(); F.relu_(x)
x.addcmul_(x, y, value=0.1); x.lerp_(y, 0.3); x.div_(2); x.float().add_(1); x.copysign_(y); x.normal_(); x.uniform_()
x.bernoulli_(); torch._foreach_add([x, y], 1); torch._foreach_mul_([x, y], 2)
torch._foreach_addcdiv_([x], [y], [y], value=1.0); r + 1; g * 2; r.view(-1); g.view(-1); r.t(); g.sum(); w.t(); w + 1
r.clone(); torch.cat([x, r]); r.contiguous(); r > 0; r.long(); r.to(torch.float64); r.argmax(); r.max(1); r[0]
r.expand(2, 4, 6); torch.where(b, r, x); r.half(); r.add(1).add_(1); r.clone().zero_(); r.clone().copy_(x)
r.softmax(1); g.clone().t_(); r.add_(1); r.view(-1).add_(1); r.mul_(w[:4]); x.size(); x.dim(); x.shape[0]; x.numel()
x.is_contiguous(); t.is_contiguous(); last.is_contiguous(memory_format=torch.channels_last); x.stride(); x.stride(0)
x.element_size(); x.storage_offset(); o.storage_offset(); x.is_floating_point(); x.dtype; x.device; x.layout
x.requires_grad; r.is_leaf; w.is_leaf; x.is_leaf; len(x); x.type(); x.get_device(); torch.is_floating_point(x)
torch.result_type(x, h); torch.can_cast(torch.int32, torch.float32); torch.promote_types(torch.float16, torch.float32)
x.is_cuda; x.itemsize; x.nbytes; x.ndim; torch.numel(x); x.is_complex(); x.is_conj()
torch.broadcast_shapes((2, 1), (1, 3)); x.grad_fn; torch.is_tensor(x); x.is_same_size(y); x.is_signed()
x.is_inference(); x.size(-1); x == None; x != None; x.is_sparse; x.is_quantized; o.contiguous(); o.view(-1); o + 1
e.contiguous(); e + 1; e.sum(0); o[1:]; o.t(); e.reshape(-1); t + x; t * t; t.clone(); last + img; last * 2
last.sum(1); torch.cat([last, last]); F.relu(last); last.flatten(1); last.permute(0, 2, 3, 1); p.reshape(2, 4, -1)
img.to(memory_format=torch.channels_last); last.contiguous(memory_format=torch.channels_last); last.contiguous()
last.permute(0, 2, 3, 1).contiguous(); x.to(memory_format=torch.preserve_format); p.transpose(1, 2).reshape(2, 5, 32)
torch.ops.aten.add(x, y); torch.ops.aten.mul.Tensor(x, y); torch.ops.aten.sum.dim_IntList(x, [1]); [*x]; list(x[:2])
"""

CASES = [case.strip() for case in EXPRESSIONS.replace("\n", ";").split(";") if case.strip()]

# What AOTAutograd itself does not do as eager: it gives other strides, or refuses.
NOT_WITH_AOT = {"F.interpolate(last, size=(4, 4), mode='bilinear')", "x.resize_(2, 3)"}
RANDOM = ("rand", "normal", "bernoulli", "uniform", "multinomial", "gumbel", "F.dropout(x)")


def program(case):
    code = compile(case, case, "eval")
    return lambda **tensors: eval(code, globals(), tensors)


@pytest.mark.parametrize("case", CASES)
def test_eager(case):
    check(program(case), make)


@pytest.mark.parametrize("case", [case for case in CASES[::5] if case not in NOT_WITH_AOT])
def test_aot_eager(case):
    if any(word in case for word in RANDOM):
        pytest.skip("AOTAutograd decomposes random operations")
    check(program(case), make, "aot_eager")
