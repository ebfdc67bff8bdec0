# SPDX-License-Identifier: Apache-2.0
"""The program `norn`: one name for all that Norn does."""
from __future__ import annotations

import importlib
import pathlib
import sys

from ._commands import ABOUT, EXAMPLES, MODULE_OF, PROGRAM_OF, table_of, unknown
from ._options import as_options, help_of, styler
from ._script import run_script
from .errors import UsageError, exit_codes_text


def usage() -> str:
    styled = styler(sys.stdout)
    commands = "\n".join(f"  {styled(f'{name:10}', 'bold')}{what}" for name, what in ABOUT.items())
    examples = "\n".join(f"  {one}" for one in EXAMPLES)
    return f"""norn: trains very wide, very sparse networks, and recommends with them.

{styled("Usage:", "bold")} norn COMMAND [options]

{commands}

norn COMMAND --help shows what a command takes; man norn-COMMAND is the same as a page.

{examples}

{exit_codes_text()}
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
            raise UsageError(f"{names[1]} {path}: {kind} is not read here, but text ({', '.join(IMPORTER_FORMATS)}); norn import makes "
                             "data sets of it for --data, or write a line of example,feature for each entry")


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
        return run_script("norn", lambda: _do(sys.argv[1:] if arguments is None else arguments), as_options)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
