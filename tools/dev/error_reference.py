#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the messages of all errors in the sources, and looks for each in the tests, word for word.
  tools/dev/error_reference.py            prints docs/user/errors.md with fresh tables of the messages that are tested
  tools/dev/error_reference.py --check    fails where a message is neither tested nor listed in tools/dev/untested_errors.txt
What is in that list and is tested by now, or is gone, fails as well: the list only becomes shorter."""
import argparse
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODES = {"UsageError": 2, "ProblemsError": 2, "DataError": 3, "DeviceError": 4, "CommunicationError": 5, "DivergenceError": 6}
# Functions that throw, or collect for throwing, and the exit code of what they are given.
CALLS = {"src/nn/": ("add error fail", 2), "src/data/": ("fail damaged reject", 3),
         "src/base/option_faults": ("fail", 2), "src/base/": ("fail", 3), "src/engine/": ("fail", 3),
         "src/run/": ("reject fail", 2), "tools/": ("reject fail only_with", 2)}
# Files whose functions return what is wrong as text.
RETURNS = {"src/nn/key_check.cpp", "src/nn/shapes.cpp", "src/nn/naming.cpp"}
TOKEN = re.compile(r'''R"(?P<mark>[^(\s]*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|'(?:[^'\\\n]|\\.)+'|//[^\n]*|/\*.*?\*/'''
                   r'''|(?P<word>\w+)|(?P<sign>\S)''', re.S)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def unescape(text):
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), text)


def tokens_of(text):
    """(kind, value, place) of words, signs and literals; neighbouring literals are one."""
    tokens = []
    for found in TOKEN.finditer(text):
        line = found.start()
        if found["raw"] is not None or found["text"] is not None:
            value = found["raw"] if found["raw"] is not None else unescape(found["text"])
            if tokens and tokens[-1][0] == "literal":
                tokens[-1] = ("literal", tokens[-1][1] + value, tokens[-1][2])
            else:
                tokens.append(("literal", value, line))
        elif found["word"]:
            tokens.append(("word", found["word"], line))
        elif found["sign"]:
            tokens.append(("sign", found["sign"], line))
    return tokens


def arguments_of(tokens, at):
    """The tokens between the parenthesis at `at` and its counterpart."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(tokens[end][1] if tokens[end][0] == "sign" else "", 0)
        if depth == 0:
            return tokens[at + 1:end]
    return tokens[at + 1:]


def messages_in(tokens):
    """Texts that the tokens of an expression can become; {} stands for what is filled in."""
    formats = [i for i, t in enumerate(tokens) if t[1] == "format" and t[0] == "word"]
    if formats:
        inner = arguments_of(tokens, formats[0] + 1)
        return [inner[0][1]] if inner and inner[0][0] == "literal" else []
    found = []
    joined = False
    for i, (kind, value, _) in enumerate(tokens):
        if kind != "literal":
            continue
        after_plus = i > 0 and tokens[i - 1][1] == "+"
        if joined and after_plus and found:
            found[-1] += "{}" + value
        else:
            found.append(("{}" if after_plus else "") + value)
        joined = i + 1 < len(tokens) and tokens[i + 1][1] == "+"
        if joined and not any(t[0] == "literal" for t in tokens[i + 1:]):
            found[-1] += "{}"
    return found


OPTIONS = set(re.findall(r"--[a-z][a-z0-9-]*", (ROOT / "docs/user/command_line.md").read_text(encoding="utf-8"))) | {"--{}"}


def with_options(text):
    """The library's settings as the programs' options, `validation_split` as --validation-split, where a program has that option:
    `unit_labels` is one of C++ and Python alone."""
    def shown_as(found):
        option = "--" + found[1].replace("_", "-")
        return option if option in OPTIONS else found[0]

    return re.sub(r"`(\{\}|[a-z][a-z0-9_]*)`", shown_as, text)


def is_message(text):
    return len(re.sub(r"\{[^}]*\}", "", text)) >= 10 and " " in text.strip()


def messages_of(path, root):
    name = str(path.relative_to(root))
    text = path.read_text(encoding="utf-8")
    tokens = tokens_of(text)
    calls, code_of_calls = next((c for prefix, c in CALLS.items() if name.startswith(prefix)), ("", 0))
    calls = set(calls.split())
    for i, (kind, value, line) in enumerate(tokens):
        if kind != "word" or i + 1 == len(tokens):
            continue
        code = 0
        if tokens[i + 1][1] == "(" and value in CODES and tokens[i - 1][1] not in ("explicit", "~", "const"):
            code = CODES[value]
        elif tokens[i + 1][1] == "(" and value in calls and tokens[i - 1][1] not in ("void", "]"):
            code = code_of_calls
        elif value == "refused_key":
            code = 2
        if code:
            for message in messages_in(arguments_of(tokens, i + 1)):
                yield message, code, name, text.count("\n", 0, line) + 1
        elif name in RETURNS and value in ("return", "fault", "refusal"):
            end = next((j for j in range(i, len(tokens)) if tokens[j][1] == ";" and tokens[j][0] == "sign"), len(tokens))
            for message in messages_in(tokens[i + 1:end]):
                yield message, 2, name, line
        elif name.startswith("src/nn/keys_") and value == "refusal":
            for message in messages_in(tokens[i + 1:i + 4]):
                yield message, 2, name, line


def all_messages(root):
    seen = {}
    for folder in ("src", "kernels", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cpp", ".h", ".cu") and path.parent.name != "dev":
                for message, code, name, line in messages_of(path, root):
                    if is_message(message):
                        seen.setdefault((with_options(message), code), (name, line))
    return seen


def python_texts(path):
    """String constants; what an f-string fills in becomes a letter."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)


def test_texts(root):
    texts = []
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix == ".py":
            texts += python_texts(path)
        elif path.suffix in (".cpp", ".h", ".cu"):
            texts += [value for kind, value, _ in tokens_of(path.read_text(encoding="utf-8")) if kind == "literal"]
    return [with_options(text) for text in texts if " " in text]


def pattern_of(message):
    parts = re.split(r"\{[^{}]*\}", message.replace("{{", "\x01").replace("}}", "\x02"))
    parts = [part.replace("\x01", "{").replace("\x02", "}") for part in parts]
    return re.compile(".*?".join(re.escape(part) for part in parts).rstrip(), re.S)


MARK = "<!-- From here on tools/dev/error_reference.py writes. -->"
UNTESTED = "tools/dev/untested_errors.txt"

# Title, folders or files, and what to do about all of them.
GROUPS = (
    ("Descriptors and other JSON", ("src/nn/", "src/engine/network/network.cpp", "src/engine/train/gradient_check.cpp",
                                    "tools/cdl/command_file"),
     "The text is wrong, and nothing was begun. `--explain KEY` says what a key takes; an editor that knows JSON schemas finds most of "
     "this as you type (configs/schema)."),
    ("Command lines", ("tools/", "src/run/"),
     "The command is wrong, a file that it names is, or both do not go together. `--help` lists the options, `--explain --OPTION` "
     "explains one."),
    ("Text that is imported", ("src/data/column_text", "src/data/dsstne_text", "src/data/import", "src/data/label_index", "src/data/libsvm",
                               "src/data/row_", "src/data/split", "src/data/text_"),
     "The text or an index file is not as it was said to be; the message names file and line. Nothing has been written. "
     "docs/user/formats.md has the formats."),
    ("Data sets and models", ("src/data/", "src/base/", "src/engine/"),
     "A NetCDF file is missing, damaged, of another kind, or does not go with the others. Data sets are made anew by importer; of a "
     "model the checkpoint before it can be used."),
    ("Devices, memory and ranks", ("",),
     "The machine, not the input. `trainer --doctor` looks at it; docs/user/parallel.md says what happens when a rank fails."))


def read_untested(root):
    lines = (root / UNTESTED).read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def shown(message):
    return re.sub(r"\{[^{}]*\}", "…", message).replace("{{", "{").replace("}}", "}").replace("\n", " ")


def is_tested(message, texts):
    pattern = pattern_of(message)
    part = max(re.split(r"\{[^{}]*\}", message.replace("{{", "{}").replace("}}", "{}")), key=len).rstrip()  # looked for first: it is fast
    return any(part in text and pattern.search(text) for text in texts)


def tables(messages):
    groups = {title: [] for title, _, _ in GROUPS}
    for (message, code), (name, _) in messages.items():
        title = next(t for t, prefixes, _ in GROUPS if name.startswith(prefixes))
        groups[title].append((shown(message).replace("|", "\\|").strip(), code))
    yield ("## Messages\n\nEach of these is asserted by a test, word for word; … stands for what differs. File, line or layer may stand "
           "before it. Options are those of the programs: C++ and Python say `validation_split` for --validation-split. What no program "
           "has stands as they say it.")
    for title, _, text in GROUPS:
        rows = "\n".join(f"| {message} | {code} |" for message, code in sorted(set(groups[title])))
        yield f"### {title}\n\n{text}\n\n| message | exit code |\n|---|---|\n{rows}"


def check_tree(root):
    messages = all_messages(root)
    texts = test_texts(root)
    untested = {message for message, _ in messages if not is_tested(message, texts)}
    listed = read_untested(root)
    problems = [f"{messages[m, c][0]}:{messages[m, c][1]}: no test has the message {m!r} word for word; write one"
                for m, c in sorted(messages) if m in untested and shown(m) not in listed]
    return problems + [f"{UNTESTED}: {line!r} is tested or gone; take it out"
                       for line in sorted(listed - {shown(m) for m in untested})]


def exit_codes_table():
    """Of python/norn/errors.py, which tests compare with the programs."""
    sys.path.insert(0, str(ROOT / "python"))
    from norn.errors import EXIT_CODES

    rows = [(code, f"`{one.kind}`" if one.kind else "", one.meaning, one.advice) for code, one in EXIT_CODES.items()]
    rows.append(("128 + n", "`signal`",
                 "ended by signal n before anything was worth keeping; 137 of a step of daily: a program of it was killed", ""))
    head = "| code | kind | meaning | what to do |\n|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(map(str, row))} |\n".replace("|  |", "| |") for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--untested", action="store_true", help="print the messages that no test has")
    arguments = parser.parse_args()
    if arguments.check:
        problems = check_tree(ROOT)
        print("\n".join(problems) or "errors: ok")
        return 1 if problems else 0
    messages = all_messages(ROOT)
    texts = test_texts(ROOT)
    if arguments.untested:
        print("\n".join(sorted({shown(m) for m, _ in messages if not is_tested(m, texts)})))
        return 0
    head = (ROOT / "docs/user/errors.md").read_text(encoding="utf-8").split(MARK)[0].rstrip()
    head = re.sub(r"(?<=## Exit codes\n\n)(\|.*\n)+", lambda _: exit_codes_table(), head)
    tested = {key: where for key, where in messages.items() if is_tested(key[0], texts)}
    print("\n\n".join([head, MARK, *tables(tested)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
