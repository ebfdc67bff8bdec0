#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Downloads MovieLens 20M, checks it, shares out each user's ratings at random (80 % to train with, 20 % to be found), and
# imports both parts. Prints the commands that train and measure Precision@10.
#   tools/get_movielens.sh [--folder DIR] [--bin DIR] [--min-rating X] [--seed N]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
usage() {
  cat << END
usage: tools/get_movielens.sh [--folder DIR] [--bin DIR] [--min-rating X] [--seed N]
  --folder DIR      where everything goes, about 1 GB [build/movielens]
  --bin DIR         folder of the programs [the newest of build/*/bin, else those in PATH]
  --min-rating X    only ratings from X on count as liked, for example 4 [all ratings count]
  --seed N          of the split [1]
NORN_MOVIELENS_URL and NORN_MOVIELENS_MD5 name another place, and the checksum of ml-20m.zip there.
END
}
fail() {
  echo "get_movielens.sh: $*" >&2
  exit "${code:-1}"
}

folder=$root/build/movielens
bin=
min_rating=
seed=1
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      usage
      exit 0
      ;;
    --folder | --bin | --min-rating | --seed)
      [ $# -ge 2 ] || code=2 fail "$1: its value is missing; see --help"
      case "$1" in
        --folder) folder=$2 ;;
        --bin) bin=$2 ;;
        --min-rating) min_rating=$2 ;;
        --seed) seed=$2 ;;
      esac
      shift 2
      ;;
    *) code=2 fail "unknown option '$1'; see --help" ;;
  esac
done
if [ -n "$min_rating" ] && ! [[ "$min_rating" =~ ^[0-5](\.[0-9])?$ ]]; then
  code=2 fail "--min-rating '$min_rating' is no rating; they go from 0.5 to 5"
fi

url=${NORN_MOVIELENS_URL:-https://files.grouplens.org/datasets/movielens}/ml-20m.zip
checksum=${NORN_MOVIELENS_MD5:-cd245b17a1ae2cc31bb14903e1204af3} # what GroupLens publishes in ml-20m.zip.md5

if [ -z "$bin" ]; then
  # shellcheck disable=SC2012
  newest=$(ls -t "$root"/build/*/bin/importer "$root"/build/*/*/bin/importer 2> /dev/null | head -n 1 || true)
  newest=${newest:-$(command -v importer || true)}
  [ -n "$newest" ] || fail "the programs are not built; see docs/user/building.md, or name their folder with --bin"
  bin=$(dirname "$newest")
fi
[ -x "$bin/importer" ] || fail "$bin/importer is not there; name the folder of the programs with --bin"
bin=$(cd "$bin" && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

matches() {
  [ -f "$1" ] && [ "$(md5sum < "$1" | cut -d ' ' -f 1)" = "$checksum" ]
}
download() {
  if command -v curl > /dev/null; then
    curl --fail --location --silent --show-error --output "$2" "$1"
  elif command -v wget > /dev/null; then
    wget --quiet --output-document "$2" "$1"
  else
    /usr/bin/python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$1" "$2"
  fi
}

archive=$folder/ml-20m.zip
if matches "$archive"; then
  echo "movielens: $archive is here already"
else
  echo "movielens: downloading $url (190 MB)"
  download "$url" "$archive.part" ||
    fail "$url cannot be read; without a network, put the file to $archive by other means and run this again"
  matches "$archive.part" ||
    fail "$archive.part: its MD5 is not $checksum: the download was cut off or changed; remove it and run this again"
  mv "$archive.part" "$archive"
fi

echo "movielens: unpacking"
/usr/bin/python3 - "$archive" "$folder" << 'END'
import csv
import pathlib
import shutil
import sys
import zipfile

folder = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in ("ratings.csv", "movies.csv"):
        with archive.open("ml-20m/" + name) as source, open(folder / name, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
# movieId, title: what a recommendation is called.
with open(folder / "movies.csv", encoding="utf-8", newline="") as movies, \
        open(folder / "titles.tsv", "w", encoding="utf-8") as titles:
    for row in csv.DictReader(movies):
        titles.write(f"{row['movieId']}\t{row['title']}\n")
END

ratings=$folder/ratings.csv
if [ -n "$min_rating" ]; then
  awk -F , -v least="$min_rating" 'NR == 1 || $3 + 0 >= least + 0' "$ratings" > "$folder/liked.csv"
  ratings=$folder/liked.csv
fi
echo "movielens: importing"
"$bin/importer" --input "$ratings" --format csv --header yes --example-column userId --feature-column movieId \
  --name gl --output "$folder/ml20m.nc" --features "$folder/movies.features" --new-features \
  --split ratio:0.8/0.2 --seed "$seed" --quiet
rm -f "$ratings"
[ -z "$min_rating" ] || rm -f "$folder/ratings.csv"

cat << END

Train and measure (titles of movies are in $folder/titles.tsv):

$bin/trainer -c $root/configs/recipes/movielens20m.json -i $folder/ml20m.train.nc -n $folder/model.nc
$bin/evaluator --model $folder/model.nc --data $folder/ml20m.test.nc --top 10 --popularity $folder/ml20m.train.nc

Precision of the row K = 10 is P@10. DSSTNE's network of this data is configs/dsstne/movielens_1536.json.
Cite: F. M. Harper, J. A. Konstan, "The MovieLens Datasets: History and Context", ACM TiiS 5(4), 2015; their README says
what the data may be used for.
END
