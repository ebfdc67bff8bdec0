# SPDX-License-Identifier: Apache-2.0
"""Queues that are spoken to by their own programs."""
import shutil
import subprocess

from ...errors import CommunicationError
from . import JOB_OUTPUT, Attempt, command_of

SECONDS = 60.0


def require(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise CommunicationError(f"{', '.join(missing)}: not in PATH; run the tuner where jobs can be submitted, or give another "
                                 "--executor")


def ask(*words: str, text: str | None = None, mend: str, nothing: tuple[str, ...] = ()) -> str:
    """What the program says on stdout; `nothing`: words on stderr that mean there is none of what was asked for."""
    try:
        done = subprocess.run(words, input=text, stdin=subprocess.DEVNULL if text is None else None, capture_output=True, text=True,
                              errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CommunicationError(f"{words[0]}: no answer for {SECONDS:.0f} s; {mend}") from error
    except OSError as error:
        raise CommunicationError(f"{words[0]}: cannot be run: {error.strerror}; {mend}") from error
    if done.returncode != 0 and not any(word in done.stderr for word in nothing):
        said = " ".join((done.stderr.strip() or done.stdout.strip() or "it said nothing").split())
        raise CommunicationError(f"{words[0]}: {said[-400:]} (exit code {done.returncode}); {mend}")
    return done.stdout


def job(attempt: Attempt) -> tuple[list[str], str]:
    """(the command of a job, the file that takes what it says)"""
    return command_of(attempt.folder, attempt.number), str(attempt.folder / JOB_OUTPUT)
