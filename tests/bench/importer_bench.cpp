// SPDX-License-Identifier: Apache-2.0
// Import of DSSTNE text and CSV: entries a second and peak memory. NORN_IMPORT_ENTRIES sets the
// number of entries (default 5 million), NORN_IMPORT_FOLDER where the files go.
#include "norn/data/importer.h"
#include "src/base/philox.h"
#include "src/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

constexpr Index kItems = 500'000;
constexpr Index kLongestRow = 400;

Index wanted_entries() {
  const char* const text = std::getenv("NORN_IMPORT_ENTRIES");
  return text ? std::atoll(text) : 5'000'000;
}

/// A folder with generated text, removed at the end.
struct Folder {
  fs::path path;
  Folder() {
    const char* const where = std::getenv("NORN_IMPORT_FOLDER");
    path = fs::path(where ? where : fs::temp_directory_path().c_str()) / "norn-importer-bench";
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
};

/// Writes rows of 1 to kLongestRow different items whose frequencies fall like 1 / rank. As CSV the
/// lines of an example are spread over the file.
Index write_text(const fs::path& path, Index entries, bool csv) {
  const Philox random = Philox::stream(17, RandomPurpose::test);
  std::ofstream file(path, std::ios::binary);
  std::string line;
  std::vector<Index> last_row(std::size_t(kItems), -1);
  Index written = 0;
  for (Index row = 0; written < entries; ++row) {
    const Index length = std::min(entries - written, 1 + Index(random.word(row, 0)) % kLongestRow);
    line = csv ? "" : fmt::format("u{}\t", row);
    Index count = 0;
    for (Index k = 1; count < length; ++k) {
      const double u = random.word(row, k) * 0x1p-32;
      const Index item = std::min(kItems - 1, Index(std::exp(u * std::log(double(kItems)))) - 1);
      if (last_row[std::size_t(item)] == row) continue;
      last_row[std::size_t(item)] = row;
      // 7919 lines lie between two lines of an example.
      if (csv) {
        fmt::format_to(std::back_inserter(line), "u{},item{}\n",
                       (written + count) % 7919 * 131 + row % 131, item);
      } else {
        fmt::format_to(std::back_inserter(line), "{}item{}", count > 0 ? ":" : "", item);
      }
      ++count;
    }
    if (!csv) line += '\n';
    file << line;
    written += count;
  }
  return written;
}

/// Peak memory of the process since the last call of reset_peak().
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return 1024.0 * std::atof(line.c_str() + 6);
  }
  return 0;
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

void import(benchmark::State& state, bool csv) {
  const Folder folder;
  const fs::path text = folder.path / (csv ? "table.csv" : "rows.txt");
  const Index entries = write_text(text, wanted_entries(), csv);
  PairImport options;
  options.input = text;
  options.output = folder.path / "data.nc";
  options.name = "bench";
  if (csv) options.rules.duplicates = Duplicates::first;
  reset_peak();
  for (auto _ : state) {
    const ImportReport report = import_pair(options, Log());
    const DatasetInfo info = list_datasets(options.output).at(0);
    if (info.entries + report.duplicates != entries) {
      throw std::runtime_error("entries were lost");
    }
  }
  state.counters["entries/s"] =
      benchmark::Counter(double(entries), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["text_bytes/s"] = benchmark::Counter(
      double(fs::file_size(text)), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_MB"] = peak_bytes() / 1e6;
  state.counters["entries"] = double(entries);
}

BENCHMARK_CAPTURE(import, dsstne, false)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(import, csv, true)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace norn

BENCHMARK_MAIN();
