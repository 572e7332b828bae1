"""Recipes for other types of the library, and what is refused."""

import ast
import collections
import contextvars
import functools
import hashlib
import io
import random
import sys
import threading
import typing
import weakref

import pytest
import torch

from stator.emit import CannotRebuild
from tests.emit.heap import emit, rebuild
from tests.emit.samples import Box, inside_all_of, inside_only


def test_buffers():
    text = io.StringIO("héllo\nworld")
    text.readline()
    copy = emit(text)()
    assert copy.read() == "world" and copy.getvalue() == text.getvalue()
    text = io.StringIO()
    text.write("abc")
    copy = emit(text)()
    copy.write("d")
    assert copy.getvalue() == "abcd"
    data = io.BytesIO(b"hello")
    data.seek(2)
    assert emit(data)().read() == b"llo"
    data.close()
    assert emit(data)().closed


def test_random():
    generator = random.Random(5)
    generator.gauss(0, 1)
    copy = emit(generator)()
    assert copy.gauss_next == generator.gauss_next and copy.random() == generator.random()


def test_locks():
    assert type(emit(threading.Lock())()) is type(threading.Lock())
    assert type(emit(threading.RLock())()) is type(threading.RLock())
    event = threading.Event()
    event.set()
    assert emit(event)().is_set()
    lock = threading.Lock()
    with lock, pytest.raises(CannotRebuild, match="lock"):
        emit(lock)


def test_references():
    box = Box(1)
    reference, copy = rebuild((weakref.ref(box), box))
    assert reference() is copy
    known = Box(2)
    assert emit(weakref.ref(known), [known])(known)() is known
    dead = weakref.ref(Box(3))
    assert emit(dead)()() is None
    called = []
    reference, copy = emit((weakref.ref(box, called.append), box), [called])(called)
    del copy
    assert called == [reference]
    owner = Owner()
    reference = weakref.WeakMethod(owner.bound)
    method, copy = emit((reference, owner), inside=inside_all_of(reference.__callback__))()
    assert method().__self__ is copy
    table = weakref.WeakSet([owner])
    copy, item = emit((table, owner), inside=inside_all_of(table._remove))()
    assert [*copy] == [item]
    del item
    assert len(copy) == 0


def test_weak_dictionaries():
    box, key = Owner(), Owner()
    values = weakref.WeakValueDictionary(a=box)
    keys = weakref.WeakKeyDictionary({key: 1})
    functions = inside_all_of(values._remove, keys._remove)
    copies, item, other = emit(((values, keys), box, key), inside=functions)()
    assert copies[0]["a"] is item and copies[1][other] == 1
    del item, other
    assert not copies[0] and not copies[1]
    copies = emit((values, keys), inside=functions)()
    assert not copies[0] and not copies[1]


def test_syntax_trees_and_comparison_keys():
    tree = emit(ast.parse("x = y + 1"))()
    assert ast.unparse(tree) == "x = y + 1"
    make = functools.cmp_to_key(lambda a, b: b - a)
    assert sorted([1, 3, 2], key=emit(make)()) == [3, 2, 1]
    assert emit(make(3))() < emit(make(1))()


class Owner:
    def bound(self):
        return self


def test_hashes():
    digest = hashlib.sha256(b"abc")
    copy = emit(digest)()
    copy.update(b"d")
    assert (
        copy.hexdigest() == hashlib.sha256(b"abcd").hexdigest()
        and digest.hexdigest() == hashlib.sha256(b"abc").hexdigest()
    )


def test_arrays_of_numpy():
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6.0).reshape(2, 3)
    array = array.copy()
    copy = emit(array)()
    assert copy is not array and (copy == array).all() and copy.dtype == array.dtype
    assert emit([numpy.float32(1.5)])()[0] == 1.5
    view = array[0]
    view.flags.writeable = False
    with pytest.raises(CannotRebuild):
        emit(view)


def test_annotations_over_inside_classes():
    class Local:
        pass

    alias, cls = emit((list[Local], Local), inside=inside_only(Local))()
    assert alias.__args__ == (cls,) and cls is not Local
    alias, cls = emit((typing.Optional[Local], Local), inside=inside_only(Local))()
    assert alias.__args__[0] is cls


def counting(start, log):
    try:
        while True:
            start += (yield start) or 1
    finally:
        log.append(start)


async def answering(value):
    return value


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_generators(steps):
    log = []
    made = counting(5, log)
    for _ in range(steps):
        next(made)
    log_copy, copy = emit((log, made), inside=inside_only(counting))()
    assert copy is not made and copy.__qualname__ == "counting"
    assert next(copy) == next(made) and copy.send(10) == made.send(10)
    assert copy.gi_frame.f_lineno == made.gi_frame.f_lineno
    copy.close()
    assert log_copy == [made.gi_frame.f_locals["start"]] and log == []
    made.close()
    assert [*emit(made, inside=inside_only(counting))()] == []


def test_coroutines():
    made = answering(3)
    copy = emit(made, inside=inside_only(answering))()
    for one in (made, copy):
        with pytest.raises(StopIteration) as ended:
            one.send(None)
        assert ended.value.value == 3


REFUSED = {
    "frame": sys._getframe,
    "memoryview": lambda: memoryview(b"a"),
    "context variable": lambda: contextvars.ContextVar("x"),
    "context": contextvars.copy_context,
    "open file": lambda: open(__file__),
    "binary file": lambda: open(__file__, "rb"),
    "tensor": lambda: torch.ones(1),
    "parameter": lambda: torch.nn.Parameter(torch.ones(1)),
    "random generator": torch.Generator,
    "thread-local": threading.local,
    "weak proxy": lambda: weakref.proxy(Box),
    "odict iterator": lambda: iter(collections.OrderedDict(a=1)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind):
    obj = REFUSED[kind]()
    with pytest.raises(CannotRebuild) as caught:
        emit({"a": [obj]})
    assert caught.value.obj is obj
    assert "inside a list, inside a dict: " in str(caught.value)
    if hasattr(obj, "close"):
        obj.close()
