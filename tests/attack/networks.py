# SPDX-License-Identifier: Apache-2.0
"""Networks that nobody chose: the same bytes on any number of threads and ranks, with data that are streamed, and resumed
anywhere."""
from cases import Finding
from drawing import Drawing

ENOUGH = 4  # ways a network


def resumed(case, command, random):
    """Goes on from a checkpoint somewhere within the run, on another number of ranks."""
    case.run(*command, "-n", "part.nc", "--threads", "1", "--checkpoint-epochs", "1", "--checkpoint-minutes", "1e-9", "--keep", "0")
    checkpoints = sorted(case.folder.glob("part.epoch*.nc")) or [case.path("part.nc")]  # a run of one step has none
    chosen = random.choice(checkpoints).name
    return f"resumed from {chosen}", ("--resume", chosen, "--threads", random.choice("12"))


def attack(case, _):
    drawing = Drawing(case.random, exact=False)
    drawing.write(case)
    batch = min(drawing.examples, case.random.choice((1, 7, 32, 50, 200)))
    epochs = case.random.choice((1, 2, 3))
    command = ["trainer", "-c", "net.json", "-i", "data.nc", "-b", batch, "-e", epochs, *drawing.settings()]
    if case.random.random() < 0.3:
        command += ["--rate-schedule", case.random.choice(("cosine", "step", "plateau")), "--warm-up", "0.7", "--rate-interval", "1",
                    "--rate-patience", "1"]
    case.note(" ".join(map(str, command)))
    straight = case.run(*command, "-n", "straight.nc", "--threads", "1", "--checkpoint-epochs", "0")
    if straight.code not in (0, 6):
        raise Finding(f"refused: {straight}")
    ways = [("2 threads", 0, ("--threads", "2")), ("5 threads", 0, ("--threads", "5")), ("2 ranks", 2, ("--threads", "1")),
            ("3 ranks", 3, ("--threads", "2")), ("streamed", 0, ("--threads", "1", "--data-memory", "1")),
            ("streamed on 2 ranks", 2, ("--threads", "1", "--data-memory", "1"))]
    ways = case.random.sample(ways, ENOUGH - 1)
    if straight.code == 0:
        name, options = resumed(case, command, case.random)
        ranks = case.random.choice((0, 2, 3))
        ways.append((f"{name} on {ranks} ranks", ranks, options))
    for name, ranks, options in ways:
        done = case.run(*command, "-n", "other.nc", "--checkpoint-epochs", "0", *options, ranks=ranks)
        if done.code != straight.code:
            raise Finding(f"{name}: ended otherwise: {done}\n{straight}")
        if case.bytes_of("other.nc") != case.bytes_of("straight.nc"):
            raise Finding(f"{name}: other bytes: {done}")
        case.path("other.nc").unlink(missing_ok=True)
