# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's records of hyperparameters, in the folders of the trials' runs: its tab HParams then stands beside the curves that the
trainer writes there. TensorFlow is not needed."""
import pathlib
import time
from typing import Any

from ..facts import Facts, Training
from ..study import Study
from .table import plain

SUFFIX = ".hparams"  # of the files, beside those of the trainer
TAG = "tuner/{}"     # of the objective, whatever the trainer writes itself
STATES = {"done": "STATUS_SUCCESS", "halved": "STATUS_SUCCESS", "diverged": "STATUS_FAILURE", "infeasible": "STATUS_FAILURE",
          "failed": "STATUS_FAILURE"}


def write(study: Study, facts: Facts, folder: pathlib.Path) -> str:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import summary_v2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    told = {event["trial"]: event for event in facts.decided["tell"]}
    written = 0
    for event in facts.decided["propose"]:
        training = Training(event["trial"])
        run = study.trial_folder(training.folder) / "run"
        if not run.is_dir() or training in facts.open:
            continue  # TensorBoard would look no more at what the trainer goes on writing
        _remove(run)
        writer, end = EventFileWriter(str(run), filename_suffix=SUFFIX), told.get(event["trial"])
        settings = {path: plain(value) for path, value in event["settings"].items()}
        writer.add_event(Event(wall_time=time.time(),
                               summary=summary_v2.hparams_pb(settings, trial_id=f"{study.folder.name}/{training.folder}")))
        best = None
        for epoch, value in sorted(facts.values.get(training, {}).items()):
            best = value if best is None else max(best, value)
            summary = Summary(value=[Summary.Value(tag=TAG.format(study.objective), simple_value=study.shown(best))])
            writer.add_event(Event(wall_time=time.time(), step=epoch, summary=summary))
        if end is not None:
            writer.add_event(Event(wall_time=time.time(), summary=_ended(end["state"])))
        writer.close()
        written += 1
    return f"{study.folder / 'trials'}: {written} trials; tensorboard --logdir {study.folder / 'trials'}"


def _remove(run: pathlib.Path) -> None:
    for old in run.glob(f"events.out.tfevents.*{SUFFIX}"):
        old.unlink(missing_ok=True)


def _ended(state: str) -> Any:
    """The record that ends a session. Tensorboard's own function for it needs TensorFlow."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
    info = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value(STATES.get(state, "STATUS_UNKNOWN")), end_time_secs=time.time())
    about = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=info))
    return Summary(value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=about, tensor=metadata.NULL_TENSOR)])
