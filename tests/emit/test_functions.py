"""Recipes for functions, methods and what wraps callables."""

import functools
import operator

import pytest

from stator.emit import CannotRebuild
from tests.emit.heap import emit, rebuild
from tests.emit.samples import SubDict, SubList, T, inside_all, inside_all_of, inside_only, sub


def make_counter(start):
    count = start

    def up(step: int = 1, *more, scale=[T], **rest) -> int:  # noqa: B006
        "Count."
        nonlocal count
        count += step
        return count

    def get():
        return count

    up.tag = [T]
    return up, get


def test_functions_with_shared_cells():
    up, get = make_counter(5)
    copy_up, copy_get = rebuild((up, get), T, inside=inside_all_of(up, get))
    assert (copy_up(), copy_get(), get()) == (6, 6, 5)
    assert copy_up.__doc__ == "Count." and copy_up.__module__ == __name__ and copy_up.__kwdefaults__ == {"scale": [T]}
    assert copy_up.__globals__ is globals()


def test_outside_functions_are_constants():
    up, get = make_counter(5)
    assert emit([up])()[0] is up


def test_recursive_and_empty_cells():
    def outer():
        def loop(n):
            return n if n == 0 else loop(n - 1)

        def broken():
            return later

        return loop, broken
        later = 1

    loop, broken = outer()
    copy, empty = rebuild((loop, broken), inside=inside_all)
    assert copy(3) == 0 and copy.__closure__[0].cell_contents is copy
    with pytest.raises(NameError):
        empty()


def test_function_attributes():
    def f():
        pass

    f.__name__, f.__qualname__, f.__doc__, f.__module__ = "g", "h.g", "doc", "mod"
    copy = rebuild(f, inside=inside_all)
    assert (copy.__name__, copy.__qualname__, copy.__doc__, copy.__module__) == ("g", "h.g", "doc", "mod")
    exec("def made(): return value", space := {"value": [1], "__name__": "nowhere"})
    copy = rebuild(space["made"], inside=inside_all)
    assert copy.__globals__["made"] is copy and copy() == [1]
    assert emit(space["made"], inside=inside_only(space["made"]))().__globals__ is space


def test_methods():
    class Owner:
        def method(self):
            return self

    owner = Owner()
    copy, again = rebuild((owner.method, owner))
    assert copy.__self__ is again
    items = []
    append, same = rebuild((items.append, items))
    append(1)
    assert same == [1]
    assert rebuild([1, 2].__len__)() == 2
    assert emit("a".join)()(["b", "c"]) == "bac"
    assert emit(dict.fromkeys)() == dict.fromkeys
    assert emit(object.__new__)() is object.__new__

    class Local:
        pass

    order, cls = emit((Local.mro, Local), inside=inside_only(Local))()
    assert order() == [cls, object]
    made, cls = emit((SubDict.fromkeys, SubDict), inside=inside_only(SubDict))()
    assert made.__self__ is cls is not SubDict
    insert = sub(SubList, lambda o: None).insert
    emit(insert, [T])(T)(0, 1)


def test_super():
    class A:
        def name(self):
            return "A"

    class B(A):
        def name(self):
            return "B"

        def up(self):
            return super()

    assert emit(B().up())().name() == "A"


def test_descriptors():
    def f(self):
        return 1

    for obj in (classmethod(f), staticmethod(f), property(f, None, f, "doc"), property(f)):
        rebuild(obj)

    class Own(property):
        def __init__(self, *args):
            raise AssertionError

    own = property.__new__(Own)
    property.__init__(own, f)
    own.extra = [T]
    assert rebuild(own, T).fget is f


def test_partials():
    partial = functools.partial(f := print, T, [1], sep="")
    copy = rebuild(partial, T)
    assert copy.func is f and copy.args == (T, [1]) and copy.keywords == {"sep": ""}
    partial.note = [1]
    nested = functools.partial(partial, 2)
    copy = rebuild(nested, T)
    assert type(copy.func) is functools.partial

    class Sub(functools.partial):
        pass

    assert type(rebuild(Sub(print, T), T)) is Sub
    method = functools.partialmethod(print, T)
    assert rebuild(method, T).args == (T,)


def test_operator_objects():
    assert emit(operator.itemgetter(1, slice(None)))()("ab") == ("b", "ab")
    assert emit(operator.attrgetter("real", "imag"))()(1j) == (0.0, 1.0)
    assert emit(operator.methodcaller("split", sep=",", maxsplit=1))()("a,b,c") == ["a", "b,c"]
    assert emit(operator.methodcaller("split", "b"))()("abc") == ["a", "c"]


def test_lru_cache():
    @functools.lru_cache(maxsize=3)
    def cached(x):
        return x

    assert emit([cached])()[0] is cached
    copy = emit(cached, inside=inside_all)()
    assert copy is not cached and copy(1) == 1 and copy.cache_info().maxsize == 3 and cached.cache_info().misses == 0
    cached(1)
    with pytest.raises(CannotRebuild, match="cache"):
        emit(cached, inside=inside_all)
