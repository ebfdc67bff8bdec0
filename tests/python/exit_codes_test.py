# SPDX-License-Identifier: Apache-2.0
"""One table of exit codes: of the programs, of Python, of the page."""
import re
import subprocess

import norn.errors
import pytest
from norn import _child
from norn.errors import EXIT_CODES

OF_DAILY = {7}


def said(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("program", ("trainer", "importer", "predictor", "evaluator"))
def test_programs_end_with_the_same_codes(program, programs):
    """In the same words, in --help, --explain and the manual page."""
    own = {code: one for code, one in EXIT_CODES.items() if code not in OF_DAILY}
    help_text = " ".join(said(programs / program, "--help").split())
    assert help_text.endswith(" ".join(norn.errors.exit_codes_text(own).split()))
    for code, one in own.items():
        text = said(programs / program, "--explain", str(code))
        found = dict(re.findall(r"^  (\w+) +(.+?)(?: \(--errors=json\))?$", text, re.M))
        assert (found["meaning"], found.get("do", ""), found.get("kind", "")) == (one.meaning, one.advice, one.kind)


@pytest.mark.parametrize("says, error", [
    ("echo first; echo last", "last"), ("echo one: error: what; echo after", "what"),
    ("true", "one ended with exit code 3, without a word of why"),
])
def test_a_program_that_fails_is_an_error_in_its_last_words(says, error, monkeypatch):
    monkeypatch.setattr(_child, "find_program", lambda name: ["sh", "-c", f"{says}; exit 3"])
    with pytest.raises(norn.DataError) as raised:
        _child.run_program("one", [], {})
    assert str(raised.value) == error


def test_errors_of_python_have_these_codes():
    kinds = [kind for kind in vars(norn.errors).values() if isinstance(kind, type) and issubclass(kind, norn.Error)]
    codes = [kind.exit_code for kind in kinds]
    assert len(codes) == len(set(codes)) and set(codes) == set(EXIT_CODES) - {0} | {128 + 9}


def test_the_page_says_the_same(source):
    page = (source / "docs/user/errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\S*) ?\| (.+?) \| ?(.*?) ?\|$", page.partition("## Exit codes")[2].partition("## For programs")[0],
                      re.M)
    assert {int(code): (kind.strip("`"), meaning, advice) for code, kind, meaning, advice in rows} == {
        code: (one.kind, one.meaning, one.advice) for code, one in EXIT_CODES.items()}


@pytest.mark.parametrize("command", ("tuner", "daily"))
def test_scripts_say_theirs_in_the_same_words(command, source):
    text = " ".join(said(source / f"tools/{command}.py", "--help").split())
    codes = [int(code) for code in re.findall(r"(?:: |, )(\d+) ", text[text.index("Exit codes: "):])]
    assert len(codes) > 5 and text.endswith(" ".join(norn.errors.exit_codes_text(codes).split()))
