#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rewrites the documents that are generated from the code; with --check fails where they differ from what is committed.
# Needs the preset cpu to be built.
set -euo pipefail
cd "$(dirname "$0")/../.."
