"""Settings are checked when `compile` is called, with messages that say what to do."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

import stator
from stator.options import Options, make_options


def test_defaults():
    options = make_options()
    assert options == Options()
    assert (options.backend, options.recompile_limit, options.fullgraph) == ("inductor", 8, False)


def test_no_backend_means_the_default_one():
    assert make_options(backend=None).backend == "inductor"


def test_own_options_do_not_reach_the_backend():
    options = make_options(options={"recompile_limit": 3, "guard_filter_fn": print, "max_autotune": False})
    assert options.recompile_limit == 3
    assert options.options == {"max_autotune": False}


def test_the_given_dict_is_not_kept():
    given = {"max_autotune": False}
    options = make_options(options=given)
    given["max_autotune"] = True
    assert options.options == {"max_autotune": False}


def test_options_of_other_backends_are_theirs():
    assert make_options(backend="custom", options={"anything": 1}).options == {"anything": 1}
    assert make_options(backend=print, mode="whatever").mode == "whatever"


def test_frozen_and_transportable():
    options = make_options(backend="eager")
    with pytest.raises(FrozenInstanceError):
        options.fullgraph = True
    assert pickle.loads(pickle.dumps(options)) == options
    assert copy.deepcopy(options) is options
    assert hash(options) == hash(make_options(backend="eager"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"fullgraph": 1}, TypeError, "fullgraph must be True or False, got 1"),
        ({"dynamic": "yes"}, TypeError, "dynamic must be True, False or None, got 'yes'"),
        ({"backend": 3}, TypeError, "backend must be a name or a callable"),
        ({"mode": 3}, TypeError, "mode must be a string or None"),
        ({"mode": "max-autotun"}, ValueError, "did you mean 'max-autotune'"),
        ({"mode": "default", "options": {}}, ValueError, "not both"),
        ({"options": [1]}, TypeError, "options must be a dict or None"),
        ({"options": {1: 2}}, TypeError, "keys of options must be strings"),
        ({"options": {"max_autotun": True}}, ValueError, "did you mean 'max_autotune'"),
        ({"options": {"max_autotune": 3}}, TypeError, "option 'max_autotune' must be bool, got 3"),
        ({"options": {"recompile_limit": True}}, TypeError, "must be an int"),
        ({"options": {"recompile_limit": 0}}, ValueError, "at least 1"),
        ({"disable": None}, TypeError, "disable must be True or False"),
    ],
)
def test_bad_settings(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        stator.compile(print, **arguments)
    assert isinstance(caught.value, stator.StatorError)
    with pytest.raises(stator.StatorError):
        stator.compile(**arguments)
