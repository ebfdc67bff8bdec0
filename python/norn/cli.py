# SPDX-License-Identifier: Apache-2.0
"""The program `norn`: one name for all that Norn does."""
from __future__ import annotations

import importlib
import os
import pathlib
import signal
import sys

from ._commands import ABOUT, EXAMPLES, EXIT_CODES, MODULE_OF, PROGRAM_OF, table_of, unknown
from ._options import as_options, help_of, styler
from .errors import DataError, Error, UsageError


def usage() -> str:
    styled = styler(sys.stdout)
    commands = "\n".join(f"  {styled(f'{name:10}', 'bold')}{what}" for name, what in ABOUT.items())
    codes = ", ".join(f"{code} {what}" for code, what in EXIT_CODES.items()).replace(" 75", "\n75")
    examples = "\n".join(f"  {one}" for one in EXAMPLES)
    return f"""norn: trains very wide, very sparse networks, and recommends with them.

{styled("Usage:", "bold")} norn COMMAND [options]

{commands}

norn COMMAND --help shows what a command takes; man norn-COMMAND is the same as a page.

{examples}

Exit codes: {codes}.
"""


def _run(command: str, arguments: list[str]) -> int:
    from .programs import run_instead

    if command not in ABOUT:
        raise UsageError(unknown(command))
    table = table_of(command)
    if table is not None and ("-h" in arguments or "--help" in arguments):
        print(help_of(command, table), end="", flush=True)
        if command not in PROGRAM_OF:
            return 0
        print("\nThe options of importer, which reads the other texts:\n", flush=True)
        arguments = ["--help"]
    elif table is not None:
        return int(importlib.import_module(f"norn.{MODULE_OF[command]}").main(command, arguments))
    if command == "predict":
        _require_text(arguments)
    run_instead(PROGRAM_OF[command], arguments, command)
    return 0


def _require_text(arguments: list[str]) -> None:
    """UsageError for examples to predict for in a file that only `norn import` reads: predictor would take it for text."""
    for names, what in ((("-r", "--requests"), "request"), (("-f", "--filter"), "filter")):
        words = [word.split("=", 1) for word in arguments]
        given = [word[1] if len(word) > 1 else after for word, after in zip(words, [*arguments[1:], ""]) if word[0] in names]
        path = pathlib.Path(given[-1]) if given else None
        if path is None or f"--{what}-format" in {word[0] for word in words} or not path.is_file():
            continue
        from .data.sources import IMPORTER_FORMATS, format_of

        kind = format_of(path, "auto")
        if kind not in (*IMPORTER_FORMATS, "text", "columns"):
            raise UsageError(f"{names[1]} {path}: {kind} is not read here, but text ({', '.join(IMPORTER_FORMATS)}); norn import makes data sets of it "
                             "for --data, or write a line of example,feature for each entry")


def _print_pages(words: list[str]) -> int:
    from . import _pages

    if words[0] == "--print-man":
        print(_pages.man_page(words[1] if len(words) > 1 else ""), end="")
        return 0
    shell = words[1] if len(words) > 1 else ""
    if shell not in _pages.SHELLS:
        raise UsageError(f'--print-completion: "{shell}" is unknown; known: {", ".join(_pages.SHELLS)}')
    print(_pages.completion(shell), end="")
    return 0


def _do(words: list[str]) -> int:
    command = words[0] if words else "--help"
    if command == "help" and len(words) > 1:
        return _run(words[1], ["--help"])
    if command in ("-h", "--help", "help"):
        print(usage(), end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else UsageError.exit_code
    if command == "--version":
        from . import _core

        print(f"norn {_core.version()}")
        return 0
    if command in ("--print-completion", "--print-man"):
        return _print_pages(words)
    return _run(command, words[1:])


def main(arguments: list[str] | None = None) -> int:
    """The program; its exit code."""
    try:
        code = _do(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except Error as error:
        print(f"norn: {styler(sys.stderr)('error:', 'red')} {as_options(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # as other programs end when their reader goes (`| head`)
        _require_broken_output()
        _forget_output()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None:
            raise
        _require_broken_output()
        _forget_output()
        print(f"norn: {styler(sys.stderr)('error:', 'red')} standard output: could not be written: {error.strerror}; is the disk full?", file=sys.stderr)
        return DataError.exit_code


def _require_broken_output() -> None:
    """Raises the error that is handled again where standard output takes a line: then it came from elsewhere, as from a connection."""
    try:
        print(flush=True)
    except OSError:
        return
    raise


def _forget_output() -> None:
    """What is left of it would be written at the end once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
