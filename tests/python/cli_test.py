# SPDX-License-Identifier: Apache-2.0
"""The program norn: commands, programs in their place, and what files are."""
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tables import checksum, random_table, run_importer, write_csv

import norn
from norn import _commands, cli


def run(*words, code=0, **environment):
    done = subprocess.run([sys.executable, "-B", "-m", "norn", *map(str, words)], capture_output=True, text=True,
                          env=os.environ | environment)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def inside(capsys):
    """The same in this process, for commands that no other program takes over."""
    def called(*words, code=0):
        assert cli.main(list(map(str, words))) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    return called


def test_help_is_short_and_names_every_command():
    text = run("--help")
    assert len(text.splitlines()) < 30 and text == run("help") == cli.usage()
    for command in _commands.ABOUT:
        assert f"\n  {command} " in text
    assert run("--version").split() == ["norn", norn.__version__]
    assert run(code=2) == text  # on stderr


@pytest.mark.parametrize("word, near", [("trian", "train"), ("importer", "import"), ("trainer", "train"), ("predictor", "predict"),
                                        ("infos", "info"), ("eval", "")])
def test_unknown_commands(word, near):
    message = run(word, code=2)
    assert message.startswith(f'norn: error: there is no command "{word}".') and "There are: import, train" in message
    assert (f'Did you mean "{near}"?' in message) == bool(near)


def fake_program(folder, name, text):
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("command, program", [("train", "trainer"), ("predict", "predictor"), ("evaluate", "evaluator"),
                                              ("import", "importer")])
def test_programs_get_every_word_and_give_their_exit_code(command, program, tmp_path):
    fake_program(tmp_path, program, '#!/bin/sh\nprintf "%s|" "$0" "$@"\nexit ${FAKE_CODE:-0}\n')
    words = ["-n", "a b", "--x=é", "", "--", "-q"]
    said = run(command, *words, NORN_BIN=str(tmp_path)).split("|")[:-1]
    assert said == [str(tmp_path / program), *words]
    for code in (1, 2, 3, 6, 75):
        run(command, "--model", "x", code=code, NORN_BIN=str(tmp_path), FAKE_CODE=str(code))
    (tmp_path / program).unlink()
    assert f"the program {program} is not in {tmp_path}; install" in run(command, "-x", code=2, NORN_BIN=str(tmp_path))


@pytest.mark.parametrize("command, program", [("tune", "tuner"), ("daily", "daily"), ("report", "report")])
def test_scripts_run_by_this_python(command, program, tmp_path):
    for name in (program, f"{program}.py"):
        fake_program(tmp_path, name, "#!/bin/false\nimport sys\nprint(sys.executable, sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
        assert run(command, 0, "a b", NORN_BIN=str(tmp_path)).strip() == f"{sys.executable} ['0', 'a b']"
        run(command, 4, code=4, NORN_BIN=str(tmp_path))
        (tmp_path / name).unlink()


def test_real_programs_answer(programs):
    for command, program in (("train", "trainer"), ("predict", "predictor"), ("evaluate", "evaluator")):
        assert run(command, "--help").startswith(f"norn {command}: ")
    assert "norn import: Makes files" in run("import", "--help") and "--where FILTER" in run("import", "--help")
    assert run("train", "--epochs", "many", code=2).startswith("norn train: error")


@pytest.mark.parametrize("command, script, wrong, said", [
    ("tune", "tuner", ("--study", "none", "--status"), "none"),
    ("tune", "tuner", ("--workers", "few"), '--workers: "few" is no whole number'),
    ("daily", "daily", ("--regions", "none.json"), "none.json"),
    ("daily", "daily", ("--regions", "a.json", "--slots", "0"), '--slots: "0" is no whole number'),
    ("report", "report.py", ("none",), "none"), ("report", "report.py", (), "are required: FOLDER")])
def test_scripts_are_called_what_was_typed(command, script, wrong, said, source, tmp_path):
    """By `norn`, and themselves where they are called directly."""
    path = source / "tools" / (script if script.endswith(".py") else f"{script}.py")
    for called, begins in ((script, [sys.executable, "-B", path]), (f"norn {command}", [sys.executable, "-B", "-m", "norn", command])):
        text = subprocess.run([*begins, "--help"], capture_output=True, text=True, cwd=tmp_path, check=True).stdout
        assert text.startswith(f"usage: {called} ") and f"\n  {called} " in text
        assert called == script or f"  {script} " not in text and f"usage: {script}" not in text
        done = subprocess.run([*begins, *wrong], capture_output=True, text=True, cwd=tmp_path)
        [line] = [line for line in done.stderr.splitlines() if "error: " in line]
        assert done.returncode in (2, 3) and line.startswith(f"{called}: error: ") and said in line, done.stderr


def test_programs_that_a_script_runs_keep_their_names(tmp_path):
    fake_program(tmp_path, "trainer", '#!/bin/sh\necho "called ${NORN_COMMAND:-trainer}" >&2\nexit 2\n')
    (tmp_path / "net.json").write_text("{}")
    (tmp_path / "space.json").write_text('{"Training.Alpha": {"low": 0.001, "high": 0.1}}')
    said = run("tune", "--dry-run", "--trainer", tmp_path / "trainer", "-c", tmp_path / "net.json", "--space", tmp_path / "space.json",
               "-i", "d.nc", code=2)
    assert "norn tune: error: " in said and "called norn" not in said


@pytest.mark.parametrize("words", [("--help",), ("help",), ("--version",), ("--print-man", "import"), ("--print-completion", "fish"),
                                   ("import", "--help"),
                                   ("train", "--help"), ("evaluate", "--version"), ("export", "--help"), ("doctor",), ("tune", "--help"),
                                   ("daily", "--help"),
                                   ("report", "--help")])
def test_a_reader_that_goes_ends_it_quietly_and_a_full_disk_does_not(words):
    command = [sys.executable, "-B", "-m", "norn", *words]
    reader, closed = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    os.close(closed)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3 and "error: standard output: could not be written" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("error", ["ConnectionRefusedError(111, 'refused')", "BrokenPipeError(32, 'of a child')"])
def test_errors_of_other_places_are_not_the_output_s(error, source):
    code = f"import sys, norn.cli as cli\ndef fail(words): raise {error}\ncli._do = fail\nsys.exit(cli.main([]))"
    script = (f"import sys; sys.path.insert(0, {str(source / 'python')!r})\nfrom norn._script import run_script\n"
              f"def fail(): raise {error}\nsys.exit(run_script('tuner', fail))")
    for text in (code, script):
        done = subprocess.run([sys.executable, "-B", "-c", text], capture_output=True, text=True)
        assert done.returncode == 1 and error.partition("(")[0] in done.stderr.splitlines()[-1] and "disk" not in done.stderr


@pytest.fixture
def table(draw, tmp_path):
    table = random_table(draw, 40, 30, 400)
    write_csv(tmp_path / "t.csv", table)
    return table


def test_import_hands_text_to_the_importer(table, programs, tmp_path):
    words = ["--example-column", "user", "--feature-column", "item", "--split", "ratio:0.7/0.3", "--feature-labels", "checksum",
             "--scratch", tmp_path]
    run_importer(programs, tmp_path / "t.csv", tmp_path / "by.nc", *words)
    file = tmp_path / "t.csv"
    for first, last in (([file], []), (["--input", file], []), ([f"--input={file}"], []), ([], [file])):
        said = run("import", *first, "--name", "shop", "--output", tmp_path / "made.nc", *words, *last)
        assert "entries written in" in said
        assert checksum(tmp_path / "made.test.nc") == checksum(tmp_path / "by.test.nc")
    assert "is not expected here" in run("import", "-i", file, "--name", "a", "-o", tmp_path / "a.nc", file, code=2)
    assert "norn import: error" in run("import", tmp_path / "none.csv", "--name", "a", "-o", tmp_path / "a.nc", code=3)
    assert "norn import: error" in run("import", tmp_path / "t.csv", "--name", "a", code=2)


def test_import_reads_what_the_importer_does_not(table, programs, tmp_path, inside):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    columns = ["--example-column", "user", "--feature-column", "item"]
    with open(tmp_path / "t.jsonl", "w") as file:
        file.writelines(json.dumps(dict(zip(table, row))) + "\n" for row in zip(*table.values()))
    write_csv(tmp_path / "t.dat", table, ";")
    for split in ([], ["--split", "ratio:0.5/0.5", "--seed", "7"], ["--split", "leave-last-out", "--time-column", "when"],
                  ["--type", "analog", "--value-column", "rating", "--target-type", "analog"]):
        run_importer(programs, tmp_path / "t.csv", tmp_path / "by.nc", *columns, *split)
        part = ".test" if "--split" in split else ""
        for source in ("t.parquet", "t.jsonl", "t.dat"):
            more = ["--separator", ";"] if source == "t.dat" else []
            said = inside("import", tmp_path / source, "--name", "shop", "-o", tmp_path / "made.nc", *columns, *split, *more)
            assert "examples" in said and "width:" in said
            assert checksum(tmp_path / f"made{part}.nc") == checksum(tmp_path / f"by{part}.nc"), (source, split)


def test_import_filters_and_keeps_an_index(table, programs, tmp_path, inside):
    import pyarrow  # noqa: F401  which reads columns with filters

    columns = ["--name", "shop", "--example-column", "user", "--feature-column", "item"]
    kept = [rating >= 0 and when < 1_650_000_000 for rating, when in zip(table["rating"], table["when"])]
    write_csv(tmp_path / "left.csv", {name: [value for value, keep in zip(column, kept) if keep] for name, column in table.items()})
    run_importer(programs, tmp_path / "left.csv", tmp_path / "by.nc", *columns[2:])
    words = ["import", tmp_path / "t.csv", "-o", tmp_path / "made.nc", *columns, "--where", "rating >= 0", "--where", "when < 1650000000"]
    inside(*words, "--features", tmp_path / "made.features", "-q")
    assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc")
    assert (tmp_path / "made.features").read_bytes() == (tmp_path / "by.features").read_bytes()
    inside(*words[:2], "-o", tmp_path / "all.nc", *columns, "--where", "rating >= -100", "--features", tmp_path / "made.features")
    assert norn.Dataset.from_netcdf(tmp_path / "all.nc").feature_labels == norn.Dataset.from_netcdf(tmp_path / "by.nc").feature_labels
    assert "--samples does not go with filters" in inside(*words, "--samples", "x", code=2)
    assert "--where 'rating >> 0': column 9" in inside(*words[:-4], "--where", "rating >> 0", code=2)
    assert "--example-column: there is no column \"usr\"" in inside("import", tmp_path / "t.csv", "--name", "a", "-o", "b.nc", "--where",
                                                                    "rating > 0",
                                                                 "--example-column", "usr", "--feature-column", "item", code=2)
    assert "no entry is left with at least 99 features" in inside(*words, "--min-features", 99, code=3)
    assert "--output is required" in inside("import", tmp_path / "t.csv", "--where", "rating > 0", code=2)
    nameless = [*words[:2], "-o", tmp_path / "called.nc", *columns[2:], "--where", "rating >= -100"]
    inside(*nameless)
    bytes_of_nameless = checksum(tmp_path / "called.nc")
    inside(*nameless, "--name", "called")
    assert checksum(tmp_path / "called.nc") == bytes_of_nameless


def test_import_of_images(tmp_path):
    (tmp_path / "a-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 2, 1, 3) + bytes(range(6)))
    (tmp_path / "a-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 2) + bytes([1, 0]))
    said = run("import", tmp_path / "a-images-idx3-ubyte", "--format", "images", "-o", tmp_path / "a.nc")
    assert "a.nc: 2 images" in said and "size: 3 x 1, grey; 2 classes" in said
    assert "unknown option \"--where\"" in run("import", tmp_path / "a-images-idx3-ubyte", "--format", "images", "-o",
                                               tmp_path / "b.nc", "--where", "x > 1", code=2)


def test_import_of_a_matrix(tmp_path, inside):
    matrix = sp.csr_matrix(np.eye(4, dtype=np.float32) * 2)
    sp.save_npz(tmp_path / "m.npz", matrix)
    inside("import", tmp_path / "m.npz", "--name", "m", "-o", tmp_path / "m.nc")
    assert (norn.Dataset.from_netcdf(tmp_path / "m.nc").matrix != matrix).nnz == 0


def test_info_of_data_and_of_a_model(table, programs, tmp_path):
    run_importer(programs, tmp_path / "t.csv", tmp_path / "d.nc", "--example-column", "user", "--feature-column", "item")
    subprocess.run([programs / "trainer", "--recipe", "sigmoid", "-i", tmp_path / "d.nc", "-n", tmp_path / "m.nc", "--epochs", "2",
                    "--device", "cpu", "--keep-best",
                    "ndcg@20", "--validation-split", "0.2", "-q"], check=True, capture_output=True)
    for name in ("d.nc", "m.nc"):
        facts = json.loads(run("info", tmp_path / name, "--format", "json"))
        assert facts["sha256"] == checksum(tmp_path / name) and facts["bytes"] == (tmp_path / name).stat().st_size and facts["sealed"]
        for form in ("text", "md"):
            assert facts["sha256"] in run("info", tmp_path / name, "--format", form)
    model, data = (json.loads(run("info", tmp_path / name, "--format", "json")) for name in ("m.nc", "d.nc"))
    assert data["kind"] == "data" and model["kind"] == "model"
    entries = len(set(zip(table["user"], table["item"])))
    assert [one["entries"] for one in data["sets"]] == [entries, entries]
    lines = "".join(label + "\n" for label in dict.fromkeys(table["item"]))
    assert data["sets"][0]["labels"]["sha256"] == hashlib.sha256(lines.encode()).hexdigest() == model["layers"][0]["labels"]["sha256"]
    assert model["training"]["sets"][0]["checksum"] == data["sets"][0]["checksum"]
    assert model["training"]["watched"] == "ndcg@20" and 1 <= model["training"]["best_epoch"] <= 2
    text = run("info", tmp_path / "m.nc")
    assert not re.search(r"\b([\d,]+) = \1\b", text), "units of no image stand alone"
    for word in ("shop_input", "CrossEntropy", "ndcg@20", "Hidden", model["training"]["sets"][0]["checksum"]):
        assert word in text
    whole = (tmp_path / "m.nc").read_bytes()
    (tmp_path / "m.nc").write_bytes(whole[:-100])
    assert "m.nc" in run("info", tmp_path / "m.nc", code=3)
    assert "t.csv" in run("info", tmp_path / "t.csv", code=3)
    assert "no such file" in run("info", tmp_path / "none.nc", code=3)
    assert "--format" in run("info", tmp_path / "d.nc", "--format", "xml", code=2)


def test_doctor_shows_programs_and_ends_as_the_trainers_does(tmp_path):
    fake_program(tmp_path, "trainer", '#!/bin/sh\n[ "$1" = --version ] && { echo "trainer 9.9 (x)"; exit 0; }\necho "doctor: $@"\nexit 4\n')
    done = subprocess.run([sys.executable, "-B", "-m", "norn", "doctor", "--model", "m"], capture_output=True, text=True,
                          env=os.environ | {"NORN_BIN": str(tmp_path)})
    assert done.returncode == 2 and "importer" in done.stdout and "missing" in done.stdout and "programs of Norn are missing" in done.stderr
    for name in ("importer", "predictor", "evaluator"):
        fake_program(tmp_path, name, f'#!/bin/sh\necho "{name} 9.9 (x)"\n')
    done = subprocess.run([sys.executable, "-B", "-m", "norn", "doctor", "--model", "m"], capture_output=True, text=True,
                          env=os.environ | {"NORN_BIN": str(tmp_path)})
    assert done.returncode == 4 and done.stdout.endswith("doctor: --doctor --model m\n")
    assert f"(the package is {norn.__version__})" in done.stdout and "numpy" in done.stdout


def test_export_and_convert(table, programs, tmp_path, inside):
    import onnx
    run_importer(programs, tmp_path / "t.csv", tmp_path / "d.nc", "--example-column", "user", "--feature-column", "item")
    model, out = tmp_path / "m.nc", tmp_path / "m.onnx"
    norn.Recommender(epochs=1, device="cpu").fit(norn.Dataset.from_netcdf(tmp_path / "d.nc")).save(model)
    inside("export", model, out)
    assert [one.name for one in onnx.load(out).graph.output] == ["scores"]
    inside("export", "--top-k", model, out, "--seen=no")
    assert [one.name for one in onnx.load(out).graph.output] == ["items", "scores"]
    inside("export", model, tmp_path / "weights", "--format", "safetensors")
    inside("convert", out, tmp_path / "back.nc")
    back = norn.load(tmp_path / "back.nc").network_.parameters
    assert any(np.array_equal(values, back_values) for values in norn.load(model).network_.parameters.values()
               for back_values in back.values())


@pytest.mark.parametrize("words, message", [
    (["export", "m.nc", "--format", "onnx"], "1 files are given, expected two"),
    (["export", "m.nc", "x.bin"], "x.bin: which format? Say --format; there are: onnx"),
    (["export", "m.nc", "m.onnx", "--topk"], "--topk: there is no such option. Did you mean \"--top-k\"?"),
    (["export", "m.nc", "m.onnx", "--seen"], "--seen: its value is missing"),
    (["export", "m.nc", "m.x", "--format", "pmml"], "\"pmml\" is not written"),
    (["convert", "a.onnx", "b.nc", "--top-k"], "--top-k: there is no such option"),
    (["convert", "a.xyz", "b.nc"], "files that end in \".xyz\" are not read"), (["convert", "a.onnx"], "1 files are given"),
])
def test_what_cannot_be_exported_or_converted(words, message, inside):
    assert message in inside(*words, code=2)


def test_every_command_has_help(inside):
    for command in _commands.MODULE_OF:
        if command != "import":  # the importer's comes behind it
            assert inside(command, "--help").startswith(f"norn {command}: ")


@pytest.mark.parametrize("name, text", [("a.jsonl", b'{"user": "ann", "items": ["soap"]}\n'), ("a.json", b"{}"), ("a.parquet", b"PAR1"),
                                        ("a.npz", b"PK"), ("a.jsonl.gz", b"")])
def test_requests_that_are_no_text_are_refused(name, text, inside, tmp_path, monkeypatch):
    monkeypatch.setattr("norn.programs.run_instead", lambda *words: pytest.fail(f"reached predictor: {words}"))
    (tmp_path / name).write_bytes(text)
    for words in (("-r", tmp_path / name), (f"--requests={tmp_path / name}",), ("-r", "a.txt", "--filter", tmp_path / name)):
        option = "--filter" if len(words) > 2 else "--requests"
        said = inside("predict", "-n", "model.nc", *words, code=2)
        assert said.startswith(f"norn: error: {option} {tmp_path / name}: ")
        assert " is not read here, but text (dsstne, libsvm, csv, tsv, list); norn import makes" in said


def test_requests_that_predictor_reads_reach_it(tmp_path):
    """By any name, where the format is said."""
    fake_program(tmp_path, "predictor", '#!/bin/sh\nprintf "%s|" "$@"\n')
    for name, words in (("a.csv", ()), ("a.txt", ()), ("a.dat", ()), ("a.jsonl", ("--request-format", "csv")), ("missing.jsonl", ())):
        if name != "missing.jsonl":
            (tmp_path / name).write_text("ann,soap\n")
        words = ("-n", "m.nc", "-r", tmp_path / name, *words)
        assert run("predict", *words, NORN_BIN=str(tmp_path)) == "".join(f"{word}|" for word in words)
