// SPDX-License-Identifier: Apache-2.0
// What to_json() writes reads back to the same descriptor.
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"
#include "tests/nn/descriptor_equal.h"

#include <filesystem>
#include <random>

#include <gmock/gmock.h>

namespace norn {
namespace {

using test::expect_equal;
namespace fs = std::filesystem;

/// Random descriptors: legal keys only, every member set now and then.
class RandomDescriptor {
 public:
  explicit RandomDescriptor(std::uint64_t seed) : random_(seed) {}

  NetworkDescriptor network() {
    NetworkDescriptor d;
    d.name = name("net");
    d.kind = sometimes() ? NetworkKind::auto_encoder : NetworkKind::feed_forward;
    pick(d.loss);
    if (sometimes()) d.target_weight = TargetWeight::one;
    d.shuffle = sometimes();
    if (sometimes()) d.sparseness = {number(0, 1), number(0, 9)};
    if (sometimes()) d.denoising = number(0, 0.99f);
    if (sometimes()) d.boost_one = number(0, 30);
    if (sometimes()) d.boost_zero = number(0, 2);
    if (sometimes()) d.lrn = {number(0, 3), 3, number(0, 1e-3f), number(0, 1)};
    if (sometimes()) d.maxout_k = 3;
    if (sometimes()) d.decay = number(0, 1e-6f);
    pick(d.training.optimizer);
    if (sometimes()) d.training.rate = number(1e-8f, 1);
    if (sometimes()) d.training.batch = count();
    if (sometimes()) d.training.epochs = count();
    if (sometimes()) d.training.last_epoch = count();
    if (sometimes()) d.training.refit = true;
    if (sometimes()) d.training.validation.stop_from = 0.5f;
    if (sometimes()) d.training.lambda = number(0, 1);
    if (sometimes()) d.training.lambda1 = number(0, 1e-30f);
    if (sometimes()) d.training.seed = random_();
    d.layers.push_back(input());
    const int hidden = int(random_() % 4);
    for (int i = 0; i < hidden; ++i) d.layers.push_back(computed(LayerKind::hidden, d.layers));
    d.layers.push_back(computed(LayerKind::output, d.layers));
    return d;
  }

 private:
  bool sometimes() { return random_() % 2 == 0; }
  Index count() { return Index(1 + random_() % 4294967295u); }
  float number(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  std::string name(const char* stem) {
    static const char* const kEnds[] = {"", "\"quoted\"", " \\ / ", "\xC3\xA4\xE2\x82\xAC", "// x"};
    return fmt_name(stem) + kEnds[random_() % 5];
  }
  std::string fmt_name(const char* stem) { return stem + std::to_string(++names_); }

  template <typename... T>
  void pick(std::variant<T...>& value) {
    const std::size_t chosen = random_() % sizeof...(T);
    std::size_t at = 0;
    ((at++ == chosen ? void(value = T{}) : void()), ...);
    std::visit([this](auto& v) { vary(v); }, value);
  }
  template <typename Value>
  void vary(Value& v) {
    if (sometimes()) return;
    visit_parameters(v, [&](const ParameterKey& key, float& parameter) {
      const float low = float(std::max(key.limits.low, -30.0)) + (key.limits.above_low ? 0.1f : 0);
      const float high =
          float(std::min(key.limits.high, 30.0)) - (key.limits.below_high ? 0.01f : 0);
      parameter = number(low, high);
    });
    if constexpr (requires { v.scale; }) v.scale = number(-1, 1);
    if constexpr (requires { v.exponent; }) v.exponent = number(0.1f, 2);
  }

  void size(LayerDescriptor& d) {
    d.dimensions = int(1 + random_() % 4);
    for (int i = 0; i < d.dimensions; ++i) d.extent[std::size_t(i)] = Index(1 + random_() % 200);
  }
  LayerDescriptor input() {
    LayerDescriptor d;
    d.name = name("in");
    d.kind = LayerKind::input;
    d.dataset = name("data");
    d.auto_size = sometimes();
    if (!d.auto_size) size(d);
    if (sometimes()) d.type = LayerType::convolutional;
    d.sparse = sometimes();
    if (sometimes()) d.normalize = InputNormalization::l2;
    pick(d.input_weighting);
    if (sometimes()) d.augment = {Index(random_() % 9), sometimes()};
    if (sometimes()) d.dropout = number(0, 0.99f);
    return d;
  }
  LayerDescriptor computed(LayerKind kind, const std::vector<LayerDescriptor>& before) {
    LayerDescriptor d;
    d.name = name("layer");
    d.kind = kind;
    d.type = LayerType(random_() % 3);
    size(d);
    for (const LayerDescriptor& source : before)
      if (sometimes()) d.sources.push_back(source.name);
    if (d.sources.empty()) d.sources = {before[0].name};
    if (sometimes()) d.skips = {before[0].name, before.back().name};
    d.sparse = sometimes();
    if (sometimes()) d.dropout = number(0, 0.99f);
    if (kind == LayerKind::output && sometimes()) d.dataset = name("target");
    if (kind == LayerKind::output && sometimes()) {
      d.entry_weights.scheme = EntryWeightScheme(1 + random_() % 3);
      if (sometimes()) d.entry_weights.alpha = number(0, 99);
      if (sometimes()) d.entry_weights.epsilon = number(0.1f, 9);
    }
    if (kind == LayerKind::output && sometimes()) {
      d.factored.rule = sometimes() ? FactoredRule::newton : FactoredRule::sgd;
      if (sometimes()) d.factored.rate = number(0.1f, 9);
      if (sometimes()) d.factored.damping = number(0.1f, 9);
      if (sometimes()) d.factored.fold_every = 1 + int(random_() % 100);
    }
    Activation f;
    pick(f);
    d.activation = f;
    if (sometimes()) d.activation = SoftMax{};
    pick(d.init.scheme);
    if (sometimes()) d.init.bias = number(-11, 1);
    if (sometimes()) d.weight_norm = number(0, 9);
    if (sometimes()) d.delta_norm = number(0, 9);
    if (sometimes()) d.shared_weights = {{d.sources[0], "a", "b", true}, {"c", "d", "e", false}};
    if (kind == LayerKind::hidden) {
      d.batch_normalization = sometimes();
      if (sometimes()) d.sparseness = {number(0, 1), number(0, 9)};
    }
    if (d.type == LayerType::pooling) {
      d.function = PoolingFunction(random_() % 7);
      d.activation = Activation(Linear{});
    }
    d.kernel_dimensions = int(random_() % 4);
    for (int i = 0; i < d.kernel_dimensions; ++i)
      d.kernel[std::size_t(i)] = Index(1 + random_() % 9);
    for (Index& stride : d.stride) stride = Index(1 + random_() % 3);
    return d;
  }

  std::mt19937_64 random_;
  int names_ = 0;
};

std::vector<fs::path> shipped_configs() {
  std::vector<fs::path> files;
  for (const char* folder : {"configs", "configs/dsstne", "configs/recipes"})
    for (const auto& entry : fs::directory_iterator(fs::path(NORN_SOURCE_DIR) / folder))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(DescriptorWriter, RandomDescriptorsReadBackEqual) {
  const std::uint64_t first = std::random_device{}();
  for (std::uint64_t seed = first; seed < first + 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const NetworkDescriptor written = RandomDescriptor(seed).network();
    const std::string text = to_json(written);
    SCOPED_TRACE(text);
    expect_equal(parse_network_json(text, "random"), written);
    if (HasFailure()) return;
  }
}

TEST(DescriptorWriter, ShippedNetworksReadBackEqual) {
  const std::vector<fs::path> files = shipped_configs();
  EXPECT_GE(files.size(), 7u);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    const RecipeSource data{[](const auto&, const auto&) {
                              return RecipeFacts{900, 5000, 30000};
                            },
                            {}};
    const NetworkDescriptor read = read_network_json(file, {}, &data);
    expect_equal(parse_network_json(to_json(read), "written"), read);
  }
}

TEST(DescriptorWriter, SizesOfAResolvedNetworkResolveToThemselves) {
  const NetworkDescriptor read =
      read_network_json(fs::path(NORN_SOURCE_DIR) / "configs/dsstne/alexnet.json");
  const std::vector<DatasetShape> data = {{"input", 3, {227, 227, 3}, false},
                                          {"output", 1, {1000, 1, 1}, true}};
  const Graph graph = make_graph(read, data, "alexnet");
  const Graph again =
      make_graph(parse_network_json(to_json(graph.network), "written"), data, "again");
  expect_equal(again.network, graph.network);
}

TEST(DescriptorWriter, WritesEssentialsAndWhatDiffersFromTheDefaults) {
  NetworkDescriptor d;
  d.layers.resize(2);
  d.layers[0].name = "Input";
  d.layers[0].kind = LayerKind::input;
  d.layers[0].extent[0] = 7;
  d.layers[1].name = "Output";
  d.layers[1].kind = LayerKind::output;
  d.layers[1].sources = {"Input"};
  d.layers[1].dropout = 0.37f;
  d.training.optimizer = Adam{0.9f, 0.99f};
  EXPECT_EQ(to_json(d), R"({
  "Version": 0.9,
  "ErrorFunction": "CrossEntropy",
  "ShuffleIndices": true,
  "Training": { "Optimizer": "Adam", "Mu1": 0.99 },
  "Layers": [
    { "Name": "Input", "Kind": "Input", "N": 7 },
    {
      "Name": "Output",
      "Kind": "Output",
      "N": 1,
      "Source": "Input",
      "pDropout": 0.37,
      "Activation": "Sigmoid"
    }
  ]
}
)");
}

}  // namespace
}  // namespace norn
