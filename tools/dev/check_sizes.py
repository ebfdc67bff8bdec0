#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that files and functions stay readable: files of code under 500 lines, functions under 60 (their bodies,
from the opening brace to the closing one), a licence line on top; lines of Python at most 140 columns (of C++ clang-format
sees to it); what begins with #! may be executed. Prints one line a violation.

Functions are found by the layout that clang-format gives them: a line that ends in `{` and the first line after it
that closes at the same indentation.
"""
import ast
import os
import re
import sys

import checking

FILE_LIMIT = 500
FUNCTION_LIMIT = 60
LINE_LIMIT = 140  # of Python, as .editorconfig says, but for what checkers are told behind it
TOLD_TO_CHECKERS = re.compile(r"  # (type:|pyright:|noqa).*")
FOLDERS = ("include", "src", "kernels", "python", "tools", "tests", ".ci")
CODE = {".h", ".cpp", ".cu", ".cuh"}
SHELL = {".sh"}
PYTHON = {".py"}
NOT_A_FUNCTION = re.compile(
    r"^\s*(?:namespace|class|struct|union|enum|extern|if|else|for|while|switch|do|try|catch|case|default|return)\b"
    r"|^\s*[}\]]|=\s*\{$|\]\s*(?:\(.*\)\s*(?:mutable\s*)?(?:->.*)?)?\{$")


def cpp_functions(lines):
    """Yields (first line number, name, lines of the body)."""
    depth_end = 0
    for number, line in enumerate(lines):
        if number < depth_end or not line.rstrip().endswith("{") or line.lstrip().startswith(("#", "//")):
            continue
        head, first = statement_before(lines, number)
        if "(" not in head or NOT_A_FUNCTION.search(head):
            continue
        indent = len(lines[first]) - len(lines[first].lstrip())
        closing = re.compile(r"^ {%d}\}" % indent)
        for end in range(number + 1, len(lines)):
            if closing.match(lines[end]):
                yield first + 1, head.split("(")[0].split()[-1], end - number + 1
                depth_end = end
                break


def statement_before(lines, number):
    """The statement whose opening brace ends line `number`, as one line, and the line where it starts."""
    first = number
    while first > 0 and number - first < 20:
        before = lines[first - 1].split("//")[0].strip()
        if not before or before.endswith((";", "{", "}", ":")) or before.startswith(("#", "//", "template")):
            break
        first -= 1
    return " ".join(line.strip() for line in lines[first : number + 1]), first


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name, node.end_lineno - node.lineno + 1


def shell_functions(lines):
    start = None
    for number, line in enumerate(lines):
        opened = re.match(r"^(\w+)\(\) *\{ *$", line)
        if opened:
            start, name = number, opened.group(1)
        elif line.startswith("}") and start is not None:
            yield start + 1, name, number - start + 1
            start = None


def check_file(path, root):
    relative = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    if text.count("\n") > FILE_LIMIT:
        yield f"{relative}: {text.count(chr(10))} lines, limit {FILE_LIMIT}"
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        yield f"{relative}: no SPDX licence line on top"
    if text.startswith("#!") and not os.access(path, os.X_OK):
        yield f"{relative}: begins with #! and is not executable"
    if path.suffix in PYTHON:
        long = ((n, len(TOLD_TO_CHECKERS.sub("", line))) for n, line in enumerate(lines, 1))
        yield from (f"{relative}:{n}: {length} columns, limit {LINE_LIMIT}" for n, length in long if length > LINE_LIMIT)
    if path.suffix in CODE:
        functions = cpp_functions(lines)
    elif path.suffix in PYTHON:
        functions = python_functions(text)
    else:
        functions = shell_functions(lines)
    for line, name, length in functions:
        if length > FUNCTION_LIMIT:
            yield f"{relative}:{line}: {name} has {length} lines, limit {FUNCTION_LIMIT}"


def check_tree(root):
    problems = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in CODE | SHELL | PYTHON or path == root / ".ci/run":
                problems += check_file(path, root)
    return problems


if __name__ == "__main__":
    sys.exit(checking.run("sizes", __doc__, check_tree))
