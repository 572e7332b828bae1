"""What a backend is given in place of the graph inputs where there are symbols, or shared memory is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stator.tensors.fakes import make_fake, serve_operators
from stator.tensors.inputs import place_of

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


def examples(recorder: Recorder) -> tuple[Any, list[Any]]:
    """For a backend: the fake mode, and fake tensors or symbolic ints for the graph inputs.

    Those that share memory are told apart: a graph that writes to such is run as it was recorded.
    """
    mode, known = recorder.symbolic_mode(), recorder._inputs
    serve_operators()
    examples = []
    written = {place_of(known.names[name])[0] for name in known.mutated()}
    for name, value in known.names.items():
        meta = known.metas.get(name)
        if type(value) is torch.SymInt:
            examples.append(value)
        elif meta is not None:
            fake = make_fake(mode, meta)
            fake._is_param = isinstance(value, torch.nn.Parameter)
            examples.append(fake)
        else:
            apart = twin(value) if place_of(value)[0] in written else value
            examples.append(mode.from_tensor(apart, static_shapes=True))
    return mode, examples


def lying_apart(tensors: list[Any], written: list[int]) -> list[Any]:
    """Tensors like these, of which none that is written to shares memory with another."""
    memory = [None if type(one) is torch.SymInt else place_of(one)[0] for one in tensors]
    shared = {memory[i] for i in written if memory.count(memory[i]) > 1}
    return [twin(one) if place in shared else one for one, place in zip(tensors, memory, strict=True)]


def twin(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in memory of its own that looks the same, also to autograd."""
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        made.copy_(tensor)
    if not tensor.requires_grad:
        return made
    if tensor.is_leaf:
        return made.requires_grad_()
    with torch.enable_grad():
        return made.add_(torch.zeros((), dtype=tensor.dtype, device=tensor.device, requires_grad=True))
