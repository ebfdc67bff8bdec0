# SPDX-License-Identifier: Apache-2.0
"""An HTCondor pool of this machine with pretended GPUs, all of it one user's: the superuser may not submit, so in a user namespace
root goes by the name of nobody, and keeps its files."""
import os
import pathlib
import subprocess

from servers import Servers
from slurm_cluster import Unavailable, find_program, free_port

UNPACKED = pathlib.Path(os.environ.get("NORN_HTCONDOR", "/opt/norn-htcondor"))  # tools/dev/unpack_htcondor.sh
# Without namespaces of its own, so that it runs in a container too; short cycles.
CONFIG = """{release}
LOCAL_DIR = {folder}
LOG = $(LOCAL_DIR)/log
SPOOL = $(LOCAL_DIR)/spool
EXECUTE = $(LOCAL_DIR)/execute
LOCK = $(LOCAL_DIR)/lock
RUN = $(LOCAL_DIR)/run
SEC_PASSWORD_DIRECTORY = $(LOCAL_DIR)/cred
use ROLE: CentralManager
use ROLE: Submit
use ROLE: Execute
CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:{port}
SHARED_PORT_PORT = {port}
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
SEC_DEFAULT_ENCRYPTION = OPTIONAL
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
use feature: GPUs
GPU_DISCOVERY_EXTRA = -extra -simulate:1,{gpus}
NUM_CPUS = 8
MEMORY = 8192
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = True
SCHEDD_INTERVAL = 1
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
UPDATE_INTERVAL = 2
RUNBENCHMARKS = 0
STARTER_UPDATE_INTERVAL = 2
MOUNT_UNDER_SCRATCH =
PER_JOB_NAMESPACES = False
USE_PID_NAMESPACES = False
DISCARD_SESSION_KEYRING_ON_STARTUP = False
STARTD_ENFORCE_DISK_LIMITS = False
"""
RELEASE = """RELEASE_DIR = {0}/rel
BIN = $(RELEASE_DIR)/bin
SBIN = $(RELEASE_DIR)/sbin
LIBEXEC = $(RELEASE_DIR)/libexec/condor
LIB = $(RELEASE_DIR)/lib/condor"""
AS_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")


class HtCondorPool(Servers):
    def __init__(self, folder, gpus):
        super().__init__(folder)
        unpacked = (UNPACKED / "ready").exists()
        path = f"{UNPACKED}/rel/bin:{UNPACKED}/rel/sbin:{os.environ['PATH']}" if unpacked else os.environ["PATH"]
        master = UNPACKED / "rel/sbin/condor_master" if unpacked else find_program("condor_master")
        if master is None:
            raise Unavailable("condor_master not installed: tools/dev/unpack_htcondor.sh")
        self.prefix = AS_NOBODY if os.geteuid() == 0 else ()
        if self.prefix and subprocess.run([*self.prefix, "true"], capture_output=True).returncode != 0:
            raise Unavailable("no user namespaces, and the superuser may not submit")
        for name in ("log", "spool", "execute", "lock", "run", "cred"):
            (self.folder / name).mkdir(parents=True)
        self.environment = {"CONDOR_CONFIG": str(self.folder / "condor_config"), "PATH": path}
        release = RELEASE.format(UNPACKED) if unpacked else "RELEASE_DIR = /usr"
        (self.folder / "condor_config").write_text(CONFIG.format(release=release, folder=self.folder, port=free_port(), gpus=gpus))
        try:
            self.start("condor_master", [*self.prefix, master, "-f"], self.environment)
            self.wait("condor_startd", lambda: self.call("condor_status", "-af", "TotalGPUs").stdout.strip() == str(gpus))
        except BaseException:
            self.stop()
            raise

    def call(self, *words):
        return subprocess.run([*self.prefix, *words], capture_output=True, text=True, timeout=60, env={**os.environ, **self.environment})
