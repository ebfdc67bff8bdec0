# SPDX-License-Identifier: Apache-2.0
"""Calls to the system that fail: the run says so or goes on, what it leaves is whole, and run again it gives the right bytes."""
import errno
import re

from cases import Finding, failing_call

THREADS = ("--threads", "1")
COMMANDS = [
    ("importer", "--input", "train.txt", "--name", "s", "--output", "out.nc", "--features", "out.features"),
    ("importer", "--input", "train.txt.gz", "--name", "s", "--output", "out.nc", "--split", "ratio:0.8/0.2"),
    ("importer", "--input", "train.csv", "--name", "s", "--output", "out.nc", "--type", "analog"),
    ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "out.nc", "-e", "3", "--checkpoint-epochs", "1", "--resume", *THREADS),
    ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "out.nc", "-e", "2", "--run-dir", "log", "--data-memory", "1",
     "--checkpoint-minutes", "1e-9", "--keep", "1", "--resume", *THREADS),
    ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "out.nc", "-e", "3", "--validation-split", "0.2", "--keep-best", "loss",
     "--resume", *THREADS),
    ("evaluator", "-n", "model.nc", "-i", "train.nc", "-k", "5,10", *THREADS),
    ("predictor", "-n", "model.nc", "-s", "out.txt", "-r", "train.txt", "-i", "features", "-o", "features", *THREADS),
    ("predictor", "-n", "model.nc", "-s", "out.nc", "--format", "netcdf", "--data", "train.nc", *THREADS),
]
ERRORS = {
    "open": ("EACCES", "EMFILE", "ENOENT", "EIO", "ELOOP"), "read": ("EIO", "EINTR", "ESTALE"),
    "write": ("ENOSPC", "EIO", "EDQUOT", "EINTR", "EFBIG"), "stream": ("ENOSPC",), "fsync": ("EIO", "ENOSPC"),
    "rename": ("EIO", "EACCES", "EXDEV", "ENOSPC"), "unlink": ("EIO", "EACCES"), "truncate": ("EIO", "ENOSPC"),
    "readdir": ("EIO", "ESTALE"), "mmap": ("ENOMEM",), "thread": ("EAGAIN",)}
counts, whole = {}, {}


def outcome(case, done):
    """Every file that it makes, but for records of the time and checkpoints, and what it prints unless that has times, too."""
    files = {path.name: path.read_bytes() for path in case.folder.glob("out*")
             if "epoch" not in path.name and path.suffix != ".lock"}
    return {**files, "stdout": done.out if done.command[0] == "evaluator" else b""}


def undisturbed(case, base, number):
    """Counts the calls of the command, and keeps what it makes."""
    if number in counts:
        return
    case.bring(base, *brought(base, COMMANDS[number]))
    environment = failing_call("none", str(case.folder), 0, "0", FAILING_CALL_COUNTS=str(case.path("counts")))
    done = case.succeed(*COMMANDS[number], env=environment)
    counts[number] = {call: int(count) for call, count in re.findall(r"(\w+) (\d+)", case.path("counts").read_text())}
    whole[number] = outcome(case, done)
    clear(case)


def brought(base, command):
    return [word for word in command[1:] if (base / word).is_file()]


def clear(case):
    for path in sorted(case.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def attack(case, base):
    number = case.random.randrange(len(COMMANDS))
    command = COMMANDS[number]
    undisturbed(case, base, number)
    case.bring(base, *brought(base, command))
    call = case.random.choice(sorted(call for call, count in counts[number].items() if count > 0 and call in ERRORS))
    name = case.random.choice(ERRORS[call])
    at = case.random.choice((case.random.randint(1, counts[number][call]), counts[number][call]))
    repeats = "+" if name != "EINTR" and case.random.random() < 0.4 else ""  # what is interrupted for ever never ends
    case.note(f"{call} number {at}{repeats} of {counts[number][call]} fails with {name}")
    case.may_leave = call == "unlink"
    done = case.run(*command, env=failing_call(call, str(case.folder), f"{at}{repeats}", getattr(errno, name)))
    case.may_leave = False
    made = {name: data for name, data in outcome(case, done).items() if ".tmp-" not in name}
    if done.code == 0 and made != whole[number]:
        raise Finding(f"went well, and gave something else: {differences(made, whole[number])}: {done}")
    for file, data in made.items():
        if done.code != 0 and file != "stdout" and whole[number].get(file) != data and file != "out.best.nc":
            raise Finding(f"failed, and left another {file}: {done}")
    if command[0] != "trainer":
        for path in case.folder.glob("out*"):
            path.unlink()
    again = case.succeed(*command)
    if command[0] != "trainer" or not resumed_best(command):
        if outcome(case, again) != whole[number]:
            raise Finding(f"gave something else afterwards: {differences(outcome(case, again), whole[number])}: {done}\nthen {again}")


def resumed_best(command):
    return "--keep-best" in command


def differences(made, right):
    return [name for name in sorted({*made, *right}) if made.get(name) != right.get(name)]
