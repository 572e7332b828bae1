"""Fake tensors: made from metadata, and run in a mode that watches what operations do."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from stator.shapes.unbacked import guessed
from stator.tensors.kernels import UNCHECKED, try_arguments, try_kernel
from stator.tensors.meta import Meta


class WatchingMode(FakeTensorMode):
    """A fake mode that notes what the operations below a call do besides computing."""

    def __init__(self, shape_env: Any = None) -> None:
        super().__init__(allow_non_fake_inputs=False, shape_env=shape_env)
        if shape_env is not None:
            self.cache_enabled = False  # keys and checks with symbols cost more than what is found again
        self.watch()

    def dispatcher(self) -> Any:
        """With symbolic sizes operations run in Python: some kernels in C++ would ask for the numbers."""
        if self.shape_env is None:
            return nullcontext()
        from torch._dispatch.python import enable_python_dispatcher  # heavy

        return enable_python_dispatcher()

    def watch(self) -> None:
        """Starts to watch one call."""
        self.pure = True
        self.written: set[int] = set()  # storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):  # it has no schema; what it calls comes here too
            self.pure = False
            return super().__torch_dispatch__(func, types, args, kwargs)
        pure, writes = _nature(func)
        if not pure:
            self.pure = False
        for index, name in writes:
            value = args[index] if index < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, torch.Tensor):
                    self.written.add(storage_of(tensor))
        if func in UNCHECKED:
            try_arguments(func, args, kwargs)
        env = self.shape_env
        if env is not None and func in _SIZED:
            return self._of_size(*args, **kwargs)
        if env is None or func not in _CONVOLUTIONS:
            made = super().__torch_dispatch__(func, types, args, kwargs)
            if pure and not func.is_view:
                try_kernel(func, args, kwargs, made)
            return self._in_rows(made) if func in _IN_ROWS else made
        env.choosing = env.approximate or _one_backend(args[_CONVOLUTIONS[func]])
        try:
            made = super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            env.choosing = False
        is_one = isinstance(made, torch.Tensor)
        return self._laid_out(func, args, kwargs, made) if is_one and env.symbols.unbacked else made

    def _of_size(self, grad: torch.Tensor, output_size: Any, input_size: Any, *_: Any, **__: Any) -> Any:
        """A gradient of the size it is told, row by row."""
        with self:
            return grad.new_empty(input_size)

    def _in_rows(self, made: Any) -> Any:
        """The results of an operation that lays the first one out row by row, which torch does not tell."""
        if isinstance(made, torch.Tensor):
            with self:
                return torch.empty_like(made, memory_format=torch.contiguous_format)
        first, *others = made
        if first.dim() > 3:
            return made
        with self:
            return torch.empty_like(first, memory_format=torch.contiguous_format), *others

    def _laid_out(self, func: Any, args: Any, kwargs: Any, made: Any) -> Any:
        """The result of a convolution, whose layout torch does not tell where a size has no value."""
        tensors = [value for value in (*args, *kwargs.values(), made) if isinstance(value, torch.Tensor)]
        if made.dim() != 4 or all(_is_hinted(tensor) for tensor in tensors):
            return made
        mode = own_mode()
        fakes = {id(tensor): _example(mode, tensor) for tensor in tensors}
        with mode:
            like = func(
                *(fakes.get(id(value), value) for value in args),
                **{name: fakes.get(id(value), value) for name, value in kwargs.items()},
            )
        if like.is_contiguous() or not like.is_contiguous(memory_format=torch.channels_last):
            return made
        with self:
            return made.to(memory_format=torch.channels_last)


_aten = torch.ops.aten
_IN_ROWS = frozenset(
    {
        _aten.native_batch_norm.default,
        _aten._native_batch_norm_legit.default,
        _aten._native_batch_norm_legit.no_stats,
        _aten._native_batch_norm_legit_no_training.default,
        _aten.log_sigmoid_forward.default,
        _aten.normal.Tensor_Tensor,
        _aten.normal.Tensor_float,
        _aten.normal.float_Tensor,
        _aten.pow.Scalar,
    }
)
_SIZED = frozenset(  # torch tells their results for plain ints only
    {_aten.upsample_linear1d_backward.default, _aten.upsample_trilinear3d_backward.default}
)
_CONVOLUTIONS = {  # the place of the weight among the arguments
    _aten.convolution.default: 1,
    _aten._convolution.default: 1,
    _aten.convolution_backward.default: 2,
}


def _one_backend(weight: Any) -> bool:
    """Whether torch, which asks for more than 16 rows when it chooses code for a convolution, takes the same anyway."""
    return torch.get_num_threads() > 1 or any(size != 1 for size in weight.shape[-2:])


def _is_hinted(tensor: torch.Tensor) -> bool:
    """Whether this call tells all sizes."""
    return all(type(size) is int or size.node.hint is not None for size in tensor.shape)


def _example(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """A tensor of guessed sizes; guesses need not go together, so a difference may be negative."""
    numbers = [abs(guessed(number)) for number in (*tensor.shape, *tensor.stride())]
    sizes, strides = numbers[: tensor.dim()], numbers[tensor.dim() :]
    with torch.no_grad():
        plain = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="meta")
        return FakeTensor(mode, plain, tensor.device)


@functools.cache
def _nature(func: Any) -> tuple[bool, tuple[tuple[int, str], ...]]:
    """Whether an operation has no effect that its schema does not tell, and the arguments it writes to."""
    schema = func._schema
    name = schema.name
    known = name.startswith(("aten::", "prims::", "prim::")) and "_assert" not in name and "print" not in name
    pure = known and torch.Tag.nondeterministic_seeded not in func.tags
    if not schema.is_mutable:
        return pure, ()
    writes = [(i, arg.name) for i, arg in enumerate(schema.arguments) if arg.alias_info and arg.alias_info.is_write]
    return pure, tuple(writes)


class _Local(threading.local):
    mode: WatchingMode | None = None
    running = 0  # calls that are run on fake tensors to see what they do


_local = _Local()


def own_mode() -> WatchingMode:
    """The fake mode of this thread."""
    if _local.mode is None:
        _local.mode = WatchingMode()
    return _local.mode


@contextmanager
def looking() -> Iterator[None]:
    """Calls run on fake tensors only to see what they do."""
    _local.running += 1
    try:
        yield
    finally:
        _local.running -= 1


def is_looking() -> bool:
    return _local.running > 0


def serve_operators() -> None:
    """Torch's higher-order operators look for their rules by the very class of a mode."""
    for operator in torch._ops._higher_order_ops.values():
        rules = operator.python_key_table
        if FakeTensorMode in rules:
            rules.setdefault(WatchingMode, rules[FakeTensorMode])


def storage_of(tensor: torch.Tensor) -> int:
    """Address of the memory of a tensor."""
    return cast(int, tensor.untyped_storage()._cdata)


class _Interior(torch.autograd.Function):
    """Gives a tensor that looks like the result of an operation, with any strides."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        return make()


def make_fake(mode: FakeTensorMode, meta: Meta) -> FakeTensor:
    """A fresh normal fake tensor with this metadata; made without the mode, which would cost ten times as much."""
    with torch.inference_mode(False):
        if meta.requires_grad and not meta.leaf:
            with torch.enable_grad():
                leaf = torch.empty(0, requires_grad=True, device="meta")
                return cast(FakeTensor, _Interior.apply(leaf, lambda: _allocate(mode, meta)))
        fake = _allocate(mode, meta)
        if meta.requires_grad:
            fake.requires_grad_()
        return fake


def _extent(size: Any) -> Any:
    """How many strides a dimension takes at most; whether a symbolic size is zero is not asked."""
    return max(size - 1, 0) if type(size) is int else size


def _allocate(mode: FakeTensorMode, meta: Meta) -> FakeTensor:
    sizes, strides, offset = meta.plain()
    with torch.no_grad():
        if type(offset) is not int:
            start = torch.empty_strided(sizes, strides, dtype=meta.dtype, device="meta")
            plain = start.as_strided(sizes, strides, offset)
        elif offset:
            room = 1 + sum(_extent(size) * stride for size, stride in zip(sizes, strides, strict=True))
            storage = torch.empty(offset + room, dtype=meta.dtype, device="meta").untyped_storage()
            plain = torch.empty(0, dtype=meta.dtype, device="meta").set_(storage, offset, sizes, strides)
        else:
            plain = torch.empty_strided(sizes, strides, dtype=meta.dtype, device="meta")
        if meta.conj:
            plain = torch._conj(plain)
        if meta.neg:
            plain = torch._neg_view(plain)
        return FakeTensor(mode, plain, meta.device)
