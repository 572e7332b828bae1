"""Numbers and texts that classes hold and that change: guarded one by one, at most two compilations."""

import operator

import pytest
import torch

import stator


def make():
    """A class with data, a subclass, and a program that reads and writes them; another one each time."""

    class Base:
        count, rate, mode, scale = 0, 1.0, "add", 2.0

        def step(self, x):
            return x * 2

    class Derived(Base):
        own = 1

    def program(x, obj):
        Base.count += 1
        Base.rate *= 0.5
        y = obj.step(x) * obj.scale + Derived.count * obj.rate
        return y - Derived.own if obj.mode == "add" else y * obj.own

    return Base, Derived, program


def run(change, calls=6):
    """Results, data of the classes and compilations, with `change(base, derived, i)` before each call."""
    worlds = []
    for wrap in (lambda f: f, lambda f: stator.compile(f, backend="eager")):
        base, derived, program = make()
        function, seen = wrap(program), []
        for i in range(calls):
            change(base, derived, i)
            try:
                seen.append(function(torch.arange(3.0), derived()).tolist())
            except (AttributeError, RuntimeError) as error:
                seen.append(str(error))
            seen.append({name: value for name, value in vars(base).items() if type(value) in (int, float, str)})
        worlds.append(seen)
    assert worlds[0] == worlds[1]
    return stator.stats()["frames_captured"]


def test_counters_and_rates():
    assert run(lambda base, derived, i: None, 8) == 2


def test_what_others_write():
    def change(base, derived, i):
        base.scale = 2.0 + i // 2
        derived.own = i

    assert run(change, 8) <= 3


CHANGES = {
    "a method": lambda base, derived, i: setattr(base, "step", lambda self, x: x + i) if i == 4 else None,
    "shadowed": lambda base, derived, i: setattr(derived, "count", 100) if i == 4 else None,
    "gone": lambda base, derived, i: delattr(base, "rate") if i == 4 else None,
    "another type": lambda base, derived, i: setattr(base, "scale", torch.ones(3)) if i == 4 else None,
    "a property": lambda base, derived, i: setattr(base, "mode", property(lambda self: "mul")) if i == 4 else None,
    "a text": lambda base, derived, i: setattr(base, "mode", ("add", "mul")[i % 2]),
    "a number that is a bool": lambda base, derived, i: setattr(base, "scale", (2, True, 3)[i % 3]),
    "a new name": lambda base, derived, i: setattr(derived, f"name{i}", i),
    "all at once": lambda base, derived, i: [setattr(base, "scale", 1.0 * i), setattr(derived, "own", -i)],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_other_changes_are_noticed(change):
    run(change)


def test_instances_and_modules():
    class Counting(torch.nn.Module):
        total = 0

        def forward(self, x):
            type(self).total += 1
            return x * self.total

    model = Counting()
    compiled = stator.compile(model, backend="eager")
    for i in range(6):
        assert compiled(torch.ones(2)).tolist() == [i + 1.0] * 2
    assert Counting.total == 6
    model.total = 40  # hides that of the class
    assert compiled(torch.ones(2)).tolist() == [40.0] * 2
    assert stator.stats()["frames_captured"] <= 3


def test_what_c_code_reads_is_guarded_by_the_class():
    class Base:
        count = 0

    def program(x):
        return x + operator.attrgetter("count")(Base)

    compiled = stator.compile(program, backend="eager")
    for i in range(5):
        Base.count = i
        assert compiled(torch.zeros(1)).item() == i


class Forwarding(type):
    """Answers for its classes itself."""

    def __getattribute__(cls, name):
        return 3 if name == "odd" else super().__getattribute__(name)

    def __getattr__(cls, name):
        if name == "hidden":
            return 11
        raise AttributeError(f"no {name}")


class Hooked(type):
    def __getattr__(cls, name):
        if name == "hidden":
            return 11
        raise AttributeError(f"no {name}")


def failing(cls, name):
    try:
        return type.__getattribute__(cls, name)
    except AttributeError as error:
        return str(error)


READS = {
    "attrgetter": lambda cls: operator.attrgetter("count")(cls),
    "mapped": lambda cls: list(map(operator.attrgetter("count"), (cls, cls()))),
    "format": lambda cls: "{0.count} {1.count}".format(cls, cls()),
    "type's own": lambda cls: (type.__getattribute__(cls, "count"), failing(cls, "absent")),
    "read": lambda cls: (cls.count, getattr(cls, "odd", 0), getattr(cls, "hidden", 0), cls.__name__, cls.__doc__),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("meta", [type, Forwarding, Hooked])
def test_c_code_sees_what_the_program_wrote(meta, read):
    def world():
        cls = meta("Counting", (), {"count": 0, "__doc__": "counts"})

        def program(x):
            before = read(cls)
            cls.count += 1
            return x + cls.count, before, read(cls)

        return program, cls

    (program, cls), (same, twin) = world(), world()
    compiled = stator.compile(same, backend="eager")
    for i in range(6):
        if i == 4:
            cls.count = twin.count = 50
        assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
        assert cls.count == twin.count
