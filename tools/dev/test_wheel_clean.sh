#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a wheel into a bare Debian that has nothing but python3, by debootstrap, and uses it there: it is imported, fits,
# recommends and reads a file of others, and its programs run. As root; 300 MB in a temporary folder, and the network.
#   tools/dev/test_wheel_clean.sh WHEEL [FOLDER]     FOLDER: keeps the system there, and uses the one that is there
set -euo pipefail

# shellcheck source=tools/dev/usage.sh
. "$(dirname "$0")/usage.sh"
case "${1:-}" in "" | -*) show_usage "$@" ;; esac
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap > /dev/null; then
  echo "SKIPPED: a bare system needs root and debootstrap (apt-get install debootstrap)"
  exit 0
fi
wheel=$(realpath -- "$1")
kept=${2:-}
root=${kept:-$(mktemp -d)}
if [ ! -e "$root/usr/bin/python3" ]; then
  debootstrap --variant=minbase --include=python3 bookworm "$root" http://deb.debian.org/debian > "$root.log" 2>&1 || {
    tail -n 5 "$root.log" >&2
    exit 1
  }
fi
# Without pip there, from here: for its Python.
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
rm -rf "$root/site" "$root/made"
mkdir "$root/made"
/usr/bin/python3 -m venv "$root/pip"
"$root/pip/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --python-version "$version" \
  --platform manylinux_2_36_x86_64 --platform manylinux_2_35_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
  --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --target "$root/site" "$wheel"
rm -rf "$root/pip"

cat > "$root/try.py" << 'PYTHON'
import os, subprocess
import numpy as np, scipy.io, scipy.sparse as sp
import norn

os.chdir("/made")
matrix = sp.csr_matrix(np.tril(np.ones((40, 30), np.float32)))
model = norn.Recommender(epochs=2, seed=1).fit(matrix)
model.save("fit.nc")
assert norn.load("fit.nc").recommend(matrix, N=3)[0].shape == (40, 3)
scipy.io.netcdf_file("classic.nc", "w").close()
try:
    norn.load("classic.nc")
except norn.DataError as error:  # of a file of others, which a process beside the library reads
    assert "classic.nc" in str(error), error
try:
    norn.Recommender(device="cuda").fit(matrix)
except norn.DeviceError as error:
    print("device cuda:", error)

# The same by the programs.
programs = os.path.join(os.path.dirname(norn.__file__), "bin")
with open("films.txt", "w") as text:
    for user in range(40):
        text.write(f"user{user}\t" + ":".join(f"{u}" for u in matrix[user].indices) + "\n")
with open("films.features", "w") as text:
    text.write("".join(f"{u}\t{u}\n" for u in range(30)))
for words in (["importer", "-i", "films.txt", "-f", "films.features", "-d", "films", "-o", "films.nc"],
              ["trainer", "-i", "films.nc", "-n", "trained.nc", "--recipe", "sigmoid", "--epochs", "2", "--seed", "1"],
              ["predictor", "-n", "trained.nc", "--data", "films.nc", "-k", "3", "-s", "best.txt"],
              ["evaluator", "-n", "trained.nc", "--data", "films.nc", "--keep-seen"]):
    subprocess.run([os.path.join(programs, words[0]), *words[1:], "-q"], check=True, stdout=subprocess.DEVNULL)
assert len(open("best.txt").readlines()) == 40
for words in (["doctor", "--help"], ["info", "trained.nc"]):
    subprocess.run(["python3", "-m", "norn", *words], check=True, stdout=subprocess.DEVNULL)
bits = [{name: array.tobytes() for name, array in norn.load(f).network_.parameters.items()} for f in ("fit.nc", "trained.nc")]
assert bits[0] == bits[1], "fit and trainer differ"
print("fit has the weights of trainer; Norn", norn.version(), norn.show_config()["build"])
PYTHON
mount -t proc proc "$root/proc" # without it the system finds no library by a program's place
trap 'umount "$root/proc"; [ -n "$kept" ] || rm -rf "$root"' EXIT
chroot "$root" env -i PATH=/usr/bin:/bin PYTHONPATH=/site LC_ALL=C.UTF-8 python3 -B /try.py
echo "libraries of the bare system that are used: $(chroot "$root" env LD_LIBRARY_PATH= sh -c 'for f in /site/norn/bin/trainer /site/norn/lib/lib*; do ldd $f; done' |
  grep -oE '=> /(usr/)?lib[^ ]*' | sed 's#.*/##' | sort -u | tr '\n' ' ')"
