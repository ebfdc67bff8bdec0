# SPDX-License-Identifier: Apache-2.0
"""Mutants of C++: places in functions of .cpp files where an operator, a number, a condition, a statement or a returned value can be
another. A sample of them is written into a copy of the tree, each behind `norn_mutant(N)`, so that one build holds them all.

Left out are headers (CUDA shares them), templates, whatever is constant when it is compiled, and calls that only reserve memory or log."""
import fnmatch
import functools
import json
import pathlib
import random
import re
import shlex

from clang import cindex
from clang.cindex import CursorKind, TypeKind

from mutant import Mutant

OTHER_OPERATORS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",), "&&": ("||",), "||": ("&&",),
    "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("*",), "&": ("|",), "|": ("&",), "^": ("&",), "<<": (">>",), ">>": ("<<",),
    "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "|=": ("&=",), "&=": ("|=",),
}
OF_ANY_TYPE = {"<", "<=", ">", ">=", "==", "!=", "&&", "||"}
FUNCTIONS = {CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR, CursorKind.CONVERSION_FUNCTION}
TEMPLATES = {CursorKind.FUNCTION_TEMPLATE, CursorKind.CLASS_TEMPLATE, CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION}
EXPRESSIONS = {CursorKind.CALL_EXPR, CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR, CursorKind.UNARY_OPERATOR,
               CursorKind.UNEXPOSED_EXPR}
NO_MATTER = re.compile(r"\breserve\(|\bshrink_to_fit\(|\bspdlog\b|\blog_\w+\(|static_cast<void>")
NUMBERS = set(range(TypeKind.BOOL.value, TypeKind.LONGDOUBLE.value + 1))
SWITCH = """\
// Which mutant is chosen (NORN_MUTANT=N), and a mark for each that is reached (in the file NORN_MUTANT_RECORD).
#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
inline int norn_chosen_mutant = std::getenv("NORN_MUTANT") ? std::atoi(std::getenv("NORN_MUTANT")) : 0;
inline unsigned char* norn_reached_mutants = [] {
  const char* name = std::getenv("NORN_MUTANT_RECORD");
  const int file = name ? ::open(name, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return static_cast<unsigned char*>(nullptr);
  void* marks = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return marks == MAP_FAILED ? nullptr : static_cast<unsigned char*>(marks);
}();
inline bool norn_mutant(int number) {
  if (norn_reached_mutants) norn_reached_mutants[number] = 1;
  return number == norn_chosen_mutant;
}
"""


def compile_arguments(build, root):
    """File -> arguments of libclang for each .cpp file of the layers and kernels."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if not file.is_relative_to(root):
            continue
        name = str(file.relative_to(root))
        if name.startswith(("src/", "kernels/cpu/")) and name.endswith(".cpp") and name not in found:
            words = shlex.split(entry["command"])
            keep = [word for word in words if word.startswith(("-D", "-std", "-m"))]
            keep += [word for before, word in zip(words, words[1:]) if before == "-isystem" for word in ("-isystem", word)]
            found[name] = keep + [word for word in words if word.startswith("-I")]
    return found


class Finder:
    """All that could be mutated in one file."""

    def __init__(self, root, name, arguments):
        self.root, self.name, self.arguments = root, name, arguments
        self.source = (root / name).read_bytes()
        self.found = []

    def parse(self, source):
        path = str(self.root / self.name)
        return cindex.Index.create().parse(path, self.arguments, [(path, source.decode())])

    def find(self):
        for cursor in self.parse(self.source).cursor.get_children():
            if cindex.conf.lib.clang_Location_isFromMainFile(cursor.location):
                self.walk(cursor, False)
        return self.found

    def text(self, start, end):
        return self.source[start:end].decode()

    def walk(self, cursor, inside):
        """inside: of a function's body, where the program computes."""
        kind = cursor.kind
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        if kind in TEMPLATES or kind in (CursorKind.CASE_STMT, CursorKind.STATIC_ASSERT):
            if kind == CursorKind.CASE_STMT:  # its label is constant, what follows is not
                for child in list(cursor.get_children())[1:]:
                    self.walk(child, inside)
            return
        if kind in FUNCTIONS or kind == CursorKind.VAR_DECL:
            if re.search(r"\bconst(expr|eval|init)\b", self.text(start, end).partition("{")[0].partition("=")[0]):
                return
        children = list(cursor.get_children())
        if inside and end > start:
            self.offer(cursor, children, start, end)
        for child in children:
            self.walk(child, inside or (kind in FUNCTIONS and child.kind == CursorKind.COMPOUND_STMT) or kind == CursorKind.LAMBDA_EXPR)

    def offer(self, cursor, children, start, end):
        kind = cursor.kind
        if kind == CursorKind.COMPOUND_STMT:
            for child in children:
                self.offer_removal(child)
        elif kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR) and len(children) == 2:
            self.offer_operator(cursor, children, start, end)
        elif kind == CursorKind.CALL_EXPR and cursor.spelling in ("operator==", "operator!=", "operator<", "operator>"):
            self.offer_operator(cursor, list(cursor.get_arguments()), start, end)
        elif kind in (CursorKind.INTEGER_LITERAL, CursorKind.FLOATING_LITERAL) and re.fullmatch(r"\d[\w.']*", self.text(start, end)):
            for sign in "+-":
                self.add(cursor, "number", start, end, f"({self.text(start, end)} {sign} 1)", [(start, end)],
                         "(norn_mutant(NUMBER) ? ({0} %s 1) : {0})" % sign)
        elif kind == CursorKind.UNARY_OPERATOR and self.text(start, end).startswith(("!", "++", "--")):
            self.offer_unary(cursor, children[0], start, end)
        elif kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT) and len(children) >= 2 and children[0].kind.is_expression():
            self.offer_condition(children[0], start)
        elif kind == CursorKind.RETURN_STMT and children and not self.has_lambda(cursor):
            self.offer_return(children[0], start, end)

    def offer_operator(self, cursor, sides, start, end):
        if len(sides) != 2 or self.has_lambda(cursor):
            return
        left, right = ((side.extent.start.offset, side.extent.end.offset) for side in sides)
        operator = self.text(left[1], right[0]).strip()
        numbers = all(side.type.get_canonical().kind.value in NUMBERS for side in sides)
        for other in OTHER_OPERATORS.get(operator,
                                         ()) if start == left[0] and end == right[1] and (numbers or operator in OF_ANY_TYPE) else ():
            self.add(cursor, "operator", start, end, f"{self.text(*left)} {other} {self.text(*right)}", [left, right],
                     "(norn_mutant(NUMBER) ? ({0} %s {1}) : ({0} %s {1}))" % (other, operator))

    def offer_unary(self, cursor, operand, start, end):
        inner = (operand.extent.start.offset, operand.extent.end.offset)
        sign = self.text(start, inner[0]).strip()
        if inner[1] != end or self.has_lambda(cursor):
            return
        other = {"!": "", "++": "--", "--": "++"}.get(sign)
        if other is not None:
            self.add(cursor, "operator", start, end, other + self.text(*inner), [inner],
                     "(norn_mutant(NUMBER) ? %s : %s{0})" % ("static_cast<bool>({0})" if sign == "!" else other + "{0}", sign))

    def offer_condition(self, condition, statement):
        start, end = condition.extent.start.offset, condition.extent.end.offset
        if re.fullmatch(r"(if|while)\s*\(", self.text(statement, start)):
            self.add(condition, "condition", start, end, f"!({self.text(start, end)})", [(start, end)],
                     "norn_mutant(NUMBER) != static_cast<bool>({0})")

    def offer_return(self, value, start, end):
        inner = (value.extent.start.offset, value.extent.end.offset)
        kind = value.type.get_canonical().kind
        type_ = f"std::decay_t<decltype({self.text(*inner)})>"
        if kind == TypeKind.BOOL:
            other, shown = "!({0})", f"!({self.text(*inner)})"
        elif kind.value in NUMBERS:
            other, shown = "static_cast<%s>(({0}) + 1)" % type_, f"{self.text(*inner)} + 1"
        else:
            other, shown = type_ + "{{}}", "{}"
        self.add(value, "return", start, end, "return " + shown, [inner], "{{ if (norn_mutant(NUMBER)) return "
                 + other.replace(type_, type_.replace("{", "{{").replace("}", "}}")) + "; return {0}; }}", ";")

    def offer_removal(self, statement):
        start, end = statement.extent.start.offset, statement.extent.end.offset
        text = self.text(start, end)
        if statement.kind in EXPRESSIONS and self.text(end, end + 40).lstrip().startswith(";") and not NO_MATTER.search(text):
            self.add(statement, "removal", start, end, "", [(start, end)], "if (!norn_mutant(NUMBER)) {{ {0}; }}", ";")

    @functools.lru_cache(None)
    def has_lambda_in(self, start, end):
        return re.search(r"\[[\w&=, *]*\]\s*(\(|\{|mutable)", self.text(start, end)) is not None

    def has_lambda(self, cursor):
        return self.has_lambda_in(cursor.extent.start.offset, cursor.extent.end.offset)

    def add(self, cursor, kind, start, end, becomes, parts, text, before=""):
        """before: what follows the place and is replaced with it, from the end on."""
        if before:
            end += self.text(end, end + 40).index(before) + 1 if before in self.text(end, end + 40) else 0
        self.found.append(Mutant(self.name, cursor.location.line, start, end, kind, self.text(start, end), becomes, parts, text))

    def is_valid(self, mutants):
        source = written(self.source, mutants)
        parsed = self.parse(source)
        return not any(one.severity >= cindex.Diagnostic.Error for one in parsed.diagnostics)


def written(source, mutants, include=None):
    """The file with all of them. Without `include`, with a declaration for the parser."""
    def render(start, end, inside):
        done, at = b"", start
        for one in outermost(inside):
            within = [other for other in inside if other is not one and one.start <= other.start and other.end <= one.end]
            parts = [render(*part, [other for other in within if part[0] <= other.start and other.end <= part[1]]).decode()
                     for part in one.parts]
            done += source[at:one.start] + one.text.replace("NUMBER", str(one.number)).format(*parts).encode()
            at = one.end
        return done + source[at:end]

    first = f'#include "{include}"\n' if include else "bool norn_mutant(int);\n#include <type_traits>\n"
    return first.encode() + b"#line 1\n" + render(0, len(source), mutants)


def outermost(mutants):
    chosen = []
    for one in sorted(mutants, key=lambda one: (one.start, -one.end)):
        if not chosen or one.start >= chosen[-1].end:
            chosen.append(one)
    return chosen


def fits(one, others):
    """Two stand apart, or one in a part of the other."""
    def nested(inner, outer):
        return any(part[0] <= inner.start and inner.end <= part[1] and (inner.start, inner.end) != (outer.start, outer.end)
                   for part in outer.parts)
    return all(one.end <= other.start or other.end <= one.start or nested(one, other) or nested(other, one) for other in others)


def candidates_of(root, name, arguments):
    return Finder(root, name, arguments).find()


def valid_of(root, name, arguments, mutants):
    """Those of a file that compile."""
    finder = Finder(root, name, arguments)
    if finder.is_valid(mutants):
        return mutants
    alone = [one for one in mutants if finder.is_valid([one])]
    return alone if finder.is_valid(alone) else alone[:1]


def sample(root, build, count, seed, pool, pattern="*"):
    """`count` mutants drawn from all that there are, and how many there are."""
    arguments = {name: words for name, words in compile_arguments(build, root).items() if fnmatch.fnmatch(name, pattern)}
    found = pool.starmap(candidates_of, [(root, *item) for item in arguments.items()], chunksize=1)
    everything = [one for of_file in found for one in of_file]
    draw = random.Random(seed)
    draw.shuffle(everything)
    order, by_file = {}, {}
    for one in everything:
        if len(order) >= count * 1.4:
            break
        if fits(one, by_file.get(one.file, [])):
            one.number = len(order) + 1
            order[one.number] = one
            by_file.setdefault(one.file, []).append(one)
    checked = pool.starmap(valid_of, [(root, name, arguments[name], mutants) for name, mutants in by_file.items()], chunksize=1)
    valid = sorted((one for of_file in checked for one in of_file), key=lambda one: one.number)[:count]
    return valid, len(everything)


def write(root, copy, mutants):
    """Into a copy of the tree; gives the files."""
    switch = copy / "norn_mutant.h"
    switch.write_text(SWITCH)
    files = sorted({one.file for one in mutants})
    for name in files:
        source = written((root / name).read_bytes(), [one for one in mutants if one.file == name], switch)
        if not (copy / name).exists() or (copy / name).read_bytes() != source:
            (copy / name).write_bytes(source)
    return files
