# SPDX-License-Identifier: Apache-2.0
"""A Grid Engine of this machine with pretended GPUs, in namespaces of its own: it takes no host whose name is a loopback address."""
import os
import pathlib
import re
import shutil
import subprocess

from servers import Servers
from slurm_cluster import Unavailable, find_program, not_ready

HOST, ADDRESS = "gridhost", "10.99.0.1"
INSTALLED = pathlib.Path("/var/lib/gridengine")
SHARED = pathlib.Path("/usr/share/gridengine")
ADMIN = "sgeadmin"
# Ends what is left of it when the test's end of its standard input is closed, however the test ended.
HOLDER = f"""set -e
mount --bind "$1/hosts" /etc/hosts
hostname {HOST}
ip link set lo up
ip addr add {ADDRESS}/32 dev lo
echo ready
read -r _ || true
cat "$1"/*.pid | xargs -r kill -9 2> /dev/null"""


def changed(text, **values):
    """A configuration of qconf's with other values for some keys, comments and continued lines joined."""
    text = text.replace("\\\n", " ")
    for key, value in values.items():
        text = re.sub(rf"^{key}\s.*$", f"{key} {value}", text, flags=re.M)
    return text


class GridEngineCell(Servers):
    def __init__(self, folder, gpus):
        super().__init__(folder)
        self.require("sge_qmaster", "sge_execd", "qsub", "qconf", "unshare", "nsenter")
        if os.geteuid() != 0:
            raise Unavailable("only the superuser can start it")
        self.folder.mkdir()
        self.root = self.folder / "root"
        self.environment = {"SGE_ROOT": str(self.root), "SGE_CELL": "default", "SGE_QMASTER_PORT": "6444", "SGE_EXECD_PORT": "6445",
                            "SGE_CLUSTER_NAME": "norn", "SGE_ND": "1"}  # they stay in the foreground
        self._hold()
        try:
            self._write_cell()
            self._daemon("sge_qmaster", lambda: self.call("qconf", "-sss").returncode == 0)
            self._configure(gpus)
            self._daemon("sge_execd", lambda: re.search(rf"^{HOST} +lx", self.call("qhost").stdout, re.M))
        except BaseException:
            self.stop()
            raise

    def _hold(self):
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n")
        self.holder = subprocess.Popen(["unshare", "-n", "-u", "-m", "sh", "-c", HOLDER, "sh", str(self.folder)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            raise Unavailable(f"no namespaces: {self.holder.communicate()[1].strip()}")
        self.prefix = ("nsenter", "-t", str(self.holder.pid), "-n", "-u", "-m", "--wd=.")

    def _write_cell(self):
        common, spool = self.root / "default/common", self.folder / "spool"
        for path in (common, spool / "qmaster/job_scripts", spool / "db", spool / "execd"):
            path.mkdir(parents=True)
        for name in ("bin", "lib", "util", "utilbin"):
            (self.root / name).symlink_to(INSTALLED / name)
        (common / "bootstrap").write_text(changed((SHARED / "default-bootstrap").read_text(), spooling_params=spool / "db",
                                                  qmaster_spool_dir=spool / "qmaster"))
        (common / "act_qmaster").write_text(f"{HOST}\n")
        (common / "configuration").write_text(changed((SHARED / "default-configuration").read_text(), execd_spool_dir=spool / "execd"))
        for path in (self.root, spool):
            for inside in (path, *path.rglob("*")):
                shutil.chown(inside, ADMIN, ADMIN) if not inside.is_symlink() else None
        done = self.call("setpriv", f"--reuid={ADMIN}", f"--regid={ADMIN}", "--init-groups", str(SHARED / "scripts/init_cluster"),
                         str(self.root), "default",
                         str(spool / "db"), ADMIN)
        if done.returncode != 0:
            raise not_ready(f"init_cluster: {(done.stderr or done.stdout).strip()[-300:]}")

    def _configure(self, gpus):
        self.call("setpriv", f"--reuid={ADMIN}", f"--regid={ADMIN}", "--init-groups", "qconf", "-am", "root")
        self.call("qconf", "-as", HOST)
        self._give("-Mconf", changed(self.call("qconf", "-sconf").stdout, execd_spool_dir=self.folder / "spool/execd", min_uid=0, min_gid=0,
                                     load_report_time="00:00:02", gid_range="50000-50200"), "global")
        self._give("-Mc", self.call("qconf", "-sc").stdout + "gpu gpu INT <= YES YES 0 0\n")
        host = f"hostname {HOST}\nload_scaling NONE\ncomplex_values gpu={gpus},slots=8\n" + "".join(
            f"{key} NONE\n" for key in ("user_lists", "xuser_lists", "projects", "xprojects", "usage_scaling", "report_variables"))
        if self._give("-Ae", host).returncode != 0:
            self._give("-Me", host)
        self._give("-Msconf", changed(self.call("qconf", "-ssconf").stdout, schedule_interval="0:0:1", flush_submit_sec=1,
                                      flush_finish_sec=1))
        # Load thresholds would keep jobs from a busy machine.
        queue = changed(self.call("qconf", "-sq").stdout, qname="all.q", load_thresholds="NONE", pe_list="NONE", hostlist=HOST, slots=8,
                        shell="/bin/bash",
                        shell_start_mode="unix_behavior", notify="00:00:10")
        done = self._give("-Aq", queue)
        if done.returncode != 0:
            raise not_ready(f"qconf -Aq: {(done.stderr or done.stdout).strip()}")

    def _give(self, option, text, name="given"):
        path = self.folder / name
        path.write_text(text)
        return self.call("qconf", option, str(path))

    def _daemon(self, name, ready):
        process = self.start(name, [*self.prefix, find_program(name)], self.environment)
        (self.folder / f"{name}.pid").write_text(f"{process.pid}\n")
        self.wait(name, ready)

    def call(self, *words):
        return subprocess.run([*self.prefix, *words], capture_output=True, text=True, timeout=60, env={**os.environ, **self.environment})

    def stop(self):
        for name in ("sge_execd", "sge_qmaster"):
            if name in self.processes:
                self.processes[name][0].terminate()
        super().stop()
        self.holder.communicate("\n")
