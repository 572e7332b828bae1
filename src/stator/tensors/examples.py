"""What a backend is given in place of the graph inputs where there are symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stator.tensors.fakes import make_fake, serve_operators

if TYPE_CHECKING:
    from stator.tensors.recorder import Recorder


def examples(recorder: Recorder) -> tuple[Any, list[Any]]:
    """For a backend: the fake mode, and fake tensors or symbolic ints for the graph inputs.

    Those that share memory are told apart: a graph that writes to such is run as it was recorded.
    """
    mode, known = recorder.symbolic_mode, recorder._inputs
    assert mode is not None
    serve_operators()
    examples = []
    for name, value in known.names.items():
        meta = known.metas.get(name)
        if type(value) is torch.SymInt:
            examples.append(value)
        elif meta is not None:
            fake = make_fake(mode, meta)
            fake._is_param = isinstance(value, torch.nn.Parameter)
            examples.append(fake)
        else:
            examples.append(mode.from_tensor(value, static_shapes=True))
    return mode, examples
