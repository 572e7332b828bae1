"""Fused steps of optimizers whose numbers are 0-d tensors; see `scalar_ops`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from stator.shapes.scalar_ops import OPS, added, met, named


def _writer(found_inf: Any) -> Callable[[Tensor, Tensor], None]:
    """What puts a new value into a tensor, unless a gradient was infinite."""

    def write(x: Tensor, value: Tensor) -> None:
        x.copy_(value if found_inf is None else torch.where(found_inf == 0, value, x))

    return write


def _gradients(params: Any, grads: Any, decay: Any, maximize: Any, scale: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Each parameter with its gradient: unscaled, of the right sign, with weight decay."""
    for param, grad in zip(params, grads, strict=True):
        if scale is not None:
            grad.copy_(grad / scale)
        signed = -grad if maximize else grad
        yield param, signed if decay is None else signed + param * met(param, decay)


def _adam(decoupled: bool) -> Callable[..., None]:
    def step(
        params: Any, grads: Any, averages: Any, squares: Any, largest: Any, steps: Any, lr: Any, beta1: Any, beta2: Any,
        decay: Any, eps: Any, amsgrad: Any, maximize: Any, scale: Any = None, found_inf: Any = None,
    ) -> None:  # fmt: skip
        write = _writer(found_inf)
        rows = _gradients(params, grads, None if decoupled else decay, maximize, scale)
        for i, (param, grad) in enumerate(rows):
            kept = param * (1 - met(param, lr) * met(param, decay)) if decoupled else param
            average = averages[i] + (grad - averages[i]) * (1 - met(grad, beta1))
            square = squares[i] * met(grad, beta2) + grad * grad * (1 - met(grad, beta2))
            root = square
            if amsgrad:
                root = torch.maximum(largest[i], square)
                write(largest[i], root)
            wide = steps[i].double()
            size = (lr / (1 - beta1**wide)).to(param.dtype)
            spread = ((1 - beta2**wide) ** 0.5).to(param.dtype)
            write(averages[i], average)
            write(squares[i], square)
            write(param, kept - size * average / (root.sqrt() / spread + met(param, eps)))

    return step


def _sgd(
    params: Any, grads: Any, buffers: Any, decay: Any, momentum: Any, lr: Any, dampening: Any, nesterov: Any,
    maximize: Any, is_first: Any, scale: Any = None, found_inf: Any = None,
) -> None:  # fmt: skip
    write = _writer(found_inf)
    for i, (param, grad) in enumerate(_gradients(params, grads, decay, maximize, scale)):
        if len(buffers) > i:
            given = grad * (1 - met(grad, dampening))
            buffer = grad if is_first else buffers[i] * met(grad, momentum) + given
            write(buffers[i], buffer)
            grad = grad + buffer * met(grad, momentum) if nesterov else buffer
        write(param, param - grad * met(param, lr))


def _adagrad(
    params: Any, grads: Any, sums: Any, steps: Any, lr: Any, lr_decay: Any, decay: Any, eps: Any, maximize: Any,
    scale: Any = None, found_inf: Any = None,
) -> None:  # fmt: skip
    write = _writer(found_inf)
    for i, (param, grad) in enumerate(_gradients(params, grads, decay, maximize, scale)):
        size = (lr / (1 + (steps[i].double() - 1) * lr_decay)).to(param.dtype)
        total = sums[i] + grad * grad
        write(sums[i], total)
        write(param, param - size * grad / (total.sqrt() + met(param, eps)))


_ADAM = "self grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps"
_ADAM_NAMED = "lr beta1 beta2 weight_decay eps amsgrad maximize grad_scale found_inf"
_SGD_NAMED = "weight_decay momentum lr dampening nesterov maximize is_first_step grad_scale found_inf"
_ADAGRAD_NAMED = "lr lr_decay weight_decay eps maximize grad_scale found_inf"


def _fused(call: Any, lists: str, keywords: str, numbers: str, formula: Callable[..., None]) -> None:
    parameters = f"{lists} {keywords}"
    row = added(f"{call.__name__}number", named(call, parameters, keywords), parameters, numbers, formula)

    def op(*args: Any) -> Any:
        """Compilers do not know the fused step: they see the formula, also for constants."""
        return row.function(*args) if torch._C._len_torch_dispatch_stack() == 0 else formula(*args)

    op.__name__, op.__module__ = row.function.__name__, row.function.__module__
    OPS[call] = row._replace(function=op, reads=True)
    FUSED.add(call)


FUSED: set[Any] = set()


_fused(torch._fused_adam_, _ADAM, _ADAM_NAMED, "lr beta1 beta2 weight_decay eps", _adam(False))
_fused(torch._fused_adamw_, _ADAM, _ADAM_NAMED, "lr beta1 beta2 weight_decay eps", _adam(True))
_fused(torch._fused_sgd_, "self grads momentum_buffer_list", _SGD_NAMED, "weight_decay momentum lr dampening", _sgd)
_fused(
    torch._fused_adagrad_, "self grads state_sums state_steps", _ADAGRAD_NAMED, "lr lr_decay weight_decay eps", _adagrad
)
