"""More of what random programs are made of: exceptions, `with`, generators and coroutines that are driven from outside.

`$E` stands for an exception; the other marks are those of the other tables.
"""

from __future__ import annotations

PRELUDE = '''

class Error(ValueError):
    """An exception with state of its own."""

    def __init__(self, code, *rest):
        super().__init__(code, *rest)
        self.code = code

    def __str__(self):
        return f"code {self.code}"


class Window(contextlib.ContextDecorator):
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        note("open", self.name)
        return self

    def __exit__(self, kind, error, traceback):
        note("close", self.name, kind and kind.__name__)
        return isinstance(error, Error) and error.code == 1


def echo(first):
    """A generator that gives back what it is sent, and tells of what is thrown in."""
    got = first
    while True:
        try:
            got = yield got
        except Error as error:
            note("thrown", error.code)
            got = error.code
        except GeneratorExit:
            note("exit")
            return "left"


def relay(values):
    """Generators behind generators."""
    try:
        got = yield from echo(values)
    except KeyError as error:
        got = repr(error)
    note("relayed", got)
    return (yield got)


ECHO = echo("first")
next(ECHO)
'''

SHARED: tuple[str, ...] = ()

EXPRESSIONS = {
    "I": ("Error($I).code"),
    "C": ("$E.code==1"),
    "S": ("str($E) '{0.code}'.format($E)"),
    "E": ("Error($I) Error($I,$A) Error(1)"),
    "A": ("$E"),
}

VARIABLES: dict[str, list[str]] = {}

SIMPLE = [
    "note(ECHO.send($A))",
    "note(ECHO.throw($E), ECHO.gi_frame is None)",
    "g0 = relay($A); note(next(g0), g0.send($A)); note(g0.throw($E)); note(g0.throw(KeyError(s)))",
    "g0 = relay($I); note(next(g0)); opaque(1); note(g0.send($A)); g0.close()",
    "g0 = echo($A); next(g0); note(g0.send($T)); del g0",
    "raise $E",
    "raise $E from None",
    "raise Error(s) from KeyError($I)",
    "e1 = $E; e1.add_note(s); note(e1.__notes__, e1.args)",
]

BLOCKS = """
with Window($S) as window:
    @
    raise $E
note(window.name)

@Window('decorated')
def opened(p):
    nonlocal t0, t1, l0, d0, b0, i0
    @body
    return p
note(opened($I), opened($A))

with contextlib.ExitStack() as stack:
    for q in range($I):
        stack.enter_context(Window(q))
    stack.push(lambda kind, error, trace: note('pushed', kind) is not None)
    @
    kept = stack.pop_all()
kept.close()

with contextlib.suppress(Error), Window('inner'):
    @
    raise Error($I)

try:
    with Window(1), Window(2):
        @
        raise Error($I, s)
except Error as error:
    note(error.code, str(error), error.__context__)
else:
    note('swallowed')

try:
    try:
        raise $E
    finally:
        @
        raise KeyError(s)
except KeyError as error:
    note(error.__context__.code)
    @

saved = None
for q in range(2):
    try:
        if q: raise saved
        raise $E
    except Error as error:
        saved = error
        @loop
note(saved and saved.code)

try:
    raise ExceptionGroup('g', [Error(1), Error(2), KeyError(s), ExceptionGroup('h', [OSError(n)])])
except* Error as group:
    note([error.code for error in group.exceptions])
    @body
except* KeyError as group:
    note(group.message, group.exceptions[0].args)
except* OSError:
    @body

try:
    try:
        raise ExceptionGroup('g', [Error($I), TypeError(s)])
    except* TypeError:
        @body
except ExceptionGroup as group:
    some, rest = group.split(lambda error: error.code == 1)
    note(some and some.exceptions, rest and rest.exceptions)
    @

def until(values):
    nonlocal t0, t1, l0, d0, b0, i0
    for q in values:
        try:
            @body
            if q: return q
        finally:
            note('after', q)
            if q is None:
                continue
    return until
note(until($L) is until)

def numbers(count):
    nonlocal t0, t1, t2, l0, d0, b0, i0
    total = 0
    while total < count:
        try:
            got = yield total
            total += got or 1
            @body
        except Error as error:
            total += error.code
    return total
def through(count):
    result = yield from numbers(count)
    yield ('result', result)
g = through(4)
note(next(g), g.send(1))
@
note(g.throw(Error(1)))
note(list(g))

def tree(depth):
    if depth:
        yield from tree(depth - 1)
        yield depth
        yield from tree(depth - 1)
for q in tree($I % 4):
    @loop

def closing():
    try:
        yield $A
        yield $A
    finally:
        note('closing')
        @body
with contextlib.closing(closing()) as g:
    note(next(g))
    @

pipeline = (q * 2 for q in (k + 1 for k in range(4) if k != $I))
note(next(pipeline))
@
note(list(pipeline))

async def numbers():
    got = 0
    try:
        while got < 3:
            sent = yield got
            got += sent or 1
            await pause(got)
    except Error as error:
        yield error.code
    finally:
        note('numbers closed')
async def work():
    nonlocal t0, t1, l0, d0, b0, i0
    g = numbers()
    note(await g.asend(None))
    @body
    note(await g.asend(1), await g.athrow(Error($I)))
    await g.aclose()
    return [q async for q in numbers() if q], {k: v async for k, v in pairs()}
async def pairs():
    for k in s:
        yield k, await pause(k)
note(drive(work()))

async def one(k):
    got = await pause(k)
    if k == $I: raise Error(k)
    return got, k
async def work():
    nonlocal t0, t1, l0, d0, b0, i0
    done = []
    for k in range(3):
        try:
            done.append(await one(k))
        except Error as error:
            done.append(error.code)
        @body
    return done
note(drive(work()))

turns = iter(range(3))
for q in turns:
    note(q, next(turns, None))
    @loop
note(next(turns, 'end'))
""".strip().split("\n\n")
