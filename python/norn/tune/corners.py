# SPDX-License-Identifier: Apache-2.0
"""Plans the corners of a space with the trainer before anything is trained: what it does not take, and what does not fit, is known then."""
import pathlib
import tempfile

import numpy as np

from .._files import JsonText, write_json
from ..errors import DeviceError, UsageError
from . import descriptor
from .program import Failed, Price, Trainer
from .study import Study

MOST_TOLD = 40  # errors, as the trainer


def check_corners(study: Study, trainer: Trainer, space_file: str) -> list[tuple[np.ndarray, Price]]:
    """[(row, price)]; an error names the line of the space, where the trainer's names a key that stands in it."""
    found, wrong = [], {}
    with tempfile.TemporaryDirectory(prefix="norn-tuner-") as name:
        config = pathlib.Path(name) / "net.json"
        for row in study.space.corners():
            settings = study.space.settings(row)
            network = study.network_of(settings)
            write_json(config, network)
            try:
                found.append((row, trainer.plan(config)))
            except Failed as failed:
                if failed.code == DeviceError.exit_code:
                    found.append((row, Price(False, 1.0, 0)))
                    continue
                options = [error["message"] for error in failed.errors if error.get("key", "").startswith("--")]
                if failed.code != UsageError.exit_code or options:  # whatever the corner: said once
                    raise failed.as_error("\n".join(options).replace("--keep-best", "--objective") or failed.said) from failed
                wrong.update({line: None for line in _lines(failed, settings, network, space_file)})
                if len(wrong) >= MOST_TOLD:  # keys that there are not are wrong in every corner
                    break
    if wrong:
        more = [f"{space_file}: and {len(wrong) - MOST_TOLD} more"] if len(wrong) > MOST_TOLD else []
        raise UsageError("\n".join([*list(wrong)[:MOST_TOLD], *more]))
    if not any(price.fits for _, price in found):
        raise DeviceError(f"{space_file}: none of {len(found)} corners of the space fits into the memory of the planned machine; give "
                          f"smaller networks, or another --machine")
    return found


def _lines(failed: Failed, settings: dict, network: dict, space_file: str) -> list[str]:
    text = JsonText(space_file)
    by_key = {descriptor.key_of(network, path).casefold(): path for path in settings}
    lines = []
    for error in failed.errors:
        key = error.get("key", "").casefold()
        path = by_key.get(key) or next((by_key[k] for k in by_key if key and (k.startswith(key + ".") or key.startswith(k + "."))), None)
        if path is None:
            said = ", ".join(f"{p} {v!r}" for p, v in settings.items())
            lines.append(f"{space_file}: the trainer refuses {said}: {error['message']}")
        else:
            lines.append(f"{space_file}:{text.line(path)}: {path} {settings[path]!r}: {error['message']}")
    return lines or [f"{space_file}: the trainer refuses a corner of the space: {failed.said}"]
