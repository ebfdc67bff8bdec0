# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completion of `norn`. Those of the programs are asked for theirs, so that no option is written down twice.

  python -m norn._pages FOLDER        writes all of them, as the build does: share/man/man1 and so on"""
from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

from ._commands import ABOUT, EXAMPLES, OWN_OPTIONS, PROGRAM_OF, table_of, unknown
from ._options import Command, Option, option_text, options_of
from .errors import EXIT_CODES, UsageError
from .programs import PROGRAMS, SCRIPTS, find_program

SHELLS = ("bash", "zsh", "fish")
_PLACES = {"bash": "bash-completion/completions/norn", "zsh": "zsh/site-functions/_norn", "fish": "fish/vendor_completions.d/norn.fish"}
_WIDTH = 78  # of a page's source


def program_of(command: str) -> str | None:
    """The compiled program behind a command, which has its own table of options."""
    program = PROGRAM_OF.get(command)
    return program if program in PROGRAMS else None


def _said(program: str, *options: str) -> str:
    return subprocess.run([*find_program(program), *options], check=True, capture_output=True, text=True).stdout


def tables() -> dict[str, Command]:
    """By command the options that are written in Python: its own, or those of a script's parser."""
    found = {}
    for command, what in ABOUT.items():
        table = table_of(command)
        if table is None and (script := PROGRAM_OF[command]) in SCRIPTS:
            table = _table_of_script(script, what)
        if table is not None:
            found[command] = table
    return found


def _table_of_script(script: str, what: str) -> Command:
    path = find_program(script)[-1]
    loader = importlib.util.spec_from_file_location(f"norn_{script}", path,
                                                    loader=importlib.machinery.SourceFileLoader(f"norn_{script}", path))
    module = importlib.util.module_from_spec(loader)  # type: ignore[arg-type]
    loader.loader.exec_module(module)  # type: ignore[union-attr]
    parser = module.command_line()
    about = [" ".join(part.split()) for part in (parser.description or "").split("\n\n") if not part.startswith("  ")]
    positional = next((one for one in parser._actions if not one.option_strings and one.metavar), None)
    usage = f"{positional.metavar}... [options]" if positional is not None and positional.nargs == "+" else "[options]"
    return Command(what, usage, tuple(about), options_of(parser), "folder" if "FOLDER" in usage else "")


# Manual pages.

_ROFF = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti", "`": "\\(ga", '"': "\\(dq"})


def _roff(text: str) -> str:
    """Without what roff would change."""
    return text.translate(_ROFF)


def _paragraph(text: str) -> str:
    text = _roff(text[:1].upper() + text[1:].rstrip(".") + ".")
    return re.sub(r"(?m)^\.", "\\\\&.", "\n".join(textwrap.wrap(text, _WIDTH, break_on_hyphens=False, break_long_words=False)))


def _entry(option: Option) -> str:
    names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in sorted(option.names, key=len))
    value = f" \\fI{_roff(option.value)}\\fR" if option.value else ""
    return f".TP\n{names}{value}\n{_paragraph(option_text(option))}\n"


def _header(name: str) -> str:
    version = re.search(r'"(Norn [^"]*)"', _said("trainer", "--print-man"))
    return f'.TH {_roff(name.upper())} 1 "" "{version[1] if version else "Norn"}" "Norn"\n'


def _ending(examples: list[tuple[str, str]], others: list[str]) -> str:
    text = ".SH EXIT STATUS\n" + "".join(f".TP\n{code}\n{_paragraph(one.meaning)}\n" for code, one in EXIT_CODES.items())
    shown = [(f"{_paragraph(what)[:-1]}:\n.PP\n" if what else "") + f".nf\n.RS\n{_roff(words)}\n.RE\n.fi\n" for what, words in examples]
    text += ".SH EXAMPLES\n" + ".PP\n".join(shown) if shown else ""
    return text + ".SH SEE ALSO\n" + ",\n".join(f"\\fB{_roff(one)}\\fR(1)" for one in others) + "\n"


def as_norn(text: str) -> str:
    """A program's page in the words of `norn`: norn train for trainer, norn\\-train(1) for its page."""
    for command in ABOUT:
        program = program_of(command)
        if program is None:  # tuner, daily and report are words, too
            continue
        text = text.replace(f"\\fB{program}\\fR(1)", f"\\fBnorn\\-{command}\\fR(1)")
        text = text.replace(f".TH {program.upper()} ", f".TH NORN\\-{command.upper()} ").replace(f".SH NAME\n{program} ",
                                                                                                 f".SH NAME\nnorn\\-{command} ")
        text = re.sub(rf"(?<![\w/.-]){program}(?![\w.])", f"norn {command}", text)
    return text


def _main_page() -> str:
    text = _header("norn") + ".SH NAME\nnorn \\- trains very wide, very sparse networks, and recommends with them\n"
    text += ".SH SYNOPSIS\n.B norn\nCOMMAND [options]\n.SH COMMANDS\n"
    text += "".join(f".TP\n\\fB{name}\\fR\n{_paragraph(what)}\n" for name, what in ABOUT.items())
    text += ".SH OPTIONS\n" + "".join(_entry(one) for one in own_options())
    text += ".SH ENVIRONMENT\n.TP\nNORN_BIN\nThe folder of the programs, where they are not those of the package.\n"
    text += ".TP\nNO_COLOR\nNothing is coloured.\n"
    return text + _ending([("", "\n".join(EXAMPLES))], [f"norn-{name}" for name in ABOUT])


def own_options() -> tuple[Option, ...]:
    """Those before a command."""
    texts = {"--help": Option(("--help", "-h"), "", "show the commands and exit"),
             "--version": Option(("--version",), "", "show the version and exit"),
             "--print-completion": Option(("--print-completion",), "bash|zsh|fish",
                                          "print what makes a shell complete commands and options, and exit", SHELLS),
             "--print-man": Option(("--print-man",), "COMMAND", "print the manual page of a command, or of norn itself, and exit")}
    return tuple(texts[name] for name in OWN_OPTIONS)


def _page_of_table(command: str, table: Command) -> str:
    text = _header(f"norn-{command}") + f".SH NAME\nnorn\\-{command} \\- {_roff(table.summary)}\n"
    text += f".SH SYNOPSIS\n.B norn {command}\n{_roff(table.usage)}\n.SH DESCRIPTION\n"
    text += ".PP\n".join(_paragraph(one) + "\n" for one in table.about or (table.summary,)) + ".SH OPTIONS\n"
    section = ""
    program = program_of(command)
    for option in table.options if program else table.every_option():
        if option.section != section:
            section = option.section
            text += f".SS {_roff(section)}\n"
        text += _entry(option)
    text += _options_of_program(program) if program else ""
    return text + _ending([(what, f"norn {command} {words}") for what, words in table.examples],
                          ["norn", *(f"norn-{one}" for one in ABOUT if one != command)])


def _options_of_program(program: str) -> str:
    page = as_norn(_said(program, "--print-man"))
    return page[page.index(".SH OPTIONS\n") + len(".SH OPTIONS\n"):page.index(".SH EXIT STATUS")]


def man_page(command: str = "", known: dict[str, Command] | None = None) -> str:
    """The manual page of a command, of norn itself where none is named. Raises UsageError for one that there is not."""
    if not command:
        return _main_page()
    if command not in ABOUT:
        raise UsageError(unknown(command))
    table = (known or tables()).get(command)
    if table is not None:
        return _page_of_table(command, table)
    return as_norn(_said(PROGRAM_OF[command], "--print-man"))


# Completion.

def completion(shell: str, known: dict[str, Command] | None = None) -> str:
    """The script of a shell: commands, the options of each, words of choices, files and folders."""
    known = tables() if known is None else known
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](known)


def _function(command: str) -> str:
    return f"_norn_command_{command}"


_BASH_VALUE = {"file": 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word")',
               "folder": 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$word")', "other": ":"}


def _bash_of_table(name: str, options: tuple[Option, ...], files: str, otherwise: str = "") -> str:
    cases = ""
    for one in options:
        if one.kind != "none":
            words = f"mapfile -t COMPREPLY < <(compgen -W {shlex.quote(' '.join(one.words))} -- \"$word\")"
            action = words if one.words else _BASH_VALUE[one.kind]
            cases += f"    {'|'.join(one.names)}) {{ {action}; return; }} ;;\n"
    names = shlex.quote(" ".join(spelling for one in options for spelling in one.names))
    rest = f"  {otherwise}\n" if otherwise else ""
    plain = f"    {_BASH_VALUE[files]}\n" if files else "    :\n"
    return f"""{name}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} own=()
  COMPREPLY=()
  if [[ $word == "=" ]]; then
    word=""
  elif [[ $previous == "=" ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  case $previous in
{cases}  esac
{rest}  if [[ $word == -* ]]; then
    mapfile -t own < <(compgen -W {names} -- "$word")
    COMPREPLY+=("${{own[@]}}")
  elif [[ ${{#COMPREPLY[@]}} -eq 0 ]]; then
{plain}  fi
}}
"""


def _bash(known: dict[str, Command]) -> str:
    text = "# bash completion for norn; written by: norn --print-completion bash\n"
    cases = ""
    for command in ABOUT:
        program, table = program_of(command), known.get(command)
        if program is not None:
            script = _said(program, "--print-completion", "bash")
            text += re.sub(r"(?m)^(#|complete ).*\n", "", script)
        if table is not None:
            # What a program offers for a value is all; where it offers options, files and own options come to them.
            text += _bash_of_table(_function(command), table.options if program else table.every_option(), table.files,
                                   f"_norn_{program}" if program else "")
        cases += f"    {command}) {_function(command) if table is not None else f'_norn_{program}'} ;;\n"
    text += _bash_of_table("_norn_itself", own_options(), "")
    return text + f"""_norn() {{
  if [[ $COMP_CWORD -eq 1 && ${{COMP_WORDS[1]}} != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W {shlex.quote(' '.join((*ABOUT, 'help')))} -- "${{COMP_WORDS[1]}}")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}    help|--print-man) mapfile -t COMPREPLY < <(compgen -W {shlex.quote(' '.join(ABOUT))} -- "${{COMP_WORDS[COMP_CWORD]}}") ;;
    *) _norn_itself ;;
  esac
}}
complete -F _norn norn
"""


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _zsh_options(options: tuple[Option, ...], files: str) -> str:
    lines = []
    for one in options:
        kind = {"none": "", "word": f":{_zsh_text(one.names[0][2:])}:({' '.join(one.words)})", "file": f":{_zsh_text(one.value)}:_files",
                "folder": f":{_zsh_text(one.value)}:_files -/", "other": f":{_zsh_text(one.value)}: "}[one.kind]
        others = "*" if one.repeatable else f"({' '.join(one.names)})"
        for spelling in one.names:
            equals = "=" if spelling.startswith("--") and kind else ""
            lines.append(shlex.quote(f"{others}{spelling}{equals}[{_zsh_text(one.text)}]{kind}"))
    if files:
        lines.append("'*:file:_files'" if files == "file" else "'*:folder:_files -/'")
    return " \\\n  ".join(lines)


def _zsh(known: dict[str, Command]) -> str:
    text = "#compdef norn\n# written by: norn --print-completion zsh\n"
    for command in ABOUT:
        program, table = program_of(command), known.get(command)
        body = "_arguments"
        if program is not None:
            body = re.sub(r"(?m)^#.*\n", "", _said(program, "--print-completion", "zsh")).rstrip("\n")
        if table is not None:
            body += " \\\n  " + _zsh_options(table.options if program else table.every_option(), table.files)
        text += f"{_function(command)}() {{\n{body}\n}}\n"
    described = "\n".join(f"    {shlex.quote(f'{name}:{_zsh_text(what)}')}" for name, what in ABOUT.items())
    cases = "\n".join(f"    {command}) {_function(command)} ;;" for command in ABOUT)
    return text + f"""_norn_commands() {{
  local -a commands
  commands=(
{described}
  )
  _describe command commands
}}
_norn() {{
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _norn_commands
    return
  fi
  local command=$words[2]
  if [[ $command != -* ]]; then
    shift words
    (( CURRENT-- ))
  fi
  case $command in
{cases}
    help|--print-man) _norn_commands ;;
    *) _arguments {_zsh_options(own_options(), "")} ;;
  esac
}}
_norn "$@"
"""


def _fish_quoted(text: str) -> str:
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def _fish_lines(start: str, options: tuple[Option, ...]) -> str:
    lines = ""
    for one in options:
        value = {"none": "", "word": f" -x -a {_fish_quoted(' '.join(one.words))}", "file": " -r -F",
                 "folder": " -x -a '(__fish_complete_directories)'",
                 "other": " -x"}[one.kind]
        names = "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in one.names)
        lines += f"{start}{names}{value} -d {_fish_quoted(one.text)}\n"
    return lines


def _fish(known: dict[str, Command]) -> str:
    text = """# fish completion for norn; written by: norn --print-completion fish
function __norn_command_is
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end
function __norn_no_command
    test (count (commandline -opc)) -eq 1
end
complete -c norn -f
"""
    for command, what in ABOUT.items():
        program, table = program_of(command), known.get(command)
        text += f"complete -c norn -n __norn_no_command -a {command} -d {_fish_quoted(what)}\n"
        text += f"complete -c norn -n '__norn_command_is help --print-man' -a {command} -d {_fish_quoted(what)}\n"
        start = f"complete -c norn -n '__norn_command_is {command}'"
        if program is not None:
            script = re.sub(rf"(?m)^(#.*|complete -c {program} -f)\n", "", _said(program, "--print-completion", "fish"))
            text += script.replace(f"complete -c {program} ", f"{start} ")
        if table is not None:
            text += _fish_lines(start, table.options if program else table.every_option())
            text += f"{start} -F\n" if table.files else ""
    return text + _fish_lines("complete -c norn -n __norn_no_command", own_options())


def write(folder: pathlib.Path) -> None:
    """All pages and scripts, in the places below share where shells and man look for them."""
    known = tables()
    texts = {f"man/man1/norn{f'-{command}' if command else ''}.1": man_page(command, known) for command in ("", *ABOUT)}
    texts |= {place: completion(shell, known) for shell, place in _PLACES.items()}
    for place, text in texts.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
