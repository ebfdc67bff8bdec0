# SPDX-License-Identifier: Apache-2.0
"""Every option of every program with values that nobody means: refused with a line, or done."""
import os
import re

from cases import Finding

THREADS = ("--threads", "1")
BASES = {
    "importer": ("--input", "train.txt", "--name", "s", "--output", "out.nc"),
    "trainer": ("-c", "net.json", "-i", "train.nc", "-n", "out.nc", "-e", "1", *THREADS),
    "predictor": ("-n", "model.nc", "-s", "out.txt", "-r", "train.txt", "-i", "features", "-o", "features", *THREADS),
    "evaluator": ("-n", "model.nc", "-i", "train.nc", *THREADS),
}
VALUES = ["", " ", "-", "--", "-1", "0", "1", "2", "0.5", "1e308", "1e-320", "nan", "inf", "-inf", "0x10", " 1", "1 ", "1,2", ",", "1,1,0",
          "2147483648", "18446744073709551616", "-9223372036854775809", "9" * 40, "x" * 5000, "auto", "none", "yes", "all", "%s%n%99999d",
          "$(touch pwned)", "`touch pwned`", ";touch pwned;", "\x1b[31mred", "a\nb", "\u202e\u0085", b"\xff\xfe", "loop", "folder",
          "none.nc",
          "no/such/folder/x", "/", "..", "/dev/null", "/dev/full", "train.nc", "train.txt", "model.nc", "net.json", "n" * 300, "1G", "1e9G",
          "ratio:0.8/0.2", "ratio:1/0", "ratio:nan/1", "ratio:" + "0.1/" * 9 + "0.1", "ndcg@0", "ndcg@99999999999", "loss", " out.nc"]
# Asked for a long run they make one, and the doctor measures for ten seconds.
LONG = {"--epochs": "0 1 2 -1 nan".split(), "--doctor": None}
listed = {}


def options_of(case, program):
    """(names, whether a value follows) of what --help lists."""
    if program not in listed:
        text = case.succeed(program, "--help").out.decode()
        listed[program] = []
        for line in text.splitlines():
            match = re.match(r"  ((?:-[\w-]+, )?--[\w-]+)( \S+)?", line)
            if match:
                listed[program].append((match[1].split(", "), match[2] is not None))
        assert len(listed[program]) > 15, text
    return listed[program]


def drawn(case, program):
    """One option and a value for it."""
    names, takes_value = case.random.choice([o for o in options_of(case, program) if LONG.get(o[0][-1], ()) is not None])
    values = LONG.get(names[-1], VALUES)
    name = case.random.choice(names)
    if not takes_value and case.random.random() < 0.7:
        return [name]
    value = case.random.choice(values)
    if name.startswith("--") and isinstance(value, str) and case.random.random() < 0.5:
        return [f"{name}={value}"]
    return [name, value]


def attack(case, base):
    case.bring(base, "train.txt", "train.nc", "model.nc", "net.json", "features")
    case.path("folder").mkdir()
    os.symlink("loop", case.path("loop"))
    program = case.random.choice(sorted(BASES))
    arguments = list(BASES[program])
    for _ in range(case.random.choice((1, 1, 1, 2, 3))):
        extra = drawn(case, program)
        case.note(f"{program} {extra!r:.200}")
        if case.random.random() < 0.5 and extra[0] in arguments and len(extra) > 1:  # in place of the base's value
            at = arguments.index(extra[0])
            arguments[at:at + 2] = extra
        else:
            at = case.random.choice((0, len(arguments)))
            arguments[at:at] = extra
    case.run(program, *arguments)
    if any(path.name == "pwned" for path in case.folder.rglob("*")):
        raise Finding(f"ran a command that an option held: {arguments}")
