#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that documents name things that exist: links between them, and paths of files in their text and in comments of
the code. Words in capitals (FAMILY, LAYER, PRESET) stand for any name. Versions that documents name are the project's, which
stands in CMakeLists.txt. Pages for users are in docs/index.md, and those that call programs say
ahead what else these are called, in its words.
Prints one line a violation."""
import re
import sys

import checking

LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"(?<![\w/.-])((?:docs|tools|tests|src|include|configs|kernels)/[\w./-]+\.(?:md|sh|py|cpp|h|cu|json|cmake))\b(?!\.in)")
PLACEHOLDER = re.compile(r"FAMILY|LAYER|PRESET|_$|/x\.")
VERSION = re.compile(r"project\(norn VERSION ([0-9.]+)")
# Where else the version stands: the newest section of the changelog, a citation, an example of errors as JSON.
VERSIONS = {"CHANGELOG.md": re.compile(r"^## \[(\d[\d.]*)\] - \d{4}-\d\d-\d\d$", re.M),
            "CITATION.cff": re.compile(r"^version: (.+)$", re.M),
            "docs/user/errors.md": re.compile(r'"version": "([^"]+)"')}
PROGRAMS = r"(?:trainer|importer|predictor|evaluator|tuner|daily|report)(?:\.py)?"
CODE_BLOCK = re.compile(r"^```.*?^```", re.M | re.S)
CALL_IN_CODE = re.compile(rf"(?:^|[\s/(]){PROGRAMS} +-")
CALL_IN_TEXT = re.compile(rf"`(?:[\w./]*/)?{PROGRAMS} -")
BOX = re.compile(r"(?:^> .*\n)+", re.M)
FIRST_SCREEN = 25  # lines
CODE = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt"}


def check_file(path, root):
    relative = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    names = {(name, root / name) for name in PATH.findall(text)}
    if path.suffix == ".md":
        names |= {(name, path.parent / name) for name in LINK.findall(text)}
    for name, target in sorted(names):
        if not PLACEHOLDER.search(name) and not target.exists():
            yield f"{relative}: '{name}' does not exist"


def calls_programs(text):
    return CALL_IN_TEXT.search(CODE_BLOCK.sub("", text)) or any(CALL_IN_CODE.search(block) for block in CODE_BLOCK.findall(text))


def check_pages(root):
    index = (root / "docs/index.md").read_text(encoding="utf-8")
    box = BOX.search(index).group()
    for path in sorted((root / "docs/user").glob("*.md")):
        if f"(user/{path.name})" not in index:
            yield f"docs/index.md: the page docs/user/{path.name} is not there; give it its place in the order of reading"
        text = path.read_text(encoding="utf-8")
        head = "".join(text.splitlines(keepends=True)[:FIRST_SCREEN])
        if calls_programs(text) and "generated" not in head.lower() and box not in head:
            yield (f"docs/user/{path.name}: calls programs; the box of docs/index.md belongs into its first "
                   f"{FIRST_SCREEN} lines, word for word")


def check_versions(root):
    project = VERSION.search((root / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    for name, where in VERSIONS.items():
        named = where.search((root / name).read_text(encoding="utf-8"))
        if not named or named.group(1) != project:
            yield f"{name}: names the version {named.group(1) if named else 'nowhere'}, CMakeLists.txt {project}"


def check_tree(root):
    files = list(root.glob("*.md"))
    for folder in ("docs", "include", "src", "kernels", "tools", "tests", "configs"):
        files += (p for p in (root / folder).rglob("*") if p.suffix in CODE | {".md"})
    # Tests of the checks plant paths that do not exist.
    problems = [problem for p in sorted(files) if p != root / "tests/dev/checks_test.py" for problem in check_file(p, root)]
    if (root / "docs/index.md").exists():
        problems += check_pages(root)
    if (root / "CMakeLists.txt").exists():
        problems += check_versions(root)
    return problems


if __name__ == "__main__":
    sys.exit(checking.run("documents", __doc__, check_tree))
