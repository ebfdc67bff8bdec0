# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster of one node on this machine: its own munged, slurmctld and slurmd, all files in one folder."""
import ctypes
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import time

START_SECONDS = 60
DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "srun", "scontrol", "scancel", "sinfo", "squeue")

# Without control groups, so that it runs in a container too.
CONFIG = """ClusterName=norntest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
JobRequeue=1
KillWait=20
NodeName={host} NodeAddr=127.0.0.1 CPUs=4{gres} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Unavailable(Exception):
    """Slurm, or another queue, cannot run here, for the reason given."""


def not_ready(reason):
    """What is raised where a queue is installed and does not start: a reason to skip its tests, but in CI, which installs it for them."""
    return AssertionError(reason) if os.environ.get("CI") == "true" else Unavailable(reason)


def end_with_parent():
    """A test that is killed takes its daemons with it."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def find_program(name):
    """Daemons lie in sbin, which is not on every user's path."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class SlurmCluster:
    """Starts in its constructor, and raises Unavailable where that cannot be; stop() ends all of it. `gpus`: so many pretended ones,
    which jobs get by their numbers in CUDA_VISIBLE_DEVICES."""

    def __init__(self, folder, gpus=0):
        missing = [name for name in DAEMONS + COMMANDS if find_program(name) is None]
        if missing:
            raise Unavailable(f"{', '.join(missing)} not installed: tools/install_dependencies.sh --cluster-tests")
        if os.geteuid() != 0:
            raise Unavailable("slurmd needs the superuser")
        self.folder = pathlib.Path(folder)  # a short path: a socket's name has at most 108 characters
        self.processes = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(CONFIG.format(
            host=host, folder=self.folder, user=pwd.getpwuid(os.geteuid()).pw_name, ctld_port=free_port(), slurmd_port=free_port(),
            gres=f" Gres=gpu:{gpus}" if gpus else "") + ("GresTypes=gpu\n" if gpus else ""))
        if gpus:
            self._pretend_gpus(host, gpus)
        try:
            self._start()
        except Exception:
            self.stop()
            raise

    def _pretend_gpus(self, host, gpus):
        devices = self.folder / "dev"
        devices.mkdir()
        for number in range(gpus):
            os.mknod(devices / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # /dev/null by another name
        (self.folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File={devices}/gpu[0-{gpus - 1}]\n")
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def _start(self):
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = [f"--{kind}={self.folder}/munge.{kind.split('-')[0]}" for kind in
                 ("key-file", "socket", "pid-file", "log-file", "seed-file")]
        self._daemon("munged", "--foreground", "--force", "--num-threads=2", *files)
        self._wait("munged", lambda: (self.folder / "munge.socket").exists())
        self._daemon("slurmctld", "-D")
        self._wait("slurmctld", lambda: self.call("scontrol", "ping").returncode == 0)
        self._daemon("slurmd", "-D")
        self._wait("slurmd", lambda: self.call("sinfo", "-h", "-o", "%T").stdout.strip() == "idle")

    def _daemon(self, name, *arguments):
        with open(self.folder / f"{name}.out", "w") as out:
            self.processes.append((name, subprocess.Popen(
                [find_program(name), *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self.folder, env=self.environment, start_new_session=True, preexec_fn=end_with_parent)))

    def _wait(self, name, ready):
        end = time.monotonic() + START_SECONDS
        while not ready():
            ended = self.processes[-1][1].poll() is not None
            if ended or time.monotonic() > end:
                raise not_ready(f"{name} {'ended at once' if ended else 'is not ready'}: {self.last_words(name)}")
            time.sleep(0.1)

    def last_words(self, name):
        text = "".join((self.folder / f"{name}.{kind}").read_text(errors="replace") for kind in ("out", "log")
                       if (self.folder / f"{name}.{kind}").exists())
        return " | ".join(text.splitlines()[-4:])

    def call(self, program, *arguments, **more):
        """A command of Slurm's, in this cluster."""
        more = {"capture_output": True, "text": True, "timeout": 60, "env": self.environment, **more}
        return subprocess.run([program, *map(str, arguments)], **more)

    def job(self, number):
        """What scontrol knows of a job: {"JobState": ..., ...}."""
        words = self.call("scontrol", "show", "job", "-o", number).stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def stop(self):
        if len(self.processes) == len(DAEMONS):  # slurmd leaves steps behind when it ends
            self.call("scancel", "--full", "--signal=KILL", "--state=RUNNING")
            end = time.monotonic() + 10
            while self.call("squeue", "-h", "-t", "RUNNING,COMPLETING").stdout.strip() and time.monotonic() < end:
                time.sleep(0.1)
        for _, process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []
