"""What a backend is given in place of the graph inputs where there are symbols, or shared memory is written to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from stator.shapes.scalar import number
from stator.tensors.fakes import make_fake, serve_operators
from stator.tensors.inputs import place_of
from stator.tensors.meta import SymbolicMeta

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


def examples(recorder: Recorder) -> tuple[Any, list[Any]]:
    """For a backend: the fake mode, and fake tensors or symbolic ints for the graph inputs."""
    mode, known = recorder.symbolic_mode, recorder._inputs
    assert mode is not None
    serve_operators()
    memory = [None if type(v) is torch.SymInt else place_of(v)[0] for v in known.names.values()]
    metas = known.metas
    examples = []
    sharing = Counter(memory)
    written = {place_of(known.names[name])[0] for name in known.mutated()}
    for (name, value), place in zip(known.names.items(), memory, strict=True):
        meta = metas.get(name)
        if place is None:
            examples.append(value)
        elif meta is not None and (sharing[place] == 1 or place in written):
            fake = make_fake(mode, meta)
            fake._is_param = isinstance(value, torch.nn.Parameter)
            examples.append(fake)
        else:  # fakes of real tensors share memory as those do
            if type(meta) is SymbolicMeta:
                for size in meta.size:
                    number(size)
            examples.append(mode.from_tensor(twin(value) if place in written else value, static_shapes=True))
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
