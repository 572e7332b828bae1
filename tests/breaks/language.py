"""More of what random programs are made of: classes, descriptors, operators and the other protocols of the language.

`$N` stands for a number with operators of its own; the other marks are those of the other tables.
"""

from __future__ import annotations

PRELUDE = '''
import abc, contextvars, typing


class Typed:
    """A data descriptor that keeps values under a name of its own."""

    def __init__(self, kind, default=None):
        self.kind, self.default, self.writes = kind, default, 0

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, kind=None):
        return self if owner is None else getattr(owner, self.name, self.default)

    def __set__(self, owner, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name[1:]} is no {self.kind.__name__}")
        self.writes += 1
        setattr(owner, self.name, value)

    def __delete__(self, owner):
        delattr(owner, self.name)


class Plain:
    """A descriptor without __set__: the instance comes first."""

    def __get__(self, owner, kind=None):
        note("plain", owner is None)
        return 7


class Described:
    size = Typed(int, 3)
    weight = Typed(torch.Tensor)
    plain = Plain()

    def __init__(self, weight, size=1):
        self.weight, self.size = weight, size

    def __getattribute__(self, name):
        if name == "odd":
            return object.__getattribute__(self, "size") % 2
        return super().__getattribute__(name)

    def __delattr__(self, name):
        note("deleted", name)
        super().__delattr__(name)

    @classmethod
    def of(cls, *args):
        return cls(*args)

    @staticmethod
    def twice(value):
        return value * 2


DESCRIBED = Described(torch.ones(3), 2)


class Base:
    __slots__ = ("a", "__dict__")

    def __init__(self, a):
        self.a = a


class Leaf(Base):
    __slots__ = ("b", "__weakref__")

    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    def __eq__(self, other):
        return type(other) is Leaf and self.b == other.b

    __hash__ = None


LEAF = Leaf(1, [2])


@functools.total_ordering
class Number:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return int(self.value)

    def __int__(self):
        return opaque(int(self.value))

    def __float__(self):
        return float(self.value)

    def __matmul__(self, other):
        return Number(self.value + 1) if isinstance(other, Number) else NotImplemented

    def __rmul__(self, other):
        return (other, self.value)

    def __mul__(self, other):
        return Number(self.value * 2) if isinstance(other, int) else NotImplemented

    def __imul__(self, other):
        self.value += opaque(1)
        return self

    def __neg__(self):
        return Number(-self.value)

    def __divmod__(self, other):
        return divmod(self.value, other)

    def __round__(self, digits=0):
        return self.value + digits

    def __lt__(self, other):
        stator.graph_break()
        return self.value < other.value

    def __eq__(self, other):
        return isinstance(other, Number) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __format__(self, how):
        return f"<{how}{self.value}>"

    def __getitem__(self, at):
        if at >= 2:
            raise IndexError(at)
        return (self.value, at)

    def __reversed__(self):
        yield opaque(self.value)

    def __length_hint__(self):
        return 2


NUMBER = Number(3)


class Steps:
    """An iterator with state that the program sees."""

    def __init__(self, count, broken=False):
        self.at, self.count, self.broken = 0, count, broken

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.count:
            raise StopIteration(self.at)
        self.at += 1
        return opaque(self.at) if self.broken else self.at


ITERATOR = Steps(40)


class Shape(abc.ABC):
    made = 0

    def __new__(cls, *args):
        self = super().__new__(cls)
        Shape.made += 1
        return self

    @property
    @abc.abstractmethod
    def area(self): ...

    def __init_subclass__(cls, /, scale=1, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.scale = scale


class Square(Shape, scale=2):
    def __init__(self, side):
        self.side = side

    @property
    def area(self):
        return self.side * self.side * self.scale


class Mode(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5

    @property
    def next(self):
        return Level.HIGH if self is Level.LOW else Level.LOW


class Row(typing.NamedTuple):
    t: object
    n: int = 0

    def grown(self):
        return self._replace(n=self.n + 1)


class counted:
    """A decorator with state."""

    def __init__(self, function):
        self.function, self.calls = function, 0
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        note("call", self.calls)
        return self.function(*args, **kwargs)

    def __get__(self, owner, kind=None):
        return self if owner is None else types.MethodType(self, owner)


def repeated(times):
    """A decorator with an argument and a counter in a cell."""
    done = 0

    def decorate(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            nonlocal done
            for _ in range(times):
                done += 1
                result = function(*args, **kwargs)
            return result, done

        return run

    return decorate


@counted
def doubled(value, *, by=2):
    return value * by


class Tracked(collections.UserDict):
    def __setitem__(self, key, item):
        note("tracked", key)
        super().__setitem__(key, item)


TRACKED = Tracked()
CHAIN = collections.ChainMap({"a": 1}, TABLE)
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)
'''

SHARED = ("DESCRIBED", "LEAF", "NUMBER", "ITERATOR", "TRACKED", "doubled")

EXPRESSIONS = {
    "T": (
        "DESCRIBED.weight Described.twice($T) doubled($T) doubled($T,by=$I) Row($T).t Square($t).area "
        "dict(q=$T)['q'] (lambda*a:a[-1])($I,$T)"
    ),
    "I": (
        "DESCRIBED.size DESCRIBED.odd LEAF.a NUMBER.value int(Level.HIGH) Level(1).next.value ITERATOR.at "
        "doubled($I) doubled.calls%5 round(Number($I)) operator.index(Number($I)) len(TRACKED) Square($I).area "
        "Row($T,$I).n VARIABLE.get() len(CHAIN) Shape.made%4 (lambda&*,k=$I:k)() next(Steps(3)) "
        "Described.size.writes%3 [$I,$I][-1] {True:$I}.get($C,0) ~$I (W:=$I)+W sum(Steps(2)) len([*Number($I)])"
    ),
    "L": (
        "[*Number($I)] list(Steps($I)) list(Steps($I,True)) [*reversed(Number($I))] [*map(Number,range(2))] "
        "[(a,b)&for&a&in&range(2)for&b&in&$L[:a+1]] [[q*k&for&k&in&range(2)]for&q&in&range($I)] "
        "[f()for&f&in[lambda&q=q:(q,$I)for&q&in&range(2)]] [f()for&f&in[lambda:q&for&q&in&range(2)]] "
        "[y0&for&q&in&range(3)if(y0:=q*2)>$I] list(TRACKED) list(CHAIN) sorted([Number($I),Number(1)]) "
        "list(zip(*[iter(range(4))]*2)) list(map(lambda*q:q,$L[:2],Steps(2))) [*'ab',*$L[:1]] "
        "list(itertools.combinations(s[:3],2)) list(itertools.compress(s,[1,0,1])) [m&for&m&in&Mode]"
    ),
    "D": (
        "{q:[k&for&k&in&range(q)]for&q&in&range(2)} dict(TRACKED) dict(CHAIN) Row($T,$I)._asdict() "
        "{m.name:m.value&for&m&in&Level} collections.Counter(s)"
    ),
    "C": (
        "Number($I)<Number($I) Number($I)>=NUMBER $N==$N DESCRIBED.odd isinstance($A,Shape) "
        "Mode.READ&in&Mode.BOTH Level.LOW<$I 's'in&TRACKED callable($A) issubclass(Square,Shape) "
        "LEAF==Leaf(0,[2]) isinstance($A,(int,Number)) bool(Mode.READ&Mode.WRITE) 1&in&Number(1) s&in&CHAIN"
    ),
    "S": ("f'{Number($I):x}' f'{Mode.BOTH}' f'{Level.HIGH!r}' f'{$N:>3}' str(Row($I,$I))"),
    "N": ("NUMBER Number($I) Number($I)@NUMBER Number($I)*2 -Number($I) max(Number($I),NUMBER)"),
    "A": ("$N Row($T,$I) Square($I).scale Mode.READ Level.LOW ... NotImplemented b'x' 1j {$I:[$A]}"),
}

VARIABLES: dict[str, list[str]] = {}

SIMPLE = [
    "DESCRIBED.size = $I",
    "DESCRIBED.size += 1",
    "DESCRIBED.weight = $T",
    "DESCRIBED.weight *= 0.5",
    "DESCRIBED.size = $S",
    "DESCRIBED.plain = $I; note(DESCRIBED.plain); del DESCRIBED.plain; note(DESCRIBED.plain)",
    "note(vars(Described.of($T)), Described.size.writes)",
    "LEAF.b.append($A)",
    "LEAF.a, LEAF.more = $I, $A",
    "note(LEAF.__dict__, hasattr(LEAF, 'none'))",
    "leaf = Leaf($A, $T); del leaf.b; note(getattr(leaf, 'b', None), leaf.a)",
    "NUMBER *= $I",
    "NUMBER.value = $I",
    "note(divmod(Number($I), 2), round(Number(2), $I), 3.5 * NUMBER)",
    "note($N @ $N, [5, 6, 7, 8][Number($I % 4)])",
    "note($N @ 1)",
    "note(next(ITERATOR), ITERATOR.at)",
    "note(list(itertools.islice(ITERATOR, $I)))",
    "note(list(TRACKED.items())); TRACKED[s] = $A",
    "TRACKED.update(a=$I); note(TRACKED.pop('a'), TRACKED.get(s))",
    "CHAIN[s] = $A; note(CHAIN.maps[0], CHAIN['a'])",
    "by = {$t: 1, y: 2}; note(by[y], x in by, len(by))",
    "token = VARIABLE.set($I); note(VARIABLE.get()); VARIABLE.reset(token)",
    "note(doubled($A) if $C else doubled.calls)",
    "note(repeated(2)(lambda q: q + 1)($I))",
    "note(repeated($I)(opaque)($A))",
    "note(Mode.READ | Mode.WRITE is Mode.BOTH, Mode(3), ~Mode.READ, [*Mode.BOTH])",
    "note(Level['LOW'], Level(1) + $I, Level.LOW.next, len(Level))",
    "note(Row($A).grown().n, Row(*[$T, $I]), Row._fields)",
    "note(Square($I).area, Square.made, type(Square(1)).__mro__[1])",
    "Shape()",
    "first, *mid, last = *$L, *Steps(2); note(first, mid, last)",
    "(a0, b0), *c0 = zip('ab', range(2)), $A; note(c0); b0 = $B",
    "[$l[0], $d['q'], $b.value] = $A, $A, $T",
    "$i, $t = ($I, $T)[::1]",
    "$d[$I], $d[s] = $T, $A; note(len($d))",
    "note((lambda a, /, b=1, *c, d, **e: (a, b, c, d, e))(*[$I, 2, 3], d=4, **{'z': $A}))",
    "note((lambda f: f(f, n))(lambda f, k: 1 if k < 2 else k * f(f, k - 1)))",
    "v1, v2 = $t.split([1, 2]); v2 += v1; note($t)",
    "$t = $t.as_strided((3,), (1,)) + 1",
    "del COUNT; COUNT = $I",
    "note(type('Made', (Box,), {'kind': $S, 'size': $I})($T).kind)",
    "note($b.__class__, $b.method.__func__ is Box.method, Box.method.__qualname__)",
    "note([c0.__name__ for c0 in type($b).__mro__], super(Special, b1).kind)",
    "note(isinstance(contextlib.nullcontext($A).__enter__(), torch.Tensor))",
    "note(*sorted({type(q).__name__ for q in $L}))",
    "note([*range(5)][slice(1, $I)], (*$L, )[:1], {**{'a': 1}, **{'a': 2}})",
    "note(0 < $I < 3 != $I, not $C, $I if $C else $A, [] or $I, () and 1)",
    "note(''.join(map(str, range($I))), str.join('-', s), f'{n:>{$I}}|{s!r:^7}')",
    "$i = $i if $C else -$i",
    "$i ^= $I | 1",
    "l1 *= 2; del l1[4:]",
    "$l.reverse(); note($l.index(1) if 1 in $l else -1, $l.count(1))",
    "$l[len($l):] = ($I, $A)",
    "$l[::2] = [$I] * len($l[::2])",
]

BLOCKS = """
class Local:
    items = []
    for q in range($I):
        items.append(q)
    else:
        last = $A
    if $C:
        def name(self): return 'first'
    else:
        def name(self): return 'second'
    squares = {q: q * q for q in items}
    class Inner:
        size = $I
    @property
    def kind(self): return __class__.__name__, self.Inner.size
    try:
        @body
    except Exception as error:
        note('class body', error)
made = Local()
@
note(made.name(), made.kind, Local.squares, sorted(vars(Local))[-2:])

@dataclasses.dataclass(order=True)
class Entry:
    rank: int
    t: object = dataclasses.field(compare=False, default=None)
    def __post_init__(self):
        @body
heap = [Entry($I, $T), Entry($I), Entry(n)]
heapq.heapify(heap)
@
note(heapq.heappop(heap), min(heap).rank, [e.rank for e in sorted(heap)])

class Cache:
    made = {}
    def __new__(cls, key):
        if key not in cls.made:
            cls.made[key] = super().__new__(cls)
            cls.made[key].uses = 0
        return cls.made[key]
    def __init__(self, key):
        self.uses += 1
        @body
note(Cache(s).uses, Cache(s) is Cache(s), Cache(n).uses)

class Bag(list):
    def append(self, value):
        note('bag')
        super().append(value)
    def __getitem__(self, at):
        return opaque(super().__getitem__(at))
    def __iter__(self):
        return reversed([*super().__iter__()])
bag = Bag([$I, $A])
bag.append($T)
@
note([*bag], bag[0], len(bag), bag == bag[:])

class Names(dict):
    def __getattr__(self, name):
        try: return self[name]
        except KeyError: raise AttributeError(name) from None
    def __setattr__(self, name, value): self[name] = value
names = Names(a=$A)
names.b = $T
@
note(names.a, getattr(names, 'c', $I), names)

class Text(str):
    def __add__(self, other): return Text(str.__add__(self, other) + '!')
class Whole(int):
    def __add__(self, other): return Whole(int(self) + other)
@
note(Text(s) + 'x', type(Whole(n) + 1), Whole(n) + Whole(1), f'{Text(s)}')

def make():
    count, seen = 0, []
    def add(value, into=[]):
        nonlocal count
        count += 1
        seen.append(value)
        into.append(count)
        return into
    def get(): return count, seen
    return add, get
add, get = make()
note(add($A))
@
note(add($T), get())

functions = {}
for q in ('a', 'b'):
    def function(value, q=q):
        return (q, value, n)
    functions[q] = function
    @loop
note({k: f($I) for k, f in functions.items()})

table = [[q * k for k in range(3)] for q in range(3)]
for row in table:
    for at, value in enumerate(row):
        if value == $I: break
        row[at] = (value, $i)
        @loop
    else:
        continue
    break
note(table)

match $A:
    case Row(t, n=0):
        note('row', t)
        @
    case Number(value=z) if z > 1:
        note('number', z)
    case Error(code=1 | 2 as z):
        note('error', z)
    case Level.LOW | Mode.READ:
        note('level')
    case {'k': torch.Tensor() as z, **others}:
        note('mapping', z, others)
    case [[*_] as z, *others] | [z, *others]:
        @
    case bytes() | complex():
        note('odd')
    case z:
        note(type(z))

match n, $t.shape:
    case 2, [3]:
        @
    case k, torch.Size((3,)) if k > 3:
        note(k)
    case int(k), _:
        @

EXTRA = 0
EXTRA = $A
def change():
    global COUNT, EXTRA
    COUNT, EXTRA = COUNT + 1, $A
    @body
    return COUNT
note(change(), EXTRA)
del EXTRA

context = contextvars.copy_context()
def inside():
    VARIABLE.set($I)
    @body
    return VARIABLE.get()
note(context.run(inside), VARIABLE.get(), context[VARIABLE])
""".strip().split("\n\n")
