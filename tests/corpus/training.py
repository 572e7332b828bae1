"""Training: autograd functions, hooks, optimizers, checkpoints, averages of weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.nn.utils import clip_grad_norm_, parametrize
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.corpus.registry import built, case, ints, r


class GradientReversal(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, alpha: float) -> Any:
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output.neg() * ctx.alpha, None


class SwishImplementation(Function):
    @staticmethod
    def forward(ctx: Any, i: Any) -> Any:
        ctx.save_for_backward(i)
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (i,) = ctx.saved_tensors
        s = torch.sigmoid(i)
        return grad_output * (s * (1 + i * (1 - s)))


class Binarize(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any = None) -> Any:
        ctx.save_for_backward(x)
        ctx.has_scale = scale is not None
        out = x.sign()
        return (out * scale, x.abs().mean()) if ctx.has_scale else (out, x.mean())

    @staticmethod
    def backward(ctx: Any, grad: Any, _unused: Any) -> Any:
        (x,) = ctx.saved_tensors
        grad = grad.clone()
        grad[x.abs() > 1] = 0
        return grad, None


@case((r(2, 4, grad=True), 0.5), (r(3, 4, grad=True), 2.0), backward=True)
class DANN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.feature, self.domain = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x: Any, alpha: float) -> Any:
        f = SwishImplementation.apply(self.feature(x))
        return f, self.domain(GradientReversal.apply(f, alpha))


@case((r(2, 4, grad=True),), (r(3, 4, grad=True),), backward=True)
class BinaryNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: Any) -> Any:
        for i, layer in enumerate(self.layers):
            weight, _ = Binarize.apply(layer.weight, None if i else layer.weight.abs().mean().detach())
            x = F.hardtanh(F.linear(x, weight, layer.bias))
        return x


# A weight is used in two of the regions, and eager adds up its gradients in the order of two backward runs.
@case((r(2, 4, grad=True),), (r(3, 4, grad=True),), backward=True, tolerance=1e-6)
class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.use_checkpoint = True
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)])
        self.tail = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            if self.use_checkpoint and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)

        def custom(*inputs: Any) -> Any:
            return self.tail[0](inputs[0])

        x = checkpoint(custom, x, use_reentrant=True)
        return checkpoint_sequential(self.tail, 2, x, use_reentrant=False)


@built((r(2, 4),), (r(3, 4),), backward=True)
def hooked() -> nn.Module:
    """Forward, pre and backward hooks that store into dictionaries, and one that replaces the output."""

    class Hooked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
            self.activations: dict[str, Any] = {}
            self.count = 0
            self.net[1].register_forward_hook(self.save("relu"))
            self.net[0].register_forward_pre_hook(self.pre)
            self.net[2].register_forward_hook(lambda module, inputs, output: output * 2)
            self.net[0].register_full_backward_hook(self.on_backward)

        def save(self, name: str) -> Any:
            def hook(module: Any, inputs: Any, output: Any) -> None:
                self.activations[name] = output.detach()

            return hook

        def pre(self, module: Any, inputs: Any) -> Any:
            self.count += 1
            return (inputs[0] + 1,)

        def on_backward(self, module: Any, grad_input: Any, grad_output: Any) -> None:
            self.activations["grad"] = grad_output[0].sum()

        def forward(self, x: Any) -> Any:
            return self.net(x)

    return Hooked()


@case((r(1, 3, 4, 4), 0), (r(1, 3, 4, 4), None))
class GradCAM(nn.Module):
    """Hooks put on and taken off inside forward; backward inside; retain_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.fc = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 3)
        self.gradients: Any = None

    def save_gradient(self, grad: Any) -> None:
        self.gradients = grad

    def forward(self, x: Any, index: Any) -> Any:
        self.zero_grad()
        feature = F.relu(self.features(x))
        handle = feature.register_hook(self.save_gradient)
        output = self.fc(feature.mean((2, 3)))
        if index is None:
            index = int(torch.argmax(output))
        one_hot = torch.zeros(1, output.size()[-1])
        one_hot[0][index] = 1
        torch.sum(one_hot * output).backward(retain_graph=True)
        handle.remove()
        weights = self.gradients.mean((2, 3), keepdim=True)
        cam = F.relu((weights * feature).sum(1))
        cam = cam - torch.min(cam)
        return (cam / (torch.max(cam) + 1e-6)).detach().numpy()


@built((r(4, 3), ints(2, 4)), (r(5, 3), ints(2, 5)), (r(4, 3), ints(2, 4)))
def train_step() -> Any:
    """Optimizer, scheduler and clipping inside the compiled function."""
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    losses: list[float] = []

    def step(x: Any, y: Any) -> Any:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        return norm

    return step


@built((r(4, 3),), (r(4, 3),), tolerance=1e-4)
def adam_step() -> Any:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(x: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), model.weight

    return step


@built((r(2, 3), r(2, 3)), (r(4, 3), r(4, 3)))
def wgan_step() -> Any:
    """Gradient penalty with create_graph, weight clipping, two optimizers."""
    critic, generator = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), nn.Linear(3, 3)
    opt_d = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def penalty(real: Any, fake: Any) -> Any:
        alpha = torch.rand(real.size(0), 1)
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        out = critic(mixed)
        grads = torch.autograd.grad(out, mixed, torch.ones_like(out), create_graph=True, retain_graph=True)[0]
        return ((grads.view(grads.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()

    def step(real: Any, z: Any) -> Any:
        for p in critic.parameters():
            p.requires_grad = True
        opt_d.zero_grad()
        fake = generator(z).detach()
        d_loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real.data, fake.data)
        d_loss.backward()
        opt_d.step()
        for p in critic.parameters():
            p.data.clamp_(-0.5, 0.5)
            p.requires_grad = False
        opt_g.zero_grad()
        g_loss = -critic(generator(z)).mean()
        g_loss.backward()
        opt_g.step()
        return d_loss.item(), g_loss.item()

    return step


@case((r(2, 4), r(2, 4)), (r(3, 4), r(3, 4)), backward=True)
class MomentumContrast(nn.Module):
    """MoCo: an encoder copied by deepcopy, EMA under no_grad, a queue with a pointer buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder_q = nn.Linear(4, 3)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for param in self.encoder_k.parameters():
            param.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(3, 6), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update(self) -> None:
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * 0.9 + q.data * 0.1

    @torch.no_grad()
    def _enqueue(self, keys: Any) -> None:
        ptr = int(self.queue_ptr)
        n = keys.shape[0]
        for i in range(n):
            self.queue[:, (ptr + i) % 6] = keys[i]
        self.queue_ptr[0] = (ptr + n) % 6

    def forward(self, im_q: Any, im_k: Any) -> Any:
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        self._enqueue(k)
        return torch.cat([pos, neg], dim=1) / 0.07, torch.zeros(q.shape[0], dtype=torch.long)


class EMA:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.shadow = {n: p.data.clone() for n, p in model.named_parameters() if p.requires_grad}
        self.backup: dict[str, Any] = {}

    def update(self, model: nn.Module) -> None:
        for name, param in model.named_parameters():
            if param.requires_grad:
                assert name in self.shadow
                self.shadow[name] = (1.0 - self.decay) * param.data + self.decay * self.shadow[name].clone()

    def apply_shadow(self, model: nn.Module) -> None:
        for name, param in model.named_parameters():
            self.backup[name] = param.data
            param.data = self.shadow[name]

    def restore(self, model: nn.Module) -> None:
        for name, param in model.named_parameters():
            param.data = self.backup[name]
        self.backup = {}


@built((r(2, 3),), (r(2, 3),))
def ema_evaluation() -> Any:
    model = nn.Linear(3, 2)
    ema = EMA(model, 0.5)

    def evaluate(x: Any) -> Any:
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1)
        ema.update(model)
        ema.apply_shadow(model)
        try:
            out = model(x)
        finally:
            ema.restore(model)
        return out, model(x)

    return evaluate


@built((r(4, 2), r(4, 1)), (r(3, 2), r(3, 1)))
def maml() -> Any:
    """Inner steps with create_graph on a dictionary of fast weights."""
    params = {"w": nn.Parameter(torch.randn(1, 2)), "b": nn.Parameter(torch.zeros(1))}

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(F.linear(x, weights["w"], weights["b"]), y)

    def outer(x: Any, y: Any) -> Any:
        fast = dict(params)
        for _ in range(2):
            grads = torch.autograd.grad(loss_of(fast, x, y), fast.values(), create_graph=True)
            fast = {name: w - 0.1 * g for (name, w), g in zip(fast.items(), grads)}
        meta = torch.autograd.grad(loss_of(fast, x, y), list(params.values()))
        return meta, fast

    return outer


@case((r(2, 4),), (r(3, 4),), backward=True)
class Parametrized(nn.Module):
    class Symmetric(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        parametrize.register_parametrization(self.lin, "weight", self.Symmetric())
        self.wn = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))

    def forward(self, x: Any) -> Any:
        with parametrize.cached():
            return self.wn(self.lin(x) + self.lin(x * 2))


@case((r(3, 2),), (r(2, 2),))
def pinn(x: Any) -> Any:
    """Derivatives of derivatives, and Jacobians by torch.func and by autograd.functional."""
    x = x.clone().requires_grad_(True)
    u = torch.sin(x).sum(1, keepdim=True)
    du = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True)[0]
    d2u = torch.autograd.grad(du[:, 0].sum(), x, retain_graph=True)[0]
    jac = torch.autograd.functional.jacobian(lambda t: (t**2).sum(0), x.detach())
    per_sample = torch.func.vmap(torch.func.grad(lambda t: torch.sin(t).sum()))(x.detach())
    return du.detach(), d2u, jac, per_sample


@case((r(2, 4),), (r(3, 4),), backward=True)
class StochasticDepth(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.drop_prob = torch.linspace(0, 0.5, 4).tolist()

    def drop_path(self, x: Any, p: float) -> Any:
        if p == 0.0 or not self.training:
            return x
        keep = 1 - p
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        if keep > 0.0:
            mask.div_(keep)
        return x * mask

    def forward(self, x: Any) -> Any:
        for p, layer in zip(self.drop_prob, self.layers):
            if self.training and torch.rand(1).item() < p:
                continue
            x = x + self.drop_path(layer(x), p)
        return F.dropout(x, 0.2, self.training)


@case((r(2, 4),), (r(2, 4),))
class Freezing(nn.Module):
    """Toggles requires_grad and train/eval of children in forward; gradient scale tricks."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 2)
        self.epoch = 0

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.eval()
        return self

    def forward(self, x: Any) -> Any:
        self.epoch += 1
        for p in self.backbone.parameters():
            p.requires_grad_(self.epoch > 1)
        with torch.set_grad_enabled(self.epoch > 1):
            h = self.backbone(x)
        return self.head(h * 0.1 + (h - h * 0.1).detach()), h.requires_grad
