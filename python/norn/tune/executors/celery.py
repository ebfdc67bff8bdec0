# SPDX-License-Identifier: Apache-2.0
"""Trials as tasks of Celery. Its workers run this module, one process a GPU:

  PYTHONPATH=/usr/share/norn CUDA_VISIBLE_DEVICES=3 celery -A norn.tune.executors.celery -b redis://broker:6379/0 \\
      worker -P prefork -c 1 -Q norn -n gpu3@%h

A task says nothing of its result, so any broker will do. One that the broker has lost is missed after StartSeconds; one that it gives
out twice begins once."""
import os
import subprocess

import celery
import kombu.exceptions

from ...errors import CommunicationError
from . import GONE, WAITING, Attempt, command_of

DAY = 86400
TASK = "norn.trial"

app = celery.Celery("norn", broker=os.environ.get("NORN_BROKER"))
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1, task_ignore_result=True,
                task_serializer="json", accept_content=["json"], broker_connection_retry_on_startup=True,
                broker_transport_options={"visibility_timeout": DAY})  # what is given out again sooner would keep a worker from its own


@app.task(name=TASK)
def trial(folder: str, number: int) -> None:
    """On the worker. Its process has but one thread, so that the trial ends with it."""
    subprocess.call(command_of(folder, number), stdin=subprocess.DEVNULL)


class Celery:
    def __init__(self, settings: dict):
        self._queue = settings["Queue"]
        app.conf.broker_url = settings["Broker"]
        app.conf.broker_transport_options = {**app.conf.broker_transport_options, "max_retries": 1}
        self._stopped: set[str] = set()

    def _unreachable(self, error: Exception) -> CommunicationError:
        return CommunicationError(f"{app.connection().as_uri()}: the broker cannot be reached: {error}; start it, or correct Broker in "
                                  "--executor-file")

    def check(self) -> str:
        try:
            with app.connection(connect_timeout=10) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0.2)
            queues = app.control.inspect(timeout=1.0).active_queues() or {}
        except (kombu.exceptions.OperationalError, OSError) as error:
            raise self._unreachable(error) from error
        workers = [name for name, found in queues.items() if any(one["name"] == self._queue for one in found)]
        return f"{app.connection().as_uri()}, queue {self._queue}, workers that answer: {len(workers)}"

    def submit(self, attempt: Attempt) -> str:
        try:
            app.send_task(TASK, (str(attempt.folder), attempt.number), task_id=attempt.name, queue=self._queue, retry=False)
        except (kombu.exceptions.OperationalError, OSError) as error:
            raise self._unreachable(error) from error
        return attempt.name

    def poll(self, handles: list[str]) -> dict[str, str]:
        return {handle: GONE if handle in self._stopped else WAITING for handle in handles}

    def stop(self, handle: str) -> None:
        self._stopped.add(handle)
        try:
            app.control.revoke(handle)
        except (kombu.exceptions.OperationalError, OSError) as error:
            raise self._unreachable(error) from error

    def close(self) -> None:
        app.close()
