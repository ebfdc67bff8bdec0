#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NetCDF files without Norn's seal are read by a process of their own: what a damaged one does to that is an error of the file."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

import netCDF4
import numpy as np

from programs import BIN, ProgramTest
from rank_runs import process_lives

MUTANTS = 60
PATIENCE_SECONDS = 60
READER = "norn_netcdf_reader"
PROGRAM = BIN.parent / "libexec/norn" / READER
READER_SOCKET = 3  # its end of it
NO_END = "reading it comes to no end, it computes for longer than a file of its size takes"


def readers_of(parent):
    """The reading processes of a program."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        state, its_parent = rest.split()[:2]
        if READER.startswith(name) and int(its_parent) == parent and state != "Z":
            found.append(int(status.parent.name))
    return found


class FilesReadApart(ProgramTest):
    def spoil(self, data):
        data = bytearray(data)
        how = self.random.choice(("flip", "flip", "flip", "splice", "cut", "zeros"))
        at = self.random.randrange(len(data))
        if how == "flip":
            for _ in range(self.random.choice((1, 2, 8))):
                data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        elif how == "splice":
            data[at:at] = data[:self.random.randrange(1, 512)]
        elif how == "cut":
            del data[at:]
        else:
            data[at:at + 64] = bytes(len(data[at:at + 64]))
        return bytes(data)

    def test_no_damaged_file_ends_a_program(self):
        self.train("-e", "1")
        with netCDF4.Dataset(self.path("test.nc"), "a") as file:  # many items stand in trees of their own
            file.setncatts({f"more{i}": "x" * self.random.randrange(1, 40) for i in range(20)})
        whole = self.read("test.nc")
        # Memory that was not set is no accident then but the same each time, and never zero.
        environment = {**os.environ, "MALLOC_PERTURB_": "165"}
        for number in range(MUTANTS):
            self.path("spoilt.nc").write_bytes(self.spoil(whole))
            done = self.run_program("evaluator", "-n", "model.nc", "-i", "spoilt.nc", "-k", "5", "--threads", "1", env=environment)
            with self.subTest(mutant=number, said=done.stderr):
                self.assertIn(done.returncode, (0, 2, 3))
                if done.returncode == 3:
                    self.assertIn("evaluator: error: spoilt.nc", done.stderr)

    def test_a_small_file_that_is_read_for_ever_is_refused_after_seconds(self):
        """HDF5 goes over a heap of the file item by item, and never on from one of no bytes."""
        self.train("-e", "1")
        data, at = bytearray(self.read("test.nc")), -1
        while (at := data.find(b"GCOL", at + 1)) >= 0:
            end, item = at + int.from_bytes(data[at + 8:at + 16], "little"), at + 16
            while item < end and int.from_bytes(data[item:item + 2], "little") != 0:
                item += 16 + -(-int.from_bytes(data[item + 8:item + 16], "little") // 8) * 8
            data[item + 8:item + 16] = bytes(8)  # the free room at the end
        self.path("endless.nc").write_bytes(data)
        self.fail_with(3, f"endless.nc: cannot read as a NetCDF file: {NO_END}", "evaluator", "-n", "model.nc", "-i", "endless.nc", "-k",
                       "5",
                       "--threads", "1")

    def start_to_stream(self):
        """A run that reads on and on, an epoch after its start, and its readers."""
        with open(self.path("epochs.txt"), "w") as out:
            process = subprocess.Popen([BIN / "trainer", "-c", "net.json", "-i", "train.nc", "-n", "long.nc", "-e", "100000", "--force",
                                        "--threads", "1", "--data-memory", "0"], cwd=self.folder, stdout=out, stderr=subprocess.PIPE,
                                       text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and not self.read("epochs.txt") and time.monotonic() < end:
            time.sleep(0.02)
        return process, readers_of(process.pid)

    def test_the_end_of_a_reader_is_an_error_of_its_file(self):
        for number, problem in ((signal.SIGSEGV, "the HDF5 library crashes on it (Segmentation fault)"),
                                (signal.SIGABRT, "the HDF5 library crashes on it (Aborted)"),
                                (signal.SIGXCPU, NO_END),
                                (signal.SIGKILL, "its reader was killed, perhaps for want of memory")):
            with self.subTest(number=number):
                process, readers = self.start_to_stream()
                self.assertEqual(len(readers), 2)  # an input and a target
                os.kill(self.random.choice(readers), number)
                _, said = process.communicate(timeout=PATIENCE_SECONDS)
                self.assertEqual(process.returncode, 3, said)
                self.assertRegex(said, r"trainer: error: train.nc: cannot read variable \"\w+\": ")
                self.assertIn(f"{problem}; the file may be damaged or of another kind, write it again", said)

    def test_readers_leave_signals_to_the_program_and_end_with_it(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, readers = self.start_to_stream()
            for reader in readers:  # as a terminal and a job's end send them to all processes
                os.kill(reader, number)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)
            self.assertEqual(process.returncode, 75, process.stderr.read())
        for number, state in ((signal.SIGKILL, signal.SIGCONT), (signal.SIGKILL, signal.SIGSTOP), (signal.SIGTERM, signal.SIGCONT)):
            with self.subTest(number=number, state=state):
                process, readers = self.start_to_stream()
                if state == signal.SIGSTOP:  # as one that waits for what never comes
                    process.send_signal(signal.SIGSTOP)
                    for reader in readers:
                        os.kill(reader, signal.SIGSTOP)
                process.send_signal(number)
                process.wait(PATIENCE_SECONDS)
                end = time.monotonic() + PATIENCE_SECONDS
                while any(map(process_lives, readers)) and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertFalse(list(filter(process_lives, readers)))

    def confinement(self):
        said = subprocess.run([PROGRAM, "--confinement"], capture_output=True, text=True, check=True).stdout
        return dict(part.split() for part in said.strip().split(", "))

    def test_readers_are_under_a_filter_of_system_calls(self):
        if self.confinement()["seccomp"] == "no":
            self.skipTest("this kernel has no such filters")
        process, readers = self.start_to_stream()
        self.assertTrue(readers)
        for reader in readers:
            status = dict(line.split(":\t") for line in pathlib.Path(f"/proc/{reader}/status").read_text().splitlines())
            self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"))

    def test_a_reader_opens_its_file_and_never_another(self):
        """Spoken to as a program speaks to it; the second file is one that it was given itself."""
        if set(self.confinement().values()) == {"no"}:
            self.skipTest("this kernel confines nothing")
        here, there = socket.socketpair()
        self.addCleanup(here.close)

        def give_socket():
            os.dup2(there.fileno(), READER_SOCKET)
            os.set_inheritable(READER_SOCKET, True)
        reader = subprocess.Popen([PROGRAM], stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=give_socket)
        there.close()
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        here.settimeout(PATIENCE_SECONDS)
        for name, expected in (("test.nc", ""), ("train.nc", "Permission denied")):
            path = os.fsencode(self.path(name))
            request = bytes([0]) + len(path).to_bytes(8, "little") + path  # Request::open
            here.sendall(len(request).to_bytes(8, "little") + request)
            with open(path, "rb") as file:
                socket.send_fds(here, [b"x"], [file.fileno()])
            reply = here.recv(int.from_bytes(here.recv(8, socket.MSG_WAITALL), "little"), socket.MSG_WAITALL)
            done, said = reply[0] == 1, reply[9:].decode()
            with self.subTest(name=name, said=said):
                self.assertEqual(done, not expected)

    def test_what_takes_the_name_of_a_file_meanwhile_is_not_read(self):
        process, readers = self.start_to_stream()
        self.path("other.nc").write_bytes(b"no data at all")
        os.replace(self.path("other.nc"), self.path("train.nc"))
        before = len(self.read("epochs.txt"))
        end = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and len(self.read("epochs.txt")) < 4 * before and time.monotonic() < end:
            time.sleep(0.02)
        self.assertIsNone(process.poll())

    def test_compressed_and_chunked_files_give_the_same_model(self):
        with netCDF4.Dataset(self.path("train.nc")) as old, netCDF4.Dataset(self.path("packed.nc"), "w") as new:
            new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
            for name, dimension in old.dimensions.items():
                new.createDimension(name, len(dimension))
            for name, variable in old.variables.items():
                new.createVariable(name, variable.dtype, variable.dimensions, zlib=True, shuffle=True, fletcher32=True,
                                   chunksizes=(self.random.randrange(3, 60),))[:] = np.array(variable[:])
        self.train("-e", "2", "--threads", "1")
        self.succeed("trainer", "-c", "net.json", "-i", "packed.nc", "-n", "packed_model.nc", "-e", "2", "--threads", "1")
        for name in ("weight0_weights", "weight1_weights"):
            with netCDF4.Dataset(self.path("model.nc")) as a, netCDF4.Dataset(self.path("packed_model.nc")) as b:
                np.testing.assert_array_equal(a[name][:], b[name][:])

    def test_only_files_without_a_seal_need_the_reader(self):
        self.write("rows.txt", "".join(f"e{i}\t{':'.join(f'f{u}' for u in row)}\n" for i, row in enumerate(self.rows)))
        self.succeed("importer", "--input", "rows.txt", "--name", "gl", "--output", "sealed.nc", "--features", "f.txt")
        shutil.copytree(BIN.parent / "lib", self.path("moved/lib"), symlinks=True)
        self.path("moved/bin").mkdir()
        shutil.copy(BIN / "trainer", self.path("moved/bin"))

        def train(data):
            return subprocess.run([self.path("moved/bin/trainer"), "-c", "net.json", "-i", data, "-n", data + ".model", "-e", "1"],
                                  cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                                  env={**os.environ, "LD_LIBRARY_PATH": str(self.path("moved/lib"))})
        self.assertEqual(train("sealed.nc").returncode, 0)
        done = train("train.nc")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(f"trainer: error: libexec/norn/{READER}: is in no folder above {self.path('moved/bin/trainer').resolve()}, but files "
                      "without a seal are read with it; install Norn anew, as a whole (docs/user/building.md)", done.stderr)
        self.path("moved/libexec/norn").mkdir(parents=True)
        self.path(f"moved/libexec/norn/{READER}").touch(mode=0o644)
        done = train("train.nc")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(f"trainer: error: {READER} could not be started: Permission denied; check its permissions, end other programs, or "
                      "raise the limits of processes and files (ulimit -u and -n, or the job's)", done.stderr)


if __name__ == "__main__":
    unittest.main()
