"""json: its parser in C is an object from outside that never changes."""

import json

import torch

import stator
from tests.harness import check

SEEN = []


def hook(pairs):
    SEEN.append(len(pairs))
    return {name: value * 2 for name, value in pairs.items()}


DECODER = json.JSONDecoder(object_hook=hook)


def configured(x, text):
    options = json.loads(text)
    return x * options["scale"], json.dumps({"shape": list(x.shape), **options}, sort_keys=True)


def hooked(x, text):
    return x + DECODER.decode(text)["scale"], len(SEEN)


def test_loads_and_dumps():
    check(configured, torch.ones(2), '{"scale": 2.5, "names": ["a", null]}')


def test_hooks_are_part_of_the_program():
    compiled = stator.compile(hooked, fullgraph=True, backend="eager")
    for text in ('{"scale": 2}', '{"scale": 2}', '{"scale": 5}'):
        SEEN.clear()
        mine = compiled(torch.ones(2), text)
        assert SEEN == [1]
        SEEN.clear()
        theirs = hooked(torch.ones(2), text)
        assert torch.equal(mine[0], theirs[0]) and mine[1] == theirs[1]
