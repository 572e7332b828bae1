"""`flex_attention`: the functions that change scores and masks are captured as graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops.flex_attention import FlexAttentionHOP, flex_attention, flex_attention_fake_impl

from stator.frame import Frame
from stator.native.callers import CALLERS
from stator.runtime.bodies import Captured, capture, flatten, tensors_of
from stator.runtime.control_flow import finish
from stator.tensors.bodies import TENSOR, Structure
from stator.tensors.meta import Meta, intern, meta_of
from stator.tensors.traced import TracedTensor

NAME = "flex_attention"


def call_flex(host: Any, f: Frame, function: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """The operator that `torch.nn.attention.flex_attention.flex_attention` calls."""
    query, key, value, score_mod, mask, scale, options = args[:7]
    leaves, spec = flatten(host, tuple(mask[:-1]), NAME)
    given = [query, key, value, *tensors_of(leaves)]
    if kwargs or any(args[7:]) or len(tensors_of(given)) < len(given) or not is_constant(options, scale):
        raise host.refuse("higher-order", f"{NAME}: arguments that are no tensors", function=NAME)
    if torch.is_grad_enabled() and any(one._meta.requires_grad for one in given):
        raise host.refuse("higher-order", f"{NAME}: gradients", function=NAME)
    score = captured(host, f, score_mod, query, True)
    masking = captured(host, f, mask[-1], query, False)
    around = Structure(tuple(TENSOR if type(leaf) is TracedTensor else leaf for leaf in leaves), spec)
    first, second = len(given), len(given) + len(score.taken)
    chosen, score_run, mask_run = dict(options), score.body.run, masking.body.run  # what the node keeps

    def call(*values: Any) -> Any:
        blocks = (*around.fill(values[3:first]), lambda *v: mask_run(*v)[0])
        return flex_attention(
            *values[:3], lambda *v: score_run(*v)[0], blocks, scale, chosen, values[first:second], values[second:]
        )

    def emulate(*values: Any) -> Any:
        return flex_attention_fake_impl(*values[:3], None, (), scale, chosen)

    values = [*given, *score.taken, *masking.taken]
    with host.recorder.paused(), torch.no_grad():
        fakes = [host.recorder.fake(one._meta.with_autograd(False, True)) for one in (query, key, value)]
        with fakes[0].fake_mode:
            metas = [meta_of(one) for one in emulate(*fakes)]
    return tuple(finish(host, NAME, call, emulate, values, metas, [score.body, masking.body]))


def is_constant(options: Any, scale: Any) -> bool:
    return type(scale) is float and all(type(value) in (bool, int, float, str) for value in options.values())


def captured(host: Any, f: Frame, function: Any, query: TracedTensor, scored: bool) -> Captured:
    """A function of a score and four places, or of the places alone; each stands for all of them."""
    score = place(query, query._meta.dtype)
    where = place(query, torch.int32)
    metas = [*([score] if scored else []), where, where, where, where]
    stand_ins = [query] * len(metas)
    found = capture(host, f, NAME, function, stand_ins, {}, lambda index, outer: metas[index], gathers=True)
    if len(found.outputs) != 1 or found.outputs[0].size or found.body.random:
        raise host.refuse("higher-order", f"{NAME}: a function that does not give one number", function=NAME)
    return found


def place(query: TracedTensor, dtype: torch.dtype) -> Meta:
    return intern(((), (), 0, dtype, query._meta.device, False, True, False, False, False))


CALLERS[id(FlexAttentionHOP)] = call_flex
