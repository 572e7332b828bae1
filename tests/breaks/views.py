"""More of what random programs are made of: views and writes to them, modes of autograd, tensors in dicts.

`$V` stands for a view of a tensor; the other marks are those of the other tables.
"""

from __future__ import annotations

PRELUDE = """
WEIGHTS = {"a": torch.ones(3), "b": torch.zeros(3)}


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, k):
        ctx.k = k
        ctx.save_for_backward(t)
        return (t * k).sum()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.k * torch.ones_like(ctx.saved_tensors[0]), None
"""

SHARED = ("WEIGHTS",)

EXPRESSIONS = {
    "T": (
        "WEIGHTS['a'] $V.sum()+$t WEIGHTS.get(s,$t) $t.masked_fill($t>$I,0.) torch.maximum($T,$t) "
        "torch.add($T,$t,alpha=2) $t.sort().values torch.addcmul($t,$T,$t) $t.roll(1) (~($t>0)).float() "
        "$t.cumsum(0) torch.einsum('i,i->i',$t,$T) $t.softmax(0).round() torch.lerp($t,$T,0.5) "
        "[*$t.unbind(0),0.][0]+$t"
    ),
    "L": ("[*WEIGHTS.values()]"),
    "D": ("{**WEIGHTS,'z':$T} {k:v+1&for&k,v&in&WEIGHTS.items()}"),
    "C": ("$V.any() $t.equal($T)"),
    "V": ("$t[1:] $t.view(3,1) $t.view(1,3)[0] $t[::2] $t.unsqueeze(0) $t.expand(2,3) w[0] w.t()[1] $t.split(2)[0]"),
    "A": ("$V.shape {'k':$T}"),
}

VARIABLES: dict[str, list[str]] = {}

SIMPLE = [
    "WEIGHTS['a'] += $T",
    "WEIGHTS['a'] = WEIGHTS['a'] * 0.5 + $T",
    "WEIGHTS['b'].add_($I); note(WEIGHTS['b'] is WEIGHTS.get('b'))",
    "WEIGHTS[s] = WEIGHTS.pop(s, $T)",
    "for k0 in WEIGHTS: WEIGHTS[k0].mul_(0.5)",
    "WEIGHTS.update({k0: v0 + 1 for k0, v0 in WEIGHTS.items()})",
    "$t[0], $i = $I, $I",
    "v1 = $V; v1.add_($I); note(v1.shape, $t)",
    "v1 = $t.view(3, 1); v1[:, 0].mul_($I); note($t, v1._version)",
    "$t.unbind(0)[1].zero_(); note($t)",
    "$t.copy_($T)",
    "$t.masked_fill_($t > $I, 1.0)",
    "$t.index_add_(0, torch.tensor([0, 2]), torch.ones(2)); note($t)",
    "$t.scatter_(0, torch.tensor([1]), 5.0)",
    "torch.add($t, 1, out=$t); note($t._version)",
    "out = torch.empty(3); torch.mul($t, $T, out=out); note(out)",
    "$t.fill_($I).sub_(1).clamp_(min=0)",
    "$t[$t > $I] = $I",
    "$t[1:] = $t[:-1].clone()",
    "$t.data.mul_(2); note($t)",
    "$w[:, 1] = $I; note($w.sum())",
    "$w[[0, -1]] *= 2",
    "$w.t()[0].add_($w[:, 1]); note($w)",
    "with torch.no_grad(), torch.enable_grad(): note(torch.is_grad_enabled())",
    "p3 = torch.ones(3, requires_grad=True); note(Loss.apply(p3 * $T, $I).backward(), p3.grad)",
    "p3 = torch.ones(3, requires_grad=True); q3 = p3 * 2; q3.retain_grad(); q3.sum().backward(); note(q3.grad)",
    "p3 = torch.ones(3, requires_grad=True); p3.data += $I; (p3 ** 2).sum().backward(); p3.grad.zero_(); note(p3.grad)",
    "p3 = torch.ones(3, requires_grad=True); p3 += 1",
    "note(torch.inference_mode()(lambda: $t * 2)().is_inference())",
    "note(torch.no_grad()(lambda q: (q * torch.ones(3, requires_grad=True)).requires_grad)($T))",
    "note(x[..., None].shape, x[None, 1:].shape, x[-1].item() > $I)",
]

BLOCKS = """
with torch.no_grad():
    with torch.enable_grad():
        @
    note(torch.is_grad_enabled())
    @

with torch.enable_grad(), torch.no_grad():
    note((torch.ones(3, requires_grad=True) * $t).requires_grad)
    @

with torch.inference_mode():
    made = $t.clone() + 1
    @
note(made.is_inference())

@torch.no_grad()
def quiet(p):
    nonlocal t0, t1, l0, d0, b0, i0
    @body
    return p * 2, torch.is_grad_enabled()
note(quiet($T))

matrix = torch.zeros(3, 3)
for q in range(3):
    row = matrix[q]
    row += $T
    matrix[:, q].sub_($I)
    @loop
note(matrix, row._base is matrix)

base = $t.clone()
head, tail = base[:1], base[1:]
@
head += tail.sum()
tail.mul_(2)
note(base, head, tail)

sums = {}
for k, value in zip('aba', [$T, $T, $t]):
    if k in sums:
        sums[k] += value
    else:
        sums[k] = value.clone()
    @loop
note(sums)

p3 = torch.ones(3, requires_grad=True)
with torch.no_grad():
    p3.mul_(2)
    @
loss = (p3 * $t.detach()).sum()
with torch.enable_grad():
    loss = loss * 2
    @
loss.backward()
note(p3.grad)
""".strip().split("\n\n")
