# SPDX-License-Identifier: Apache-2.0
"""How the modules of the package stand to each other: none reaches itself by imports, also by those within functions."""
import ast
import pathlib

import norn
import pytest


def modules_of(folder):
    """{dotted name: file} of a package."""
    found = {}
    for file in sorted(folder.rglob("*.py")):
        parts = (folder.name, *file.relative_to(folder).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports_of(name, file, modules):
    """The modules that one imports where it runs; what only type checkers read is left out."""
    tree, found = ast.parse(file.read_text(encoding="utf-8")), set()
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    checkers = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
                for one in node.body for inner in ast.walk(one)}
    for node in ast.walk(tree):
        if id(node) in checkers:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[:len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base for alias in node.names}
    return found & set(modules) - {name}


def rings_of(folder):
    """A path of modules that ends where it begins, for each module that lies on one."""
    modules = modules_of(folder)
    imports = {name: imports_of(name, file, modules) for name, file in modules.items()}
    rings = []
    for first in imports:
        came_from, waiting = {}, [first]
        while waiting and first not in came_from:
            at = waiting.pop()
            for one in imports[at] - set(came_from):
                came_from[one] = at
                waiting.append(one)
        if first in came_from:
            path = [first, came_from[first]]
            while path[-1] != first:
                path.append(came_from[path[-1]])
            rings.append(" <- ".join(path))
    return rings


def test_no_module_imports_itself_by_way_of_others():
    assert rings_of(pathlib.Path(norn.__file__).parent) == []


@pytest.mark.parametrize("imports, ring", [
    ({"a": "from . import b", "b": "def f():\n    from .a import x"}, True),
    ({"a": "import one.b", "b": "from one import c", "c": "from .a import x"}, True),
    ({"a": "from .part import b", "part/__init__": "", "part/b": "from ..a import x"}, True),
    ({"a": "from .b import x", "b": "from .a import *"}, True),
    ({"a": "from .b import x", "b": "if TYPE_CHECKING:\n    from .a import x"}, False), ({"a": "from .b import x", "b": "import a"}, False),
    ({"a": "from .part import x", "part/__init__": "from .c import x", "part/c": "from . import a"}, True),
])
def test_rings_are_found(imports, ring, tmp_path):
    for name, text in ({"__init__": ""} | imports).items():
        file = tmp_path / "one" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert bool(rings_of(tmp_path / "one")) == ring
