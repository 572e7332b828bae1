"""Hooks that a program adds to modules, or to all modules, while it is captured."""

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

import stator


class Recording(torch.nn.Module):
    """Registers hooks on its parts in its first call."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        self.seen = []
        self.ready = False

    def hook(self, module, args, output):
        self.seen.append(output.detach() + 1)

    def register(self):
        for layer in self.layers:
            layer.register_forward_hook(self.hook)

    def forward(self, x):
        self.seen.clear()
        if not self.ready:
            self.register()
            self.ready = True
        return self.layers(x), torch.stack(self.seen)


class RecordingAll(Recording):
    """Registers a hook on every module while it runs."""

    def forward(self, x):
        self.seen.clear()
        handle = register_module_forward_hook(self.hook)
        y = self.layers(x)
        handle.remove()
        return y, torch.stack(self.seen)


@pytest.mark.parametrize("cls", [Recording, RecordingAll])
def test_hooks_added_by_the_program(cls):
    torch.manual_seed(0)
    module, twin = cls(), cls()
    twin.load_state_dict(module.state_dict())
    compiled = stator.compile(module, backend="eager")
    for _ in range(3):
        x = torch.randn(2, 3)
        for mine, eager in zip(compiled(x), twin(x), strict=True):
            assert torch.equal(mine, eager)
