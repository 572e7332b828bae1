"""C methods with a stand-in, reached through super()."""

import random

from tests.harness import check


def test_seed_of_a_subclass():
    def program(number):
        source = random.Random(number)
        source.seed(number + 1)
        return source.random()

    check(program, 3)
