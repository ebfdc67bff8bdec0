# SPDX-License-Identifier: Apache-2.0
"""One small error that could be in the code."""
import dataclasses


@dataclasses.dataclass
class Mutant:
    """C++: bytes `start` to `end` of a file become `text`, in which {0}, {1} ... are the bytes of `parts` with what is mutated in them.
    Python: `start` is the place's number in its file."""
    file: str
    line: int
    start: int
    end: int
    kind: str
    was: str  # what stands there, and what the mutant makes of it, for people
    becomes: str
    parts: list
    text: str  # with NUMBER
    number: int = 0
