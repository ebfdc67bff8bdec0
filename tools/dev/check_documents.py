#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that documents name things that exist: links between them, and paths of files in their text and in comments of
the code. Words in capitals (FAMILY, LAYER, PRESET) stand for any name. Prints one line a violation."""
import re
import sys

import checking

LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"(?<![\w/.-])((?:docs|tools|tests|src|include|configs|kernels)/[\w./-]+\.(?:md|sh|py|cpp|h|cu|json|cmake))\b(?!\.in)")
PLACEHOLDER = re.compile(r"FAMILY|LAYER|PRESET|_$|/x\.")
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


def check_tree(root):
    files = list(root.glob("*.md"))
    for folder in ("docs", "include", "src", "kernels", "tools", "tests", "configs"):
        files += (p for p in (root / folder).rglob("*") if p.suffix in CODE | {".md"})
    # Tests of the checks plant paths that do not exist.
    return [problem for p in sorted(files) if p != root / "tests/dev/checks_test.py" for problem in check_file(p, root)]


if __name__ == "__main__":
    sys.exit(checking.run("documents", __doc__, check_tree))
