# SPDX-License-Identifier: Apache-2.0
"""A program as a child of this process."""
from __future__ import annotations

import collections
import ctypes
import logging
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from .errors import Error, error_of
from .programs import environment_of, find_program

_PR_SET_PDEATHSIG = 1
_STOP_SECONDS = 180.0  # for last checkpoints
_KEPT_LINES = 10_000
_libc = ctypes.CDLL(None)


def follow(words: Sequence[str], environment: Mapping[str, str], tell: Callable[[str], None], apart: bool = False) -> tuple[int, list[str]]:
    """The exit code of a program, and its last lines; `tell` gets each at once. On Ctrl-C, and when this process ends, it is told by
    SIGUSR1 to write a checkpoint and end. `apart`: in a session of its own, where Ctrl-C at the terminal does not reach it besides."""
    lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
    here, failed = os.getpid(), False

    def end_with_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
        if os.getppid() != here:
            os._exit(75)

    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          encoding="utf-8", errors="replace", preexec_fn=end_with_parent, start_new_session=apart) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                lines.append(line.rstrip("\n"))
                failed = failed or line.startswith("{")
                if not failed:  # mpirun, too, has a word on it
                    tell(lines[-1])
            return child.wait(), list(lines)
        except BaseException:
            child.send_signal(signal.SIGUSR1)
            try:
                child.communicate(timeout=_STOP_SECONDS)
            except BaseException:
                child.kill()
                raise
            raise


def run_program(name: str, words: Sequence[str], names: Mapping[str, str], passed: Sequence[int] = ()) -> list[str]:
    """Runs tuner or daily to its end. What it says goes to the log "norn"; what is wrong is raised as the classes of norn.errors, with
    options as arguments: `names` has those that are called otherwise here. Exit codes `passed` are no errors. The lines that it said."""
    log, wrong = logging.getLogger("norn"), list[str]()

    def tell(line: str) -> None:
        text = line.removeprefix(f"{name}: ")
        if text.startswith("error: "):
            wrong.append(text.removeprefix("error: "))
        elif text.startswith("warning: "):
            log.warning(_in_python(text.removeprefix("warning: "), names))
        else:
            log.info(_in_python(text, names))

    code, lines = follow([*find_program(name), *words], os.environ | environment_of(name), tell, apart=True)
    if code and code not in passed:
        if code < 0:
            raise Error(f"{name} was ended by {signal.Signals(-code).name}; run it again, and it goes on")
        raise error_of(_in_python("\n".join(wrong or lines[-1:] or [f"{name} ended with exit code {code}, without a word of why"]), names),
                       code)
    return lines


def _in_python(message: str, names: Mapping[str, str]) -> str:
    """Messages of programs name options, --gpu-hours; here they are arguments, `gpu_hours`."""
    return re.sub(r"(?<![\w-])--([a-z][a-z0-9-]*)", lambda found: f"`{names.get(found[1], found[1].replace('-', '_'))}`", message)
