# SPDX-License-Identifier: Apache-2.0
"""Queues of this machine for tests: their own daemons with free ports and all files in one folder. They end with the test."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import time

from tuner_case import ROOT
from slurm_cluster import Unavailable, end_with_parent, find_program, free_port, not_ready

START_SECONDS = 180.0  # of a machine that has other work


class Servers:
    """Processes of one queue; those that `keep` names begin again when they are killed, as a machine's init would do it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = {}  # {name: (process, words, environment)}

    def require(self, *programs):
        missing = [name for name in programs if find_program(name) is None]
        if missing:
            raise Unavailable(f"{', '.join(missing)} not installed: tools/install_dependencies.sh --cluster-tests")

    def start(self, name, words, environment=None):
        with open(self.folder / f"{name}.out", "ab") as out:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       env={**os.environ, **(environment or {})}, cwd=self.folder, start_new_session=True,
                                       preexec_fn=end_with_parent)
        self.processes[name] = process, words, environment
        return process

    def keep(self):
        """Starts again what has ended."""
        for name, (process, words, environment) in list(self.processes.items()):
            if process.poll() is not None:
                self.start(name, words, environment)

    def wait(self, what, ready):
        end = time.monotonic() + START_SECONDS
        while not ready():
            dead = [name for name, (process, _, _) in self.processes.items() if process.poll() is not None]
            if dead or time.monotonic() > end:
                raise not_ready(f"{what} is not ready: {', '.join(dead) + ' ended; ' if dead else ''}{self.last_words()}")
            time.sleep(0.1)

    def last_words(self):
        return " | ".join(line for path in sorted(self.folder.glob("*.out")) for line in path.read_text(errors="replace").splitlines()[-3:])

    def stop(self):
        for process, _, _ in self.processes.values():
            process.terminate()
        for process, _, _ in self.processes.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = {}


class CeleryServers(Servers):
    """Workers, one a GPU, and a broker."""

    def __init__(self, folder, gpus, environment):
        super().__init__(folder)
        for module in ("celery", "redis"):
            if importlib.util.find_spec(module) is None:
                raise Unavailable(f"Python's {module} not installed: tools/install_dependencies.sh --cluster-tests")
        try:
            self.broker = self.start_broker()
            for number, gpu in enumerate(gpus):
                self.start(f"worker{number}", [sys.executable, "-m", "celery", "-A", "norn.tune.executors.celery", "-b", self.broker,
                                               "worker", "-P", "prefork",
                                               "-c", "1", "-Q", "norn", "-n", f"gpu{number}@localhost", "-l", "INFO"],
                           {**environment, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": gpu})
            outs = [self.folder / f"worker{number}.out" for number in range(len(gpus))]
            self.wait("a worker", lambda: all(" ready." in out.read_text() for out in outs))
        except BaseException:
            self.stop()
            raise

    def start_broker(self):
        self.require("redis-server", "redis-cli")
        port = free_port()
        self.start("redis", [find_program("redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        self.wait("redis-server", lambda: subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).stdout == b"PONG\n")
        return f"redis://127.0.0.1:{port}/0"


class RabbitServers(CeleryServers):
    """The same workers with the other broker."""

    def start_broker(self):
        server = pathlib.Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one in PATH changes its user
        if not server.exists():
            raise Unavailable("rabbitmq-server not installed: tools/install_dependencies.sh --cluster-tests")
        port, names = free_port(), free_port()
        (self.folder / "rabbitmq.conf").write_text(f"listeners.tcp.default = 127.0.0.1:{port}\n")
        environment = {"RABBITMQ_NODENAME": f"norn{port}@localhost", "RABBITMQ_MNESIA_BASE": str(self.folder),
                       "RABBITMQ_LOG_BASE": str(self.folder),
                       "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"), "RABBITMQ_DIST_PORT": str(free_port()),
                       "HOME": str(self.folder),
                       "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"), "ERL_EPMD_ADDRESS": "127.0.0.1",
                       "ERL_EPMD_PORT": str(names)}
        # Erlang would start one that stays behind.
        self.start("epmd", [find_program("epmd"), "-address", "127.0.0.1", "-port", names])
        self.start("rabbitmq", [server], environment)
        self.wait("rabbitmq-server", lambda: b"completed with" in (self.folder / "rabbitmq.out").read_bytes())
        return f"amqp://guest:guest@127.0.0.1:{port}//"


class DaskServers(Servers):
    """A scheduler, and workers, one a GPU."""

    def __init__(self, folder, gpus, environment):
        super().__init__(folder)
        if importlib.util.find_spec("distributed") is None:
            raise Unavailable("Python's distributed not installed: tools/install_dependencies.sh --cluster-tests")
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        dask = [sys.executable, "-m"]
        try:
            self.start("scheduler", [*dask, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"])
            self.wait("the scheduler", lambda: "Scheduler at" in (self.folder / "scheduler.out").read_text())
            for number, gpu in enumerate(gpus):
                self.start(f"worker{number}", [*dask, "distributed.cli.dask_worker", self.address, "--nthreads", "1", "--resources",
                                               "GPU=1", "--no-nanny",
                                               "--no-dashboard", "--local-directory", self.folder],
                                               {**environment, "CUDA_VISIBLE_DEVICES": gpu})
            self.wait("a worker", lambda: "Registered to" in self.last_words())
        except BaseException:
            self.stop()
            raise
