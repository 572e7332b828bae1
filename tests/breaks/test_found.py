"""Programs that once behaved differently when a graph broke in them."""

from __future__ import annotations

import functools
import gc
import heapq
import inspect
import itertools
import os
import subprocess
import sys
import threading
import typing
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import stator
from stator import _frames
from stator.eval import forced
from stator.report.events import recording
from tests.harness import check

pytestmark = pytest.mark.usefixtures("unaudited")
FOUND: list[Callable[[], Any]] = []
LOCK = threading.Lock()
SETTINGS = [None, "1", "3", "7", "11", "all"]


def found(fn: Callable[[], Any]) -> Callable[[], Any]:
    FOUND.append(fn)
    return fn


@found
def slots_named_like_what_each_object_has() -> Any:
    class Odd:
        __slots__ = ("__class__", "__dict__")

    odd: Any = Odd()
    odd.bar = 1
    os.getpid()
    return hasattr(odd, "__class__"), "__repr__" in dir(odd), odd.bar


@found
def metaclasses_that_say_the_order() -> Any:
    log = []

    class Meta(type):
        def mro(cls) -> Any:
            log.append(cls.__dict__["f"]())
            return super().mro()

    class Made(metaclass=Meta):
        def f() -> Any:  # type: ignore[misc]
            return __class__.__name__  # type: ignore[name-defined]

    os.getpid()
    return log, Made.f()


@found
def iterators_of_classes_made_here() -> Any:
    log, made, classes = [], [], []
    for base, given in (
        (itertools.chain, ("ab", "c")),
        (zip, ("ab", "cd")),
        (itertools.repeat, (3, 2)),
        (map, (str, [1])),
    ):

        class Made(base):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any) -> None:
                log.append(args)

        made.append(Made(*given))
        classes.append(Made)
    os.getpid()
    return log, [type(one) is cls for one, cls in zip(made, classes, strict=True)], list(map(list, made))


@found
def members_of_a_group() -> Any:
    group = ExceptionGroup("g", [ValueError(1), KeyError(2)])
    kept = group.exceptions
    os.getpid()
    return kept is group.exceptions, kept[0] is group.exceptions[0], repr(group.args)


@found
def lines_of_frames_in_a_traceback() -> Any:
    def fails() -> Any:
        a = 1
        return a / 0

    try:
        fails()
    except ZeroDivisionError as error:
        caught: Any = error
    os.getpid()
    frame = caught.__traceback__.tb_next.tb_frame
    return frame.f_lineno - frame.f_code.co_firstlineno, frame.f_code.co_name


@found
def classes_whose_body_breaks() -> Any:
    log = []

    class Meta(type):
        def __new__(cls, name: str, bases: Any, names: Any) -> Any:
            made = super().__new__(cls, name, bases, names)
            log.append((name, (torch.ones(2) * 2).sum().item()))
            return made

    class Made(metaclass=Meta):
        os.getpid()

        def name(self) -> str:
            return __class__.__name__  # type: ignore[name-defined, no-any-return]

    return Made().name(), log


@found
def handled_by_except_star() -> Any:
    log = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* ValueError as error:
        os.getpid()
        log.append(repr(error))
    except* TypeError:
        log.append(repr(sys.exc_info()[1]))
    except* Exception as error:
        log.append(repr(error))
    return log


class ByData:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __lt__(self, other: Any) -> bool:
        return bool(self.x.sum() < other.x.sum())


@found
def sorted_without_a_key() -> Any:
    items = [ByData(torch.ones(2) * n) for n in (3, 1, 2)]
    found = sorted(items, key=None), sorted(items, key=None, reverse=True), heapq.nlargest(5, items)
    items.sort(key=None)
    return [[item.x.tolist() for item in row] for row in (*found, items)]


@found
def lock_held_across() -> Any:
    inside = threading.Lock()
    with LOCK, inside:
        os.getpid()
        held = LOCK.locked(), inside.locked()
    return held, LOCK.locked(), inside.locked()


@found
def lock_taken_twice() -> Any:
    LOCK.acquire()
    again = LOCK.acquire(False)
    LOCK.release()
    return again, LOCK.locked()


@found
def lock_not_taken() -> Any:
    try:
        LOCK.release()
    except RuntimeError as error:
        return str(error), LOCK.locked()


@found
def cells_in_locals() -> Any:
    x, y = 1, 2
    os.getpid()
    seen = eval("x + y"), sorted(locals())
    return seen, (lambda: x)()


@found
def messages_of_calls() -> Any:
    log = []

    def f(*args: Any, **kwargs: Any) -> None: ...

    for call in (lambda: f(*5), lambda: f(**5), lambda: print(*5), lambda: f(*[], **{1: 2})):  # type: ignore[arg-type]
        try:
            call()
        except TypeError as error:
            log.append(str(error))
        os.getpid()
    return log


@found
def endless_recursion() -> Any:
    def f(n: int) -> Any:
        return f(n + 1)

    try:
        f(0)
    except RecursionError as error:
        return type(error)


@found
def abandoned_generator() -> Any:
    log = []

    @contextmanager
    def scope() -> Iterator[int]:
        log.append("start")
        try:
            yield 1
        finally:
            log.append("end")

    with scope() as value:
        os.getpid()
        log.append(value)
    return log


COUNTING = """
def count():
    global a
    os.getpid()
    a += 1
    return a

def steps():
    global a
    yield a
    a += 1
    yield a
"""
SHARED: dict[str, Any] = {"os": os}
exec(COUNTING, SHARED)


@found
def globals_made_inside() -> Any:
    names: dict[str, Any] = {"a": 0, "os": os}
    exec(COUNTING, names)
    steps, unstarted = names["steps"](), names["steps"]()
    log = [names["count"](), next(steps)]
    os.urandom(1)
    return log, names["count"](), list(steps), list(unstarted), names["a"]


@found
def globals_written_as_a_dict() -> Any:
    SHARED["a"] = 5
    log = [SHARED["count"]()]
    SHARED["a"] += 10
    return log, SHARED["count"](), SHARED["a"], len(SHARED)


@found
def file_read_by_native_code() -> Any:
    with open(__file__) as file:
        os.getpid()
        first, second, *rest = file
        again = list(file)
    with open(__file__) as file:
        os.urandom(1)
        return first, second, len(rest), again, [line for line, _ in zip(file, range(2), strict=False)], max(file) > ""


class Base:
    def plus(self, x: int) -> int:
        return x + 1


class Derived(Base):
    def plus(self, x: int) -> int:
        above = super()
        os.urandom(1)
        return 10 * above.plus(x)


@found
def super_kept_across() -> Any:
    return Derived().plus(1)


def test_super_kept_across_is_captured() -> None:
    compiled = stator.compile(super_kept_across, backend="eager", fullgraph=False)
    assert [compiled() for _ in range(4)] == [20] * 4
    assert not stator.report.events.events("error") and stator.stats()["frames_captured"] == 2


class Mortal:
    pass


@found
def asked_for_what_is_gone() -> Any:
    thing = Mortal()
    os.urandom(1)
    reference = weakref.ref(thing)
    there = reference() is thing
    del thing
    return there, reference()


@functools.lru_cache(None)
def computed(x: int) -> int:
    os.urandom(1)
    COMPUTED.append(x)
    return x + 1


COMPUTED: list[int] = []


@found
def break_in_a_cached_function() -> Any:
    COMPUTED.clear()
    computed.cache_clear()

    @functools.lru_cache(None)
    def inside(x: int) -> int:
        COMPUTED.append(-x)
        return x

    return computed(1), computed(1), inside(1), inside(1), COMPUTED[:]


@found
def types_asked_by_native_code() -> Any:
    values = [torch.ones(2), torch.nn.Parameter(torch.ones(2)), 1]
    kinds = list(map(type, values))
    os.urandom(1)
    return kinds, list(map(type, values))


@pytest.mark.filterwarnings("ignore:stator runs this function eagerly")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("fn", FOUND)
def test_same(fn: Callable[[], Any], setting: str | None) -> None:
    want = fn()
    forced.force(setting)
    compiled = stator.compile(fn, backend="eager", fullgraph=False)
    assert [compiled(), compiled()] == [want, want]


def test_tensor_as_text() -> None:
    """Torch's own scope around the formatting ends with the capture that met it."""
    compiled = stator.compile(lambda x: (str(x + 1), [*map(str, [x])], x * 2), backend="eager", fullgraph=False)
    for _ in range(2):
        assert compiled(torch.zeros(1))[:2] == ("tensor([1.])", ["tensor([0.])"])
    assert not stator.report.events.events("error") and stator.stats()["graph_breaks"]


def test_scope_of_dispatching() -> None:
    def below_autograd(x: torch.Tensor) -> torch.Tensor:
        guard = torch._C._AutoDispatchBelowAutograd()
        y = x + 1
        del guard
        return y * 2

    x = torch.ones(2, requires_grad=True)
    compiled = stator.compile(below_autograd, backend="eager", fullgraph=False)
    assert compiled(x).requires_grad is below_autograd(x).requires_grad is False


class Noisy:
    log: list[str] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        self.log.append(self.name)


class Small:
    """Not tracked by the garbage collector."""

    __slots__ = ()
    dead = 0

    def __del__(self) -> None:
        type(self).dead += 1


def finalized() -> Any:
    first = Noisy("first")
    os.getpid()
    second = Noisy("second")
    small = Small()
    os.getpid()
    return first.name, second.name, type(small)


@pytest.mark.parametrize("setting", SETTINGS)
def test_finalizers_run_once(setting: str | None) -> None:
    """Those of objects that only a capture has made do not run at all."""
    forced.force(setting)
    compiled = stator.compile(finalized, backend="eager", fullgraph=False)
    for _ in range(2):
        Noisy.log.clear()
        Small.dead = 0
        compiled()
        assert sorted(Noisy.log) == ["first", "second"]
        assert Small.dead == 1


# Without torch, in a process that has met no class with a finalizer yet.
FIRST_MET = """
import ctypes, importlib.machinery, importlib.util, io, sys
loader = importlib.machinery.ExtensionFileLoader("_frames", sys.argv[1])
frames = importlib.util.module_from_spec(importlib.util.spec_from_loader("_frames", loader))

class Raw(io.RawIOBase):
    pass

class Plain:
    def __del__(self):
        pass

def finalizer(cls):
    return ctypes.c_void_p.from_address(id(cls) + 49 * 8).value  # tp_finalize

before = finalizer(Raw), finalizer(Plain)
frames.watch_type(Raw)  # its finalizer is C code
frames.watch_type(Plain)
print(finalizer(Raw) == before[0], finalizer(Plain) == before[1])
frames.unwatch_type(Plain)
print(finalizer(Plain) == before[1])
"""


def test_finalizers_of_c_types_change_nothing_for_others() -> None:
    command = [sys.executable, "-c", FIRST_MET, _frames.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True"]


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return inspect.getframeinfo(frame.f_back).lineno


def where() -> Any:
    os.getpid()
    return here() - where.__code__.co_firstlineno, sys._getframe().f_lineno - where.__code__.co_firstlineno


def test_frames_of_the_caller() -> None:
    compiled = stator.compile(where, backend="eager", fullgraph=False)
    assert [compiled(), compiled()] == [(2, 2), (2, 2)]


def traced_by_the_program() -> Any:
    lines = []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        lines.append((frame.f_code.co_name, event))
        return trace

    def traced(x: int) -> int:
        y = x + 1
        return y

    before = sys.gettrace()
    sys.settrace(trace)
    traced(1)
    sys.settrace(before)
    return lines[:5]


def objects_counted() -> Any:
    before = len(gc.get_objects())
    made = [Mortal() for _ in range(10)]
    return len(gc.get_objects()) - before < 100, len(made)


@pytest.mark.parametrize("fn", [traced_by_the_program, objects_counted])
def test_watched_interpreter(fn: Callable[[], Any]) -> None:
    compiled = stator.compile(fn, backend="eager", fullgraph=False)
    want = fn()
    assert [compiled(), compiled()] == [want, want]


def test_long_run_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stator.eval.machine.ROUNDS", 100)

    def work(n: int) -> int:
        return sum(i for i in range(n)) + n

    def with_tensor(n: int, x: Any) -> int:
        return sum(i for i in range(n)) + x.dim()

    x = torch.ones(3)
    for fullgraph, args, captured in (
        (False, (150,), 0),
        (True, (150,), 1),
        (False, (150, x), 1),
        (False, (1100, x), 0),
        (True, (1100, x), 1),
    ):
        stator.reset()
        fn = with_tensor if len(args) == 2 else work
        assert stator.compile(fn, backend="eager", fullgraph=fullgraph)(*args) == fn(*args)
        assert stator.stats()["frames_captured"] == captured


def test_near_the_recursion_limit() -> None:
    """Capturing goes deeper than running: where it cannot, CPython runs the call."""

    def work(x: int) -> int:
        return x + len(os.urandom(1))

    def deep(n: int, fn: Callable[[int], int]) -> int | None:
        return fn(1) if n == 0 else deep(n - 1, fn)

    def outcome(depth: int, fn: Callable[[int], int]) -> int | None:
        try:
            return deep(depth, fn)
        except RecursionError:
            return None

    depth = sys.getrecursionlimit() - len(inspect.stack(0))
    for left in (3, 16, 18, 20, 22, 40):
        compiled = stator.compile(work, backend="eager", fullgraph=False)
        assert outcome(depth - left, compiled) == outcome(depth - left, work)


CLOSED: list[str] = []


def closing() -> Iterator[int]:
    try:
        yield 1
        yield 2
    finally:
        CLOSED.append("closed")


def raises_out_of_a_loop() -> None:
    for number in closing():
        os.urandom(1)
        raise KeyError(number)


@pytest.mark.parametrize("setting", [None, "3", "all"])
def test_iterator_ends_with_the_call_that_raised(setting: str | None) -> None:
    """The traceback knows stator's frames as callers; they hold nothing of the program's."""
    forced.force(setting)
    compiled = stator.compile(raises_out_of_a_loop, backend="eager", fullgraph=False)
    for _ in range(2):
        CLOSED.clear()
        with pytest.raises(KeyError) as caught:
            compiled()
        assert CLOSED == ["closed"]
        del caught


def tells_shapes(x: Any) -> Any:
    """A library takes another way when it is compiled, on which it fails."""
    mask = torch.zeros(2, 5) if torch.compiler.is_compiling() else None
    return x * 2 if mask is None else x * 2 + mask


def test_a_way_that_fails_when_compiled() -> None:
    compiled = stator.compile(tells_shapes, backend="eager")
    assert torch.equal(compiled(torch.ones(2, 3)), torch.full((2, 3), 2.0))
    assert stator.stats()["graphs"] == 1 and stator.stats()["graph_breaks"] == 0
    with pytest.raises(stator.Unsupported):
        stator.compile(tells_shapes, backend="eager", fullgraph=True)(torch.ones(2, 3))


def caches_inside(n: int) -> Any:
    log = []

    @functools.lru_cache
    def cached(key: int) -> int:
        log.append(key)
        return key * 2

    return cached(0), cached(n), cached(3), cached(key=n), log


def test_numbers_are_keys_of_caches_made_inside() -> None:
    compiled = stator.compile(caches_inside, backend="eager")
    assert [compiled(n) for n in (2, 3, 4)] == [caches_inside(n) for n in (2, 3, 4)]


LOG: list[Any] = []


@functools.lru_cache
def logged(key: int) -> None:
    LOG.append(key)


def cached_twice(x: Any) -> Any:
    logged(2), logged(1)
    return logged(int(x.sum().item()) % 7), list(LOG)


def caches_made_before_a_break(x: Any) -> Any:
    log = []
    cached = functools.lru_cache(lambda key: log.append(key))
    cached(2), cached(1)
    return cached(int(x.sum().item()) % 7), log


@pytest.mark.parametrize("program", [cached_twice, caches_made_before_a_break])
def test_effects_of_cached_functions_happen_once(program: Callable[[Any], Any]) -> None:
    found = []
    with recording("break", "error") as seen:
        for run in (program, stator.compile(program, backend="eager")):
            logged.cache_clear(), LOG.clear()
            found.append([run(torch.ones(1)), run(torch.full((1,), 3.0))])
    assert found[0] == found[1]
    assert all(event.break_id != "internal" for event in seen if event.kind == "break")


def given(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def partial_of_a_partial(x: Any) -> Any:
    first = functools.partial(given, 1, a=1)
    stator.graph_break()
    text = repr(first)
    second = functools.partial(first, 2)
    stator.graph_break()
    return second.func is given, second.args, len(text), x + 1


def keywords_of_a_partial(x: Any) -> Any:
    part = functools.partial(given)
    keywords = part.keywords
    stator.graph_break()
    keywords["z"] = [1]
    return part(1), functools.partial(part, 2)(3), part.keywords is keywords, x + 1


class OwnSuper(super):
    pass


def supers(x: Any) -> Any:
    class Derived(Noisy):
        log: Any = []

    bound, unbound, blank = OwnSuper(Derived, Derived("a")), super(Derived), super.__new__(OwnSuper)
    stator.graph_break()
    return type(bound), bound.__thisclass__.__name__, unbound.__self__, blank.__thisclass__, type(blank), x + 1


def wrappers_of_none(x: Any) -> Any:
    equal, truth, added = None.__eq__, None.__bool__, (1).__add__
    stator.graph_break()
    return equal(None), truth(), added(2), equal.__self__, x + 1


@pytest.mark.parametrize("program", [partial_of_a_partial, keywords_of_a_partial, supers, wrappers_of_none])
def test_objects_of_c_over_a_break(program: Any) -> None:
    check(program, vary=[(torch.ones(1),)] * 3, fullgraph=False, expect_breaks=None, expect_recompiles=None)


def test_guards_leave_partials_without_a_dict() -> None:
    part = functools.partial(given, 1)
    compiled = stator.compile(lambda x, p: (x + 1, p(2)), backend="eager")
    for _ in range(2):
        compiled(torch.ones(1), part)
    assert functools.partial(part, 2).func is given


def generics(x: Any) -> Any:
    T = typing.TypeVar("T")

    class Own(typing.Generic[T]):
        pass

    many, maybe, own, either = list[Own], typing.Optional[Own], Own[int], typing.Union[Own, int]
    of_t, chosen, noted = typing.List[T], typing.Literal["a", 3], typing.Annotated[Own, "x"]  # noqa: UP006
    stator.graph_break()
    same = [maybe is typing.Optional[Own], own is Own[int], either is typing.Union[Own, int], many == list[Own]]
    same += [of_t is typing.List[T], chosen is typing.Literal["a", 3], noted is typing.Annotated[Own, "x"]]  # noqa: UP006
    return same, own.__origin__ is Own, noted.__metadata__, isinstance(own(), Own), x + 1


def test_generics_over_a_break_are_those_that_typing_gives() -> None:
    check(generics, vary=[(torch.ones(1),)] * 3, fullgraph=False, expect_breaks=None, expect_recompiles=None)
