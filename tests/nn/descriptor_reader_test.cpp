// SPDX-License-Identifier: Apache-2.0
// What the keys of a descriptor mean: values, defaults, spellings.
#include "kernels/named_variant.h"
#include "tests/nn/descriptor_equal.h"
#include "tests/nn/descriptor_text.h"

#include <algorithm>
#include <random>

#include <fmt/ranges.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using test::read;
using test::Reading;
using test::with_hidden_keys;
using test::with_input_keys;
using test::with_network_keys;
using test::with_output_keys;
using testing::ElementsAre;
using testing::IsEmpty;

NetworkDescriptor network_with(const std::string& keys) {
  const Reading reading = read(with_network_keys(keys));
  EXPECT_EQ(reading.error, "");
  return reading.network;
}
LayerDescriptor layer_of(const std::string& text, std::size_t number) {
  const Reading reading = read(text);
  EXPECT_EQ(reading.error, "");
  return reading.error.empty() ? reading.network.layers.at(number) : LayerDescriptor{};
}
LayerDescriptor hidden_with(const std::string& keys) {
  return layer_of(with_hidden_keys(keys), 1);
}

TEST(DescriptorReader, DefaultsAreThoseOfADescriptor) {
  const Reading reading = read(R"({"Layers": [{}, {}, {}]})");
  ASSERT_EQ(reading.error, "");
  EXPECT_THAT(reading.notes, IsEmpty());
  NetworkDescriptor expected;
  expected.layers.resize(3);
  expected.layers[0].name = "Input0";
  expected.layers[0].kind = LayerKind::input;
  expected.layers[1].name = "Hidden1";
  expected.layers[1].sources = {"Input0"};
  expected.layers[2].name = "Output2";
  expected.layers[2].kind = LayerKind::output;
  expected.layers[2].sources = {"Hidden1"};
  test::expect_equal(reading.network, expected);
}

TEST(DescriptorReader, NetworkKeys) {
  EXPECT_EQ(network_with(R"("Name": "x")").name, "x");
  EXPECT_EQ(network_with(R"("Kind": "AutoEncoder")").kind, NetworkKind::auto_encoder);
  EXPECT_EQ(network_with(R"("TargetWeight": "One")").target_weight, TargetWeight::one);
  EXPECT_EQ(network_with(R"("TargetWeight": "InverseCount")").target_weight,
            TargetWeight::inverse_count);
  EXPECT_FALSE(network_with(R"("ShuffleIndices": false)").shuffle);
  EXPECT_FALSE(network_with(R"("ShuffleIndices": 0)").shuffle);
  EXPECT_TRUE(network_with(R"("ShuffleIndices": 1)").shuffle);
  const NetworkDescriptor sparseness =
      network_with(R"("SparsenessPenalty": {"p": 0.5, "beta": 2})");
  EXPECT_EQ(sparseness.sparseness.p, 0.5f);
  EXPECT_EQ(sparseness.sparseness.beta, 2.0f);
  EXPECT_EQ(network_with(R"("Denoising": {"p": 0.2})").denoising, 0.2f);
  const NetworkDescriptor boost = network_with(R"("DeltaBoost": {"one": 30, "zero": 0.5})");
  EXPECT_EQ(boost.boost_one, 30.0f);
  EXPECT_EQ(boost.boost_zero, 0.5f);
  const NetworkDescriptor lrn =
      network_with(R"("LRN": {"k": 1, "n": 3, "alpha": 0.5, "beta": 0.25})");
  EXPECT_EQ(lrn.lrn.k, 1.0f);
  EXPECT_EQ(lrn.lrn.n, 3);
  EXPECT_EQ(lrn.lrn.alpha, 0.5f);
  EXPECT_EQ(lrn.lrn.beta, 0.25f);
  EXPECT_EQ(network_with(R"("LocalResponseNormalization": {"n": 7})").lrn.n, 7);
  EXPECT_EQ(network_with(R"("Maxout": {"k": 4})").maxout_k, 4);
  EXPECT_EQ(network_with(R"("Decay": 1e-6)").decay, 1e-6f);
  for (const char* version : {"0.7", "0.8", "0.81", "0.9", "1"})
    network_with(std::string(R"("Version": )") + version);
}

TEST(DescriptorReader, EveryLossByEveryName) {
  for (const std::string& name : names_of<Loss>(true)) {
    const Loss expected = *find_named<Loss>(name);
    EXPECT_EQ(network_with(R"("ErrorFunction": ")" + name + "\"").loss.index(), expected.index());
  }
}

TEST(DescriptorReader, MarginsFillWhicheverMarginalLossIsChosen) {
  const std::string values = R"({"oneTarget": 1, "zeroTarget": 0, "oneScale": 30, "zeroScale": 2})";
  for (const char* key : {"ScaledMarginalCrossEntropy", "DataScaledMarginalCrossEntropy"})
    for (const char* loss : {"ScaledMarginalCrossEntropy", "DataScaledMarginalCrossEntropy"}) {
      const NetworkDescriptor d = network_with(std::string("\"") + key + "\": " + values +
                                               ", \"ErrorFunction\": \"" + loss + "\"");
      EXPECT_EQ(name_of(d.loss), loss);
      EXPECT_THAT(std::visit([](const auto& l) { return test::parameters_of(l); }, d.loss),
                  ElementsAre(30.0f, 2.0f, 1.0f, 0.0f));
    }
}

TEST(DescriptorReader, TrainingBlock) {
  const NetworkDescriptor d = network_with(
      R"("Training": {"Optimizer": "adam", "Alpha": 0.5, "Batch": 7, "Epochs": 3, "Lambda": 0.25,
          "Lambda1": 0.125, "Mu": 0.5, "Mu1": 0.75, "Seed": 18446744073709551615})");
  const Adam* adam = std::get_if<Adam>(&d.training.optimizer);
  ASSERT_TRUE(adam);
  EXPECT_EQ(adam->mu, 0.5f);
  EXPECT_EQ(adam->mu1, 0.75f);
  EXPECT_EQ(d.training.rate, 0.5f);
  EXPECT_EQ(d.training.batch, 7);
  EXPECT_EQ(d.training.epochs, 3);
  EXPECT_EQ(d.training.lambda, 0.25f);
  EXPECT_EQ(d.training.lambda1, 0.125f);
  EXPECT_EQ(d.training.seed, 18446744073709551615u);
  const NetworkDescriptor other = network_with(R"("Training": {"Rate": 2, "MiniBatch": 9})");
  EXPECT_EQ(other.training.rate, 2.0f);
  EXPECT_EQ(other.training.batch, 9);
  for (const std::string& rule : names_of<UpdateRule>(true)) {
    const NetworkDescriptor each = network_with(R"("Training": {"Optimizer": ")" + rule + "\"}");
    test::expect_equal_values(each.training.optimizer, *find_named<UpdateRule>(rule));
  }
}

TEST(DescriptorReader, SizesOfLayers) {
  EXPECT_EQ(hidden_with(R"("N": 4294967295)").units(), 4294967295);
  EXPECT_EQ(hidden_with(R"("N": 128.0)").units(), 128);
  EXPECT_EQ(hidden_with(R"("N": [5])").dimensions, 1);
  const LayerDescriptor d = hidden_with(R"("N": [2, 3, 4, 5])");
  EXPECT_EQ(d.dimensions, 4);
  EXPECT_THAT(d.extent, ElementsAre(2, 3, 4, 5));
  const LayerDescriptor input = layer_of(with_input_keys(R"("N": "AUTO", "DataSet": "Gl")"), 0);
  EXPECT_TRUE(input.auto_size);
  EXPECT_EQ(input.dataset, "Gl");
}

TEST(DescriptorReader, LayerKeys) {
  EXPECT_EQ(hidden_with(R"("pDropout": 0.37)").dropout, 0.37f);
  EXPECT_TRUE(hidden_with(R"("Sparse": true)").sparse);
  EXPECT_THAT(hidden_with(R"("Source": "a")").sources, ElementsAre("a"));
  EXPECT_THAT(hidden_with(R"("Source": ["a", "b", "c", "d", "e"])").sources,
              ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(hidden_with(R"("Skip": "a")").skips, ElementsAre("a"));
  EXPECT_THAT(hidden_with(R"("Skip": ["a", "b"])").skips, ElementsAre("a", "b"));
  EXPECT_EQ(hidden_with(R"("WeightNorm": 3)").weight_norm, 3.0f);
  EXPECT_EQ(hidden_with(R"("DeltaNorm": 2.5)").delta_norm, 2.5f);
  EXPECT_TRUE(hidden_with(R"("BatchNormalization": true)").batch_normalization);
  EXPECT_EQ(layer_of(with_input_keys(R"("Normalize": "l2")"), 0).normalize, InputNormalization::l2);
  EXPECT_EQ(layer_of(with_input_keys(R"("Normalize": "None")"), 0).normalize,
            InputNormalization::none);
  for (const std::string scheme : {"InverseDocumentFrequency", "idf", "InversePopularity"})
    test::expect_equal_values(
        layer_of(with_input_keys(R"("InputWeighting": {"Scheme": ")" + scheme + "\"}"), 0)
            .input_weighting,
        *find_named<InputWeighting>(scheme));
  EXPECT_EQ(layer_of(with_input_keys(R"("Augment": {"Crop": 4, "flip": true})"), 0).augment,
            (Augmentation{4, true}));
  EXPECT_EQ(layer_of(with_input_keys(R"("Augment": {})"), 0).augment, Augmentation{});
  const InputWeighting weighting =
      layer_of(
          with_input_keys(R"("InputWeighting": {"Exponent": 0.3, "Scheme": "inversePopularity"})"),
          0)
          .input_weighting;
  EXPECT_EQ(std::get<InversePopularity>(weighting).exponent, 0.3f);
  EXPECT_EQ(layer_of(with_output_keys(R"("Kind": "Target")"), 1).kind, LayerKind::target);
  const LayerDescriptor init =
      hidden_with(R"("WeightInit": {"Scale": 0.01, "Scheme": "Gaussian", "Bias": -10.2})");
  EXPECT_EQ(std::get<Gaussian>(init.init.scheme).scale, 0.01f);
  EXPECT_EQ(init.init.bias, -10.2f);
  for (const std::string& scheme : names_of<Initializer>(true))
    test::expect_equal_values(
        hidden_with(R"("WeightInit": {"Scheme": ")" + scheme + "\"}").init.scheme,
        *find_named<Initializer>(scheme));
}

TEST(DescriptorReader, WindowKeys) {
  const LayerDescriptor d = hidden_with(
      R"("Type": "Pooling", "Function": "LocalResponseNormalization", "Kernel": [3, 2],
         "KernelStride": [2, 1])");
  EXPECT_EQ(d.type, LayerType::pooling);
  EXPECT_EQ(d.function, PoolingFunction::lrn);
  EXPECT_EQ(d.kernel_dimensions, 2);
  EXPECT_THAT(d.kernel, ElementsAre(3, 2, 1));
  EXPECT_THAT(d.stride, ElementsAre(2, 1, 1));
  EXPECT_EQ(hidden_with(R"("Type": "Convolutional", "Kernel": 5)").kernel_dimensions, 1);
  const std::vector<std::pair<std::string, PoolingFunction>> functions = {
      {"Max", PoolingFunction::max},
      {"Average", PoolingFunction::average},
      {"LRN", PoolingFunction::lrn},
      {"Maxout", PoolingFunction::maxout},
      {"DotProduct", PoolingFunction::dot_product},
      {"Cosine", PoolingFunction::cosine}};
  for (const auto& [name, function] : functions)
    EXPECT_EQ(hidden_with(R"("Type": "Pooling", "Function": ")" + name + "\"").function, function);
}

TEST(DescriptorReader, ATypeMayStandBehindItsKeys) {
  std::mt19937 random(std::random_device{}());
  std::vector<std::string> keys = {R"("Function": "Average")", R"("Kernel": [3, 3])",
                                   R"("KernelStride": [2, 2])", R"("Type": "Pooling")",
                                   R"("Kind": "Hidden")"};
  const auto text = [&] {
    return R"({"Layers": [{"N": [9, 9]}, {)" + fmt::format("{}", fmt::join(keys, ", ")) + "}, {}]}";
  };
  const LayerDescriptor expected = layer_of(text(), 1);
  EXPECT_EQ(expected.stride[1], 2);
  for (int i = 0; i < 20; ++i) {
    std::ranges::shuffle(keys, random);
    const Reading reading = read(text());
    ASSERT_EQ(reading.error, "") << text();
    EXPECT_THAT(reading.notes, IsEmpty()) << text();
    EXPECT_EQ(reading.network.layers[1].kernel, expected.kernel);
    EXPECT_EQ(reading.network.layers[1].stride, expected.stride);
    EXPECT_EQ(reading.network.layers[1].function, PoolingFunction::average);
    EXPECT_EQ(reading.network.layers[1].type, LayerType::pooling);
  }
}

TEST(DescriptorReader, SharedWeightsOneOrMany) {
  const std::string entry =
      R"({"InputLayer": "a", "SourceInputLayer": "b", "SourceOutputLayer": "c"})";
  const LayerDescriptor one = hidden_with("\"SharedWeights\": " + entry);
  ASSERT_EQ(one.shared_weights.size(), 1u);
  EXPECT_EQ(one.shared_weights[0].input_layer, "a");
  EXPECT_EQ(one.shared_weights[0].source_input_layer, "b");
  EXPECT_EQ(one.shared_weights[0].source_output_layer, "c");
  EXPECT_FALSE(one.shared_weights[0].transposed);
  const LayerDescriptor two =
      hidden_with("\"SharedWeights\": [" + entry +
                  R"(, {"InputLayer": "d", "SourceInputLayer": "e", "SourceOutputLayer": "f",
            "Transposed": true}])");
  ASSERT_EQ(two.shared_weights.size(), 2u);
  EXPECT_EQ(two.shared_weights[1].input_layer, "d");
  EXPECT_TRUE(two.shared_weights[1].transposed);
}

TEST(DescriptorReader, ActivationsTakeParametersOfLayerThenNetworkThenDefault) {
  const auto parameters = [](const std::string& network, const std::string& layer) {
    const Reading reading =
        read("{" + network + R"("Layers": [{"N": 4}, {"N": 3, )" + layer + "}, {}]}");
    EXPECT_EQ(reading.error, "");
    return std::visit([](const auto& f) { return test::parameters_of(f); },
                      std::get<Activation>(reading.network.layers.at(1).activation));
  };
  EXPECT_THAT(parameters("", R"("Activation": "LRelu")"), ElementsAre(0.01f));
  EXPECT_THAT(parameters(R"("Slope": 0.25,)", R"("Activation": "LRelu")"), ElementsAre(0.25f));
  EXPECT_THAT(parameters(R"("RELUSlope": 0.25,)", R"("Slope": 0.5, "Activation": "LRelu")"),
              ElementsAre(0.5f));
  EXPECT_THAT(parameters("", R"("Activation": "ELU")"), ElementsAre(1.0f));
  EXPECT_THAT(parameters(R"("ELUAlpha": 3,)", R"("Activation": "ELU")"), ElementsAre(3.0f));
  EXPECT_THAT(parameters("", R"("Activation": "SELU")"), ElementsAre(1.67326324f, 1.05070099f));
  EXPECT_THAT(parameters(R"("ELUAlpha": 3, "SELULambda": 2,)", R"("Activation": "SELU")"),
              ElementsAre(3.0f, 2.0f));
  EXPECT_THAT(parameters(R"("ELUAlpha": 3, "SELULambda": 2,)",
                         R"("Activation": "SELU", "ELUAlpha": 4, "SELULambda": 5)"),
              ElementsAre(4.0f, 5.0f));
  EXPECT_THAT(parameters(R"("SwishBeta": 2,)", R"("Activation": "SiLU")"), ElementsAre(2.0f));
  EXPECT_THAT(parameters(R"("SwishBeta": 2,)", R"("Activation": "Swish", "SwishBeta": 0)"),
              ElementsAre(0.0f));
  for (const std::string& name : names_of<Activation>(true))
    EXPECT_EQ(
        std::get<Activation>(hidden_with(R"("Activation": ")" + name + "\"").activation).index(),
        find_named<Activation>(name)->index());
  EXPECT_TRUE(
      std::holds_alternative<SoftMax>(hidden_with(R"("Activation": "SoftMax")").activation));
}

TEST(DescriptorReader, LayerSparsenessOverridesTheNetworks) {
  const auto sparseness = [](const std::string& layer) {
    return layer_of(R"({"Layers": [{}, {"Sparse": true, )" + layer +
                        R"(}, {}], "SparsenessPenalty": {"p": 0.5, "beta": 2}})",
                    1)
        .sparseness;
  };
  EXPECT_FALSE(sparseness(R"("N": 2)").has_value());
  test::expect_equal(*sparseness(R"("SparsenessPenalty": {"p": 0.1, "beta": 3})"), {0.1f, 3.0f});
  test::expect_equal(*sparseness(R"("SparsenessPenalty": {"beta": 3})"), {0.5f, 3.0f});
  test::expect_equal(*sparseness(R"("SparsenessPenalty": false)"), {0.5f, 0.0f});
}

TEST(DescriptorReader, CaseOfKeysAndWordsIsIgnoredButNotOfNames) {
  const Reading reading = read(R"({"LAYERS": [
      {"name": "iN", "kind": "INPUT", "n": 3, "dataset": "Da"},
      {"KIND": "hidden", "type": "FULLYCONNECTED", "activation": "rectifiedLINEAR", "source": "iN",
       "PDROPOUT": 0.5, "weightinit": {"SCHEME": "cAFFExavier", "scale": 2}},
      {"Kind": "oUTPUT"}],
      "errorfunction": "CROSS ENTROPY", "shuffleindices": false, "denoising": {"P": 0.5}})");
  ASSERT_EQ(reading.error, "");
  const NetworkDescriptor& d = reading.network;
  EXPECT_EQ(d.layers[0].name, "iN");
  EXPECT_EQ(d.layers[0].dataset, "Da");
  EXPECT_EQ(d.layers[1].name, "Hidden1");
  EXPECT_THAT(d.layers[1].sources, ElementsAre("iN"));
  EXPECT_EQ(name_of(std::get<Activation>(d.layers[1].activation)), "Relu");
  EXPECT_EQ(std::get<CaffeXavier>(d.layers[1].init.scheme).scale, 2.0f);
  EXPECT_FALSE(d.shuffle);
  EXPECT_EQ(d.denoising, 0.5f);
}

TEST(DescriptorReader, CommentsByteOrderMarkAndWindowsLinesAreAllowed) {
  const Reading reading = read(
      "\xEF\xBB\xBF// a network\r\n{ /* here */ \"Layers\": [{\"N\": 3}, // in\r\n{\"N\": 2},],\r\n"
      "\"Name\": \"x\" /* end */ }\r\n// the end\r\n");
  ASSERT_EQ(reading.error, "");
  EXPECT_EQ(reading.network.layers.size(), 2u);
  EXPECT_EQ(reading.network.name, "x");
}

TEST(DescriptorReader, LayersMayBeOneObject) {
  const Reading reading = read(R"({"Layers": {"N": 3}})");
  ASSERT_EQ(reading.error, "");
  ASSERT_EQ(reading.network.layers.size(), 1u);
  EXPECT_EQ(reading.network.layers[0].kind, LayerKind::input);
}

TEST(DescriptorReader, KindGivenOutOfPlaceAndDefaultNames) {
  const Reading reading = read(
      R"({"Layers": [{}, {"Kind": "Input"}, {"Source": ["Input0", "Input1"]}, {"Kind": "Hidden"}]})");
  ASSERT_EQ(reading.error, "");
  const auto& layers = reading.network.layers;
  EXPECT_EQ(layers[1].name, "Input1");
  EXPECT_THAT(layers[1].sources, IsEmpty());
  EXPECT_EQ(layers[3].name, "Hidden3");
  EXPECT_THAT(layers[3].sources, ElementsAre("Hidden2"));
}

TEST(DescriptorReader, LastOfRepeatedKeysCountsWithANote) {
  const Reading same = read("{\"Name\": \"a\",\n\"Name\": \"b\", \"Layers\": [{}]}");
  ASSERT_EQ(same.error, "");
  EXPECT_EQ(same.network.name, "b");
  EXPECT_THAT(same.notes,
              ElementsAre("net.json:2: key 'Name' is given more than once; the last one counts"));
  const Reading alias = read(
      "{\"Slope\": 0.5,\n\"RELUSlope\": 0.25,\n"
      "\"Layers\": [{}, {\"Activation\": \"LRelu\"}, {}]}");
  ASSERT_EQ(alias.error, "");
  EXPECT_THAT(alias.notes,
              ElementsAre("net.json:1: Slope is given again as RELUSlope; the last one counts"));
  EXPECT_THAT(test::parameters_of(
                  std::get<LeakyRelu>(std::get<Activation>(alias.network.layers[1].activation))),
              ElementsAre(0.25f));
}

TEST(DescriptorReader, DocumentedSpellingsAreReadWithANote) {
  const auto notes = [](const std::string& text) {
    const Reading reading = read(text);
    EXPECT_EQ(reading.error, "");
    return reading.notes;
  };
  EXPECT_THAT(notes(with_network_keys(R"("WeightData": "x.nc")")),
              ElementsAre("net.json:2: WeightData is read as WeightsData",
                          "net.json:2: WeightData is accepted, but has no effect"));
  EXPECT_THAT(notes(with_network_keys(R"("ErrorFunction": "SMCE")")),
              ElementsAre("net.json:2: ErrorFunction \"SMCE\" is read as "
                          "ScaledMarginalCrossEntropy"));
  EXPECT_THAT(notes(with_network_keys(R"("Maxout": {"k": 2})")),
              ElementsAre("net.json:2: Maxout is accepted, but has no effect"));
  EXPECT_THAT(
      notes(with_hidden_keys(R"("Activation": "PRelu")")),
      ElementsAre("net.json:4: layer \"Hidden\": Activation \"PRelu\" is read as LRelu: its "
                  "slope is RELUSlope and is not learned"));
  EXPECT_THAT(notes(with_hidden_keys(R"("Kind": "Pooling", "Function": "Max")")),
              ElementsAre("net.json:4: layer \"Hidden\": Kind \"Pooling\" is read as \"Kind\": "
                          "\"Hidden\", \"Type\": \"Pooling\""));
  EXPECT_THAT(
      notes(with_hidden_keys(R"("SharedWeights": {"InputLayer": "a", "SourceInputLayer": "b",
                                "SourceOutputLayer": "c", "Transpose": true})")),
      ElementsAre("net.json:5: layer \"Hidden\": SharedWeights: Transpose is read as Transposed"));
  const Reading penalty = read(with_hidden_keys(R"("SparsenessPenalty": true)"));
  EXPECT_TRUE(penalty.network.layers[1].sparse);
  EXPECT_FALSE(penalty.network.layers[1].sparseness.has_value());
  EXPECT_THAT(penalty.notes,
              ElementsAre("net.json:4: layer \"Hidden\": SparsenessPenalty true as a boolean: true "
                          "is read as \"Sparse\": true, false as {\"beta\": 0}"));
}

TEST(DescriptorReader, ValuesThatNothingUsesAreNoted) {
  EXPECT_THAT(read(with_hidden_keys(R"("Slope": 0.5)")).notes,
              ElementsAre("net.json:4: layer \"Hidden\": RELUSlope has no effect with its "
                          "Activation"));
  EXPECT_THAT(read(with_hidden_keys(R"("Kernel": 3)")).notes,
              ElementsAre("net.json:4: layer \"Hidden\": Kernel has no effect on a FullyConnected "
                          "layer"));
  EXPECT_THAT(
      read(with_hidden_keys(R"("Type": "Convolutional", "Kernel": 3, "KernelStride": [1, 2])"))
          .notes,
      ElementsAre("net.json:4: layer \"Hidden\": KernelStride 2 has no effect along axis y, where "
                  "Kernel gives no window"));
  EXPECT_THAT(read(with_network_keys(R"("Training": {"Mu": 0.5})")).notes,
              ElementsAre("net.json: Training: Mu has no effect with Optimizer SGD"));
  EXPECT_THAT(read(with_network_keys(R"("ScaledMarginalCrossEntropy": {"oneScale": 2})")).notes,
              ElementsAre("net.json: ScaledMarginalCrossEntropy has no effect with ErrorFunction "
                          "CrossEntropy"));
  EXPECT_THAT(read(R"({"Denoising": {"p": 0.5}, "Layers": [{}, {}]})").notes,
              ElementsAre("net.json: Denoising has no effect: no Input layer says \"Sparse\": "
                          "true"));
}

}  // namespace
}  // namespace norn
