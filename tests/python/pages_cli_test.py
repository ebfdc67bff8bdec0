# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completion of the program norn: they know what its commands take, in real shells."""
import functools
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

from norn import _commands, _pages, cli
from norn._options import Option

TABLES = _pages.tables()
OF_PROGRAMS = {command: program for command in _commands.ABOUT if (program := _pages.program_of(command))}


@functools.cache
def help_of(command):
    done = subprocess.run([sys.executable, "-B", "-m", "norn", command, "--help"], capture_output=True, text=True,
                          env=os.environ | {"COLUMNS": "200"})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def options_in_help(command):
    """Every spelling, as people read them."""
    lines = [re.split(r" {2,}", line)[0] for line in re.findall(r"(?m)^ {2}(-.*)$", help_of(command))]
    return sorted({word.strip(",") for line in lines for word in line.split() if re.fullmatch(r"--?[a-z][\w-]*,?", word)})


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program}, which reads what is tested, is not installed: apt-get install {program}")


@pytest.mark.parametrize("value, kind", [("", "none"), ("FILE", "file"), ("FILE.nc", "file"), ("PATH", "file"), ("FOLDER", "folder"),
                                         ("DIR", "folder"), ("N", "other")])
def test_what_an_option_takes_is_completed_as_such(value, kind):
    assert Option(("--one",), value, "").kind == kind
    assert Option(("--one",), value or "WORD", "", words=("a", "b")).kind == "word"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    for shell in _pages.SHELLS:
        (folder / shell).write_text(_pages.completion(shell, TABLES))
    return folder


@pytest.mark.parametrize("command", ["", *_commands.ABOUT])
def test_a_manual_page_names_every_option_and_is_well_formed(command, tmp_path):
    need("groff")
    page = tmp_path / "page.1"
    page.write_text(_pages.man_page(command, TABLES))
    done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", page], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub("\033\\[[0-9;]*m|.\b", "", done.stdout).replace("‐", "-").replace("−", "-")
    for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
        assert re.search(f"(?m)^{section}$", text), section
    if command:
        assert [name for name in options_in_help(command) if not re.search(rf"(?m)^ +(-\w+, )?{re.escape(name)}\b", text)] == []
        assert not re.search(rf"(?m)^ +{_commands.PROGRAM_OF.get(command, 'no such')} -",
                             text), "a command line of the program in place of norn's"
    if shutil.which("mandoc"):
        found = subprocess.run(["mandoc", "-T", "lint", "-W", "style", page], capture_output=True, text=True).stdout
        assert [line for line in found.splitlines() if "missing date" not in line] == []


def test_words_of_sentences_are_no_commands():
    page = "Of the doctor\\(aqs report, daily.\n.nf\ntrainer \\-\\-plan; mpirun trainer x.trainer trainer.json\n\\fBimporter\\fR(1)\n"
    assert _pages.as_norn(page) == page.replace("\ntrainer", "\nnorn train").replace("mpirun trainer",
                                                                                     "mpirun norn train").replace("importer",
                                                                                                                  "norn\\-import")


def bash(scripts, *words, folder=None):
    """What bash offers for the last word of `norn WORDS`."""
    code = 'compopt() { :; }; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _norn; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-euc", code, "bash", scripts / "bash", "norn", *words], capture_output=True, text=True,
                          cwd=folder, env=os.environ | {"LC_ALL": "C.UTF-8"})  # bash warns of a locale that is not there
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line]


def test_bash_offers_commands_options_words_and_files(scripts, tmp_path):
    (tmp_path / "mo del.nc").touch()
    (tmp_path / "runs").mkdir()
    assert bash(scripts, "") == [*_commands.ABOUT, "help"]
    assert bash(scripts, "e") == ["evaluate", "export"] and bash(scripts, "help", "do") == ["doctor"]
    assert bash(scripts, "train", "--checkp") == ["--checkpoint-epochs", "--checkpoint-minutes", "--checkpoint-name"]
    assert bash(scripts, "evaluate", "-n", "m.nc", "--device", "") == ["auto", "cpu", "cuda"] == bash(scripts, "doctor", "--device", "=",
                                                                                                      "")
    assert bash(scripts, "info", "--format", "=", "m") == ["md"]
    assert bash(scripts, "info", "mo", folder=tmp_path) == ["mo del.nc"] == bash(scripts, "export", "m", folder=tmp_path)
    assert bash(scripts, "report", "r", folder=tmp_path) == ["runs"]
    assert bash(scripts, "import", "--wh") == ["--where"] and bash(scripts, "import", "--split-by", "e") == ["entry", "example"]
    assert bash(scripts, "tune", "--sampler", "") == ["gp", "random", "grid", "tpe", "cmaes"]
    assert bash(scripts, "--print-completion", "z") == ["zsh"] and bash(scripts, "--v") == ["--version"]
    assert bash(scripts, "nonsense", "x") == []


@pytest.mark.parametrize("command", _commands.ABOUT)
def test_bash_knows_every_option(command, scripts):
    assert sorted(set(bash(scripts, command, "-"))) == options_in_help(command)


def test_zsh_knows_every_option(scripts):
    need("zsh")
    assert subprocess.run(["zsh", "-f", "-n", scripts / "zsh"], capture_output=True, text=True).stderr == ""
    for command in _commands.ABOUT:
        # _arguments parses the specifications when it is called; here it shows them.
        code = '_arguments() { print -rl -- "$@" }; _describe() { }; words=(norn "$2" ""); CURRENT=3; source "$1"'
        done = subprocess.run(["zsh", "-f", "-c", code, "zsh", scripts / "zsh", command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        for option in options_in_help(command):
            assert re.search(rf"(?m)^(\*|\([^)]*\)){re.escape(option)}=?\[", done.stdout), (command, option)


def test_fish_offers_what_a_command_takes(scripts, tmp_path):
    need("fish")

    def offers(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {scripts / 'fish'}; complete -C '{line}'"], capture_output=True,
                              text=True, cwd=tmp_path,
                              env=os.environ | {"HOME": str(tmp_path)})
        assert done.stderr == ""
        return [word.split("\t")[0] for word in done.stdout.splitlines()]

    assert sorted(offers("norn ")) == sorted(_commands.ABOUT)
    assert offers("norn train --device c") == ["cpu", "cuda"]
    assert "--checkpoint-epochs" in offers("norn train --check") and offers("norn info --check") == []
    assert offers("norn import --whe") == ["--where"]


def test_the_program_prints_them_and_says_what_it_does_not_know(capsys):
    assert cli.main(["--print-completion", "bash"]) == 0 and capsys.readouterr().out == _pages.completion("bash", TABLES)
    assert cli.main(["--print-man", "info"]) == 0 and capsys.readouterr().out == _pages.man_page("info", TABLES)
    assert cli.main(["--print-man", "infos"]) == 2 and 'Did you mean "info"?' in capsys.readouterr().err
    assert cli.main(["--print-completion", "tcsh"]) == 2 and '"tcsh" is unknown; known: bash, zsh, fish' in capsys.readouterr().err


@pytest.mark.parametrize("command, program", OF_PROGRAMS.items())
def test_programs_speak_as_the_command_that_was_called(command, program):
    said = subprocess.run([sys.executable, "-B", "-m", "norn", command, "--nonsense"], capture_output=True, text=True)
    assert said.returncode == 2 and said.stderr.startswith(f"norn {command}: error: ")
    assert f"norn {command} --help lists all options" in said.stderr
    assert f"Usage: norn {command} " in help_of(command)
    alone = subprocess.run([*_pages.find_program(program), "--nonsense"], capture_output=True, text=True)
    assert alone.stderr == said.stderr.replace(f"norn {command}", program)


def on_terminal(*words, **environment):
    """What a terminal shows, and the exit code."""
    outer, inner = pty.openpty()
    process = subprocess.Popen([sys.executable, "-B", "-m", "norn", *words], stdout=inner, stderr=inner,
                               env=os.environ | {"TERM": "xterm"} | environment)
    os.close(inner)
    shown = b""
    while True:
        try:
            piece = os.read(outer, 1 << 16)
        except OSError:  # its other end is closed
            piece = b""
        if not piece:
            break
        shown += piece
    os.close(outer)
    return shown.decode(), process.wait()


def test_colour_is_for_terminals_that_want_it():
    for words, code in (((), 2), (("info", "no such file"), 3), (("info", "--help"), 0)):
        shown, ended = on_terminal(*words, NO_COLOR="")
        assert "\033[" in shown and ended == code
        for other in ({"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": ""}):
            assert "\033[" not in on_terminal(*words, **other)[0]
    assert "\033[" not in help_of("info")
