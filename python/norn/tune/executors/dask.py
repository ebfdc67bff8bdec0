# SPDX-License-Identifier: Apache-2.0
"""Trials as tasks of Dask. Each worker has one thread, and GPUs as a resource:

  CUDA_VISIBLE_DEVICES=3 dask worker tcp://scheduler:8786 --nthreads 1 --resources GPU=1 --no-nanny

A task gives nothing back: Dask computes again what a dead worker had finished, and that finds that its attempt has begun."""
import subprocess

import distributed

from ...errors import CommunicationError
from . import GONE, WAITING, Attempt, command_of

SECONDS = 10


class Dask:
    def __init__(self, settings: dict):
        self._address, self._gpus = settings["Scheduler"], settings["Gpus"]
        self._client: distributed.Client | None = None
        self._futures: dict[str, distributed.Future] = {}

    def _connected(self) -> distributed.Client:
        if self._client is None:
            try:
                self._client = distributed.Client(self._address, timeout=SECONDS, set_as_default=False)
            except (OSError, ValueError) as error:
                raise CommunicationError(f"{self._address}: Dask's scheduler cannot be reached: {str(error).splitlines()[0]}; start it "
                                         f"(dask scheduler), or correct Scheduler in --executor-file") from error
        return self._client

    def check(self) -> str:
        return f"{self._address}, workers: {len(self._connected().scheduler_info()['workers'])}"

    def submit(self, attempt: Attempt) -> str:
        resources = {"GPU": self._gpus} if self._gpus else None
        # A function of Python's own: workers need nothing of the tuner to know it.
        self._futures[attempt.name] = self._connected().submit(
            subprocess.call, command_of(attempt.folder, attempt.number), stdin=subprocess.DEVNULL, key=attempt.name, resources=resources,
            pure=False, retries=0)
        return attempt.name

    def poll(self, handles: list[str]) -> dict[str, str]:
        return {handle: WAITING if handle in self._futures and self._futures[handle].status == "pending" else GONE for handle in handles}

    def stop(self, handle: str) -> None:
        future = self._futures.pop(handle, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        if self._client is not None:
            self._client.close(timeout=SECONDS)
