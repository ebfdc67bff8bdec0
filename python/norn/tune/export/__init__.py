# SPDX-License-Identifier: Apache-2.0
"""A study in other programs' formats, written anew each time: they never write to it."""
from ...errors import DataError, UsageError
from ..facts import Facts
from ..study import Study
from . import hparams, optuna_journal, table

KINDS = {"csv": table.write, "optuna": optuna_journal.write, "hparams": hparams.write}
FOLDER = "export"


def export(kind: str, study: Study, facts: Facts) -> str:
    """Writes it; says where it stands."""
    folder = study.folder / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        return KINDS[kind](study, facts, folder)
    except ImportError as error:
        raise UsageError(f"--export {kind}: the Python package {(error.name or '').partition('.')[0]} is missing; install it for the "
                         f"Python that runs tuner: pip install {(error.name or '').partition('.')[0]}") from error
    except OSError as error:
        raise DataError(f"{error.filename or folder}: cannot be written: {error.strerror}; make room or mend its folder") from error


__all__ = ["FOLDER", "KINDS", "export"]
