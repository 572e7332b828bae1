"""More of what random programs are made of: ends of objects, scopes, unpacking, patterns, texts, coroutines by hand.

The marks are those of the other tables.
"""

from __future__ import annotations

PRELUDE = '''

class Ending:
    """Tells when it ends."""

    def __init__(self, name, *held):
        self.name, self.held = name, held

    def __del__(self):
        note("end", self.name)


class Target:
    """Something that can be referred to weakly."""

    def __init__(self, *held):
        self.held = held


def closing(name, count):
    """A generator that tells when it is closed."""
    mine = Ending("of " + name)
    try:
        for q in range(count):
            yield q
    finally:
        note("closed", name)


class Uneven:
    """Iterable by index only."""

    def __init__(self, *values):
        self.values = values

    def __getitem__(self, at):
        note("item", at)
        return self.values[at]


class Point:
    __match_args__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right

    @property
    def middle(self):
        note("middle")
        return (self.left, self.right)

    def __format__(self, spec):
        return f"<{self.left:{spec or 'd'}}>"


class Registry:
    made = []

    def __init_subclass__(cls, /, tag=None, **rest):
        super().__init_subclass__(**rest)
        Registry.made.append((cls.__name__, tag))

    def __getattr__(self, name):
        if name.startswith("no_"):
            raise AttributeError(f"{name} is missing")
        note("getattr", name)
        return len(name)

    def __setattr__(self, name, value):
        note("setattr", name)
        object.__setattr__(self, name, value)


class Awaited:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield ("asks", self.value)
        note("got", got)
        return got


def drive(coroutine, *answers):
    """Runs a coroutine by hand."""
    asked = []
    try:
        asked.append(coroutine.send(None))
        for answer in answers:
            asked.append(coroutine.throw(answer) if isinstance(answer, Exception) else coroutine.send(answer))
    except StopIteration as stop:
        return asked, stop.value
    finally:
        coroutine.close()
    return asked, "open"


async def later(value):
    got = None
    try:
        got = await Awaited(value)
    except KeyError as error:
        note("thrown", error.args)
    return value if got is None else got


class Held:
    def __init__(self, value):
        self.value = value

    async def __aenter__(self):
        return await Awaited(("enter", self.value))

    async def __aexit__(self, kind, error, trace):
        note("aexit", kind and kind.__name__)
        return kind is ValueError


async def ticks(count):
    for q in range(count):
        yield q
        await Awaited(q)


class Leaves:
    def __init__(self, value):
        self.value, self.mine = value, Ending("of with")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        note("leaves", kind and kind.__name__)
        return kind in (KeyError, ValueError)
'''

SHARED: tuple[str, ...] = ()

EXPRESSIONS = {
    "I": (
        "Registry().width [q:=$I,q+1][-1] sum(z:=[q&for&q&in&(1,$I)]) Point($I,2).left "
        "(lambda&*a,k=$I,**r:len(a)+k)(*$l[:2]) next(closing('short',2))"
    ),
    "T": (
        "[u:=$T,u*2][1] (lambda&p,/,q=2,*,r=$T:p*q+r)($T) Point($T,$T).right drive(later($T),$T)[1] "
        "Ending('kept',$T).held[0]"
    ),
    "S": (
        "f'{$I:>{$I+3}}' f'{$I!r:^7}|{s!s:*<6}' f'{Point($I,1):03d}' f'{[q&for&q&in&range($I%4)]}' "
        "f'{s}{$I:+d}{$I%2==0}' f'{({1:s})[1]:>4}'"
    ),
    "A": ("Ending(s) Target($A) Point($A,$I) closing(s,3)"),
}

VARIABLES: dict[str, list[str]] = {}

SIMPLE = [
    "r0 = Ending('r0', $A)",
    "r0 = None",
    "r1 = [Ending('r1'), $A]; note('made'); r1.clear(); note('cleared')",
    "r1 = {'k': (Ending('in a dict'),)}; opaque(1); r1['k'] = $I; note('over')",
    "r2 = Target(Ending('held')); opaque($I); r2.held = (); note('let go'); del r2",
    "o0 = Target(); f0 = weakref.ref(o0, lambda _: note('gone')); opaque(1); del o0; note(f0() is None)",
    "o0 = Target(Target()); f0 = weakref.ref(o0.held[0]); opaque(1); o0 = None; note(f0() is None)",
    "f1 = weakref.finalize(b0, note, 'finalized'); note(f1.alive); f1.detach()",
    "g1 = closing('g1', 3); note(next(g1)); opaque(1); del g1; note('behind')",
    "first, *middle, last = Uneven($A, $I, $A, $I); note(len(middle), last)",
    "first, (second, *rest) = $I, $S; note(second, rest)",
    "*front, back = map(lambda q: q * 2, [1, $I]); note(front, back)",
    "head, *tail = {'a': $A, 'b': $I}; note(head, tail)",
    "[i0, [i1, *l1]] = $I, (1, $A, $A)",
    "l0[:] = [*l1, *Uneven(1, 2), *'ab', *{$I: 1}]",
    "d1 = {**d0, 'c': $A, **{str($I): $A}}",
    "i0, l0[0] = 1, i0",
    "(l0 if $C else l1).append($A)",
    "note([(p, q) for p in range(2) for q in [p + $I] if (z0 := q - p)], z0)",
    "note({k: v for k, v in zip('abc', closing('zipped', 2))})",
    "note(any((found := q) for q in l1), found if l1 else None)",
    "note(sorted([$I, 2, 1], key=lambda q: (-q, $I)))",
    "note($S, f'{$S:>8}', f'{$T.sum().item():.2f}', f'{n=} {s!r}')",
    "note(drive(later($A), 1), drive(later($A), KeyError(s)))",
    "note(Registry().colour, hasattr(Registry(), 'no_way'), getattr(Registry(), 'no_one', $I))",
    "c0 = Registry(); c0.size = $I; note(c0.size, c0.other)",
    "del b0.value; b0.value = $T",
    "assert $C, f'{$I} is not {s}'",
]

BLOCKS = """
for p in closing('loop', 4):
    if p > $I % 4: break
    @loop
else:
    note('ended')
note('left')

for p in closing('data', 3):
    if $t.sum() > p: break
    @loop
note('left')

def local(p):
    nonlocal t0, t1, l0, d0, b0, i0
    mine = Ending('local', p)
    @body
    return p
note(local($A), 'returned')

def counter():
    total, seen = 0, []
    def add(q):
        nonlocal total
        for _ in range(2):
            total += q
            seen.append(total)
        return seen
    def drop():
        nonlocal seen
        del seen
        return total
    return add, drop
add, drop = counter()
note(add($I), drop())
try:
    add(1)
except NameError as error:
    note(str(error), error.name)
    @

def leaving(values):
    nonlocal t0, t1, l0, d0, b0, i0
    for q in values:
        try:
            if q == 1: continue
            if q == 2: return 'two'
            if q == 3: break
            @body
        except (ValueError, KeyError) as error:
            note(type(error).__name__)
            continue
        else:
            note('else', q)
        finally:
            note('finally', q)
            if q == 0: opaque(q)
    else:
        return 'all'
    return 'broken'
note(leaving([0, 1, $I]), leaving(range(4)))

match ($A, Point($I, $I), {'k': $A, 'z': 1}, [1, $A, *l1]):
    case (None, _, _, _):
        @
    case (_, Point(left=0 | 1 as small), {'k': int() | str()}, _) if $C:
        note(small)
        @
    case (_, Point(a, b), {'k': torch.Tensor() as kept, **others}, [1, *more]):
        note(a, b, others, len(more))
        @
    case (_, Point(middle=(m, _)), _, [_, _, *_]):
        note(m)
        @
    case _:
        @

class Local(Registry, tag=s):
    scale = $I
    inner = [scale + q for q in range(2)]
    def __init__(self, value):
        self.value = value
    def run(self, q):
        nonlocal t0, l0, d0, b0, i0
        @body
        return (self.value, q, __class__.__name__, super().__getattr__('far'))
    def __eq__(self, other): return self.value is other.value
    __hash__ = None
note(Local($I).run($I), Local.inner, Registry.made[-1])

def logged(function):
    calls = 0
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        nonlocal calls
        calls += 1
        note(function.__name__, calls)
        try:
            return function(*args, **kwargs)
        finally:
            wrapper.calls = calls
    return wrapper
@logged
@logged
def twice(p, *, q=$I):
    nonlocal t0, l0, d0, b0, i0
    @body
    return p, q
note(twice($I), twice($A, q=1), twice.calls)

async def waits(p):
    nonlocal t0, t1, l0, d0, b0, i0
    async with Held(p) as held:
        got = await Awaited(p)
        @body
        async for q in ticks(2):
            note(q)
        return got, held
note(drive(waits($I), 1, 2, 3, 4, 5))

with Leaves($I) as held, contextlib.closing(closing('with', 3)) as numbers:
    note(next(numbers))
    @

try:
    r3 = Ending('r3')
    raise KeyError(r3.name)
except KeyError as error:
    kept = error
    @
note('handled')
r3 = kept = None
note('gone')

try:
    try:
        @
        raise ExceptionGroup('g', [ValueError($I), ExceptionGroup('h', [KeyError(s), TypeError('t')])])
    except* (KeyError, TypeError) as some:
        note(len(some.exceptions), some.split(KeyError)[0] is not None)
        @body
        raise
except* ValueError as rest:
    note(rest.exceptions[0].args)
except* Exception as rest:
    note('rest', type(rest).__name__)

while (step := $I) and step < 3:
    i0 += 1
    try:
        if i0 > 4: break
        @loop
    finally:
        note('round', step)
    break
""".strip().split("\n\n")
