# SPDX-License-Identifier: Apache-2.0
"""What is made of the tables of options: manual pages, completion in real shells, --explain and --version."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from programs import BIN, SOURCE

PROGRAMS = ("trainer", "predictor", "importer", "evaluator")


def output_of(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, **more)


def options_of(program):
    """Every spelling of every option, from the program's help."""
    text = output_of(BIN / program, "--help").stdout
    names = re.findall(r"^  (?:(-\w+), )?(--[\w-]+)", text, re.M)
    return sorted({name for pair in names for name in pair if name})


class PageTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def need(self, *shells):
        for shell in shells:
            if shutil.which(shell) is None:
                self.skipTest(f"{shell} is not installed")

    def page(self, program, *arguments):
        done = output_of(BIN / program, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = self.folder / f"{program}.page"
        path.write_text(done.stdout)
        return path


class Manuals(PageTest):
    def test_are_well_formed_roff(self):
        self.need("groff")
        for program in PROGRAMS:
            done = output_of("groff", "-ww", "-man", "-Tutf8", self.page(program, "--print-man"))
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)

    def test_are_clean_for_mandoc(self):
        self.need("mandoc")
        for program in PROGRAMS:
            found = output_of("mandoc", "-T", "lint", "-W", "style", self.page(program, "--print-man")).stdout
            # A date would make every build another one.
            found = [line for line in found.splitlines() if "missing date" not in line]
            self.assertEqual(found, [], program)

    def test_are_clean_for_man_and_name_every_option(self):
        self.need("man", "col")
        for program in PROGRAMS:
            path = self.page(program, "--print-man")
            done = output_of("man", "--warnings", "-l", path, env={"MANWIDTH": "100", "LC_ALL": "C", "PATH": "/usr/bin:/bin"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)
            text = re.sub(".\b", "", done.stdout)
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
                self.assertRegex(text, f"(?m)^{section}$", program)
            for option in options_of(program):
                self.assertRegex(text, rf"(?m)^ +(-\w+, )?{re.escape(option)}\b", program)


class Completion(PageTest):
    def bash(self, program, *words):
        """What bash offers for the last word."""
        script = self.page(program, "--print-completion", "bash")
        (self.folder / "data").mkdir(exist_ok=True)
        (self.folder / "net work.json").touch()
        (self.folder / "net.json").touch()
        # compopt is for real completions only.
        code = ('compopt() { :; }; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                '_norn_$1; printf "%s\\n" "${COMPREPLY[@]}"')
        done = output_of("bash", "--norc", "-euc", code, "bash", script, program, *words, cwd=self.folder,
                         env=os.environ | {"LC_ALL": "C.UTF-8"})  # bash warns of a locale that is not there
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line for line in done.stdout.splitlines() if line]

    def test_bash_offers_options_words_and_files(self):
        self.assertEqual(self.bash("trainer", "--check"), ["--checkpoint-epochs", "--checkpoint-minutes", "--checkpoint-name",
                                                           "--check-gradients"])
        self.assertEqual(self.bash("trainer", "--device", ""), ["auto", "cpu", "cuda"])
        self.assertEqual(self.bash("trainer", "-q", "--device", "c"), ["cpu", "cuda"])
        self.assertEqual(self.bash("trainer", "--device", "="), ["auto", "cpu", "cuda"])
        self.assertEqual(self.bash("trainer", "--device", "=", "cu"), ["cuda"])
        self.assertEqual(sorted(self.bash("trainer", "-c", "net")), ["net work.json", "net.json"])
        self.assertEqual(self.bash("importer", "--scratch", "d"), ["data"])
        self.assertEqual(self.bash("trainer", "--epochs", ""), [])
        self.assertEqual(self.bash("trainer", "--resume", "--for"), ["--force"])
        self.assertEqual(self.bash("trainer", "--resume", "net."), ["net.json"])
        self.assertEqual(self.bash("trainer", "--explain", "Training.A")[0], "Training.Alpha")
        self.assertEqual(self.bash("evaluator", "--errors", "j"), ["json"])

    def test_bash_knows_every_option(self):
        for program in PROGRAMS:
            self.assertEqual(sorted(self.bash(program, "-")), options_of(program))

    def test_bash_uses_it_as_users_do(self):
        """Through the line editor: two tabs list what fits."""
        script = self.page("trainer", "--print-completion", "bash")
        keys = f'PS1=""; source {script}; bind "set enable-bracketed-paste off"\ntrainer --plan-format t\t--errors=j\t\x15exit\n'
        done = output_of("bash", "--norc", "-i", input=keys)
        # The line is echoed as it was completed.
        self.assertIn("--plan-format table", done.stdout + done.stderr)

    def test_zsh(self):
        self.need("zsh")
        for program in PROGRAMS:
            script = self.page(program, "--print-completion", "zsh")
            done = output_of("zsh", "-f", "-n", script)
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)
            # _arguments parses the specifications when it is called; here it shows them.
            code = '_arguments() { print -rl -- "$@" }; source "$1"'
            specifications = output_of("zsh", "-f", "-c", code, "zsh", script).stdout
            for option in options_of(program):
                self.assertRegex(specifications, rf"(?m)^(\*|\([^)]*\)){re.escape(option)}=?\[", program)

    def test_fish(self):
        self.need("fish")
        for program in PROGRAMS:
            script = self.page(program, "--print-completion", "fish")
            done = output_of("fish", "--no-execute", script)
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)
        script = self.page("trainer", "--print-completion", "fish")

        def offers(line):
            done = output_of("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'", cwd=self.folder,
                             env={"HOME": str(self.folder), "PATH": f"{BIN}:/usr/bin:/bin"})
            return [word.split("\t")[0] for word in done.stdout.splitlines()]

        self.assertEqual(offers("trainer --device c"), ["cpu", "cuda"])
        self.assertIn("--checkpoint-epochs", offers("trainer --check"))
        self.assertEqual(offers("trainer -alph"), ["-alpha"])


class Explain(PageTest):
    def test_keys_options_and_exit_codes(self):
        for name, title in (("activation", "Activation"), ("--epochs", "--epochs N, -e"), ("-e", "--epochs N, -e"),
                            ("75", "exit code 75"), ("Training.Mu", "Training.Mu"), ("130", "exit code 130")):
            for arguments in (("--explain", name), (f"--explain={name}",)):
                text = self.page("trainer", *arguments).read_text()
                self.assertEqual(text.splitlines()[0], title)
        self.assertIn("\n  Training.Epochs ", self.page("predictor", "--explain").read_text())

    def test_what_is_not_there(self):
        for name, message in (
                ("Activaton", '--explain: "Activaton" is no key, value, option or exit code; did you mean "Activation"? '
                              "trainer --explain lists the keys"),
                ("qqqqqq", '--explain: "qqqqqq" is no key, value, option or exit code; trainer --explain lists the keys'),
                ("99", "--explain: no program ends with 99; exit codes: 0, 1, 2, 3, 4, 5, 6, 75, and 128 + the number of "
                       "a signal")):
            done = output_of(BIN / "trainer", "--explain", name)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"trainer: error: {message}\n"))

    def test_exit_codes_are_those_of_the_documents(self):
        document = (SOURCE / "docs/user/errors.md").read_text()
        for code, kind in re.findall(r"^\| (\d+) \| `(\w+)` \|", document, re.M):
            text = self.page("trainer", "--explain", code).read_text()
            self.assertIn(f"  kind     {kind} (--errors=json)\n", text)


class Versions(PageTest):
    def test_name_the_build_and_what_it_uses(self):
        for program in PROGRAMS:
            lines = self.page(program, "--version").read_text().splitlines()
            self.assertRegex(lines[0], rf"^{program} \d+\.\d+\.\d+ \(Norn\) (unknown|[0-9a-f]{{12}}(, modified)?)$")
            rest = dict(line.split(": ", 1) for line in lines[1:])
            self.assertRegex(rest["build"], r"^\w+, \w+ \d+")
            data = (("NetCDF", r"^\d+\.\d+"), ("HDF5", r"^\d+\.\d+\.\d+$"), ("CLI11", r"^\d+\.\d+"))
            if program == "importer":  # has no kernels
                self.assertNotIn("OpenBLAS", rest)
            computing = (("MPI", r"\d+\.\d+"), ("OpenBLAS", r"^\d+\.\d+"), ("jsoncpp", r"^\d+\.\d+"),
                         ("CUDA", r"^(none|\d+\.\d+)"), ("NCCL", r"^(none|\d+\.\d+\.\d+)$"),
                         ("GPU architectures", r"^(none|\d+)"))
            for name, shape in data if program == "importer" else data + computing:
                self.assertRegex(rest[name], shape)

    def test_the_commit_is_that_of_the_sources(self):
        done = output_of("git", "-C", SOURCE, "rev-parse", "--show-toplevel")
        if done.returncode != 0 or pathlib.Path(done.stdout.strip()).resolve() != SOURCE.resolve():
            self.skipTest("the sources are not in git")
        cmake = shutil.which("cmake")
        if cmake is None:
            self.skipTest("cmake is not installed")
        out = self.folder / "norn_build.h"

        def write(source):
            subprocess.run([cmake, "-D", f"SOURCE={source}", "-D", f"TEMPLATE={SOURCE}/tools/cmake/norn_build.h.in", "-D",
                            f"OUTPUT={out}", "-P", SOURCE / "tools/cmake/source_version.cmake"], check=True)
            return re.search('SOURCE_VERSION "(.*)"', out.read_text())[1]

        commit = output_of("git", "-C", SOURCE, "rev-parse", "--short=12", "HEAD").stdout.strip()
        self.assertEqual(write(SOURCE).removesuffix(", modified"), commit)
        written = out.stat().st_mtime_ns
        write(SOURCE)
        self.assertEqual(out.stat().st_mtime_ns, written, "a file that says the same is written again")
        self.assertEqual(write(SOURCE / "docs"), "unknown")  # somebody else's repository around the sources


if __name__ == "__main__":
    unittest.main()
