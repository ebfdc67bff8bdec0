# SPDX-License-Identifier: Apache-2.0
"""What the programs in Python have in common: the name they were called by."""
import os
import re

# What the program norn calls this one ("norn tune"). Programs that this one runs keep their own names.
_CALLED = os.environ.pop("NORN_COMMAND", "")


def called_as(program: str) -> str:
    """The program's name in texts for people."""
    return _CALLED or program


def as_called(program: str, text: str) -> str:
    """The text with its command lines, which are indented by two, as the user would write them."""
    return re.sub(rf"(?m)^  {re.escape(program)}(?= )", f"  {called_as(program)}", text)
