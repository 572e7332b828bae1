"""More of what random programs are made of: what changes from call to call, the standard library, gradients, modules.

`w` is a tensor whose rows are tensors of three floats, another number of them in each call, `s` a text that is another
one in each call. `$W` stands for such a tensor, `$K` for a key with a hash of its own, `$P` for a point, `$S` for a
string; the other marks are those of `statements.py`.
"""

from __future__ import annotations

PRELUDE = '''
import collections, copy, dataclasses, enum, heapq, string, weakref
import numpy as np

SEEN = set()
COUNTER = collections.Counter()
STEPS = {"step": 0, "rate": 0.5, "name": "run"}
QUEUE = collections.deque(maxlen=3)


class Key:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        note("hash", self.n)
        return hash(self.n)

    def __eq__(self, other):
        note("eq", self.n)
        return isinstance(other, Key) and self.n == other.n


KEYS = {Key(0): "zero", Key(1): torch.ones(3)}


class Color(enum.Enum):
    RED = 1
    BLUE = 2


Pair = collections.namedtuple("Pair", "a b", defaults=(3,))


@dataclasses.dataclass(slots=True)
class Point:
    t: object
    n: int = 1
    more: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.more.append(self.n)


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    n: int
    s: str = "f"


class Careful:
    """Attributes whose reads and writes break."""

    def __init__(self, value):
        self._value, self.log = value, []

    @property
    def value(self):
        return opaque(self._value)

    @value.setter
    def value(self, new):
        self.log.append(type(new).__name__)
        stator.graph_break()
        self._value = new

    def __getattr__(self, name):
        if name.startswith("any"):
            stator.graph_break()
            return len(self.log)
        raise AttributeError(name)

    @functools.cached_property
    def cached(self):
        note("computed")
        return self._value * 2


CAREFUL = Careful(torch.ones(3))


class Missing(dict):
    def __missing__(self, key):
        note("missing", key)
        stator.graph_break()
        self[key] = key
        return key


MISSING = Missing()


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(3))
        self.register_buffer("count", torch.zeros(()))
        self.calls, self.cache = 0, {}

    def forward(self, t):
        self.calls += 1
        self.count += 1
        if self.calls % 3 == 0:
            self.cache[self.calls] = t.detach().sum()
        return t @ self.weight + self.calls


LAYER = Layer()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@functools.singledispatch
def shown(value):
    return type(value).__name__


@shown.register
def _(value: int):
    return value + 1


class Both:
    """A context manager that swallows one kind of exception in one of two calls."""

    def __init__(self):
        self.n = 0

    def __enter__(self):
        self.n += 1
        return self.n

    def __exit__(self, kind, error, trace):
        note("both", self.n, kind)
        return kind is KeyError and self.n % 2 == 0


BOTH = Both()


class arange_async:
    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.n <= 0:
            raise StopAsyncIteration
        self.n -= 1
        return await pause(self.n)
'''

SHARED = ("SEEN", "COUNTER", "STEPS", "QUEUE", "KEYS", "CAREFUL", "MISSING", "LAYER", "BOTH")

EXPRESSIONS = {
    "T": (
        "w[0] w.sum(0) w[-1].clone() $w.mean(0) torch.stack([q&for&q&in&$W]).sum(0) sum(q*k&for&k,q&in&enumerate($W)) "
        "functools.reduce(torch.add,$W.unbind(0)) CAREFUL.value LAYER($T).detach() torch.ones(len(s),3).sum(0) "
        "KEYS.get(Key(1)) $t*float(STEPS['rate']) np.float64($I)*$t $t*np.int64(n) Double.apply($T) "
        "torch.full((3,),STEPS['rate']) $w[n%2] torch.arange(n).sum()+$t"
    ),
    "I": (
        "len(w) w.shape[0] len(s) w.numel()%4 STEPS['step'] len(SEEN) len(MISSING) LAYER.calls CAREFUL.any_name "
        "COUNTER[s] int(s.isdigit()) len(QUEUE) MISSING[$I] globals()['COUNT'] s.count('a') shown($I) n*2%5 "
        "hash(Key($I))%3 $w.shape[0]+1 (n+len(w))%4 ord(s[0])%6 len(f'{s}{n}') round(STEPS['rate']*n)%5"
    ),
    "L": (
        "list($W) list(w.unbind(0)) [None]*n [0]*len(w) list(s) s.split('a') [*w.split(1)] sorted(SEEN,key=str) "
        "list(itertools.accumulate(range(n))) list(itertools.chain.from_iterable([$L[:2],range(n)])) "
        "[k&for&k,_&in&itertools.groupby(s)] list(itertools.product(range(2),s[:2])) list(QUEUE) "
        "list(itertools.zip_longest($L[:2],range(n))) list(itertools.takewhile(lambda&q:opaque(q)<2,range(n))) "
        "list(itertools.islice(itertools.cycle([$I,$A]),3)) list(itertools.pairwise($L[:3])) "
        "[*itertools.starmap(lambda&a,b:(b,a),zip(range(n),s))] list(filter(None,[$I,$I,s])) [w.shape,s]"
    ),
    "D": (
        "{s:$A} {f'k{n}':$A,s:n} dict(STEPS) {k:len(w)&for&k&in&s} dict.fromkeys(s,$I) vars($b)|{'z':1} "
        "collections.defaultdict(list,{s:[$I]}) collections.OrderedDict(b=$A,a=$I) {**vars(SPACE)}"
    ),
    "C": (
        "s>'b' s&in&SEEN Key($I)in&KEYS w.shape[0]>2 n%2==0 STEPS['step']>2 s.startswith('a') Frozen($I)<Frozen(n) "
        "Point($I,n)==Point($I,n) f'k{n}'in&TABLE w.sum()>$I s=='ab' len(SEEN)>1 Color.RED&is&Color(1)"
    ),
    "S": (
        "s s+'x' f'{s}-{n}' s.upper() s*2 '%s:%d'%(s,n) '-'.join([s,str(len(w))]) string.capwords(s) "
        "f'{s:>5}' s[::-1] s[:1] f'step{STEPS[\"step\"]}' s.replace('a','bb') str(w.shape) "
        "f'{STEPS[\"rate\"]:.3f}' repr(s)"
    ),
    "W": "w w $w $w+1 w*2 $w.flip(0) w[:2] torch.cat([w,w]) $w-$w.mean(0) opaque(w) torch.zeros(n,3) $w.clone()",
    "K": "Key($I) Key(n) Key(s) Frozen($I) (n,s) Frozen(n,s) Pair($I) Color.BLUE s n",
    "P": "Point(n) Point($T) Point($A,$I) Point(t=$T,n=n) dataclasses.replace(Point($I),n=$I) copy.copy(Point($T,$I))",
    "A": (
        "$W $K $P Pair($A,n) s Color(1) np.int64($I) STEPS['rate'] copy.deepcopy(Point(n,1)) {$I,s} "
        "frozenset([$I]) slice($I)"
    ),
}

VARIABLES = {"w": ["w", "w0"]}

SIMPLE = [
    "w0 = $W",
    "w0 = $W",
    "$w[0] += $I",
    "$w.mul_(2)",
    "row = $w[-1]; row += $T; note(row, $w)",
    "$t = $w[0]; $t.add_(1); note($w)",
    "s = $S[:4] or 'a'",
    "s += 'q'",
    "n += 1",
    "STEPS['step'] += 1",
    "STEPS['step'] += $I",
    "STEPS['rate'] *= 0.9",
    "STEPS['name'] = s",
    "STEPS[s] = $A",
    "note(STEPS)",
    "SEEN.add(s)",
    "SEEN.add($K)",
    "SEEN.discard(s); note(len(SEEN))",
    "SEEN |= {n, s}",
    "note(SEEN & {0, 1, 'ab'}, s in SEEN)",
    "TABLE[s] = $A",
    "TABLE.setdefault(f'k{n}', []).append($I)",
    "KEYS[$K] = $A",
    "KEYS.setdefault(Key(n), []); note(len(KEYS))",
    "note(KEYS.pop(Key($I), None), list(KEYS)[-1:])",
    "COUNTER[s] += 1",
    "COUNTER.update(s); note(COUNTER.most_common(1))",
    "QUEUE.append($A); note(QUEUE[0], len(QUEUE))",
    "QUEUE.rotate(1); QUEUE.appendleft($I)",
    "MISSING[s]",
    "note(MISSING[n], dict(MISSING))",
    "globals()['COUNT'] = $I",
    "globals()['EXTRA'] = $A; note(EXTRA)",
    "note(globals().get('EXTRA'), 'EXTRA' in globals())",
    "vars(SPACE)['n'] = $I; note(SPACE.n)",
    "SPACE.__dict__.update(n=$I, more=$A); note(len(vars(SPACE)))",
    "vars($b)['value'] = $T; note($b.value)",
    "note(list(vars($b)), $b.__dict__.get('name'))",
    "note([k for k, v in vars($b).items() if isinstance(v, list)])",
    "CAREFUL.value = $A",
    "CAREFUL.value += 1",
    "note(CAREFUL.any_thing, getattr(CAREFUL, 'other', $I))",
    "note(CAREFUL.cached); CAREFUL.__dict__.pop('cached', None)",
    "p0 = $P; p0.n += $I; p0.t = $A; note(p0, dataclasses.asdict(Frozen($I)))",
    "p0 = $P; note(p0 == copy.copy(p0), p0.more)",
    "note(LAYER($T))",
    "note(LAYER($w).sum().item() > $I, LAYER.calls)",
    "LAYER.zero_grad(); LAYER($T).sum().backward(); note(LAYER.weight.grad)",
    "p1 = $t.detach().clone().requires_grad_(); (p1 * $T).sum().backward(); note(p1.grad)",
    "p1 = $t.detach().clone().requires_grad_(); l2 = (p1 * $T).sum(); opaque(1); l2.backward(); note(p1.grad)",
    "p1 = torch.ones(3, requires_grad=True); note(torch.autograd.grad(Double.apply(p1 * $T).sum(), p1))",
    "p1 = torch.ones(3, requires_grad=True); p1.register_hook(lambda g: note(g)); (p1 * n).sum().backward()",
    "with torch.no_grad(): LAYER.weight.mul_(0.5)",
    "r0 = weakref.ref($b); note(r0() is $b)",
    "v0 = weakref.WeakValueDictionary(); v0[s] = $b; note(len(v0), v0.get(s) is $b)",
    "note(heapq.nsmallest(2, [$I, $I, n, len(w)]))",
    "h0 = [n, $I]; heapq.heapify(h0); heapq.heappush(h0, $I); note(heapq.heappop(h0), h0)",
    "l1.sort(key=lambda q: opaque(len(str(type(q)))))",
    "note(sorted(range(n), key=lambda q: opaque(-q)), sorted(s, reverse=True))",
    "note(max($L, key=lambda q: opaque(str(type(q))), default=None))",
    "a0, b2 = itertools.tee(range(n)); note(next(a0)); opaque(1); note(list(b2), list(a0))",
    "c0 = itertools.count(n); note(next(c0), next(c0)); opaque(c0); note(next(c0))",
    "a0, *rest, z0 = [*s, n, $A]; note(a0, rest, z0)",
    "*rest, a0 = w.unbind(0); note(len(rest), a0)",
    "note(len(w) if (size := len(w)) > 2 else size, size)",
    "note(np.float32($I) * $t, np.array([n, $I]).sum())",
    "note(shown($A), shown(n))",
    "note(Pair($A)._replace(b=n), Pair(1)._asdict())",
    "note(eval('n + len(s)'), eval('COUNT', globals()))",
    "exec('COUNT = COUNT + 1', globals()); note(COUNT)",
    "note(torch.stack(list($W)).shape, torch.cat([*w.split(1)]).shape)",
    "$t = $t + torch.tensor([len(s), n, len(w)])",
    "$l += [q for q in w]",
    "note([row.sum().item() for row in w][:2])",
    "note({k: v for k, v in zip(s, w)})",
    "note(s.encode(), s.partition('a'), s.zfill(n))",
    "note({'ab': 1, 'a': 2}.get(s), {0: 'x', 2: 'y'}.get(n))",
    "note(int(s) if s.isdigit() else s)",
    "raise {2: KeyError, 3: ValueError}.get(n, TypeError)(s)",
    "note(divmod(n, 3), n << 2, -n // 2, n ** 2, n / 4, n & 1, float(n))",
    "note(range(n)[-1:], list(range(0, n, 2)), slice(n).indices(5))",
    "note(copy.deepcopy({'a': [n, s]}), copy.copy($l))",
    "del $b.rest[:]; $b.rest.append(s)",
    "note(isinstance(w, torch.Tensor), w.dim(), w.is_contiguous(), w.stride())",
    "note(w.t()[0], w.t().stride(), w.reshape(-1)[-1])",
    "W2 = w.view(-1); W2[0] = $I; note(w[0], W2.shape)",
    "note(operator.itemgetter(0, -1)($L + [1]), operator.attrgetter('name')($b))",
    "note(dict(sorted(vars(SPACE).items())).keys())",
    "$i = $i * n % 7",
    "$i = len(w) + $i",
    "note(torch.zeros(n).sum() + $i, torch.ones(len(s)).shape)",
    "note(torch.nn.functional.pad($t, (0, n))[-1], $t.expand(n, 3).sum())",
    "note(torch.zeros(n, len(w)).reshape(-1).shape[0] > $I)",
]

BLOCKS = """
for q in range(w.shape[0]):
    $t = $t + w[q]
    @loop

for row in $W:
    $t = $t * 2 + row
    @loop

for k, row in enumerate(w.unbind(0)):
    $t = $t + row * k
    @loop
else:
    @

for q in range(n):
    $t = $t + q
    @loop
note(q if n else None)

for row, q in zip(w.split(1), s):
    $t = $t + row.sum()
    @loop

turn = 0
while turn < len(w):
    $t = $t - w[turn]
    turn += 1
    @loop

turn = n
while turn > 0:
    turn -= 1
    $t = $t * 1.5
    @loop

got = []
for row in w:
    got.append(row * 2)
    @loop
note(torch.stack(got) if got else None)

for q in s:
    SEEN.add(q)
    @loop

for q in sorted(SEEN, key=str)[:3]:
    @loop

for k in list(STEPS)[:4]:
    note(k, STEPS[k])
    @loop

for q in KEYS:
    note(q)
    if len(KEYS) > 4: break
    if $C: break

if s in TABLE:
    note(TABLE[s])
    @
else:
    TABLE[s] = $A
    @

match s:
    case 'ab' | 'a':
        @
    case str(z) if len(z) > n:
        note(z)
    case _:
        @

match $P:
    case Point(t=torch.Tensor() as z, n=1):
        note('tensor', z)
    case Point(n=int(z)) if z > $I:
        @
    case Point(str(), more=[z, *_]):
        note('str', z)
    case _:
        @

match $K:
    case Color.BLUE:
        note('blue')
    case Frozen(n=z) | Pair(z, _):
        note('frozen', z)
        @
    case (int(), str() as z):
        note('pair', z)
    case Key(n=z):
        note('key', z)

match (n, len(w), s):
    case (2, _, z) | (_, 3, z):
        @
    case (z, k, _) if z == k:
        note('same', z)
    case [*z]:
        note(z)

try:
    with BOTH as held:
        @
        raise KeyError(held)
except KeyError as error:
    note('passed', error.args)
    @

try:
    try:
        raise ExceptionGroup('g', [KeyError(s), ValueError($A)])
    except* KeyError as group:
        @body
        raise TypeError(n)
except ExceptionGroup as group:
    note(repr(group), group.subgroup(TypeError))

async def work(a):
    nonlocal t1, t2, l0, l1, d0, d1, b0, i0, i2
    got = 0
    async for q in arange_async(n):
        got += q or 0
        @body
    else:
        note('all')
    return got
note(drive(work($A)))

async def source():
    try:
        for q in range(n):
            yield q
    finally:
        note('source closed')
async def work(a):
    nonlocal t1, l0, d0, b0, i0
    async for q in source():
        if q > 1: break
        @body
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(Slotted(a))
        raise KeyError(s)
note(drive(work($A)))

def produce(count):
    nonlocal t0, t1, t2, l0, d0, b0, i0, i1
    try:
        for q in range(count):
            t0 = t0 + q
            @body
            yield t0
    finally:
        i1 += 1
        note('produced', i1)
for q in produce(n):
    @loop
note(sum(1 for _ in produce(len(w))))

def outer(a):
    total = a
    def add(q):
        nonlocal total
        total = total + q
        opaque(q)
        return total
    def both(q):
        return add(q), add(n), total
    return both
f = outer($I)
note(f($I))
@
note(f(n))

def counter():
    n0 = 0
    def step():
        nonlocal n0
        n0 += 1
        return n0
    return step
step = counter()
note(step(), step())
@
note(step())

view = w[0]
other = w.view(-1)[:3]
@
view += 1
note(other, w, view._base is w)

p2 = torch.ones(3, requires_grad=True)
out = p2 * $T.detach()
@
out = out * 2
out.sum().backward()
note(p2.grad)

p2 = $t.detach().clone().requires_grad_()
for q in range(n):
    loss = (p2 * q).sum() + LAYER(p2).sum()
    loss.backward()
    with torch.no_grad():
        p2 -= 0.25 * p2.grad
    p2.grad = None
    @loop
note(p2, LAYER.weight.grad)
LAYER.weight.grad = None

hook = LAYER.register_forward_hook(lambda m, a, out: note(out, 'hook'))
try:
    @
    note(LAYER($T))
finally:
    hook.remove()

with torch.set_grad_enabled(n % 2 == 0):
    note(LAYER($T).requires_grad)
    @

class Counted(Layer):
    made = 0
    def __init__(self):
        super().__init__()
        type(self).made += 1
        self.extra = n
    def forward(self, t):
        out = super().forward(t)
        @body
        return out * self.extra
note(Counted()($T), Counted.made)

class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.by = cls.__name__
        return made
    def __len__(cls):
        return n
class Made(metaclass=Meta):
    def __init__(self, a): self.a = a
    def __init_subclass__(cls, k=0): cls.k = k
    def __class_getitem__(cls, item): return (cls.__name__, item)
class Sub(Made, k=len(s)): pass
@
note(vars(Sub($A)), Sub.k, len(Sub), Made[n])

@functools.lru_cache(maxsize=2)
def remembered(a, b=0):
    note('computed', a)
    return (a, b)
note(remembered(n), remembered(s, b=n))
@
note(remembered(n), remembered.cache_info())

@dataclasses.dataclass
class Row:
    a: int
    b: list = dataclasses.field(default_factory=list)
    def __iter__(self):
        yield self.a
        yield from self.b
rows = [Row(q, [s]) for q in range(n)]
@
note([*rows[-1]], rows[0] == Row(0, [s]), repr(rows[:1]))

memo = {}
def fib(k):
    if k not in memo:
        memo[k] = k if k < 2 else fib(k - 1) + fib(k - 2)
        opaque(k)
    return memo[k]
note(fib(n + 2), memo)

before = {**STEPS}
for q in range(3):
    STEPS['step'] += 1
    if STEPS['step'] % 2:
        @loop
note(STEPS['step'] - before['step'])

parts = []
for q in range(n):
    parts.append(f'{s}{q}')
    @loop
note(','.join(parts))

try:
    note(w[n])
    @
except IndexError as error:
    note('index', n)
    @

try:
    note(getattr($b, s), KEYS[Key(n)])
except (AttributeError, KeyError) as error:
    note(type(error))
    @
""".strip().split("\n\n")
