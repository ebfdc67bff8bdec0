// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of GPUs, their links and ranks, by answers and measurements of any kind; and
// its report.
#include "tests/tools/doctor_cases.h"
#include "tools/common/version.h"

namespace norn::tools {
namespace {

constexpr Health kOk = Health::ok;
constexpr Health kWarning = Health::warning;
constexpr Health kProblem = Health::problem;
constexpr Health kNotChecked = Health::not_checked;

// A GPU that is well but for what `change` does to it.
std::function<void(Scene&)> gpu(const std::function<void(ExaminedGpu&)>& change = {}) {
  return [change](Scene& scene) {
    ExaminedGpu& one = scene.gpu();
    if (change) change(one);
  };
}
std::function<void(Scene&)> facts(const std::function<void(GpuFacts&)>& change) {
  return gpu([change](ExaminedGpu& one) { change(*one.facts); });
}
const auto kUntold = gpu([](ExaminedGpu& one) { one.facts.reset(); });
const auto kUnmeasured = gpu([](ExaminedGpu& one) {
  one.rates.reset();
  one.tf32 = one.bf16 = 0.0;
  one.multiplying = {};
  one.error = "the GPU's memory is full";
});

const std::vector<Case> kStateCases = {{"persistence", kOk, "on", gpu()},
       {"persistence", kWarning, "nvidia-persistenced",
        facts([](GpuFacts& f) { f.persistence = false; })},
       {"persistence", kNotChecked, "not tell", kUntold},
       {"PCIe link", kOk, "generation 5, 16 lanes, while copying", gpu()},
       {"PCIe link", kOk, "generation 1, 16 lanes, idle",
        gpu([](ExaminedGpu& g) {  // an idle link is slow by itself
          g.copying = {};
          g.facts->now.pcie_generation = 1;
          g.facts->now.pcie_width = 16;
        })},
       {"PCIe link", kWarning, "generation 5, 16 lanes | some lanes",
        gpu([](ExaminedGpu& g) { g.copying.pcie_width = 8; })},
       {"PCIe link", kWarning, "keeps the link slow",
        gpu([](ExaminedGpu& g) { g.copying.pcie_generation = 3; })},
       {"PCIe link", kNotChecked, "not tell", gpu([](ExaminedGpu& g) { g.copying = {}; })},
       {"near cores", kOk, "2 of 4 cores",
        [](Scene& s) {
          s.gpu();
          s.file("sys/bus/pci/devices/0000:00:00.0/local_cpulist", "2-63\n");
        }},
       {"near cores", kWarning, "some of 64-127",
        [](Scene& s) {
          s.gpu();
          s.file("sys/bus/pci/devices/0000:00:00.0/local_cpulist", "64-127\n");
        }},
       {"near cores", kNotChecked, "not tell", gpu()},
       {"ECC", kOk, "on, 0 errors corrected", gpu()},
       {"ECC", kWarning, "nvidia-smi -e", facts([](GpuFacts& f) { f.ecc = false; })},
       {"ECC", kWarning, "wears out", facts([](GpuFacts& f) { f.ecc_corrected = 5000; })},
       {"ECC", kProblem, "2 not", facts([](GpuFacts& f) { f.ecc_uncorrected = 2; })},
       {"ECC", kNotChecked, "not tell", kUntold},
       {"memory rows", kOk, "0 rows remapped", gpu()},
       {"memory rows", kProblem, "none pending", facts([](GpuFacts& f) { f.rows_pending = true; })},
       {"memory rows", kProblem, "worn out", facts([](GpuFacts& f) { f.rows_failed = true; })},
       {"memory rows", kWarning, "61 pages", facts([](GpuFacts& f) {
          f.rows_remapped.reset();
          f.pages_retired = 61;
        })},
       {"memory rows", kNotChecked, "not tell", kUntold},
       {"clocks", kOk, "1700 MHz while multiplying, memory 3201 MHz, slowed by power limit", gpu()},
       {"clocks", kWarning, "slowed by heat",
        gpu([](ExaminedGpu& g) { g.multiplying.slowed_by = SlowedBy::kHot; })},
       {"clocks", kWarning, "nvidia-smi -q -d CLOCK",
        gpu([](ExaminedGpu& g) { g.multiplying.core_mhz = 1200; })},
       {"clocks", kProblem, "345 MHz", gpu([](ExaminedGpu& g) { g.multiplying.core_mhz = 345; })},
       {"clocks", kProblem, "power supply",
        gpu([](ExaminedGpu& g) { g.multiplying.slowed_by = SlowedBy::kPowerSupply; })},
       {"clocks", kNotChecked, "no product", kUnmeasured},
       {"memory clock", kOk, "3201 MHz", gpu()},
       {"memory clock", kWarning, "nvidia-smi -lmc",
        gpu([](ExaminedGpu& g) { g.multiplying.memory_mhz = 1593; })},
       {"memory clock", kNotChecked, "not tell", kUntold},
       {"temperature", kOk, "55 C", gpu()},
       {"temperature", kWarning, "cooling",
        gpu([](ExaminedGpu& g) { g.multiplying.celsius = 85; })},
       {"temperature", kNotChecked, "not tell",
        gpu([](ExaminedGpu& g) { g.multiplying.celsius.reset(); })},
       {"power limit", kOk, "limit 700 W", gpu()},
       {"power limit", kWarning, "700 W, the default",
        facts([](GpuFacts& f) { f.power_limit = 350; })},
       {"power limit", kNotChecked, "not tell", kUntold},
       {"partitions", kOk, "off", gpu()},
       {"partitions", kWarning, "MIG", facts([](GpuFacts& f) { f.mig = true; })},
       {"partitions", kNotChecked, "no partitions", kUntold},
       {"compute mode", kOk, "default", gpu()},
       {"compute mode", kOk, "exclusive",
        facts([](GpuFacts& f) { f.compute_mode = ComputeMode::one_process; })},
       {"compute mode", kProblem, "prohibited",
        facts([](GpuFacts& f) { f.compute_mode = ComputeMode::prohibited; })},
       {"compute mode", kProblem, "as many ranks as GPUs",
        [](Scene& s) {
          s.gpu().facts->compute_mode = ComputeMode::one_process;
          s.machine.ranks_here = 2;
        }},
       {"compute mode", kNotChecked, "not tell", kUntold},
       {"other processes", kOk, "none", facts([](GpuFacts& f) {
          f.processes->push_back({unsigned(::getpid()), 1});
        })},
       {"other processes", kWarning, "1: process 4711", facts([](GpuFacts& f) {
          f.processes->push_back({4711, 1});
        })},
       {"other processes", kNotChecked, "not tell", kUntold},
       {"BAR1", kOk, "128.0 GiB of 128.0 GiB", gpu()},
       {"BAR1", kOk, "256.0 MiB", facts([](GpuFacts& f) { f.bar1_bytes = 1U << 28; })},
       {"BAR1", kWarning, "resizable BAR",
        [](Scene& s) {
          s.gpu();
          s.gpu();
          s.facts().bar1_bytes = 1U << 28;
          s.facts().links.clear();
        }},
       {"BAR1", kNotChecked, "not tell", kUntold}};

TEST(DoctorOfGpus, StateInEveryState) {
  expect_cases(gpu_state_checks(), kStateCases);
}

const auto rates = [](const std::function<void(GpuRates&)>& change) {
  return gpu([change](ExaminedGpu& one) { change(*one.rates); });
};
const auto unknown = [](double tf32) {
  return [tf32](Scene& s) { s.gpu("NVIDIA Something").tf32 = tf32; };
};

const std::vector<Case> kRateCases = {
    {"kernel launch", kOk, "2.2 us", gpu()},
    {"kernel launch", kWarning, "driver parameters",
     rates([](GpuRates& r) { r.launch_microseconds = 12; })},
    {"kernel launch", kProblem, "at most 6 us",
     rates([](GpuRates& r) { r.launch_microseconds = 60; })},
    {"kernel launch", kNotChecked, "memory is full", kUnmeasured},
    {"kernel in a graph", kOk, "1.1 us", gpu()},
    {"kernel in a graph", kWarning, "one graph",
     rates([](GpuRates& r) { r.graph_microseconds = 5; })},
    {"kernel in a graph", kProblem, "one graph",
     rates([](GpuRates& r) { r.graph_microseconds = 11; })},
    {"round trip", kOk, "8.0 us", gpu()},
    {"round trip", kWarning, "shared", rates([](GpuRates& r) { r.round_trip_microseconds = 50; })},
    {"page-locked copies", kOk, "about 54 GB/s by the link", gpu()},
    {"page-locked copies", kOk, "about 12 GB/s by the link", gpu([](ExaminedGpu& g) {
       g.copying.pcie_generation = 3;
       g.rates->to_device = g.rates->to_host = 12.0;
     })},
    {"page-locked copies", kWarning, "hypervisor", rates([](GpuRates& r) { r.to_host = 20; })},
    {"page-locked copies", kProblem, "1.0 GB/s back", rates([](GpuRates& r) { r.to_host = 1; })},
    {"pageable copies", kOk, "8.0 GB/s", gpu()},
    {"pageable copies", kWarning, "load and save slowly",
     rates([](GpuRates& r) { r.pageable_to_device = 1; })},
    {"memory rate", kOk, "4290 GB/s, 89 %", gpu()},
    {"memory rate", kWarning, "at least 75 % of 4800 GB/s, by the data sheet",
     rates([](GpuRates& r) { r.memory = 3000; })},
    {"memory rate", kProblem, "partition", rates([](GpuRates& r) { r.memory = 600; })},
    {"tf32 products", kOk, "395 TFLOP/s, 80 %", gpu()},
    {"tf32 products", kProblem, "of 494 TFLOP/s", gpu([](ExaminedGpu& g) { g.tf32 = 60; })},
    // 132 multiprocessors x 1980 MHz x 2048 operations.
    {"tf32 products", kOk, "535 TFLOP/s, computed", unknown(400)},
    {"tf32 products", kWarning, "535 TFLOP/s, computed", unknown(30)},
    {"bf16 products", kOk, "790 TFLOP/s", gpu()},
    {"bf16 products", kWarning, "power limit", gpu([](ExaminedGpu& g) { g.bf16 = 400; })},
    {"bf16 products", kNotChecked, "no such products",
     [](Scene& s) { s.gpu("Tesla T4").shape.capability = 75; }},
    {"bf16 products", kNotChecked, "memory is full", kUnmeasured}};

TEST(DoctorOfGpus, RatesInEveryState) {
  expect_cases(gpu_rate_checks(), kRateCases);
}

TEST(DoctorOfGpus, CardsAreFoundByName) {
  const auto memory_of = [](const char* name) {
    GpuShape shape;
    shape.name = name;
    return card_of(shape).memory;
  };
  EXPECT_EQ(memory_of("NVIDIA H200"), 4800);
  EXPECT_EQ(memory_of("NVIDIA H100 80GB HBM3"), 3350);
  EXPECT_EQ(memory_of("NVIDIA H100 PCIe"), 2000);
  EXPECT_EQ(memory_of("NVIDIA A100-SXM4-80GB"), 2039);
  EXPECT_EQ(memory_of("NVIDIA L4"), 300);
  EXPECT_EQ(memory_of("NVIDIA L40S"), 864);
  EXPECT_EQ(memory_of("NVIDIA GeForce RTX 4090"), 1008);
  EXPECT_EQ(memory_of("NVIDIA GeForce RTX 4090D"), 0);  // another card, of no known sizes here
  GpuShape shape;
  shape.name = "NVIDIA New";
  shape.memory_mhz = 3201;
  shape.memory_bits = 6144;
  EXPECT_NEAR(card_of(shape).memory, 4917, 1);
  EXPECT_TRUE(card_of(shape).computed);
}

void pair(Scene& s, bool direct, double gigabytes) {
  s.gpu();
  s.gpu();
  s.machine.peers = {{0, 1, direct, gigabytes}, {1, 0, direct, gigabytes + 1}};
}

TEST(DoctorOfLinks, ChecksInEveryState) {
  expect_cases(
      link_checks(),
      {{"NVLink", kOk, "GPU 0: 2 links of version 4; GPU 1: 2 links",
        [](Scene& s) { pair(s, true, 300); }},
       {"NVLink", kWarning, "GPU 0 link 1",
        [](Scene& s) {
          pair(s, true, 300);
          s.facts().links[1].active = false;
        }},
       {"NVLink", kWarning, "nvidia-smi topo -m",
        [](Scene& s) {
          pair(s, true, 300);
          s.facts().links.clear();
        }},
       {"NVLink", kNotChecked, "fewer than two", gpu()},
       {"peer access", kOk, "GPU 0 and 1: direct, 300 and 301 GB/s",
        [](Scene& s) { pair(s, true, 300); }},
       {"peer access", kWarning, "through main memory", [](Scene& s) { pair(s, false, 20); }},
       {"peer access", kWarning, "at least 100 GB/s by NVLink",
        [](Scene& s) { pair(s, true, 50); }},
       {"peer access", kNotChecked, "the time was up",
        [](Scene& s) {
          pair(s, true, 50);
          s.machine.peers.clear();
          s.machine.peers_error = "the time was up";
        }},
       {"NCCL", kOk, "2.28.9, an all-reduce of one GPU is right",
        [](Scene& s) {
          s.gpu();
          s.machine.nccl = NcclFacts{"2.28.9", ""};
        }},
       {"NCCL", kOk, "one GPU needs none", gpu()},
       {"NCCL", kWarning, "install NCCL", [](Scene& s) { pair(s, true, 300); }},
       {"NCCL", kProblem, "NCCL_DEBUG",
        [](Scene& s) {
          s.gpu();
          s.machine.nccl = NcclFacts{"2.28.9", "unhandled system error"};
        }},
       {"NCCL", kNotChecked, "no GPU", [](Scene&) {}}});
}

// Ranks that compute on GPUs.
Scene& on_gpus(Scene& s, int count) {
  s.ranks(count).machine.uses_gpu = true;
  return s;
}

const auto one = [](Scene& s) { s.ranks(1); };
const auto four = [](Scene& s) { s.ranks(4); };
const auto change = [](const std::function<void(RankFacts&)>& what) {
  return [what](Scene& s) { what(s.ranks(4).machine.ranks[1]); };
};
const auto bound = [](const char* online, int threads) {
  return [=](Scene& s) {
    s.ranks(2, 1).file("sys/devices/system/cpu/online", online);
    s.machine.threads = threads;
  };
};
const auto link = [](double microseconds, double gigabytes) {
  return [=](Scene& s) { s.ranks(2).machine.host_link = LinkWay{microseconds, 0, gigabytes}; };
};
const auto device_link = [](double gigabytes) {
  return [=](Scene& s) {
    on_gpus(s, 2).machine.device_link = LinkWay{20, 0, gigabytes};
    s.machine.device_link_by = "NCCL 2.28.9";
  };
};

const std::vector<Case> kRankCases = {
    {"hosts", kOk, "4 ranks on 1 host", four},
    {"hosts", kWarning, "3 on node1", change([](RankFacts& r) { r.host = "node2"; })},
    {"binding", kOk, "at least 2 cores", four},
    {"binding", kWarning, "of ranks 0-1 each has too few cores", bound("0-7", 0)},
    {"binding", kOk, "at least 1 cores", bound("0-1", 0)},  // there are no more
    {"binding", kOk, "at least 1 cores", bound("0-7", 1)},  // so it was asked for
    {"binding", kWarning, "rank 1 has 2-3, for 9 threads",
     change([](RankFacts& r) { r.threads = 9; })},
    {"binding", kNotChecked, "one rank", one},
    {"threads", kOk, "node1: 8 threads on 8 cores", four},
    {"threads", kWarning, "--threads 2", change([](RankFacts& r) { r.threads = 9; })},
    {"threads", kOk, "2 threads on 4 cores",
     [](Scene& s) { on_gpus(s, 2).machine.ranks[0].threads = 64; }},
    {"threads", kNotChecked, "one rank", one},
    {"alike", kOk, "OpenBLAS Cooperlake", four},
    {"alike", kWarning, "OPENBLAS_CORETYPE",
     change([](RankFacts& r) { r.blas = "OpenBLAS Haswell"; })},
    {"alike", kProblem, "trainer 1 (3), trainer 2 (1)",
     change([](RankFacts& r) { r.version = "trainer 2"; })},
    {"alike", kNotChecked, "one rank", one},
    {"MPI", kOk, "Open MPI v4.1.4, not built for CUDA",
     [](Scene& s) {
       s.ranks(1).machine.mpi = {"Open MPI v4.1.4", false};
     }},
    {"MPI", kWarning, "which MPI", [](Scene& s) { s.ranks(1); }},
    {"messages", kOk, "5.0 us a collective, 3.00 GB/s", link(5, 3)},
    {"messages", kWarning, "more ranks or threads than cores", link(5000, 3)},
    {"messages", kWarning, "btl_tcp_if_include",
     [](Scene& s) {
       s.ranks(2).machine.ranks[1].host = "node2";
       s.machine.host_link = LinkWay{50, 0, 0.1};
     }},
    {"messages", kNotChecked, "not measured", four},
    {"GPUs", kOk, "a GPU for each rank", [](Scene& s) { on_gpus(s, 4); }},
    {"GPUs", kWarning, "2 ranks on GPU 0000:00:00.0",
     [](Scene& s) { on_gpus(s, 2).machine.ranks[1].gpu = "0000:00:00.0"; }},
    {"GPUs", kWarning, "CUDA_VISIBLE_DEVICES shows one GPU",
     [](Scene& s) {
       for (RankFacts& rank : on_gpus(s, 2).machine.ranks) {
         rank.visible_gpus = "0";
         rank.gpus = 1;
       }
     }},
    {"GPUs", kNotChecked, "on the CPU", four},
    {"GPU collectives", kOk, "300.00 GB/s, NCCL 2.28.9", device_link(300)},
    {"GPU collectives", kWarning, "at least 20 GB/s", device_link(3)},
    {"GPU collectives", kNotChecked, "on the CPU", four}};

TEST(DoctorOfRanks, ChecksInEveryState) {
  expect_cases(rank_checks(), kRankCases);
}

TEST(DoctorReport, SaysEverythingInBothForms) {
  Scene scene;
  scene.gpu().rates->launch_microseconds = 60;
  scene.file("proc/loadavg", "0.1 1 1 1/1 1\n").machine.model = "/m.nc";
  Findings findings;
  look_at_host(scene.machine, findings);
  for (Finding& finding : findings.all) finding.host = "node \"1\"";
  const DoctorReport report{findings.all, 1.5};
  EXPECT_EQ(report.count(Health::problem), 1);
  const std::string table = doctor_table(report);
  EXPECT_THAT(table, testing::HasSubstr("GPU 0 (NVIDIA H200)\n"));
  EXPECT_THAT(table, testing::HasSubstr("  problem      kernel launch        60.0 us\n"
                                        "               expected: at most 6 us\n"
                                        "               do: small steps are slow then"));
  EXPECT_THAT(table, testing::HasSubstr("\n1 problem, "));
  EXPECT_THAT(table, testing::HasSubstr("1.5 s\n"));
  const JsonValue json = parse_json(doctor_json(report), "report");
  EXPECT_EQ(json["program"].text_or(""), version_line("trainer"));
  EXPECT_EQ(json["summary"]["problems"].integer_or(0), 1);
  const auto& checks = json["checks"].entries();
  const auto launch = std::find_if(checks.begin(), checks.end(), [](const JsonValue& check) {
    return check["check"].text_or("") == "kernel launch";
  });
  ASSERT_NE(launch, checks.end());
  for (const auto& [name, value] : {std::pair{"host", "node \"1\""},
                                    {"area", "GPU 0 (NVIDIA H200)"},
                                    {"state", "problem"},
                                    {"value", "60.0 us"},
                                    {"expected", "at most 6 us"}})
    EXPECT_EQ((*launch)[name].text_or(""), value) << name;
}

TEST(DoctorReport, NamesHostsWhereThereAreSeveral) {
  DoctorReport report;
  for (const char* host : {"node1", "node2", ""})
    report.findings.push_back({Health::ok, host, "CPU", "cores", "4", "", ""});
  const std::string table = doctor_table(report);
  EXPECT_THAT(table, testing::HasSubstr("== node1 ==\nCPU\n"));
  EXPECT_THAT(table, testing::HasSubstr("\n== node2 ==\nCPU\n"));
}

}  // namespace
}  // namespace norn::tools
