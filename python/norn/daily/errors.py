# SPDX-License-Identifier: Apache-2.0
"""What ends daily, or a region's day."""
from ..tune.errors import TunerError

SOME_NOT_PUBLISHED = 7


class RegionError(TunerError):
    """A region goes no further today; it keeps the model that is in service, and others go on."""

    code = SOME_NOT_PUBLISHED


class Killed(TunerError):
    """A program of a step was, by somebody or for its memory: the step is begun again a few times."""

    code = 137


class HeldBack(RegionError):
    """By the gate, a rollback, or a later day: there is nothing to mend."""
