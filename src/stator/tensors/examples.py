"""What a backend is given in place of the graph inputs where there are symbols."""

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
    for (name, value), place in zip(known.names.items(), memory, strict=True):
        meta = metas.get(name)
        if place is None:
            examples.append(value)
        elif meta is not None and sharing[place] == 1:
            fake = make_fake(mode, meta)
            fake._is_param = isinstance(value, torch.nn.Parameter)
            examples.append(fake)
        else:  # fakes of real tensors share memory as those do
            if type(meta) is SymbolicMeta:
                for size in meta.size:
                    number(size)
            examples.append(mode.from_tensor(value, static_shapes=True))
    return mode, examples
