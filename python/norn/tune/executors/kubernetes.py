# SPDX-License-Identifier: Apache-2.0
"""Trials as manifests of Kubernetes' jobs, STUDY/jobs/ATTEMPT.json, for somebody else to apply:

  while sleep 5; do kubectl apply -f studies/first/jobs; done

The tuner asks no cluster: it writes, and looks into the trials' folders."""
import pathlib

from ..._files import write_json
from . import GONE, WAITING, Attempt, command_of

STOP_SECONDS = 120
KEPT_SECONDS = 86400


class Kubernetes:
    def __init__(self, settings: dict):
        self._settings = settings
        self._written: dict[str, pathlib.Path] = {}

    def check(self) -> str:
        return "manifests of jobs are written, and no cluster is asked"

    def submit(self, attempt: Attempt) -> str:
        folder = attempt.folder.parents[1] / "jobs"
        folder.mkdir(exist_ok=True)
        self._written[attempt.name] = folder / f"{attempt.name}.json"
        write_json(self._written[attempt.name], self._manifest(attempt))
        return attempt.name

    def _manifest(self, attempt: Attempt) -> dict:
        one = self._settings
        limits = {"cpu": str(one.ranks * (one["Cpus"] or 1))}
        limits.update({"nvidia.com/gpu": str(one["Gpus"])} if one["Gpus"] else {})
        limits.update({"memory": f"{round(1024 * one['MemoryGiB'])}Mi"} if one["MemoryGiB"] else {})
        container = {"name": "trial", "image": one["Image"], "command": ["python3", *command_of(attempt.folder, attempt.number)[1:]],
                     "workingDir": str(attempt.folder), "resources": {"limits": limits},
                     "volumeMounts": [{"name": "study", "mountPath": one["Mount"]}]}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": STOP_SECONDS, "containers": [container],
               "volumes": [{"name": "study", "persistentVolumeClaim": {"claimName": one["Claim"]}}]}
        return {"apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": attempt.name, "namespace": one["Namespace"], "labels": {"app": "norn-tuner"}},
                "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": KEPT_SECONDS, "template": {"spec": pod}}}

    def poll(self, handles: list[str]) -> dict[str, str]:
        for name in self._written.keys() - set(handles):  # it has begun; applied again it would only end
            self.stop(name)
        return {handle: WAITING if handle in self._written else GONE for handle in handles}

    def stop(self, handle: str) -> None:
        path = self._written.pop(handle, None)
        if path is not None:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        for path in self._written.values():
            path.unlink(missing_ok=True)
