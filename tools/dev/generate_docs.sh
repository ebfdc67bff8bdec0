#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rewrites the documents that are generated from the code: the descriptor's keys, its JSON schema, the programs' options.
# With --check it changes nothing and fails where they are stale. Needs the preset cpu to be built.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=build/cpu/bin
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
mkdir -p "$fresh/docs" "$fresh/configs/schema"

"$bin/generate_docs" descriptor > "$fresh/docs/descriptor.md"
"$bin/generate_docs" schema > "$fresh/configs/schema/network.schema.json"
{
  echo "# Command lines"
  echo
  echo "What each program says when asked for \`--help\`. This page is generated: tools/dev/generate_docs.sh."
  for program in importer trainer predictor evaluator; do
    printf '\n## %s\n\n```\n' "$program"
    "$bin/$program" --help
    printf '```\n'
  done
} > "$fresh/docs/command_line.md"

stale=0
for document in docs/descriptor.md docs/command_line.md configs/schema/network.schema.json; do
  if [ "${1:-}" != --check ]; then
    mkdir -p "$(dirname "$document")"
    cp "$fresh/$document" "$document"
  elif ! diff -u "$document" "$fresh/$document"; then
    echo "$document is stale: run tools/dev/generate_docs.sh and commit what it writes"
    stale=1
  fi
done
exit "$stale"
