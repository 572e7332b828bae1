"""What random programs are made of: `PRELUDE`, which all of them use, and how expressions and statements may look.

In a row `$T`, `$I`, `$L`, `$D`, `$B`, `$C`, `$S`, and `$A` stand for expressions (a tensor of three floats, a small
int, a list, a dict, a Box, a condition, a string, anything), `$t`, `$i`, … for variables of that kind, `&` for a blank.
"""

from __future__ import annotations

PRELUDE = '''
import asyncio, contextlib, functools, itertools, operator, os, sys, types
import torch, stator

COUNT = 0
LOG = []
TABLE = {"a": 1, "b": torch.ones(3)}
SPACE = types.SimpleNamespace(n=0, kept=[], inner=types.SimpleNamespace(t=None))


@stator.disable
def opaque(value):
    return value


def note(*values):
    LOG.append(values)
    return values[0] if values else None


def total(*args, scale=1, **kwargs):
    return sum(args, 0) * scale + len(kwargs)


PART = functools.partial(total, 1, scale=2)


class Box:
    kind = "box"

    def __init__(self, value, *rest, name="box"):
        self.value, self.rest, self.name = value, list(rest), name

    def __add__(self, other):
        if isinstance(other, Box):
            return type(self)(self.value + other.value, name=self.name)
        return NotImplemented if isinstance(other, str) else type(self)(self.value + other)

    __radd__ = __add__

    def __iadd__(self, other):
        self.value = self.value + 1
        self.rest.append(other)
        return self

    def __eq__(self, other):
        return isinstance(other, Box) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __lt__(self, other):
        return len(self.rest) < len(other.rest)

    def __len__(self):
        return len(self.rest)

    def __bool__(self):
        return bool(self.rest)

    def __iter__(self):
        yield self.value
        yield from self.rest

    def __contains__(self, item):
        return item == self.name

    def __getitem__(self, at):
        return self.rest[at]

    def __setitem__(self, at, value):
        note("set", at)
        self.rest[at] = value

    def __delitem__(self, at):
        del self.rest[at]

    def __call__(self, value):
        self.rest.append(value)
        return value

    def __enter__(self):
        note("enter", self.name)
        return self

    def __exit__(self, kind, error, traceback):
        note("exit", self.name, kind, len(self.rest))
        return kind is ValueError and self.name == "calm"

    def __getattr__(self, name):
        if name.startswith("lazy"):
            return (self.name, name)
        raise AttributeError(name)

    @property
    def doubled(self):
        return self.value * 2

    @doubled.setter
    def doubled(self, value):
        self.value = value

    def method(self, value, /, more=0, *, last=None):
        self.last = last
        return value + more

    def __repr__(self):
        return f"<{self.name} {len(self.rest)}>"

    __match_args__ = ("value", "name")


class Special(Box):
    kind = "special"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = {"n": len(args)}

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "value":
            super().__setattr__("changes", self.__dict__.get("changes", 0) + 1)

    def method(self, value, /, more=0, *, last=None):
        return super().method(value, more, last=self.kind) + 1

    def __exit__(self, *details):
        super().__exit__(*details)
        return False


class Slotted:
    __slots__ = ("value", "name")

    def __init__(self, value, name="slotted"):
        self.value, self.name = value, name

    async def __aenter__(self):
        await pause(self.name)
        return self.value

    async def __aexit__(self, kind, error, traceback):
        note("aexit", kind)
        return kind is KeyError


class pause:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield self.value
        return got


def drive(coroutine):
    """Runs a coroutine, answering each thing it waits for with how many there were before."""
    waited = 0
    try:
        coroutine.send(None)
        while True:
            waited += 1
            coroutine.send(waited)
    except StopIteration as stop:
        return stop.value


@contextlib.contextmanager
def scope(value, swallow=()):
    note("start")
    try:
        yield value
    except swallow as error:
        note("swallowed", repr(error))
    finally:
        note("end")


def counting(start, end):
    try:
        for at in range(start, end):
            got = yield at
            if got is not None:
                note("got", got)
    except ValueError as error:
        yield repr(error)
    finally:
        note("closed", start)
    return end


def delegating(values, count):
    result = yield from counting(0, count)
    note("result", result)
    for value in values:
        yield value
'''

EXPRESSIONS = {
    "T": (
        "$t $t $t $t $t+$I $t*$t ($T-$T) $T*0.5 $t.relu() ($T).sum()*$t torch.stack([$T,$T]).sum(0) "
        "torch.where($t>0,$T,$t) $t.clone() $t[[2,1,0]] opaque($T) $b.value $b.doubled torch.cat([$t[:1],$t[1:]]) "
        "torch.full((3,),float($I)) -$t $t.view(3,1).squeeze(1) (lambda&z,k=$I:z*k)($T) $b.method($T,more=$I) "
        "max($t,$t,key=lambda&z:float(z.sum())) sum([$T,$T]) functools.reduce(operator.add,[$T,$T]) "
        "($t&if&$C&else&$t) TABLE['b'] torch.tensor([$I,$I,$I],dtype=torch.float32) $t.detach() $t.clamp(min=$I) "
        "torch.zeros_like($t).add_($T) note($T) (W:=$T)"
    ),
    "I": (
        "$i $i $i 0 1 2 3 $i+1 $i-$i len($l) len($d) ($I)%5 int($t.sum().item())%7 $t.shape[0] COUNT "
        "sum(1&for&q&in&$l) opaque($I) bool($C) len($b) n (W:=$I) total(*[$I,$I],scale=$I) min($I,$I) "
        "$d.get('a',1)if&isinstance($d.get('a'),int)else&$I abs($I) next((q&for&q&in&$l&if&isinstance(q,int)),$I) "
        "ord('a')%5 hash($I)%3"
    ),
    "L": (
        "$l $l [$A,$A] [*$l,$A] $l[:2] $l[::-1] list($d) [q&for&q&in&$l&if&q&is&not&None] "
        "[($A,q)&for&q&in&range($I)] $l+[$A] list(map(type,$l)) sorted($l,key=id&if&False&else&str)[:1] "
        "list(zip($l,range(3))) [*$b] $b.rest list(delegating($l,2)) [k&for&q&in&$l[:2]&for&k&in(q,$I)] "
        "[*range($I)] list(itertools.islice(counting($I,9),2)) [(r:=q)&for&q&in&range(2)] list(reversed($l))"
    ),
    "D": (
        "$d $d {'a':$A,'b':$A} {**$d,'c':$A} dict(zip('xyz',$l)) {q:$A&for&q&in&'ab'} dict(a=$A) $d|{'z':$I} "
        "dict($d) {k:v&for&k,v&in&$d.items()&if&k!='a'}"
    ),
    "B": "$b $b $b Box($T) Special($T,$A,name='calm') $b+$I $b+$b Box($T,*$l,name='calm') opaque($b) note($b)",
    "C": (
        "$I<$I $t.sum()>$I $I==1 $l $b 'a'&in&$d not&$C $b==$b $C&and&$C $C&or&$I isinstance($A,int) $t&is&$t "
        "$I<=$I<3 'calm'&in&$b $A&is&None len($l)>2 hasattr($b,'extra') opaque($I)>1 "
        "any(isinstance(q,int)&for&q&in&$l)"
    ),
    "S": (
        "f'{$I}-{$I!r:>3}' f'{$l!s:.9}' '%s|%d'%($I,$I) str($b) repr($d)[:0] 'ab'*$I f'{$b}{$b.lazy_one}' "
        "','.join(str(q)&for&q&in&range($I)) f'{$t.shape}' type($A).__name__ f'{$t.sum().item():.2f}'"
    ),
    "A": "$T $I $I $S $B ($T,$I) None $L lambda&q=1:q $b.kind ($I,$I) (None,*$l)",
}

VARIABLES = {
    "t": ["x", "y", "t0", "t1", "t2"],
    "i": ["i0", "i1", "i2"],
    "l": ["l0", "l1", "items"],
    "d": ["d0", "d1", "TABLE"],
    "b": ["b0", "b1", "box"],
}

SIMPLE = [
    "$t = $T",
    "$t = $T",
    "$t = $T",
    "$t += $T",
    "$t.mul_($I)",
    "$t[$I] = $I",
    "$t[1:] += 1",
    "$i = $I",
    "$i = $I",
    "$i += 1",
    "$l = $L",
    "$l.append($A)",
    "$l.extend($L)",
    "$l.insert($I, $A)",
    "$l[1:2] = [$A, $A]",
    "$l[-1] = $A",
    "del $l[:1]",
    "note($l.pop())",
    "$l.sort(key=lambda q: (str(type(q)), str(q) if isinstance(q, (int, str)) else ''))",
    "$d = $D",
    "$d['k'] = $A",
    "$d.update(c=$A, **{'d': $I})",
    "$d.setdefault('e', []).append($I)",
    "note($d.pop('a', None), *$d)",
    "del $d['b']",
    "$b = $B",
    "$b.value = $T",
    "$b.doubled = $T",
    "$b += $A",
    "$b($A)",
    "$b.name = $S",
    "$b[$I] = $A",
    "del $b[0]",
    "$b.rest += $L",
    "$b.value += 1",
    "$b.value[0] = $I",
    "Box.kind = $S",
    "note($A, $A)",
    "note($S)",
    "note(*$L, $I)",
    "note($I, sorted(locals())[:3])",
    "note(W if 'W' in locals() else None)",
    "print($S, $I)",
    "$t, $i = $T, $I",
    "$l[0], $i = $i, $I",
    "$i, *$l = [$I, *$L]",
    "first, (second, *_) = $A, ($T, *$L); note(first, second)",
    "COUNT += $I",
    "assert $C, $S",
    "opaque($A)",
    "stator.graph_break()",
    "note(os.getpid() > $I)",
    "note(float($t.sum()))",
    "raise ValueError($I)",
    "raise KeyError($S)",
    "note(type(sys.exc_info()[1]), str(sys.exc_info()[1]))",
    "note(getattr($b, 'extra', $A), getattr($b, 'lazy', 3))",
    "setattr($b, 'more', $A); note(vars($b).get('more'))",
    "del $t; $t = $T",
    "gone = $A; del gone",
    "note({q for q in $L if isinstance(q, int)})",
    "note((lambda *a, k=$I, **w: (a, k, w))(*$L, w=$A))",
    "note(list(itertools.chain($L, $b))[-1])",
    "note(dict(zip($L, $L)) if not $C else $I)",
    "note(functools.partial(total, $I, scale=$I)($I))",
    "note(sorted([$b, $b, $b])[0] is $b)",
    "note([f($I) for f in [lambda q, k=k: (q, k) for k in range(2)]])",
    "note(eval('i0 + 1'))",
    "torch.nn.functional.relu_($t)",
    "note($t is $b.value, $l is $b.rest)",
    "$t = $t[:]",
    "$t = $t.view(3)",
    "part = $t[:2]; part += $I; note(part)",
    "$t.view(3, 1)[1:].mul_($I)",
    "$t.data[0] = $I",
    "note($t.numpy().sum() > $I)",
    "$l[0], $t = $t, $T",
    "del $i; $i = $I",
    "SPACE.n += $I; note(SPACE.n)",
    "SPACE.kept.append($A); note(len(SPACE.kept))",
    "SPACE.inner.t = $T",
    "note(SPACE.inner.t is $t, sorted(vars(SPACE)))",
    "setattr(SPACE, 'more', $A)",
    "PART.keywords['scale'] = $I; note(PART($I))",
    "note(total(*$L[:0], *[$I, $I], **{'scale': $I, 'k': $A}))",
    "Box.count = getattr(Box, 'count', 0) + 1; note($b.count)",
    "note(f'{$I=} {$S!a:>{$I}}')",
    "note([*map(lambda q, k: (q, k), $L, range(2))])",
    "note(all(q is not None for q in $L), [q for q in $L if q is None or q])",
    "note((yes := $C) and $A, yes is True)",
]

# A row "@" stands for further statements; "@loop" for ones that may break and continue, "@body" for ones that may not
# return (the body of a function with a result of its own, or of `except*`).
BLOCKS = """
if $C:
    @

if $C:
    @
elif $C:
    @
else:
    @

if $t.sum() > $I:
    @
else:
    @

for q in range($I):
    @loop

for q in $L[:3]:
    @loop
else:
    @

for k, v in list($d.items())[:3]:
    @loop

for k, (u, v) in enumerate(zip($L[:3], $L)):
    @loop

for q in delegating($L[:2], 2):
    @loop
else:
    @

for q in $b:
    if len($b) > 6: break
    @loop

for $t in [$T, $T]:
    @loop

turn = 0
while (turn := turn + 1) < $I:
    @loop
else:
    @

try:
    @
except ValueError as error:
    note(repr(error), type(error.__context__))
    @

try:
    @
    raise ValueError($I)
except (ValueError, TypeError):
    @

try:
    @
except Exception as error:
    caught = error
    note(type(error), error.__traceback__.tb_lineno)
else:
    @
finally:
    @

try:
    @
finally:
    @

for q in range($I):
    try:
        @loop
    finally:
        @
    @loop

try:
    try:
        raise KeyError($I)
    except KeyError as error:
        @
        raise ValueError($I) from error
except ValueError as error:
    note(repr(error.__cause__))
    @

try:
    try:
        $i // 0
    except ZeroDivisionError:
        @
        raise
except ArithmeticError:
    @

try:
    raise ExceptionGroup('g', [ValueError($I), KeyError($I), ExceptionGroup('h', [TypeError($I)])])
except* (ValueError, KeyError) as group:
    note(len(group.exceptions))
    @body
except* TypeError:
    @body

with $B as held:
    @

with $B, scope($A, (KeyError, ValueError)) as held:
    @

with scope($A, ValueError) as held:
    @

for q in range(2):
    with scope(q), $B:
        @loop

with torch.no_grad():
    @

with contextlib.suppress(ValueError, KeyError), contextlib.ExitStack() as stack:
    stack.enter_context(scope($I))
    stack.callback(note, $I)
    @

match $A:
    case int(z) if z > $I:
        note('int', z)
    case [z, *others]:
        @
    case Box(value=z, name='calm'):
        note('calm', z)
    case {'a': z, **others}:
        note(z, others)
    case str() | None as z:
        note(z)
    case _:
        @

match $L:
    case []:
        @
    case [int() as z, _] | [_, int() as z]:
        note('pair', z)
    case [Box(z), *_] | [*_, z]:
        note('last', z)

match $D:
    case {'a': int(z)} if z < $I:
        @
    case {'b': z}:
        note(z)

def inner(p, *args, k=$I, **kwargs):
    nonlocal t0, t1, l0, d0, b0, i0, i1
    i0 += 1
    t0 = t0 + p
    @body
    return (p, args, k, kwargs, i0)
note(inner($I, $A, k=$I))
note(inner($T, *$L, other=$A))

def inner(p=0):
    nonlocal t0, t1, t2, l0, l1, d0, d1, b0, b1, i0, i1, i2
    if p > 2:
        return $I
    @body
    return inner(p + 1) + 1
note(inner($I))

def steps(a):
    nonlocal t0, t1, t2, l0, l1, d0, b0, b1, i1, i2
    got = yield a
    i1 += 1
    try:
        @body
        yield (got, i1)
    except KeyError:
        yield 'key'
    finally:
        note('finally', i1)
g = steps($A)
note(next(g))
@
note(g.send($I))
note(g.throw(KeyError($I)))
g.close()

def steps(a):
    for q in range(3):
        yield (q, a)
g = steps($T)
for q in g:
    @loop
note(list(g))

async def numbers():
    for q in range(2):
        await pause(q)
        yield q
async def work(a):
    nonlocal t1, t2, l0, l1, d0, d1, b0, i0, i2
    got = await pause($I)
    async with Slotted(a) as held:
        @body
        note(held)
    return got, [q async for q in numbers()], await pause($A)
note(drive(work($A)))

async def work(a):
    nonlocal t1, t2, l0, l1, d0, d1, b0, i0, i2
    try:
        await pause(a)
        @body
    finally:
        note('left')
    return a
c = work($A)
note(c.send(None))
@
c.close()

class Local(Special):
    note('body')
    size = $I
    values = [q for q in range(2)]
    def method(self, value, more=0):
        self.seen = (value, self.size)
        @body
        return super().method(value, more)
b0 = Local($T, name=$S)
note(b0.method($T))

@functools.wraps(total)
def wrapped(*args, **kwargs):
    @body
    return total(*args, **kwargs)
note(wrapped($I, $I, scale=$I), wrapped.__name__)

@functools.lru_cache(None)
def cached(p):
    note('computed', p)
    return p + 1
note(cached($I), cached($I))
@
note(cached($I))

def final(p):
    nonlocal t0, t1, l0, d0, b0, i0, i1
    try:
        @body
        return $A
    except KeyError:
        return 'key'
    finally:
        note('final', p)
        if p > $I:
            return p
note(final($I))

def search(values):
    nonlocal t1, t2, l1, d1, b1, i1, i2
    for q in values:
        try:
            if q is None:
                continue
            if isinstance(q, str):
                return q
            @body
        except ValueError:
            break
        else:
            note('else', q)
        finally:
            i1 += 1
            if i1 > 7:
                continue
    else:
        return 'nothing'
    return 'broken'
note(search($L))

turn = 0
while $t.sum() > $I:
    turn += 1
    $t = $t - 1
    if turn > 3: break
    @loop
else:
    @

@scope($A, ValueError)
def guarded(p):
    @body
    return p
note(guarded($I))

class Held:
    total = 0
    def __init__(self, value): self.value = value
    def __set_name__(self, owner, name): note('named', name)
    def __get__(self, owner, kind): return self.value if owner is None else owner.__dict__.get('held', self.value)
    def __set__(self, owner, value): owner.__dict__['held'] = value; Held.total += 1
class Holder:
    held = Held($A)
holder = Holder()
@
holder.held = $A
note(holder.held, Holder.held, Held.total, vars(holder))

view = $t[1:]
@
view += 1
note(view, view._base is None)

f = []
for q in range(2):
    f.append(lambda z=q: (z, q))
    @loop
note([z() for z in f])

it = iter($L)
note(next(it, None))
@
note(list(it))

g = (note(q) for q in $L if q is not None)
note(next(g, None))
@
note(list(g))

kept = $L
@
note(kept, len(kept))

e0 = None
try:
    @
    raise ValueError($A)
except ValueError as error:
    e0 = error
note(e0 and type(e0.args[0]))
@

with Box($T) as outer, Special($T) as held:
    outer.rest.append(held)
    @
note(outer.rest)

def recursive(p):
    with scope(p), Box($T) as held:
        if p < 2:
            return recursive(p + 1) + held.value
        @body
        return $T
$t = recursive($I)
""".strip().split("\n\n")

FLOW = ["break", "continue", "if $C: break", "if $C: continue"]
LEAVE = ["return $A", "if $C: return $A"]
