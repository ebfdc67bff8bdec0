#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), where somebody applies manifests of Kubernetes' jobs. There is no cluster here: the
commands of manifests are run as processes, each on a GPU of its own."""
import json
import os
import subprocess
import threading
import time
import unittest

import executors_body


class Applier(threading.Thread):
    """Runs each manifest of a folder once, as many at a time as there are GPUs."""

    def __init__(self, folder, gpus, environment):
        super().__init__(daemon=True)
        self.folder, self.environment = folder, environment
        self.free, self.running, self.applied, self.over = list(gpus), {}, {}, threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            for gpu, process in list(self.running.items()):
                if process.poll() is not None:
                    del self.running[gpu]
                    self.free.append(gpu)
            for path in sorted(self.folder.glob("*/jobs/norn-*.json")):
                if self.free and path.name not in self.applied:
                    self.apply(path)

    def apply(self, path):
        try:
            manifest = json.loads(path.read_text())
        except FileNotFoundError:
            return  # taken back
        self.applied[path.name] = manifest
        container = manifest["spec"]["template"]["spec"]["containers"][0]
        gpu = self.free.pop(0)
        self.running[gpu] = subprocess.Popen(container["command"], cwd=container["workingDir"], stdin=subprocess.DEVNULL,
                                             env={**os.environ, **self.environment, "CUDA_VISIBLE_DEVICES": gpu})


class KubernetesTest(executors_body.ExecutorTest):
    executor = "kubernetes"
    there = r"manifests of jobs are written, and no cluster is asked"
    tells = False
    test_kills_change_nothing = None

    @classmethod
    def start_servers(cls):
        return {"Gpus": 1, "Image": "registry/norn:1", "Claim": "studies", "Mount": "/studies", "MemoryGiB": 0.5, "StartSeconds": 12}

    def setUp(self):
        super().setUp()
        self.applier = Applier(self.folder, self.gpus, self.environment)
        self.applier.start()
        self.addCleanup(self.applier.join)
        self.addCleanup(self.applier.over.set)

    def lose(self, name):
        manifest = self.path("six/jobs") / f"{name}.json"
        end = time.monotonic() + 60
        while not manifest.exists() and time.monotonic() < end:  # the journal has it first
            time.sleep(0.01)
        manifest.unlink()

    def test_six_trials(self):
        super().test_six_trials()
        self.assertEqual(list(self.path("six/jobs").iterdir()), [])
        manifest = self.applier.applied[f"{self.name('six', 0, 0)}.json"]
        pod = manifest["spec"]["template"]["spec"]
        self.assertEqual((manifest["apiVersion"], manifest["kind"], manifest["metadata"]["namespace"]), ("batch/v1", "Job", "default"))
        self.assertEqual((manifest["spec"]["backoffLimit"], pod["restartPolicy"], pod["terminationGracePeriodSeconds"]), (0, "Never", 120))
        self.assertEqual(pod["containers"][0]["resources"]["limits"], {"cpu": "1", "nvidia.com/gpu": "1", "memory": "512Mi"})
        self.assertEqual(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "studies")
        self.assertEqual((pod["containers"][0]["image"], pod["containers"][0]["volumeMounts"][0]["mountPath"]),
                         ("registry/norn:1", "/studies"))


if __name__ == "__main__":
    unittest.main()
