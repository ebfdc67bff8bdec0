# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For scripts that read it.

# show_usage [WORD...]: the head of the script; then it ends, with 0 where the first word asks for that, else with 2.
show_usage() {
  sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0"
  case "${1:-}" in -h | --help) exit 0 ;; esac
  exit 2
}
