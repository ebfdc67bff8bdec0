# SPDX-License-Identifier: Apache-2.0
"""The trainer on two hosts: two network namespaces with a cable between them, which is pulled in mid-training."""
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

from programs import BIN, ProgramTest

HOSTS = {"a": "10.213.77.1", "b": "10.213.77.2"}
NETWORK = "10.213.77.0/24"
LIMIT_SECONDS = 60

# What ssh does between real hosts: a shell on the host that is named first. Each has a host name of its own, because Open
# MPI takes equal names for one host.
AGENT = """#!/bin/sh
case $1 in {cases} *) echo "no host $1" >&2; exit 1 ;; esac
shift
exec ip netns exec "$space" unshare --uts sh -c "hostname $space; $*"
"""

# mpirun misses a host that says nothing for 2 + 3 * 1 seconds; its default is eight minutes.
KEEPALIVE = ("--mca", "oob_tcp_keepalive_time", "2", "--mca", "oob_tcp_keepalive_intvl", "1",
             "--mca", "oob_tcp_keepalive_probes", "3")


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def why_not():
    """The reason why two hosts cannot be made here, or None."""
    missing = [name for name in ("ip", "mpirun", "unshare", "hostname") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    if os.geteuid() != 0:
        return "only the superuser makes network namespaces"
    done = subprocess.run(["unshare", "--uts", "--net", "true"], capture_output=True, text=True)
    return f"namespaces cannot be made: {done.stderr.strip()}" if done.returncode != 0 else None


class TwoHosts(ProgramTest):
    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason is not None:
            print(f"SKIPPED: two hosts cannot run here: {reason}", file=sys.stderr)
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        self.space = {host: f"norn{os.getpid()}{host}" for host in HOSTS}
        try:
            self.lay_cable()
        except subprocess.CalledProcessError as error:
            print(f"SKIPPED: two hosts cannot run here: {error.stderr.strip()}", file=sys.stderr)
            self.skipTest(error.stderr.strip())
        cases = " ".join(f"{address}) space={self.space[host]} ;;" for host, address in HOSTS.items())
        self.write("agent", AGENT.format(cases=cases)).chmod(0o755)

    def lay_cable(self):
        for space in self.space.values():
            ip("netns", "add", space)
            self.addCleanup(ip, "netns", "del", space)
            self.addCleanup(self.end_processes, space)
        ip("link", "add", "cable", "netns", self.space["a"], "type", "veth", "peer", "name", "cable", "netns",
           self.space["b"])
        for host, address in HOSTS.items():
            ip("-n", self.space[host], "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                ip("-n", self.space[host], "link", "set", link, "up")

    @staticmethod
    def processes_on(space):
        return [int(number) for number in ip("netns", "pids", space).stdout.split()]

    def end_processes(self, space):
        for process in self.processes_on(space):
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                pass

    def start(self, *arguments):
        """mpirun on host a, two ranks on each."""
        hosts = ",".join(f"{address}:2" for address in HOSTS.values())
        command = ["ip", "netns", "exec", self.space["a"], "unshare", "--uts", "sh", "-c",
                   f'hostname {self.space["a"]}; exec "$@"', "sh", shutil.which("mpirun"), "--allow-run-as-root",
                   "--oversubscribe", "-np", "4", "--host", hosts, "--mca", "plm_rsh_agent", str(self.path("agent")),
                   "--mca", "btl_tcp_if_include", NETWORK, "--mca", "oob_tcp_if_include", NETWORK, *KEEPALIVE,
                   str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "--threads", "1", *map(str, arguments)]
        self.out = open(self.path("out.txt"), "w")
        self.addCleanup(self.out.close)
        return subprocess.Popen(command, cwd=self.folder, stdout=self.out, stderr=subprocess.STDOUT)

    def said(self):
        return "\n".join(self.path("out.txt").read_text().splitlines()[-30:])

    def test_ranks_on_two_hosts_give_the_bits_of_one_process(self):
        self.train("--threads", "1", model="alone.nc")
        self.assertEqual(self.start("-n", "hosts.nc").wait(timeout=LIMIT_SECONDS), 0, self.said())
        self.assertIn("MPI, 4 ranks", self.said())
        self.assertEqual(self.read("hosts.nc"), self.read("alone.nc"))

    def test_a_pulled_cable_ends_the_job_and_its_checkpoint_serves_one_process(self):
        job = self.start("-n", "cut.nc", "-e", "1000000", "--checkpoint-epochs", "20")
        end = time.monotonic() + LIMIT_SECONDS
        while len(list(self.folder.glob("cut.epoch*.nc"))) < 2:
            self.assertIsNone(job.poll(), self.said())
            self.assertLess(time.monotonic(), end, self.said())
            time.sleep(0.02)
        ranks = len([p for p in self.processes_on(self.space["b"])
                     if os.path.samefile(f"/proc/{p}/exe", BIN / "trainer")])
        self.assertEqual(ranks, 2)
        ip("-n", self.space["a"], "link", "set", "cable", "down")
        self.assertNotEqual(job.wait(timeout=LIMIT_SECONDS), 0, self.said())
        self.assertFalse(self.path("cut.nc").exists())
        while self.processes_on(self.space["b"]):
            self.assertLess(time.monotonic(), end + LIMIT_SECONDS, "ranks of host b have not ended")
            time.sleep(0.02)
        newest = max(int(path.name.split(".")[1][len("epoch"):]) for path in self.folder.glob("cut.epoch*.nc"))
        self.train("-e", newest + 30, "--threads", "1", model="straight.nc")
        self.assertIn("resuming from cut.epoch",
                      self.train("-e", newest + 30, "--threads", "1", "--resume", model="cut.nc").stderr)
        self.assertEqual(self.read("cut.nc"), self.read("straight.nc"))


if __name__ == "__main__":
    unittest.main()
