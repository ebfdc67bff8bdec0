# SPDX-License-Identifier: Apache-2.0
"""Mutants of Python, as cpp_mutants.py has those of C++: a sample of places in the functions of python/norn, written into a copy of the
package behind `_norn_mutant(N)`. Words of messages, types, patterns of `match` and what stands outside of functions are left out."""
import ast
import copy
import fnmatch
import random

from mutant import Mutant

OTHERS = {ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
          ast.Eq: (ast.NotEq,),
          ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.And: (ast.Or,),
          ast.Or: (ast.And,), ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
          ast.FloorDiv: (ast.Mult,),
          ast.Mod: (ast.Mult,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,)}
SWITCH = '''\
"""Which mutant is chosen (NORN_MUTANT=N), and a mark for each that is reached (in the file NORN_MUTANT_RECORD)."""
import mmap
import os

CHOSEN = int(os.environ.get("NORN_MUTANT", 0))
MARKS = None
if os.path.exists(os.environ.get("NORN_MUTANT_RECORD", "")):
    with open(os.environ["NORN_MUTANT_RECORD"], "r+b") as file:
        MARKS = mmap.mmap(file.fileno(), 0)


def reached(number):
    if MARKS is not None:
        MARKS[number] = 1
    return number == CHOSEN
'''
# What a file begins with that has mutants. Some run alone, and the package is not on their path.
SWITCHED = '''\
try:
    from norn._norn_mutant import reached as _norn_mutant
except ImportError:
    import sys as _norn_sys
    _norn_sys.path.append({folder!r})
    from _norn_mutant import reached as _norn_mutant
    _norn_sys.path.pop()
'''


class Places(ast.NodeVisitor):
    """(kind, node, what it becomes) for each place of a file, in the order of the file."""

    def __init__(self, tree):
        self.found, self.depth = [], 0
        self.visit(tree)

    def add(self, kind, node, other):
        if self.depth:
            self.found.append((kind, node, other))

    def visit_FunctionDef(self, node):
        self.depth += 1
        for child in node.body:
            self.visit(child)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def visit_JoinedStr(self, node):
        pass

    def visit_match_case(self, node):
        for child in node.body:
            self.visit(child)

    def visit_Compare(self, node):
        if len(node.ops) == 1:
            for other in OTHERS[type(node.ops[0])]:
                self.add("operator", node, ast.Compare(node.left, [other()], node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        self.add("operator", node, ast.BoolOp(OTHERS[type(node.op)][0](), node.values))
        self.generic_visit(node)

    def visit_BinOp(self, node):
        text = any(isinstance(side, ast.JoinedStr) or isinstance(side, ast.Constant) and isinstance(side.value, str)
                   for side in (node.left, node.right))
        for other in () if text else OTHERS.get(type(node.op), ()):
            self.add("operator", node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            self.add("operator", node, ast.Call(ast.Name("bool", ast.Load()), [node.operand], []))
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.add("number", node, ast.Constant(not node.value))
        elif isinstance(node.value, (int, float)):
            for step in (1, -1):
                self.add("number", node, ast.Constant(node.value + step))

    def visit_If(self, node):
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.add("condition", node.test, ast.UnaryOp(ast.Not(), node.test))
            self.generic_visit(node)

    visit_IfExp = visit_While = visit_If

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.add("removal", node, ast.Pass())
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self.add("removal", node, ast.Pass())
        self.generic_visit(node)

    def visit_Assign(self, node):
        if not isinstance(node.targets[0], (ast.Name, ast.Tuple)):  # without a name the next line would fail, which shows nothing
            self.add("removal", node, ast.Pass())
        self.visit(node.value)

    def visit_Return(self, node):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.add("return", node, ast.Return(ast.Constant(None)))
        self.generic_visit(node)


class Writer(ast.NodeTransformer):
    """Puts what is chosen, by the node's place in the tree, into it."""

    def __init__(self, chosen):
        self.chosen = chosen  # node -> (number, other)

    def visit(self, node):
        number, other = self.chosen.get(node, (0, None))
        if not number:
            return self.generic_visit(node)
        del self.chosen[node]
        original = self.visit(copy.copy(node))
        test = ast.Call(ast.Name("_norn_mutant", ast.Load()), [ast.Constant(number)], [])
        if isinstance(node, ast.stmt):
            return ast.If(test, [other], [original])
        return ast.IfExp(test, other, original)


def places_of(root, name):
    text = (root / name).read_text()
    return [Mutant(name, node.lineno, index, 0, kind, ast.unparse(node), ast.unparse(other), [], "")
            for index, (kind, node, other) in enumerate(Places(ast.parse(text)).found)]


def sample(root, count, seed, first, pattern="*"):
    everything = []
    for path in sorted((root / "python/norn").rglob("*.py")):
        name = str(path.relative_to(root))
        everything += places_of(root, name) if fnmatch.fnmatch(name, pattern) else []
    random.Random(seed).shuffle(everything)
    chosen, taken = [], set()
    for one in everything:
        place = (one.file, one.line, one.was)
        if place not in taken and len(chosen) < count:
            taken.add(place)
            one.number = first + len(chosen)
            chosen.append(one)
    return chosen, len(everything)


def write(root, copy_, mutants):
    (copy_ / "python/norn/_norn_mutant.py").write_text(SWITCH)
    files = sorted({one.file for one in mutants})
    for name in files:
        tree = ast.parse((root / name).read_text())
        found = Places(tree).found
        chosen = {found[one.start][1]: (one.number, found[one.start][2]) for one in mutants if one.file == name}
        tree = Writer(chosen).visit(tree)
        at = next((index for index, node in enumerate(tree.body) if not is_head(node)), len(tree.body))
        tree.body[at:at] = ast.parse(SWITCHED.format(folder=str(copy_ / "python/norn"))).body
        (copy_ / name).write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
    return files


def is_head(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) or isinstance(node,
                                                                                             ast.ImportFrom) and node.module == "__future__"
