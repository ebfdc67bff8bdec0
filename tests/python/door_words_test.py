# SPDX-License-Identifier: Apache-2.0
"""Messages of the engine name settings by the words of Python: all that its sources can say, and what calls do say."""
import importlib.util
import inspect
import logging
import re

import numpy as np
import pytest
import scipy.sparse as sp

import norn
import norn.implicit
from norn import _door, _settings

# Settings that no message to Python can name, with the reason.
NOT_HERE = {
    "cdl": "command files", "machine": "plans", "nodes": "plans", "allow": "evaluator's", "exclude": "the same", "popularity": "the same",
    "repeat": "runs that are made again", "rule": "its parameters are keywords", "input": "hints to importer, by its name",
    "target": "the same",
    "output": "the same", "new_features": "importer's indexes", "sets": "files that are written", "scratch": "texts too large for memory",
    "k": "it is looked at before", "n": "the same", "units": "the same",
}


def messages_of(source):
    """Texts of the engine's sources, with their file."""
    spec = importlib.util.spec_from_file_location("error_reference", source / "tools/dev/error_reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    for file in sorted((source / "src").rglob("*.cpp")):
        for kind, text, _ in reference.tokens_of(file.read_text(encoding="utf-8")):
            if kind == "literal":
                yield file.name, text


def arguments_of_the_package():
    """Every name that a call of the public package may give."""
    names = set(map(_settings.keyword_of, _settings.table()))
    for name in norn.__all__:
        found = getattr(norn, name)
        members = [found, *(member for _, member in inspect.getmembers(found, callable))] if inspect.isclass(found) else [found]
        for one in filter(callable, members):
            try:
                names |= set(inspect.signature(one).parameters)
            except (TypeError, ValueError):
                continue
    return names


def test_every_setting_that_a_message_names_has_a_word_here(source):
    texts = list(messages_of(source))
    assert len(texts) > 1000
    named = {name: file for file, text in texts for name in re.findall(r"`(\w+)`", text)}
    known = arguments_of_the_package() | set(NOT_HERE)
    assert {"validation", "seed", "lambda_", "score_factors"} <= known and "validation_input" not in known
    unknown = {}
    for name, file in named.items():
        here = _door.HERE.get(name, name)
        if here not in known and name not in _door.PROGRAMS and name not in _door.HERE:
            unknown[name] = file
    assert unknown == {}, ("a message names them, and Python has no such argument: put them into norn/_door.py, or into NOT_HERE "
                           "with the reason")
    assert {*_door.HERE, *_door.PROGRAMS, *NOT_HERE} - set(named) - {"lambda"} == set(), "nothing names them any more"
    assert not known & set(_door.HERE), "they are arguments here"


def test_words_that_stand_for_settings_are_there(programs):
    import subprocess

    places = {"run_folder": norn.run_folder, "network_.descriptor": norn.Network.descriptor, "data.matrix": norn.Dataset.matrix}
    known = arguments_of_the_package()
    assert {word for word in _door.HERE.values() if word not in known} == set(places)
    options = "".join(subprocess.run([programs / name, "--help"], capture_output=True, text=True).stdout
                      for name in ("trainer", "importer"))
    assert [name for name in _door.PROGRAMS if f"--{name.replace('_', '-')}" not in options] == []


# Settings of the library that no program has, with the reason; a message to a program must not name them.
NO_OPTION = {"sets": "data in memory", "units": "arguments of arrays", "n": "the same", "k": "the same", "allowed": "the same",
             "excluded": "the same", "factors": "the same", "parameters": "the same", "unit_labels": "the same",
             "network": "programs have said that --config is missing", "rule": "its parameters are options of their own"}


def test_every_setting_that_a_message_names_is_an_option_of_a_program(source, programs):
    import subprocess

    options = "".join(subprocess.run([programs / name, "--help"], capture_output=True, text=True).stdout
                      for name in ("trainer", "importer", "evaluator", "predictor"))
    known = {word.replace("-", "_") for word in re.findall(r"--([a-z][a-z0-9-]*)", options)}
    named = {name: (file, text) for file, text in messages_of(source) for name in re.findall(r"`(\w+)`", text)}
    assert {name: where for name, where in named.items() if name not in known and name not in NO_OPTION} == {}


def test_what_is_said_has_no_words_of_the_programs(draw, caplog, tmp_path):
    caplog.set_level(logging.DEBUG, logger="norn")
    matrix = sp.csr_matrix((draw.random((60, 20)) < 0.3).astype(np.float32))
    settings = {"epochs": 1, "hidden": 4, "batch": 16, "device": "cpu", "threads": 1}
    model = norn.Recommender(**settings).fit(matrix)
    labelled = norn.Dataset(matrix, feature_labels=[f"i{unit}" for unit in range(20)])
    file = tmp_path / "file"
    file.touch()
    calls = {
        "`validation`": lambda: norn.Recommender(**settings).fit(matrix, callbacks=norn.early_stopping("ndcg@5")),
        "`lambda_`": lambda: norn.Recommender(**settings, lambda_=-1).fit(matrix),
        "`network_.descriptor` shows": lambda: norn.Recommender(epochs=1, device="cpu").fit(matrix),
        "`labels`": lambda: norn.Network.from_parameters(model.network_.descriptor, model.network_.parameters, {"Nowhere": ["a"]}),
        "`run_folder`": lambda: norn.Recommender(**settings).fit(matrix, callbacks=norn.run_folder(file)),
        "`data.matrix`": lambda: norn.train(norn.train({"Recipe": "sigmoid"}, {"data_input": labelled, "data_output": labelled}, epochs=1,
                                                       device="cpu"),
                                            {"data_input": norn.Dataset(matrix, feature_labels=[f"j{unit}" for unit in range(20)]),
                                             "data_output": labelled},
                                            epochs=1, device="cpu"),
    }
    for word, call in calls.items():
        caplog.clear()
        problems = []
        try:
            call()
        except norn.Error as error:
            problems = [str(error), *(problem["message"] for problem in error.problems)]
        said = problems + [record.getMessage() for record in caplog.records]
        assert any(word in one for one in said), (word, said)
        for one in said:
            assert not set(re.findall(r"`(\w+)`", one)) & set(_door.HERE), one


@pytest.mark.parametrize("hidden", [0, -1, 2**32, 1.5, "8", True])
def test_hidden_units_are_named_as_they_were_given(hidden):
    with pytest.raises(norn.UsageError, match="`hidden`") as raised:
        norn.Recommender(hidden=hidden, recipe="sigmoyd")
    assert "sigmoyd" in str(raised.value) and "Layer" not in str(raised.value)  # all that is wrong at once
    norn.Recommender(hidden=np.int64(4), epochs=1, device="cpu").fit(sp.eye(9, format="csr", dtype=np.float32))
