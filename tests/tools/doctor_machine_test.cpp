// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of processors, memory, limits, disk and driver on machines made of files.
#include "tests/tools/doctor_cases.h"
#include "tools/doctor/files.h"

#include <fstream>
#include <iterator>

namespace norn::tools {
namespace {

constexpr Health kOk = Health::ok;
constexpr Health kWarning = Health::warning;
constexpr Health kProblem = Health::problem;
constexpr Health kNotChecked = Health::not_checked;
constexpr const char* kWide =
    "model name : X\nflags : fpu avx2 avx512f avx512dq avx512bw avx512vl\n"
    "cpu MHz : 2600.0\n";

void governor(Scene& s, const char* governor, const char* driver) {
  s.file("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", governor)
      .file("sys/devices/system/cpu/cpu1/cpufreq/scaling_driver", driver);
}

void clock_source(Scene& s, const char* name) {
  s.file("sys/devices/system/clocksource/clocksource0/current_clocksource", name);
}

TEST(DoctorOfCpus, ChecksInEveryState) {
  expect_cases(
      cpu_checks(),
      {{"cores", kOk, "4 usable, 4 threads", [](Scene&) {}},
       {"cores", kWarning, "at most 4 threads", [](Scene& s) { s.machine.threads = 8; }},
       {"cores", kWarning, "--threads 2",
        [](Scene& s) {
          s.file("proc/self/cgroup", "0::/job/step\n")
              .file("sys/fs/cgroup/job/cpu.max", "250000 100000")
              .file("sys/fs/cgroup/job/step/cpu.max", "max 100000");
        }},
       {"cores", kWarning, "quota of 1.5",
        [](Scene& s) {
          s.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000")
              .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
        }},
       {"load", kOk, "0.3 running on 4 cores",
        [](Scene& s) { s.file("proc/loadavg", "0.31 0.2 0.1 1/99 5\n"); }},
       {"load", kWarning, "7.0 running",
        [](Scene& s) { s.file("proc/loadavg", "7.00 0.2 0.1 9/99 5\n"); }},
       {"load", kNotChecked, "/proc/loadavg", [](Scene&) {}},
       {"governor", kOk, "performance on 1 cores",
        [](Scene& s) { governor(s, "performance\n", "acpi-cpufreq\n"); }},
       {"governor", kOk, "powersave",
        [](Scene& s) { governor(s, "powersave\n", "intel_pstate\n"); }},
       {"governor", kWarning, "cpupower",
        [](Scene& s) { governor(s, "powersave\n", "acpi-cpufreq\n"); }},
       {"governor", kNotChecked, "virtual machine", [](Scene&) {}},
       {"BLAS kernels", kOk, "Cooperlake",
        [](Scene& s) {
          s.file("proc/cpuinfo", kWide).machine.blas = "OpenBLAS 0.3.21 Cooperlake";
        }},
       {"BLAS kernels", kWarning, "OPENBLAS_CORETYPE is set to Haswell",
        [](Scene& s) {
          s.file("proc/cpuinfo", kWide).machine.blas = "OpenBLAS 0.3.21 Haswell";
          s.variables["OPENBLAS_CORETYPE"] = "Haswell";
        }},
       {"BLAS kernels", kWarning, "OPENBLAS_CORETYPE=Haswell trainer",
        [](Scene& s) {
          s.file("proc/cpuinfo", "flags : fpu avx avx2\n").machine.blas = "OpenBLAS Sandybridge";
        }},
       {"BLAS kernels", kWarning, "OPENBLAS_CORETYPE=SkylakeX trainer",
        [](Scene& s) { s.file("proc/cpuinfo", kWide).machine.blas = "OpenBLAS 0.3.21 Prescott"; }},
       {"BLAS kernels", kNotChecked, "no features", [](Scene&) {}},
       {"dense product", kOk, "140 GFLOP/s",
        [](Scene& s) { s.file("proc/cpuinfo", kWide).machine.core_gigaflops = 140; }},
       {"dense product", kWarning, "2.6 GHz",
        [](Scene& s) { s.file("proc/cpuinfo", kWide).machine.core_gigaflops = 30; }},
       {"dense product", kNotChecked, "not measured", [](Scene&) {}},
       {"clock source", kOk, "kvm-clock", [](Scene& s) { clock_source(s, "kvm-clock\n"); }},
       {"clock source", kWarning, "hpet", [](Scene& s) { clock_source(s, "hpet\n"); }},
       {"clock source", kNotChecked, "not show", [](Scene&) {}}});
}

constexpr const char* kMemory =
    "MemTotal:       16777216 kB\nMemFree: 1 kB\nSwapTotal: 8388608 kB\n"
    "SwapFree: 8388608 kB\n";

void memory(Scene& s, std::int64_t available) {
  s.file("proc/meminfo", kMemory).machine.available_memory = available << 20;
}

TEST(DoctorOfMemory, ChecksInEveryState) {
  constexpr const char* kHuge = "sys/kernel/mm/transparent_hugepage/enabled";
  expect_cases(
      memory_checks(),
      {{"main memory", kOk, "8.0 GiB available of 16.0 GiB", [](Scene& s) { memory(s, 8192); }},
       {"main memory", kWarning, "--plan", [](Scene& s) { memory(s, 1024); }},
       {"main memory", kProblem, "512 MiB", [](Scene& s) { memory(s, 100); }},
       {"main memory", kNotChecked, "meminfo", [](Scene&) {}},
       {"swap", kOk, "0 B in use", [](Scene& s) { memory(s, 1); }},
       {"swap", kWarning, "4.0 GiB in use",
        [](Scene& s) { s.file("proc/meminfo", "SwapTotal: 8388608 kB\nSwapFree: 4194304 kB\n"); }},
       {"swap", kNotChecked, "meminfo", [](Scene&) {}},
       {"shared memory", kOk, "32.0 GiB free", [](Scene&) {}},
       {"shared memory", kWarning, "--shm-size",
        [](Scene& s) {
          s.space = Space{64U << 20, 64U << 20};
        }},
       {"shared memory", kProblem, "4 ranks",
        [](Scene& s) {
          s.space = Space{64U << 20, 64U << 20};
          s.machine.ranks_here = 4;
        }},
       {"shared memory", kNotChecked, "not there", [](Scene& s) { s.space.reset(); }},
       {"huge pages", kOk, "[madvise]",
        [](Scene& s) { s.file(kHuge, "always [madvise] never\n"); }},
       {"huge pages", kWarning, "[never]",
        [](Scene& s) { s.file(kHuge, "always madvise [never]\n"); }},
       {"huge pages", kNotChecked, "not show", [](Scene&) {}},
       {"open files", kOk, "4096", [](Scene& s) { s.limits[RLIMIT_NOFILE] = 4096; }},
       {"open files", kWarning, "ulimit -n", [](Scene& s) { s.limits[RLIMIT_NOFILE] = 256; }},
       {"processes", kOk, "unlimited", [](Scene&) {}},
       {"processes", kWarning, "at least 272", [](Scene& s) { s.limits[RLIMIT_NPROC] = 100; }},
       {"locked memory", kOk, "64.0 KiB", [](Scene& s) { s.limits[RLIMIT_MEMLOCK] = 65536; }},
       {"locked memory", kOk, "unlimited",
        [](Scene& s) { s.file("sys/class/infiniband/mlx5_0/x", ""); }},
       {"locked memory", kWarning, "InfiniBand",
        [](Scene& s) {
          s.file("sys/class/infiniband/mlx5_0/x", "").limits[RLIMIT_MEMLOCK] = 65536;
        }},
       {"address space", kOk, "unlimited", [](Scene&) {}},
       {"address space", kWarning, "ulimit -v",
        [](Scene& s) { s.limits[RLIMIT_AS] = std::uint64_t(1) << 36; }},
       {"address space", kProblem, "with GPUs",
        [](Scene& s) {
          s.gpu();
          s.limits[RLIMIT_AS] = std::uint64_t(1) << 36;
        }},
       {"file size", kOk, "unlimited", [](Scene&) {}},
       {"file size", kWarning, "ulimit -f", [](Scene& s) { s.limits[RLIMIT_FSIZE] = 1 << 30; }},
       {"file readers", kOk, "landlock 1, seccomp yes",
        [](Scene& s) {
          s.machine.confinement = {1, true};
        }},
       {"file readers", kWarning, "landlock 4, seccomp no",
        [](Scene& s) {
          s.machine.confinement = {4, false};
        }},
       {"file readers", kWarning, "Linux 5.13",
        [](Scene& s) { s.machine.confinement.filters = true; }}});
}

void mounts(Scene& s, const char* kind) {
  s.file("proc/self/mountinfo", std::string("21 1 8:1 / / rw - ext4 /dev/sda rw\n"
                                            "22 21 0:1 / /data\\040set rw shared:5 - ") +
                                    kind + " server:/x rw\n23 21 0:2 / /dat rw - vfat y rw\n");
  s.machine.model = "/data set/deep/model.nc";
}

TEST(DoctorOfDisks, ChecksInEveryState) {
  expect_cases(
      disk_checks(),
      {{"file system", kOk, "xfs", [](Scene& s) { mounts(s, "xfs"); }},
       {"file system", kOk, "ext4",
        [](Scene& s) {
          mounts(s, "nfs4");
          s.machine.model = "/data/model.nc";  // beside the mount points whose names are alike
        }},
       {"file system", kWarning, "lost", [](Scene& s) { mounts(s, "tmpfs"); }},
       {"file system", kWarning, "network", [](Scene& s) { mounts(s, "nfs4"); }},
       {"file system", kNotChecked, "--model", [](Scene&) {}},
       {"file system", kNotChecked, "mountinfo", [](Scene& s) { s.machine.model = "/m.nc"; }},
       {"space", kOk, "32.0 GiB free", [](Scene& s) { s.machine.model = "/m.nc"; }},
       {"space", kWarning, "at least 5 GiB",
        [](Scene& s) {
          s.machine.model = "/m.nc";
          s.space = Space{std::uint64_t(64) << 30, std::uint64_t(2) << 30};
        }},
       {"space", kProblem, "at least 256 MiB",
        [](Scene& s) {
          s.machine.model = "/m.nc";
          s.space = Space{std::uint64_t(64) << 30, 2U << 20};
        }},
       {"space", kProblem, "mkdir",
        [](Scene& s) {
          s.machine.model = "/no/such/m.nc";
          s.space.reset();
        }},
       {"space", kNotChecked, "--model", [](Scene&) {}},
       {"write rate", kOk, "500 MB/s written and synced, 2.0 ms a sync",
        [](Scene& s) {
          s.machine.model = "/m.nc";
          s.machine.disk = DiskRate{500, 2, ""};
        }},
       {"write rate", kWarning, "checkpoints are seldom",
        [](Scene& s) {
          s.machine.model = "/m.nc";
          s.machine.disk = DiskRate{500, 200, ""};
        }},
       {"write rate", kProblem, "cannot be written",
        [](Scene& s) {
          s.machine.model = "/m.nc";
          s.machine.disk = DiskRate{0, 0, "/m.nc cannot be written"};
        }},
       {"write rate", kNotChecked, "--model", [](Scene&) {}}});
}

constexpr const char* kModule =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.10.01  Tue\n"
    "GCC version: 12\n";

void card_on_bus(Scene& s) {
  s.file("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n")
      .file("sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
}

void parameters(Scene& s, const std::string& text, const char* flags = "fpu") {
  s.file("proc/driver/nvidia/params", text)
      .file("proc/cpuinfo", std::string("flags : ") + flags + "\n");
}

const std::vector<Case> kDriverCases = {
    {"version", kOk, "580.10.01",
     [](Scene& s) { s.file("proc/driver/nvidia/version", kModule).gpu(); }},
    {"version", kOk, "580.10.01", [](Scene& s) { s.gpu(); }},
    {"version", kProblem, "restart the machine",
     [](Scene& s) {
       s.file("proc/driver/nvidia/version", kModule).gpu();
       s.machine.driver.mismatch = true;
     }},
    {"version", kProblem, "kernel module 580.10.01, libraries 570.1",
     [](Scene& s) {
       s.file("proc/driver/nvidia/version", kModule).gpu();
       s.machine.driver.version = "570.1";
     }},
    {"version", kProblem, "modprobe nvidia",
     [](Scene& s) {
       card_on_bus(s);
       s.machine.driver.error = "libnvidia-ml.so.1 is not there";
     }},
    {"version", kWarning, "NVIDIA_DRIVER_CAPABILITIES",
     [](Scene& s) {
       s.file("proc/driver/nvidia/version", kModule);
       card_on_bus(s);
       s.machine.driver.error = "libnvidia-ml.so.1 is not there";
     }},
    {"version", kNotChecked, "no NVIDIA GPU",
     [](Scene& s) { s.file("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086"); }},
    {"toolkit", kOk, "driver for CUDA 13.0, build for CUDA 13.0", [](Scene& s) { s.gpu(); }},
    {"toolkit", kWarning, "this build has no CUDA", card_on_bus},
    {"toolkit", kWarning, "update the driver",
     [](Scene& s) {
       s.gpu();
       s.machine.cuda.runtime = 13010;
     }},
    {"toolkit", kProblem, "a driver for CUDA 13.0",
     [](Scene& s) {
       s.gpu();
       s.machine.cuda.driver = 12080;
     }},
    {"toolkit", kProblem, "unknown error",
     [](Scene& s) {
       s.gpu();
       s.machine.cuda.error = "unknown error";
     }},
    {"toolkit", kOk, "build for CUDA 13.0",
     [](Scene& s) {
       s.gpu();
       s.machine.cuda.error = "no CUDA-capable device is detected";
       s.variables["CUDA_VISIBLE_DEVICES"] = "";
     }},
    {"toolkit", kNotChecked, "no NVIDIA GPU", [](Scene&) {}},
    {"visible GPUs", kOk, "1 of 1 GPUs", [](Scene& s) { s.gpu(); }},
    {"visible GPUs", kWarning, "nvidia-smi -L",
     [](Scene& s) {
       s.gpu();
       s.variables["CUDA_VISIBLE_DEVICES"] = "0,7";
     }},
    {"visible GPUs", kProblem, "unset it",
     [](Scene& s) {
       s.gpu();
       s.machine.gpus.clear();
       s.variables["CUDA_VISIBLE_DEVICES"] = "";
     }},
    {"visible GPUs", kNotChecked, "no NVIDIA GPU", [](Scene&) {}},
    {"visible GPUs", kNotChecked, "no CUDA", card_on_bus},
    {"parameters", kOk, "virtual machine",
     [](Scene& s) { parameters(s, "CheckPCIConfigSpace: 0\nEnableMSI: 1\n", "hypervisor"); }},
    {"parameters", kOk, "none is known",
     [](Scene& s) {
       parameters(s, "CheckPCIConfigSpace: 1\nUsePageAttributeTable: 4294967295\n");
     }},
    {"parameters", kWarning, "NVreg_CheckPCIConfigSpace=1",
     [](Scene& s) { parameters(s, "CheckPCIConfigSpace: 1\n", "fpu hypervisor sse"); }},
    {"parameters", kWarning, "NVreg_EnableMSI=0",
     [](Scene& s) { parameters(s, "EnableMSI: 0\n"); }},
    {"parameters", kWarning, "NVreg_NvLinkDisable=1",
     [](Scene& s) {
       parameters(s, "NvLinkDisable: 1\n");
       s.gpu();
       s.gpu();
     }},
    {"parameters", kOk, "none is known",
     [](Scene& s) {
       parameters(s, "NvLinkDisable: 1\n");
       s.gpu();
     }},
    {"parameters", kNotChecked, "no NVIDIA GPU", [](Scene&) {}}};

TEST(DoctorOfDrivers, ChecksInEveryState) {
  expect_cases(driver_checks(), kDriverCases);
}

TEST(DoctorOfDrivers, NamesEveryParameterThatIsOff) {
  Scene scene;
  parameters(scene, "EnableMSI: 0\nUsePageAttributeTable: 0\n");
  EXPECT_EQ(findings_of(driver_checks(), "parameters", scene).size(), 2U);
}

TEST(DoctorFiles, CoresAreWrittenAsLinuxDoes) {
  EXPECT_EQ(cores_text(parse_cores("0-3,8,10-11")), "0-3,8,10-11");
  EXPECT_EQ(cores_text({}), "");
  EXPECT_TRUE(parse_cores("").empty());
}

TEST(DoctorDocument, ExplainsEveryCheck) {
  std::ifstream file(NORN_SOURCE_DIR "/docs/user/doctor.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto expect_row = [&](const char* name) {
    EXPECT_THAT(text, testing::HasSubstr(std::string("| ") + name + " |"));
  };
  for (const auto checks : {cpu_checks(), memory_checks(), disk_checks(), driver_checks(),
                            link_checks(), rank_checks()})
    for (const Check& check : checks) expect_row(check.name);
  for (const auto checks : {gpu_state_checks(), gpu_rate_checks()})
    for (const GpuCheck& check : checks) expect_row(check.name);
}

}  // namespace
}  // namespace norn::tools
