# SPDX-License-Identifier: Apache-2.0
"""What type checkers and editors see of the package."""
import ast
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import norn
import pytest

PACKAGE = pathlib.Path(norn.__file__).parent
LAZY = ("__init__.py", "interchange/__init__.py", "spark/__init__.py", "tune/__init__.py", "daily/__init__.py", "report/__init__.py")
# Public signatures and attributes that say Any, with the reason.
WITH_ANY = {
    "Environment.report": "what the engine says, other things of every kind of report",
    "Network.descriptor": "JSON",
    "Network.layer": "JSON",
    "Network.layers": "JSON",
    "Evaluation.__init__": "what the engine says; users make none",
    "Error.__init__": "its problems",
    "Error.problems": "keys and values differ by the fault",
    "NornRecommender.__init__": "Params of PySpark, which has no types of them",
    "NornModel.__init__": "Params of PySpark",
    "NornModel.write": "PySpark's MLWriter",
    "NornModel.read": "PySpark's MLReader",
    "RankingEvaluator.__init__": "Params of PySpark",
    "RankingEvaluator.metricName": "a Param of PySpark",
    "RankingEvaluator.k": "a Param of PySpark",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, source):
    """The user's file, and the package as a wheel has it."""
    made = tmp_path_factory.mktemp("types")
    shutil.copytree(PACKAGE, made / "norn", ignore=lambda path, names: [n
                                                                        for n in names if n.endswith(".so") or n in ("bin", "__pycache__")])
    shutil.copy(source / "tests/python/typed_user.py", made)
    return made


def planted(folder):
    lines = (folder / "typed_user.py").read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("  # error")]


def test_mypy_finds_the_errors_of_a_user_and_no_others(folder):
    import mypy  # noqa: F401

    folder.joinpath("mypy.ini").write_text("[mypy]\nstrict = True\n[mypy-norn.*]\nfollow_imports = silent\nfollow_imports_for_stubs = "
                                           "True\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "typed_user.py"], cwd=folder, capture_output=True,
                          text=True,
                          env=os.environ | {"MYPYPATH": str(folder)})
    found = {int(line) for line in re.findall(r"^typed_user\.py:(\d+): error:", done.stdout, re.M)}
    assert len(planted(folder)) > 15 and sorted(found) == planted(folder), done.stdout + done.stderr
    assert "norn/" not in done.stdout


def test_pyright_finds_the_errors_of_a_user_and_no_others(folder):
    import pyright  # noqa: F401

    folder.joinpath("pyrightconfig.json").write_text(json.dumps({"include": ["typed_user.py"], "pythonVersion": "3.10"}), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"], cwd=folder,
                          capture_output=True, text=True, env=os.environ | {"PYRIGHT_PYTHON_GLOBAL_NODE": "0"})
    told = json.loads(done.stdout)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] + 1 for one in told if one["severity"] == "error"}
    assert sorted(found) == planted(folder), told


def parsed(file):
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def seen_by_checkers(file):
    """{name: module} of a lazy package, of modules that are names themselves {name: ""}."""
    seen = {}
    for node in next(node for node in parsed(file).body if is_type_checking(node)).body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.asname == alias.name for alias in node.names), "`X as X` is what checkers let others import"
            seen |= {alias.name: (node.module or "").removeprefix("norn.") for alias in node.names}
        elif isinstance(node, ast.AnnAssign):  # what the engine's stub lacks
            seen[node.target.id] = "_core"
    return seen


@pytest.mark.parametrize("file", LAZY)
def test_checkers_see_the_names_that_there_are(file):
    package = importlib.import_module(".".join(["norn", *pathlib.PurePath(file).parts[:-1]]))
    homes = package._HOMES | getattr(package, "_STAGES", {})
    there = {name: home for home, names in homes.items() for name in names} | dict.fromkeys(getattr(package, "_MODULES", ()), "")
    assert seen_by_checkers(file) == there


def test_settings_are_those_of_the_engine(source):
    spec = importlib.util.spec_from_file_location("setting_types", source / "tools/dev/setting_types.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert (PACKAGE / "_setting_types.py").read_text(encoding="utf-8") == generator.module()


def aliases_of_any():
    """Any, and names of types that stand for it."""
    names = {"Any"}
    for file in ("_types.py", "errors.py"):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target,
                                                              ast.Name) and node.value is not None and names_in(node.value) & names:
                names.add(node.target.id)
    return names


def names_in(annotation):
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def annotations_of(found):
    """(annotation or None) of what a function takes and gives."""
    arguments = found.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (one.annotation for one in every if one is not None and one.arg not in ("self", "cls"))
    if found.name != "__init__":
        yield found.returns


def members(name, node):
    """(name, annotations) of a function, or of what is public of a class."""
    if isinstance(node, ast.FunctionDef):
        yield name, list(annotations_of(node))
        return
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and (one.name == "__init__" or not one.name.startswith("_")):
            yield f"{name}.{one.name}", list(annotations_of(one))
        elif isinstance(one, ast.AnnAssign) and not one.target.id.startswith("_"):
            yield f"{name}.{one.target.id}", [one.annotation]
    for one in ast.walk(node):  # attributes that methods make
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Attribute) and not one.target.attr.startswith("_"):
            yield f"{name}.{one.target.attr}", [one.annotation]


def public_members():
    for file in LAZY:
        home = pathlib.PurePath(file).parent
        for name, module in seen_by_checkers(file).items():
            if module in ("", "_core", "interchange"):
                continue
            yield from members(name, next(n for n in parsed(home / f"{module}.py").body if getattr(n, "name", "") == name))
    yield from members("Autoencoder", next(n for n in parsed("implicit.py").body if getattr(n, "name", "") == "Autoencoder"))


def test_public_signatures_say_no_any():
    everything = list(public_members())
    assert len(everything) > 100
    known = aliases_of_any()
    assert {"Any", "Facts", "Problem"} <= known and "Matrix" not in known
    assert [name for name, annotations in everything if None in annotations] == []
    assert {name for name, annotations in everything if any(names_in(one) & known for one in annotations)} == set(WITH_ANY)
