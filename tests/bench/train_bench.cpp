// SPDX-License-Identifier: Apache-2.0
// Training steps of whole networks on synthetic power-law data, on the CPU or a GPU: samples a
// second, share of the floor, memory, and on a GPU where the time goes. The cost of a batch is
// checked in float64 before anything is timed. Under mpirun: one network on all ranks.
#include "kernels/named_variant.h"
#include "kernels/precisions.h"
#include "norn/parallel/mpi_session.h"
#include "src/base/text.h"
#include "src/engine/data/device_dataset.h"
#include "tests/bench/bench_network.h"
#include "tests/bench/forward_check.h"
#include "tests/bench/plain_sums.h"
#include "tests/bench/training_shape.h"

#include <chrono>
#include <cstdio>
#include <fstream>

#include <CLI/CLI.hpp>

namespace norn::bench {
namespace {

constexpr Index kChecked = 4;          // examples of the float64 check of costs
constexpr Index kForwarded = 2;        // images that float64 goes through
constexpr Index kFirst = 8;            // steps whose cost is printed
constexpr int kRepetitions = 5;        // of which the median counts
constexpr Index kBatches = 64;         // that steps rotate over unless told otherwise
constexpr Index kImageBatches = 4;     // of images, which are larger
constexpr double kBandwidth = 4.3e12;  // of an H200, measured as a copy

struct Options {
  std::vector<std::string> shapes;
  std::string config;
  std::string configs = "configs/dsstne";
  std::string device = "auto";
  std::string precision = "tf32";
  std::string optimizer;
  Index batch = 0;
  Index hidden = 0;
  Index batches = 0;
  Index per_example = 100;
  double seconds = 2.0;
  bool stages = true;
  bool factored = false;
  bool plain_sums = false;
  bool waits = false;
  bool mixed_items = false;
  bool data_on_gpu = true;
  std::vector<Index> blocks;
  std::string json;
  std::string network_json;
};

/// A network to time, and how.
struct Case {
  std::string name;
  NetworkDescriptor network;
  Index batches = kBatches;
  Index per_example = 100;
  const ImageShape* images = nullptr;
};

/// FLOP/s of dense products on an H200, measured on 8192^3.
double peak_flops(Precision precision) {
  switch (precision.multiply) {
    case NumberFormat::float32:
      return 51e12;
    case NumberFormat::tf32:
      return 395e12;
    case NumberFormat::bfloat16:
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

std::vector<Stage> profile(BenchNetwork& bench, const std::map<std::string, StageWork>& work,
                           double seconds_of_step) {
  WorkQueue& queue = *bench.network().context().compute.kernels.queue;
  const auto steps = std::clamp<Index>(Index(2.0 / seconds_of_step), 2, 10);
  queue.profile(true);
  bench.steps(steps);
  queue.profile(false);
  std::vector<Stage> stages;
  for (const WorkQueue::StageTime& time : queue.stage_times()) {
    if (time.name == "end") continue;  // between two steps
    const auto found = work.find(time.name);
    stages.push_back({time.name, 1e3 * time.seconds / double(steps),
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

// The layers of images, at a size that float64 can follow.
std::string check_images(const ImageShape& shape, const Options& options, const Context& context,
                         Precision precision) {
  if (context.communicator.size() > 1) return {};
  NetworkDescriptor small = descriptor_of(shape, options.configs, shape.small_image);
  small.training.batch = kForwarded;
  for (LayerDescriptor& layer : small.layers) layer.dropout = 0.0f;
  return check_forward(small, context, precision, kForwarded);
}

// Whole rounds of folds, and of sums of V' V, too, where these do not take too long.
Index whole_rounds(Index count, double seconds_of_step, const FactorIntervals& every) {
  constexpr double kLongest = 40.0;  // of all repetitions; the first steps take longer than others
  for (const Index round : {every.gram, every.fold})
    if (round > 0 && seconds_of_step * double(round) * kRepetitions < kLongest)
      return (count + round - 1) / round * round;
  return count;
}

// Whole rounds of the batches come first: rows then lag as they do in the middle of an epoch.
void time_steps(BenchNetwork& bench, const Options& options, Index batches, Communicator& ranks,
                Result& result) {
  std::vector<double> costs;
  const double one = seconds_of([&] { bench.steps(batches, &costs); }) / double(batches);
  const Index shown = std::min(kFirst, batches);
  result.first_cost = mean(std::span(costs).first(std::size_t(shown)));
  const auto least = std::clamp<Index>(Index(10.0 / double(kRepetitions) / one), 1, 8);
  auto count = std::max(least, Index(options.seconds / double(kRepetitions) / one));
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

Result measure(const Case& timed, const Options& options, Runtime& runtime, Communicator& ranks) {
  const NetworkDescriptor& network = timed.network;
  Result result;
  result.shape = timed.name;
  result.optimizer = name_of(network.training.optimizer);
  result.batch = network.training.batch;
  const Context context = runtime.context(ranks);
  context.collectives->allow_overlap(!options.waits);
  Memory& memory = context.compute.memory;
  const Precision precision = precision_named(options.precision).value();
  if (timed.images) result.error = check_images(*timed.images, options, context, precision);
  if (!result.error.empty()) return result;
  DataSets sets = make_data(network, result.batch * timed.batches, timed.per_example,
                            options.mixed_items ? Numbering::mixed : Numbering::by_popularity);
  result.error = check(network, context, sets);
  if (!result.error.empty()) return result;

  const auto work = stage_work(network, sets, context, &result.every);
  if (options.data_on_gpu && !memory.is_host())
    for (auto& [unused, set] : sets) set = std::make_shared<DeviceDataset>(std::move(set), memory);
  BenchNetwork bench(network, context, sets, timed.batches, result.batch);
  time_steps(bench, options, timed.batches, ranks, result);

  double flop_seconds = 0.0;
  double byte_seconds = 0.0;
  for (const auto& [stage, needs] : work) {
    if (stage.find("sparse") == std::string::npos)
      flop_seconds += needs.flops / peak_flops(precision);
    byte_seconds += needs.bytes / kBandwidth;
  }
  if (!memory.is_host()) result.floor_seconds = std::max(flop_seconds, byte_seconds);
  result.working_megabytes = double(bench.network().working_bytes()) * 1e-6;
  result.peak_gigabytes = double(memory.peak_bytes()) * 1e-9;
  if (options.stages) result.stages = profile(bench, work, result.step_seconds);
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
  if (r.every.fold > 0) line += fmt::format(", folded at every {} steps at least", r.every.fold);
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

std::string json_of(const Result& r, const Options& options, Index batches, const Runtime& runtime,
                    int ranks) {
  std::string out = fmt::format(
      "{{\"shape\": \"{}\", \"error\": \"{}\", \"device\": \"{}\", \"ranks\": {}, \"precision\": "
      "\"{}\", "
      "\"optimizer\": \"{}\", \"batch\": {}, \"batches\": {}, \"samples_per_second\": {:.1f}, "
      "\"slowest\": {:.1f}, \"fastest\": {:.1f}, \"ms\": {:.5f}, "
      "\"floor_ms\": {:.5f}, \"working_mb\": {:.2f}, \"peak_gb\": {:.3f}, \"stages\": [",
      r.shape, r.error, runtime.description(), ranks, options.precision, r.optimizer, r.batch,
      batches, rate(r, r.step_seconds), rate(r, r.slowest_seconds), rate(r, r.fastest_seconds),
      1e3 * r.step_seconds, 1e3 * r.floor_seconds, r.working_megabytes, r.peak_gigabytes);
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

std::vector<Case> cases_of(const Options& options) {
  std::vector<Case> cases;
  for (const std::string& name : options.shapes) {
    for (TrainingShape shape : training_shapes()) {
      if (shape.name != name) continue;
      if (options.hidden > 0) shape.hidden.assign(shape.hidden.size(), options.hidden);
      cases.push_back({name, descriptor_of(shape), kBatches, shape.per_example});
    }
    for (const ImageShape& shape : image_shapes())
      if (shape.name == name)
        cases.push_back(
            {name, descriptor_of(shape, options.configs, shape.image), kImageBatches, 1, &shape});
  }
  if (!options.config.empty())
    cases.push_back({options.config, read_network_json(options.config, [](const auto&) {}),
                     kBatches, options.per_example});
  for (Case& one : cases) {
    apply(options, one.network);
    if (options.batches > 0) one.batches = options.batches;
    if (options.factored) make_factored(one.network);
  }
  return cases;
}

void write_networks(const std::string& file, const std::vector<Case>& cases) {
  std::ofstream out(file);
  for (const Case& one : cases) out << to_json(one.network) << "\n";
  out.close();
  if (!out) throw DataError(file + ": cannot be written");
}

int run(const Options& options, Communicator& ranks) {
  DeviceChoice choice;
  choice.kind = options.device == "cpu"    ? DeviceChoice::Kind::cpu
                : options.device == "cuda" ? DeviceChoice::Kind::cuda
                                           : DeviceChoice::Kind::automatic;
  choice.gpu_options.precision = precision_named(options.precision).value();
  const std::vector<Case> cases = cases_of(options);
  if (!options.network_json.empty()) {
    write_networks(options.network_json, cases);
    return 0;
  }
  bool wrong = false;
  for (const Case& one : cases) {
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
    const Result result = measure(one, options, *runtime, ranks);
    if (speaks) print(result, options);
    wrong = wrong || !result.error.empty();
    if (speaks && !options.json.empty())
      std::ofstream(options.json, std::ios::app)
          << json_of(result, options, one.batches, *runtime, ranks.size());
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
  for (const bench::ImageShape& shape : bench::image_shapes()) names.push_back(shape.name);
  CLI::App app("Times training steps on synthetic power-law data and images of random bytes.");
  app.add_option("--shape", options.shapes, "networks to time")->check(CLI::IsMember(names));
  app.add_option("--config", options.config, "a network descriptor (JSON) with sizes to time");
  app.add_option("--configs", options.configs, "where the networks of images are described");
  app.add_option("--device", options.device)->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--precision", options.precision)->check(CLI::IsMember(precision_names()));
  app.add_option("--optimizer", options.optimizer)->check(CLI::IsMember(names_of<UpdateRule>()));
  app.add_option("--batch", options.batch, "examples of a step; else the shape's");
  app.add_option("--hidden", options.hidden,
                 "units of a shape's hidden layers, not of images; else the shape's");
  app.add_option("--batches", options.batches,
                 "different batches that the steps rotate over; else 64, of images 4")
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
  app.add_flag("--mixed-items", options.mixed_items,
               "items are not numbered by popularity, so that ranks have as many of popular ones");
  app.add_flag(
      "--data-on-gpu,!--upload", options.data_on_gpu,
      "gather batches on the GPU, as the trainer does where data fit, which is the default; "
      "--upload: from main memory in every step");
  app.add_option("--blocks", options.blocks,
                 "batch x width, least width and multiple of blocks, instead of the device's")
      ->delimiter(',');
  app.add_option("--json", options.json, "append a line of JSON for every network");
  app.add_option("--write-network", options.network_json,
                 "only write the networks with all sizes to this file, for peers");
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
