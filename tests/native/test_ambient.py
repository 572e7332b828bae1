"""State that C reads by itself: context variables, the decimal context."""

import contextvars
import decimal
from decimal import Decimal

import pytest

import stator
from tests.harness import check

THIRD = Decimal(3)
VAR = contextvars.ContextVar("VAR")
WITH_DEFAULT = contextvars.ContextVar("WITH_DEFAULT", default=[1])


@pytest.fixture(autouse=True)
def fresh_context():
    with decimal.localcontext():
        yield


def compiled(fn):
    return stator.compile(fn, backend="eager", fullgraph=True)


def test_precision_is_guarded():
    def program(x):
        return x / THIRD

    fn = compiled(program)
    assert fn(Decimal(1)) == Decimal(1) / 3
    decimal.getcontext().prec = 5
    assert fn(Decimal(1)) == Decimal("0.33333")


def test_flags_are_an_effect_of_the_entry_alone():
    def program(x):
        return x / THIRD

    fn = compiled(program)
    for _ in range(3):
        decimal.getcontext().clear_flags()
        fn(Decimal(1))
        assert decimal.getcontext().flags[decimal.Inexact]
        decimal.getcontext().clear_flags()
        fn(Decimal(6))
        assert not decimal.getcontext().flags[decimal.Inexact]


def test_context_is_changed_and_replaced():
    def program():
        with decimal.localcontext() as inner:
            inner.prec = 3
            short = Decimal(1) / 3
        decimal.getcontext().prec += 1
        decimal.setcontext(decimal.Context(prec=decimal.getcontext().prec + 1))
        return short, Decimal(1) / 3

    fn = compiled(program)
    for _ in range(3):
        before = decimal.getcontext().prec
        short, long = fn()
        assert short == Decimal("0.333")
        assert len(long.as_tuple().digits) == decimal.getcontext().prec == before + 2


def test_templates_stay_as_they_are():
    def program():
        decimal.DefaultContext.prec = 7

    with pytest.raises(stator.errors.Unsupported):
        compiled(program)()
    assert decimal.DefaultContext.prec != 7


def test_decimal_argument():
    check(lambda x: (x + 1, x.as_tuple()), vary=[(Decimal("1.5"),), (Decimal("1.5"),)])


def test_variable_is_read_set_and_reset():
    def program():
        token = VAR.set(VAR.get(0) + 1)
        inside = VAR.get()
        VAR.reset(token)
        VAR.set(VAR.get(0) + 10)
        return inside

    def run():
        fn = compiled(program)
        return [(fn(), VAR.get()) for _ in range(3)]

    assert contextvars.copy_context().run(run) == [(1, 10), (11, 20), (21, 30)]


def test_capture_leaves_variables_alone():
    def program():
        VAR.set(1)
        open("/dev/null")

    def run():
        with pytest.raises(stator.errors.Unsupported):
            compiled(program)()
        return VAR.get("unset")

    assert contextvars.copy_context().run(run) == "unset"


def test_default_of_a_variable_is_shared():
    def program():
        WITH_DEFAULT.get().append(2)
        return len(WITH_DEFAULT.get())

    fn = compiled(program)
    assert [fn(), fn()] == [2, 3]
    assert WITH_DEFAULT.get() == [1, 2, 2]
