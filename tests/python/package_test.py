# SPDX-License-Identifier: Apache-2.0
"""The package as such: what it is, what importing it loads."""
import inspect
import json
import pathlib
import re
import subprocess
import sys

import norn


def test_version_is_that_of_the_programs(programs):
    said = subprocess.run([programs / "trainer", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == norn.__version__ == norn.version()
    for library in ("OpenBLAS", "NetCDF"):
        assert f"{library}: {norn.show_config()[library]}" in said


def test_importing_loads_nothing_else():
    """Neither NumPy nor the engine; they are loaded when they are needed."""
    code = "import sys; import norn; print(sorted(m for m in sys.modules if m.split('.')[0] in ('numpy', 'scipy', 'norn')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout == "['norn', 'norn._lazy', 'norn._processor']\n"


def test_every_name_is_there():
    for name in norn.__all__:
        assert getattr(norn, name).__doc__, name
    assert set(norn.__all__) <= set(dir(norn))


def test_modules_are_there_without_an_import_of_their_own():
    code = ("import norn; assert {'implicit', 'spark', 'errors'} <= set(dir(norn)); print(norn.implicit.Autoencoder.__name__,"
            " norn.errors.DataError is norn.DataError, norn.callbacks.Callback is norn.Callback, norn.spark.transform.__name__, "
            "hasattr(norn, 'nothing'))")
    told = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert told.split() == ["Autoencoder", "True", "True", "transform", "False"]


def test_precisions_are_those_of_trainer():
    """Each docstring that lists them lists all."""
    folder = pathlib.Path(norn.__file__).parent
    known = json.loads((folder / "tune/trial_options.json").read_text(encoding="utf-8"))["--precision"].split("|")
    lists = [re.findall(r'"(\w+)"', line) for file in folder.rglob("*.py")
             for line in re.findall(r"^ +precision: .*", file.read_text(encoding="utf-8"), re.M) if '"' in line and "=" not in line]
    assert len(lists) >= 4 and all(names == known for names in lists)


def test_settings_are_those_of_trainer(programs):
    """Names, words and help come from the engine's table, which the trainer's options are made from."""
    options = set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)",
                             subprocess.run([programs / "trainer", "--help"], capture_output=True, text=True).stdout, re.M))
    names = re.findall(r"^  (\w+): ", norn.settings(), re.M)
    assert len(names) > 30 and len({name.replace("_", "-") for name in names} & options) > 0.8 * len(names)  # some have other options
    for function in (norn.Recommender.__init__, norn.train):
        parameters = inspect.signature(function).parameters
        assert {name.rstrip("_") for name in parameters} >= set(names) and "settings" not in parameters
        assert "learning rate" in function.__doc__
