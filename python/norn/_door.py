# SPDX-License-Identifier: Apache-2.0
"""What the engine says, in the words of Python: its messages name settings, `validation_input`, as its programs have them."""
from __future__ import annotations

import re

# Of settings that are called otherwise here: an argument, or what one does instead.
HERE = {
    "allowed": "items", "config": "network", "excluded": "filter_pairs", "factors": "score_factors", "lambda": "lambda_",
    "output_data": "targets", "print_recipe": "network_.descriptor", "run_dir": "run_folder", "time_column": "time",
    "trust_index": "data.matrix",
    "unit_labels": "labels", "validation_input": "validation", "validation_output": "validation",
}
# Of settings that the programs alone have.
PROGRAMS = ("data_memory", "data_on_gpu", "libsvm_labels", "merge_features", "missing_examples", "repeated_examples", "samples",
            "separate_targets", "target_features", "target_type", "type", "validation_values", "value_column")


def in_python(message: str) -> str:
    """The message, with the names that its settings have here."""
    def named(found: re.Match[str]) -> str:
        name = found[1]
        return f"--{name.replace('_', '-')} of the programs" if name in PROGRAMS else f"`{HERE.get(name, name)}`"

    return re.sub(r"`(\w+)`", named, message)
