// SPDX-License-Identifier: Apache-2.0
// Training steps of whole networks on synthetic power-law data, on the CPU or a GPU: samples a
// second, share of the floor, memory, and on a GPU where the time goes. The cost of a batch is
// checked in float64 before anything is timed. Under mpirun: one network on all ranks.
#include "kernels/named_variant.h"
#include "norn/parallel/mpi_session.h"
#include "src/base/text.h"
#include "src/engine/data/device_dataset.h"
#include "tests/bench/bench_network.h"
#include "tests/bench/plain_sums.h"
#include "tests/bench/training_shape.h"

#include <chrono>
#include <cstdio>
#include <fstream>

#include <CLI/CLI.hpp>

namespace norn::bench {
namespace {

constexpr Index kChecked = 4;          // examples of the float64 check
constexpr Index kFirst = 8;            // steps whose cost is printed
constexpr int kRepetitions = 5;        // of which the median counts
constexpr double kBandwidth = 4.3e12;  // of an H200, measured as a copy

struct Options {
  std::vector<std::string> shapes;
  std::string config;
  std::string device = "auto";
  std::string precision = "tf32";
  std::string optimizer;
  Index batch = 0;
  Index batches = 64;
  Index per_example = 100;
  double seconds = 2.0;
  bool stages = true;
  bool factored = false;
  bool plain_sums = false;
  bool waits = false;
  bool data_on_gpu = true;
  std::vector<Index> blocks;
  std::string json;
};

/// FLOP/s of dense products on an H200, measured on 8192^3.
double peak_flops(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return 51e12;
    case Precision::tf32:
      return 395e12;
    case Precision::bf16:
      return 790e12;
  }
  return 1.0;
}

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Stage {
  std::string name;
  double milliseconds = 0.0;
  StageWork work;
};

struct Result {
  std::string shape;
  std::string optimizer;
  std::string error;
  Index batch = 0;
  double step_seconds = 0.0;  // of the median repetition
  double fastest_seconds = 0.0;
  double slowest_seconds = 0.0;
  double floor_seconds = 0.0;
  double first_cost = 0.0;  // of kFirst steps, the same whatever overlaps with what
  double working_megabytes = 0.0;
  double peak_gigabytes = 0.0;
  FactorIntervals every;
  std::vector<Stage> stages;
};

std::vector<Stage> profile(BenchNetwork& bench, const std::map<std::string, StageWork>& work) {
  WorkQueue& queue = *bench.network().context().compute.kernels.queue;
  constexpr Index kSteps = 10;
  queue.profile(true);
  bench.steps(kSteps);
  queue.profile(false);
  std::vector<Stage> stages;
  for (const WorkQueue::StageTime& time : queue.stage_times()) {
    if (time.name == "end") continue;  // between two steps
    const auto found = work.find(time.name);
    stages.push_back({time.name, 1e3 * time.seconds / double(kSteps),
                      found == work.end() ? StageWork{} : found->second});
  }
  return stages;
}

double mean(const auto& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

// The check's own network, gone when this returns.
std::string check(NetworkDescriptor network, const Context& context, const DataSets& sets) {
  network.denoising = 0.0f;
  for (LayerDescriptor& layer : network.layers) {
    layer.dropout = 0.0f;
    layer.batch_normalization = false;
  }
  const Index examples = std::min(kChecked, network.training.batch);
  return BenchNetwork(network, context, sets, 1, examples).check();
}

// Whole rounds of folds, and of sums of V' V, too, where these do not take too long.
Index whole_rounds(Index count, double seconds_of_step, const FactorIntervals& every) {
  constexpr double kLongest = 20.0;  // of all repetitions
  for (const Index round : {every.gram, every.fold})
    if (round > 0 && seconds_of_step * double(round) * kRepetitions < kLongest)
      return (count + round - 1) / round * round;
  return count;
}

// Whole rounds of the batches come first: rows then lag as they do in the middle of an epoch.
void time_steps(BenchNetwork& bench, const Options& options, Communicator& ranks, Result& result) {
  std::vector<double> costs;
  const double one =
      seconds_of([&] { bench.steps(options.batches, &costs); }) / double(options.batches);
  const Index shown = std::min(kFirst, options.batches);
  result.first_cost = mean(std::span(costs).first(std::size_t(shown)));
  auto count = std::max<Index>(8, Index(options.seconds / double(kRepetitions) / one));
  count = whole_rounds(count, one, result.every);
  ranks.broadcast(std::as_writable_bytes(std::span(&count, 1)), 0);
  std::vector<double> times;
  std::vector<double> later;
  for (int i = 0; i < kRepetitions; ++i)
    times.push_back(seconds_of([&] { bench.steps(count, &later); }) / double(count));
  std::sort(times.begin(), times.end());
  result.step_seconds = times[times.size() / 2];
  result.fastest_seconds = times.front();
  result.slowest_seconds = times.back();
  if (!options.config.empty()) return;  // whose rate may be any
  // The same batches as at first, as many as there were.
  const std::size_t same = std::min(costs.size(), later.size());
  const double first = mean(std::span(costs).first(same));
  const std::size_t skipped = (later.size() - same) / costs.size() * costs.size();
  const double last = mean(std::span(later).subspan(skipped, same));
  if (!(last < first)) result.error = fmt::format("the cost does not fall: {} to {}", first, last);
}

Result measure(const std::string& name, const NetworkDescriptor& network, const Options& options,
               Runtime& runtime, Communicator& ranks) {
  Result result;
  result.shape = name;
  result.optimizer = name_of(network.training.optimizer);
  result.batch = network.training.batch;
  const Context context = runtime.context(ranks);
  context.collectives->allow_overlap(!options.waits);
  Memory& memory = context.compute.memory;
  DataSets sets = make_data(network, result.batch * options.batches, options.per_example);
  result.error = check(network, context, sets);
  if (!result.error.empty()) return result;

  const auto work = stage_work(network, sets, context, &result.every);
  if (options.data_on_gpu && !memory.is_host())
    for (auto& [unused, set] : sets) set = std::make_shared<DeviceDataset>(std::move(set), memory);
  BenchNetwork bench(network, context, sets, options.batches, result.batch);
  time_steps(bench, options, ranks, result);

  double flop_seconds = 0.0;
  double byte_seconds = 0.0;
  for (const auto& [stage, needs] : work) {
    if (stage.find("sparse") == std::string::npos)
      flop_seconds += needs.flops / peak_flops(precision_named(options.precision).value());
    byte_seconds += needs.bytes / kBandwidth;
  }
  if (!memory.is_host()) result.floor_seconds = std::max(flop_seconds, byte_seconds);
  result.working_megabytes = double(bench.network().working_bytes()) * 1e-6;
  result.peak_gigabytes = double(memory.peak_bytes()) * 1e-9;
  if (options.stages) result.stages = profile(bench, work);
  return result;
}

// Samples a second of a step that takes so long.
double rate(const Result& r, double seconds) {
  return seconds > 0.0 ? double(r.batch) / seconds : 0.0;
}

void print(const Result& r, const Options& options) {
  if (!r.error.empty()) std::printf("%s: WRONG: %s\n", r.shape.c_str(), r.error.c_str());
  if (r.step_seconds == 0.0) return;
  std::string line =
      fmt::format("{} batch {}: {} samples/s ({} to {}), {:.3f} ms a step", r.shape, r.batch,
                  with_thousands((long long)(rate(r, r.step_seconds))),
                  with_thousands((long long)(rate(r, r.slowest_seconds))),
                  with_thousands((long long)(rate(r, r.fastest_seconds))), 1e3 * r.step_seconds);
  if (r.floor_seconds > 0.0)
    line += fmt::format(", floor {:.3f} ms, {:.0f} % of it", 1e3 * r.floor_seconds,
                        100.0 * r.floor_seconds / r.step_seconds);
  if (r.every.fold > 0) line += fmt::format(", folded at every {} steps", r.every.fold);
  line += fmt::format(", working memory {:.1f} MB, peak {:.2f} GB, first cost {:.12g}",
                      r.working_megabytes, r.peak_gigabytes, r.first_cost);
  std::printf("%s\n", line.c_str());
  const Precision precision = precision_named(options.precision).value();
  double total = 0.0;
  for (const Stage& s : r.stages) total += s.milliseconds;
  for (const Stage& s : r.stages) {
    std::string text = fmt::format("  {:<20}{:>9.3f} ms {:>5.1f} %", s.name, s.milliseconds,
                                   100.0 * s.milliseconds / total);
    if (s.work.bytes > 0.0)
      text += fmt::format(" {:>8.2f} GFLOP {:>7.1f} TFLOP/s ({:.0f} %) {:>9.1f} MB {:>6.2f} TB/s",
                          1e-9 * s.work.flops, 1e-9 * s.work.flops / s.milliseconds,
                          100.0 * s.work.flops / (1e-3 * s.milliseconds) / peak_flops(precision),
                          1e-6 * s.work.bytes, 1e-9 * s.work.bytes / s.milliseconds);
    std::printf("%s\n", text.c_str());
  }
  std::fflush(stdout);
}

std::string json_of(const Result& r, const Options& options, const Runtime& runtime, int ranks) {
  std::string out = fmt::format(
      "{{\"shape\": \"{}\", \"error\": \"{}\", \"device\": \"{}\", \"ranks\": {}, \"precision\": "
      "\"{}\", "
      "\"optimizer\": \"{}\", \"batch\": {}, \"batches\": {}, \"samples_per_second\": {:.1f}, "
      "\"slowest\": {:.1f}, \"fastest\": {:.1f}, \"ms\": {:.5f}, "
      "\"floor_ms\": {:.5f}, \"working_mb\": {:.2f}, \"peak_gb\": {:.3f}, \"stages\": [",
      r.shape, r.error, runtime.description(), ranks, options.precision, r.optimizer, r.batch,
      options.batches, rate(r, r.step_seconds), rate(r, r.slowest_seconds),
      rate(r, r.fastest_seconds), 1e3 * r.step_seconds, 1e3 * r.floor_seconds, r.working_megabytes,
      r.peak_gigabytes);
  for (std::size_t i = 0; i < r.stages.size(); ++i)
    out +=
        fmt::format("{}{{\"name\": \"{}\", \"ms\": {:.5f}, \"flop\": {:.0f}, \"bytes\": {:.0f}}}",
                    i == 0 ? "" : ", ", r.stages[i].name, r.stages[i].milliseconds,
                    r.stages[i].work.flops, r.stages[i].work.bytes);
  return out + "]}\n";
}

void apply(const Options& options, NetworkDescriptor& network) {
  if (options.batch > 0) network.training.batch = options.batch;
  if (!options.optimizer.empty())
    network.training.optimizer = find_named<UpdateRule>(options.optimizer).value();
}

int run(const Options& options, Communicator& ranks) {
  DeviceChoice choice;
  choice.kind = options.device == "cpu"    ? DeviceChoice::Kind::cpu
                : options.device == "cuda" ? DeviceChoice::Kind::cuda
                                           : DeviceChoice::Kind::automatic;
  choice.gpu_options.precision = precision_named(options.precision).value();
  std::vector<std::pair<std::string, NetworkDescriptor>> networks;
  Options used = options;
  for (const TrainingShape& shape : training_shapes())
    for (const std::string& name : options.shapes)
      if (shape.name == name) {
        networks.emplace_back(name, descriptor_of(shape));
        used.per_example = shape.per_example;
      }
  if (!options.config.empty())
    networks.emplace_back(options.config, read_network_json(options.config, [](const auto&) {}));
  bool wrong = false;
  for (auto& [name, network] : networks) {
    const std::unique_ptr<Runtime> runtime = make_runtime(choice, ranks);
    const bool speaks = ranks.rank() == 0;
    if (options.plain_sums) {
      const Context context = runtime->context(ranks);
      context.compute.kernels.fixed =
          make_plain_sums(context.compute.kernels, context.compute.memory);
    }
    if (!options.blocks.empty()) {
      BlockRule& rule = runtime->context(ranks).compute.kernels.block_rule;
      rule.delta_elements = options.blocks.at(0);
      if (options.blocks.size() > 1) rule.minimum_width = options.blocks[1];
      if (options.blocks.size() > 2) rule.multiple = options.blocks[2];
    }
    if (speaks)
      std::printf("%s, %s%s\n", runtime->description().c_str(), ranks.describe().c_str(),
                  options.plain_sums ? ", plain sums"
                  : options.waits    ? ", waiting"
                                     : "");
    apply(options, network);
    if (options.factored) make_factored(network);
    const Result result = measure(name, network, used, *runtime, ranks);
    if (speaks) print(result, options);
    wrong = wrong || !result.error.empty();
    if (speaks && !options.json.empty())
      std::ofstream(options.json, std::ios::app)
          << json_of(result, options, *runtime, ranks.size());
  }
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace norn::bench

int main(int argc, char** argv) {
  using namespace norn;
  MpiSession session(&argc, &argv);
  bench::Options options;
  std::vector<std::string> names;
  for (const bench::TrainingShape& shape : bench::training_shapes()) names.push_back(shape.name);
  CLI::App app("Times training steps on synthetic power-law data.");
  app.add_option("--shape", options.shapes, "networks to time")->check(CLI::IsMember(names));
  app.add_option("--config", options.config, "a network descriptor (JSON) with sizes to time");
  app.add_option("--device", options.device)->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--precision", options.precision)->check(CLI::IsMember({"fp32", "tf32", "bf16"}));
  app.add_option("--optimizer", options.optimizer)->check(CLI::IsMember(names_of<UpdateRule>()));
  app.add_option("--batch", options.batch, "examples of a step; else the shape's");
  app.add_option("--batches", options.batches, "different batches that the steps rotate over")
      ->check(CLI::Range(Index(1), Index(1) << 20));
  app.add_option("--per-example", options.per_example, "entries an example, with --config");
  app.add_option("--seconds", options.seconds, "how long to time a network");
  app.add_flag("!--no-stages", options.stages, "leave out the table of stages");
  app.add_flag("--factored", options.factored,
               "squared error of all outputs, by factored output layers");
  app.add_flag("--plain-sums", options.plain_sums,
               "sum deltas over blocks in float32 instead of fixed point, to see what that costs");
  app.add_flag("--wait", options.waits,
               "let no collective go on beside other work, to see what that brings");
  app.add_flag(
      "--data-on-gpu,!--upload", options.data_on_gpu,
      "gather batches on the GPU, as the trainer does where data fit, which is the default; "
      "--upload: from main memory in every step");
  app.add_option("--blocks", options.blocks,
                 "batch x width, least width and multiple of blocks, instead of the device's")
      ->delimiter(',');
  app.add_option("--json", options.json, "append a line of JSON for every network");
  CLI11_PARSE(app, argc, argv);
  if (options.shapes.empty() && options.config.empty())
    options.shapes = {"debian_packages", "wide27k", "wide500k"};
  try {
    if (options.plain_sums && session.size() > 1) throw UsageError("--plain-sums is for one rank");
    return bench::run(options, *session.world());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_bench: %s\n", error.what());
    if (session.size() > 1) session.abort(1);
    return 1;
  }
}
