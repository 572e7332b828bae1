"""Operations whose own metadata functions ask for the numbers behind symbols: forms of them that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F


def _recurrent(func: Any, gates: int) -> Callable[..., Any]:
    """A recurrent layer: torch unrolls it in time, though only its sizes matter."""

    def run(input: Any, hx: Any, params: Any, *rest: Any) -> Any:
        if not isinstance(params, (list, tuple)) or len(rest) != 6 or input.dim() != 3 or hx.dim() != 3:
            return func(input, hx, params, *rest)
        _, layers, dropout, train, bidirectional, batch_first = rest
        directions = 2 if bidirectional else 1
        hidden = hx.shape[2]
        time, batch = (1, 0) if batch_first else (0, 1)
        fits = hx.shape[0] == layers * directions and hx.shape[1] == input.shape[batch]
        if not fits or tuple(params[0].shape) != (gates * hidden, input.shape[2]):
            return func(input, hx, params, *rest)
        link = sum((tensor.sum() for tensor in (input, hx, *params)), input.new_zeros(()))  # what autograd sees
        if dropout and train and layers > 1:
            link = torch.dropout(link, dropout, train)  # random numbers are drawn
        output = input.new_empty(input.shape[time], input.shape[batch], hidden * directions) + link
        return output.transpose_(0, 1) if batch_first else output, torch.empty_like(hx) + link

    return run


def _linspace(start: Any, end: Any, steps: Any, **options: Any) -> Any:
    if isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor) or "out" in options:
        return torch.linspace(start, end, steps, **options)
    kind = options.pop("dtype", None) or torch.linspace(start, end, 0).dtype
    torch._check(steps >= 0)
    return torch.empty(steps, dtype=kind, **options)


def _window(func: Any) -> Callable[..., Any]:
    def run(length: Any, *args: Any, **options: Any) -> Any:
        torch._check(length >= 2)
        return func(2, *args, **options).new_empty(length)

    return run


def _one_hot(tensor: Any, num_classes: Any = -1) -> Any:
    if type(num_classes) is int:
        return F.one_hot(tensor, num_classes)
    torch._check(num_classes > 0)
    return tensor.new_empty((*tensor.shape, num_classes))


FORMS: dict[Any, Callable[..., Any]] = {
    torch.gru: _recurrent(torch.gru, 3),
    torch.rnn_tanh: _recurrent(torch.rnn_tanh, 1),
    torch.rnn_relu: _recurrent(torch.rnn_relu, 1),
    torch.linspace: _linspace,
    F.one_hot: _one_hot,
    **{
        func: _window(func)
        for func in (torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window)
    },
}
