"""The order of attributes after deletions, and attributes that exist only for a while."""

from tests.harness import check


class Thing:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_deleted_and_set_again():
    def program(thing):
        value = thing.a
        del thing.a
        thing.c = 1
        thing.a = value

    check(program, Thing(a=1, b=2))


def test_moved_in_the_exposed_dict():
    def program(thing):
        fields = thing.__dict__
        fields["a"] = fields.pop("a")
        fields.update(c=3, b=4)
        return list(fields)

    check(program, Thing(a=1, b=2))


def test_moved_before_the_dict_is_exposed():
    def program(thing):
        value = thing.a
        del thing.a
        thing.a = value
        return list(thing.__dict__)

    check(program, Thing(a=1, b=2))


def test_new_attributes_in_order():
    def program(thing):
        thing.x = 1
        thing.y = 2
        del thing.x
        thing.x = 3

    check(program, Thing())


def test_set_for_a_while():
    def program(thing):
        thing.x = 1
        del thing.x

    check(program, vary=[(Thing(),), (Thing(),), (Thing(x=5),)], expect_recompiles=1)
