"""More of what random programs are made of: what the standard library makes of classes, functions and containers.

`$M` stands for a mapping, `$P` for an object with generated methods; the other marks are those of the other tables.
"""

from __future__ import annotations

PRELUDE = '''
import bisect, collections, copy, dataclasses, decimal, enum, fractions, heapq, json, math, re, statistics
import string, struct, textwrap, weakref


@dataclasses.dataclass(order=True)
class Spot:
    n: int
    tags: list = dataclasses.field(default_factory=list, compare=False)
    weight: torch.Tensor = dataclasses.field(default=None, compare=False, repr=False)
    made: dataclasses.InitVar[int] = 1
    total: typing.ClassVar[int] = 0

    def __post_init__(self, made):
        type(self).total += made
        self.double = self.n * 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    a: int = 1
    b: tuple = ()


class Couple(typing.NamedTuple):
    first: typing.Any
    second: typing.Any = 2

    @property
    def swapped(self):
        return Couple(self.second, self.first)


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    AB = A | B


class Kind(str, enum.Enum):
    SMALL = "a"
    LARGE = "xyz7"

    @classmethod
    def _missing_(cls, value):
        return note(cls.SMALL)


class Plugin:
    found = {}

    def __init_subclass__(cls, /, key=None, **rest):
        super().__init_subclass__(**rest)
        Plugin.found[key] = cls.__name__

    def __class_getitem__(cls, item):
        return (cls.__name__, item)


class Surface(abc.ABC):
    @property
    @abc.abstractmethod
    def area(self): ...

    @classmethod
    def __subclasshook__(cls, other):
        return True if hasattr(other, "area") and cls is Surface else NotImplemented


class Sheet(Surface):
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def area(self):
        return note(self.n * self.n)


@functools.singledispatch
def described(value):
    return "other", type(value).__name__


@described.register
def _(value: int):
    return "int", value + 1


@described.register(torch.Tensor)
def _(value):
    return "tensor", value * 2


@described.register(list)
@described.register(tuple)
def _(value):
    return [described(item) for item in value[:2]]


class Methods:
    @functools.singledispatchmethod
    def take(self, value):
        return "any", self is not None

    @take.register(str)
    def _(self, value):
        return value.upper()

    part = functools.partialmethod(take, "fixed")


class Stated:
    __slots__ = ("p", "q")

    def __init__(self, p, q=None):
        self.p, self.q = p, q

    def __getstate__(self):
        return {"p": self.p}

    def __setstate__(self, state):
        self.p, self.q = state["p"], "restored"


class Registry(type):
    kept = []

    @classmethod
    def __prepare__(mcs, name, bases, **rest):
        return {"prepared": len(bases)}

    def __new__(mcs, name, bases, namespace, **rest):
        cls = super().__new__(mcs, name, bases, namespace)
        cls.rest = rest
        mcs.kept.append(name)
        return cls

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = len(args)
        return made

    def __contains__(cls, value):
        return value in cls.rest

    def __len__(cls):
        return len(cls.rest)


class Registered(metaclass=Registry, a=1):
    def __init__(self, *args):
        self.args = args


class Meter:
    """In-place operators that give another object, or themselves."""

    def __init__(self, v):
        self.v = v

    def __iadd__(self, other):
        self.v = self.v + opaque(1)
        return self

    def __isub__(self, other):
        return Meter(self.v - 1)

    def __ior__(self, other):
        return NotImplemented

    def __or__(self, other):
        return Meter((self.v, other))

    def __enter__(self):
        return note(self)

    def __exit__(self, *error):
        self.v = "left", error[0]
        return False


METER = Meter(1)
SHEET = Sheet(3)
SPOT = Spot(1, ["p"])
LAYERS = collections.ChainMap({"a": 1}, {"a": 2, "s": 3})
WEAK = weakref.WeakValueDictionary(sheet=SHEET)
KEYED = weakref.WeakKeyDictionary({SHEET: 1})
HEAP = [3, 5, 9]
NUMBERS = collections.Counter("abca")
VARIED = contextvars.ContextVar("varied", default=0)


@functools.lru_cache(maxsize=2)
def cached(k):
    return note(k) * 2 if isinstance(k, int) else k


async def later(value):
    await asyncio.sleep(0)
    return value


async def numbered(count):
    try:
        for k in range(count):
            got = yield await later(k)
            if got is not None:
                note("sent", got)
    finally:
        note("numbered ends")


@contextlib.asynccontextmanager
async def around(value):
    note("in", value)
    try:
        yield value
    finally:
        await later(None)
        note("out", value)


@contextlib.contextmanager
def guarded(value):
    try:
        yield value
    except KeyError as error:
        error.add_note("guarded")
        raise
    except ZeroDivisionError:
        note("divided")
    finally:
        note("guarded ends")
'''

SHARED: tuple[str, ...] = ("METER", "SPOT", "HEAP", "NUMBERS")

EXPRESSIONS = {
    "T": "described($T)[1] Meter($T).v sum(q*$t&for&q&in&range(2))",
    "I": (
        "Fixed(a=$I).a Couple($I).second SPOT.double cached($I) NUMBERS['a'] SHEET.area len(HEAP) "
        "bisect.bisect(HEAP,$I) math.gcd($I,6) struct.unpack('<h',struct.pack('<h',$I))[0] described($I)[1] "
        "VARIED.get() Flags.AB.value math.comb(5,2) LAYERS['a'] next(iter(NUMBERS.values())) divmod($I,3)[1]"
    ),
    "S": (
        "'{:>{w}}'.format($I,w=4) '{0[0]}{1.n}'.format($L,SPOT) f'{$I:{$I}d}' textwrap.shorten($S,6) $S.title() "
        "Kind('a').value string.Template('$'+'q').substitute(q=$I) re.sub('[0-9]','#',$S) json.dumps([$I,$S]) "
        "f'{Flags.A|Flags.B!r}' '%(k)05.1f'%{'k':$I} repr(Fixed(b=($I,))) f'{$S=!s:^9}' '{!r:.3}'.format($S)"
    ),
    "L": (
        "[*HEAP,$I] heapq.nsmallest(2,HEAP) [a0&for&a0&in&range(3)&if&(b9:=a0*2)>$I] copy.copy($L) re.findall('.',s) "
        "sorted($M) list(itertools.accumulate([$I,1,2])) [*$M.values()] list(itertools.pairwise(HEAP)) "
        "[[c9&for&c9&in&range(q)]&for&q&in&range(3)] json.loads('[1,2]') s.split('a') list(dict.fromkeys(s))"
    ),
    "M": "dict(LAYERS) collections.OrderedDict(a=$I,b=$A) NUMBERS LAYERS collections.defaultdict(list,a=[$I]) $D",
    "P": "Spot($I) Spot($I,[$A]) SPOT dataclasses.replace(SPOT,n=$I,made=2) Fixed(a=$I) Couple($A) Stated($A)",
    "C": (
        "Spot($I)<Spot($I) Fixed(a=$I)==Fixed(a=$I) $P==$P isinstance(SHEET,Surface) Flags.A&in&Flags.AB "
        "'sheet'&in&WEAK 'a'&in&Registered Kind.LARGE==s math.isclose($I,1) hash(Fixed(a=$I))==hash(Fixed(a=1)) "
        "SHEET&in&KEYED NUMBERS>=collections.Counter('a') {*s}<={*'abxyz7'} issubclass(Registered,Surface)"
    ),
    "A": "$P $M Couple($A,$A).swapped copy.deepcopy($L) fractions.Fraction($I,3) decimal.Decimal($I) Flags($I%4)",
}

VARIABLES: dict[str, list[str]] = {}

SIMPLE = [
    "note($P, repr($P)[:20])",
    "SPOT.n = $I; note(SPOT.double, Spot.total)",
    "SPOT.tags.append($A); note(dataclasses.asdict(SPOT)['n'], SPOT == Spot($I))",
    "Fixed(a=$I).a = 2",
    "a1, *rest1 = $L; note(a1, rest1)",
    "*rest1, (a1, *b9) = [$A, ($I, $A, $A)]; note(rest1, b9)",
    "q1 = Couple($A, $T); note(q1._replace(first=$I), q1._asdict(), q1.swapped is q1)",
    "note(Flags.A | Flags.B, ~Flags.A, Flags(3) & Flags.B, bool(Flags(0)), [*Flags])",
    "note(Kind(s), Kind.__members__, Kind.LARGE.name)",
    "note(described($A), described.dispatch(bool).__name__)",
    "note(Methods().take($S), Methods().take($I), Methods().part())",
    "c0 = copy.copy($P); note(c0, type(c0))",
    "c0 = copy.deepcopy([$P, $T, $b]); note(c0)",
    "c0 = copy.copy(Stated($A)); note(c0.p, c0.q)",
    "l9 = [$A]; l9.append(l9); note(len(copy.deepcopy(l9)), l9[-1] is l9)",
    "heapq.heappush(HEAP, $I); note(heapq.heappop(HEAP), HEAP[0])",
    "NUMBERS.update(s); NUMBERS['a'] -= 1; note(NUMBERS.most_common(1), +NUMBERS, NUMBERS.total())",
    "LAYERS['new'] = $A; note(LAYERS.new_child({'a': $I})['a'], len(LAYERS), LAYERS.parents['a'])",
    "LAYERS.maps[0].pop('new', None)",
    "note(cached($I), cached.cache_info()); cached.cache_clear()",
    "SHEET.n += 1; note(SHEET.area); SHEET.__dict__.pop('area', None)",
    "KEYED[SHEET] = $I; note(dict(KEYED), list(WEAK))",
    "WEAK['temporary'] = Sheet($I); note('temporary' in WEAK, len(WEAK))",
    "METER += $A",
    "METER -= $A; note(METER.v)",
    "METER |= $I; note(METER.v)",
    "note(Registered($A, $A).called, len(Registered), Registered.prepared, Registry.kept)",
    "note(Plugin[$I], Plugin.found)",
    "VARIED.set($I); note(contextvars.copy_context()[VARIED])",
    "k0 = contextvars.copy_context(); note(k0.run(lambda: (VARIED.set($I), VARIED.get())[1]), VARIED.get())",
    "note(struct.unpack('>if', struct.pack('>if', $I, 0.5)), struct.calcsize('2h'), int.from_bytes(b'ab', 'big'))",
    "note(statistics.mean([$I, 2, 3]), fractions.Fraction($I, 4), decimal.Decimal('1.10') + $I)",
    "note(re.match(r'(?P<first>[a-z]+)', s).groupdict() if s[0].isalpha() else re.split('[0-9]', s))",
    "note(string.capwords(s), s.partition('a'), s.translate({97: 'A'}), s.encode().hex())",
    "note(sorted(HEAP, key=functools.cmp_to_key(lambda p, q: q - p)), max(s, default=None))",
    "note([*map(lambda p, q: (p, q), s, HEAP)], [*itertools.zip_longest(s, HEAP)], dict(enumerate(s, $I)))",
    "note(list(itertools.groupby(s, str.isalpha))[0][0], list(itertools.combinations(s, 2))[:2])",
    "note((lambda *a, k=$I, **kw: (a, k, kw))(*$L, **{'z': $A}))",
    "note(exec('e9 = n + 1', {'n': $I}, d9 := {}), d9)",
    "note(eval('t0 + i0', None, {'t0': $T, 'i0': $I}))",
    "note(sorted(k for k in locals() if len(k) == 2 and k[1].isdigit()))",
    "note({k: v for k, v in sorted(vars().items()) if k in ('i0', 's', 't0')})",
    "note(asyncio.run(later($A)))",
    "note(super.__name__, __name__, type($A).__mro__[-1])",
    "note(getattr($P, 'n', None), getattr($P, 'nothing', $I), hasattr($P, 'first'))",
    "del t0; t0 = $T",
    "note(math.fsum([$I, 0.5]), round(2.5), round($I / 3, 2), -7 // 2, -7 % 3, 2 ** $I)",
    "e2 = ValueError(s); e2.add_note($S); note(e2.__notes__); raise e2",
    "note([*zip(*[[1, 2], [3, $I]])], {**$D, 'k': 1}.keys() & {'a', 'k'})",
]

BLOCKS = """
class Local(Plugin, key=s):
    value: int = $I
    other = [$A for _ in range(2)]
    def method(self):
        return __class__.__name__, super().__init_subclass__ is not None
note(Local().method(), Local.__annotations__, Plugin.found)

def outer(p):
    count = $I
    def inner(q):
        nonlocal count, t1
        count += 1
        t1 = t1 + q
        @body
        return count
    return inner, lambda: count
add, read = outer($A)
note(add(1), add($I), read())

match $P:
    case Spot(n=k0, tags=[*_]) if k0 > $I:
        note('point', k0)
        @
    case Couple(first=torch.Tensor() as k0) | Couple(second=torch.Tensor() as k0):
        note('pair', k0)
    case Fixed(a=0 | 1 | 2):
        note('frozen')
    case Stated(p=str(k0)):
        note('slotted', k0)
    case other:
        note('other', type(other))
        @

match $M:
    case {'a': int(k0), **rest} if rest:
        note('mapping', k0, rest)
        @
    case {'a': _}:
        @
    case _:
        note('none')

async def driver(count):
    nonlocal t0, t1, i0, l0, d0, b0
    gathered = []
    async for q in numbered(count):
        gathered.append(q)
        @body
    async with around($A) as inside:
        gathered.append(inside)
        gathered += [q async for q in numbered(2)]
    return gathered + await asyncio.gather(later(1), later($A))
note(asyncio.run(driver($I % 4)))

async def pulling():
    source = numbered(5)
    note(await anext(source), await source.asend($A))
    try:
        await source.athrow(KeyError(s))
    except KeyError as error:
        note(error.args)
    await source.aclose()
asyncio.run(pulling())

with contextlib.ExitStack() as stack:
    stack.callback(note, 'first', $I)
    stack.enter_context(guarded($A))
    METER = stack.enter_context(METER)
    @
    raise KeyError($I)

with guarded($I) as k0, contextlib.nullcontext($T) as k1:
    @
    note(1 // ($I % 2), k0, k1)

try:
    with guarded($S):
        @
        raise KeyError(s)
except KeyError as error:
    note(error.__notes__, error.args)

def tried(p):
    nonlocal t0, t1, t2, i0, i1, l0, d0, b0
    for q in range(4):
        try:
            if q == p:
                continue
            if q > $I:
                return 'returned', q
            @body
        except ZeroDivisionError:
            note('zero')
        else:
            note('else', q)
        finally:
            note('finally', q)
            if q == 2 and $C:
                break
    return 'end'
note(tried($I))

try:
    try:
        @
        raise ExceptionGroup(s, [ValueError($I), KeyError(s), ExceptionGroup('in', [Error(1)])])
    except* KeyError as group:
        note('keys', group.exceptions)
        raise TypeError('new') from group
    except* Error as group:
        note('errors', len(group.exceptions))
except ExceptionGroup as group:
    note(group.message, [type(q) for q in group.exceptions], group.split(TypeError)[0])

try:
    try:
        @
        {}[s]
    except KeyError as error:
        raise Error($I) from error
except Error as error:
    note(error.__cause__.args, error.__context__ is error.__cause__, error.__suppress_context__)

def walk(p):
    got = []
    try:
        while True:
            got.append((yield p))
            p = p + 1
            @body
    except Error as error:
        yield 'thrown', error.code
    finally:
        note('walked', got)
        return ('done', len(got))
g1 = walk($I)
note(next(g1), g1.send($A), g1.throw(Error($I)))
try:
    next(g1)
except StopIteration as stop:
    note(stop.value)

class Tracking:
    def __set_name__(self, owner, name):
        note('named', owner.__name__, name)
        self.name = name
    def __get__(self, owner, kind=None):
        return (self.name, owner is None)
class Owner(metaclass=Registry, b=$I):
    tracked = Tracking()
    @
note(Owner.tracked, Owner(1).tracked, Owner.rest, Owner.prepared)

k1 = iter($L)
for q in k1:
    @loop
    note(next(k1, 'end'))
else:
    note('no break')

while (k2 := $I) > 1 and i2 < 9:
    i2 += 1
    @loop
    i2 += k2
""".strip().split("\n\n")
