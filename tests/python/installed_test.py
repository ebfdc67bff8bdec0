# SPDX-License-Identifier: Apache-2.0
"""An installation of the package, in a folder and in a fresh environment: it carries the library and the programs."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

TRY = """
import numpy as np, scipy.sparse as sp, norn
m = sp.csr_matrix(np.tril(np.ones((40, 30), np.float32)))
model = norn.Recommender(epochs=2, device="cpu").fit(m)
model.save("films.nc")
ids, scores = norn.load("films.nc").recommend(m, N=3)
assert ids.shape == (40, 3)
print(norn.__file__)
import scipy.io
scipy.io.netcdf_file("classic.nc", "w").close()
try:
    norn.load("classic.nc")
except norn.DataError as error:  # of a file without a seal, which a process beside the library reads
    assert "classic.nc" in str(error), error
"""


def without_this_build():
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NORN_BIN")}


def use(python, package, folder, **environment):
    """Trains, saves and loads with a package; the programs in it read the file."""
    said = subprocess.run([python, "-B", "-c", TRY], cwd=folder, env=without_this_build() | environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert pathlib.Path(said.stdout.strip()).parent == package
    for program in ("trainer", "importer", "predictor", "evaluator"):
        shown = subprocess.run([package / "bin" / program, "--version"], env=without_this_build(), capture_output=True, text=True,
                               check=True)
        assert "Norn" in shown.stdout
    linked = subprocess.run(["ldd", package / "bin/trainer"], capture_output=True, text=True, check=True).stdout
    found = next(line.split("=>")[1].split()[0] for line in linked.splitlines() if "libnorn" in line)
    assert pathlib.Path(found).resolve().is_relative_to(package)
    assert (package / "py.typed").exists() and "class Model" in (package / "_core.pyi").read_text()
    (folder / "asked.txt").write_text("one\tunit3:unit4\n")
    (folder / "units.txt").write_text("".join(f"unit{u}\t{u}\n" for u in range(30)))
    exact = subprocess.run([package / "bin/predictor", "-n", "films.nc", "-r", "asked.txt", "-i", "units.txt", "-s", "-", "-k", "3",
                            "--device", "cpu"], cwd=folder,
                           env=without_this_build(), capture_output=True, text=True)
    assert exact.returncode == 0 and exact.stdout.startswith("one\t"), exact.stderr


def require_pages(share):
    """What man and shells look for."""
    from norn import _commands

    for page in ("norn", *(f"norn-{command}" for command in _commands.ABOUT)):
        assert (share / f"man/man1/{page}.1").read_text().startswith(".TH NORN")
    for place in ("bash-completion/completions/norn", "zsh/site-functions/_norn", "fish/vendor_completions.d/norn.fish"):
        assert "norn --print-completion" in (share / place).read_text()


def test_the_component_is_a_package_that_can_be_moved(programs, source, tmp_path):
    build = programs.parent
    if not (build / "CMakeCache.txt").exists():
        pytest.skip("the programs are not those of a build folder")
    subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", tmp_path / "first/norn"], check=True,
                   capture_output=True)
    shutil.copytree(source / "python/norn", tmp_path / "first/norn", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    require_pages(tmp_path / "first/norn/share")
    (tmp_path / "first").rename(tmp_path / "second")
    use(sys.executable, tmp_path / "second/norn", tmp_path, PYTHONPATH=str(tmp_path / "second"))


def copy_of(source, folder):
    """What a clone holds: neither build folders nor what they made."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=source, capture_output=True,
                            text=True)
    if listed.returncode != 0:
        pytest.skip(f"not a checkout of git: {listed.stderr.strip()}")
    for name in filter(None, listed.stdout.split("\0")):
        if (source / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, folder / name)


def compiled_before(source):
    """ccache finds the objects of the preset cpu where compiler, flags and places within the source tree are the same."""
    if shutil.which("ccache") is None:
        return {}, []
    settings = {"CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "true", "CC": "/usr/bin/cc", "CXX": "/usr/bin/c++",
                "CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
    return settings, ["--config-settings=build-dir=build/pip", "--config-settings=cmake.define.NORN_WARNINGS_AS_ERRORS=ON"]


@pytest.mark.skipif(not os.environ.get("NORN_TEST_PIP"),
                    reason="NORN_TEST_PIP=1 compiles the engine with pip: minutes, or one with a filled ccache")
def test_pip_installs_it_into_an_empty_environment_and_the_readme_runs(source, tmp_path):
    """Nothing but pip is there before: what building needs comes into the folder that pip makes for it."""
    clone, venv = tmp_path / "norn", tmp_path / "venv"
    copy_of(source, clone)
    subprocess.run(["/usr/bin/python3", "-m", "venv", venv], check=True)
    settings, options = compiled_before(clone)
    done = subprocess.run([venv / "bin/pip", "install", "--disable-pip-version-check", *options, "."], cwd=clone, capture_output=True,
                          text=True,
                          env=without_this_build() | settings | {"PIP_RETRIES": "10"})  # of an index that is out of reach for a while
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    require_pages(venv / "share")
    use(venv / "bin/python", next(venv.glob("lib/python3*/site-packages/norn")), tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (clone / "README.md").read_text(), re.M | re.S)
    shown = subprocess.run([venv / "bin/python", "-B", "-c", "".join(blocks)], cwd=clone, env=without_this_build(), capture_output=True,
                           text=True)
    assert shown.returncode == 0 and "ndcg" in shown.stdout, shown.stderr
    doctor = subprocess.run([venv / "bin/norn", "doctor"], env=without_this_build(), capture_output=True, text=True)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
