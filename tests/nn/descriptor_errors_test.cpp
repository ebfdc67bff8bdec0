// SPDX-License-Identifier: Apache-2.0
// The messages for descriptors that are wrong: file, line, layer, key, value, what was expected.
#include "norn/base/problem.h"
#include "tests/nn/descriptor_text.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using test::read;
using test::with_hidden_keys;
using test::with_input_keys;
using test::with_network_keys;
using test::with_output_keys;

constexpr const char* kLosses =
    "Known: L1, L2, L2Hinge, Hinge, CrossEntropy, ScaledMarginalCrossEntropy, "
    "DataScaledMarginalCrossEntropy, Huber";
constexpr const char* kSizes =
    "expected a whole number from 1 to 4294967295, an array of 1 to 4 of them, or \"auto\"";
constexpr const char* kWindows =
    "expected a whole number from 1 to 4294967295 or an array of 1 to 3 of them";
constexpr const char* kNumber = "expected a number of at least 0";
constexpr const char* kProbability = "expected a number of at least 0 and below 1";

// Keys and what is said of them.
const std::vector<std::pair<std::string, std::string>> kNetworkFaults = {
    {R"("Version": 0.5)", "Version 0.5 is out of range; expected a number of at least 0.6999"},
    {R"("Version": "0.8")", "Version \"0.8\" is a string; expected a number of at least 0.6999"},
    {R"("Name": 3)", "Name 3 is a number; expected a string"},
    {R"("Name": "a\tb")", R"(Name "a\tb" has control characters; expected plain text)"},
    {R"("Kind": "Encoder")", "Kind \"Encoder\" is unknown. Known: FeedForward, AutoEncoder"},
    {R"("Kind": "AutoEncodr")",
     "Kind \"AutoEncodr\" is unknown; did you mean \"AutoEncoder\"? Known: FeedForward, "
     "AutoEncoder"},
    {R"("ErrorFunction": "CrosEntropy")",
     std::string("ErrorFunction \"CrosEntropy\" is unknown; did you mean \"CrossEntropy\"? ") +
         kLosses},
    {R"("ErrorFunction": 2)",
     "ErrorFunction 2 is a number; expected one of L1, L2, L2Hinge, Hinge, CrossEntropy, "
     "ScaledMarginalCrossEntropy, DataScaledMarginalCrossEntropy, Huber"},
    {R"("TargetWeight": "Two")", "TargetWeight \"Two\" is unknown. Known: InverseCount, One"},
    {R"("ShuffleIndices": "no")", "ShuffleIndices \"no\" is a string; expected true or false"},
    {R"("ShuffleIndices": 2)", "ShuffleIndices 2 is a number; expected true or false"},
    {R"("SparsenessPenalty": true)", "SparsenessPenalty true is a boolean; expected an object"},
    {R"("SparsenessPenalty": {"p": 2})",
     "SparsenessPenalty: p 2 is out of range; expected a number from 0 to 1"},
    {R"("SparsenessPenalty": {"beta": -1})",
     std::string("SparsenessPenalty: beta -1 is out of range; ") + kNumber},
    {R"("Denoising": {"q": 1})", "Denoising: unknown key \"q\". Known: p"},
    {R"("Denoising": {"p": 1})", std::string("Denoising: p 1 is out of range; ") + kProbability},
    {R"("Denoising": {"p": 0.99999999999})",
     std::string("Denoising: p 0.99999999999 is out of range; ") + kProbability},
    {R"("DeltaBoost": {"one": "x"})", std::string("DeltaBoost: one \"x\" is a string; ") + kNumber},
    {R"("DeltaBoost": {"zero": true})",
     std::string("DeltaBoost: zero true is a boolean; ") + kNumber},
    {R"("ScaledMarginalCrossEntropy": {"oneTarget": 1.5})",
     "ScaledMarginalCrossEntropy: oneTarget 1.5 is out of range; expected a number from 0 to 1"},
    {R"("ScaledMarginalCrossEntropy": {"oneTraget": 1})",
     "ScaledMarginalCrossEntropy: unknown key \"oneTraget\"; did you mean \"oneTarget\"?"},
    {R"("LRN": {"n": 2.5})",
     "LRN: n 2.5 is not a whole number; expected a whole number from 1 to 65535"},
    {R"("LRN": [])", "LRN [] is an array; expected an object"},
    {R"("Maxout": {"k": 0})",
     "Maxout: k 0 is out of range; expected a whole number from 1 to 65535"},
    {R"("RELUSlope": -1)", std::string("RELUSlope -1 is out of range; ") + kNumber},
    {R"("Slope": null)", std::string("Slope is null; ") + kNumber},
    {R"("ELUAlpha": {})", std::string("ELUAlpha {} is an object; ") + kNumber},
    {R"("SELULambda": 0)", "SELULambda 0 is out of range; expected a number above 0"},
    {R"("Decay": 1e39)", std::string("Decay 1e+39 is out of range; ") + kNumber},
    {R"("WeightsData": 1)", "WeightsData 1 is a number; expected a string"},
    {R"("Training": {"Optimizer": "adm"})",
     "Training: Optimizer \"adm\" is unknown; did you mean \"Adam\"? Known: SGD, Momentum, "
     "Nesterov, AdaGrad, RMSProp, AdaDelta, Adam, AMSGrad, AdamW"},
    {R"("Training": {"Alpha": 0})", "Training: Alpha 0 is out of range; expected a number above 0"},
    {R"("Training": {"Batch": 0})",
     "Training: Batch 0 is out of range; expected a whole number from 1 to 4294967295"},
    {R"("Training": {"MiniBatch": "512"})",
     "Training: MiniBatch \"512\" is a string; expected a whole number from 1 to 4294967295"},
    {R"("Training": {"Epochs": -1})",
     "Training: Epochs -1 is out of range; expected a whole number from 0 to 4294967295"},
    {R"("Training": {"Lambda": -1})",
     std::string("Training: Lambda -1 is out of range; ") + kNumber},
    {R"("Training": {"Lambda1": -1})",
     std::string("Training: Lambda1 -1 is out of range; ") + kNumber},
    {R"("Training": {"Mu": 1})", std::string("Training: Mu 1 is out of range; ") + kProbability},
    {R"("Training": {"Mu1": 2})", std::string("Training: Mu1 2 is out of range; ") + kProbability},
    {R"("Training": {"Seed": 18446744073709551616})",
     "Training: Seed 1.8446744073709552e+19 is out of range; expected a whole number of at least "
     "0 and below 18446744073709551616"},
    {R"("Training": {"Epoch": 3})", "Training: unknown key \"Epoch\"; did you mean \"Epochs\"?"},
    {R"("ErorFunction": "L1")", "unknown key \"ErorFunction\"; did you mean \"ErrorFunction\"?"},
    {R"("zzzzzz": 1)",
     "unknown key \"zzzzzz\". Known: $schema, Version, Recipe, Name, Kind, ErrorFunction, "
     "TargetWeight, "
     "ShuffleIndices, SparsenessPenalty, Denoising, DeltaBoost, ScaledMarginalCrossEntropy, "
     "Huber, LocalResponseNormalization, Maxout, RELUSlope, ELUAlpha, SELULambda, SwishBeta, "
     "Decay, "
     "WeightsData, Training, Layers"},
};

TEST(DescriptorErrors, NetworkKeys) {
  for (const auto& [keys, message] : kNetworkFaults)
    EXPECT_EQ(read(with_network_keys(keys)).error, "net.json:2: " + message);
}

// Keys and what is said of them.
const std::vector<std::pair<std::string, std::string>> kHiddenFaults = {
    {R"("Kind": "Hiden")",
     "Kind \"Hiden\" is unknown; did you mean \"Hidden\"? Known: Input, Hidden, Output, Target"},
    {R"("Type": "Convolution")",
     "Type \"Convolution\" is unknown; did you mean \"Convolutional\"? Known: FullyConnected, "
     "Convolutional, Pooling"},
    {R"("N": 0)", std::string("N 0 is out of range; ") + kSizes},
    {R"("N": -4)", std::string("N -4 is out of range; ") + kSizes},
    {R"("N": 4294967296)", std::string("N 4294967296 is out of range; ") + kSizes},
    {R"("N": 1.5)", std::string("N 1.5 is not a whole number; ") + kSizes},
    {R"("N": "128")", std::string("N \"128\" is a string; ") + kSizes},
    {R"("N": [1, 2, 3, 4, 5])", std::string("N [1,2,3,4,5] has 5 entries; ") + kSizes},
    {R"("N": [3, 0])", std::string("N [3,0]: 0 is out of range; ") + kSizes},
    {R"("N": [70000, 70000])",
     "N 70000 x 70000 is 4900000000 units; a layer has at most "
     "4294967295"},
    {R"("N": "auto")",
     "N \"auto\" belongs to Input and Output layers; give a Hidden layer a number of units"},
    {R"("DataSet": "x")",
     "DataSet is not a key of a Hidden layer; it belongs to Input and Output "
     "layers"},
    {R"("Normalize": "L2")",
     "Normalize is not a key of a Hidden layer; it belongs to Input "
     "layers"},
    {R"("InputWeighting": {"Scheme": "IDF"})",
     "InputWeighting is not a key of a Hidden layer; it belongs to Input "
     "layers"},
    {R"("Augment": {"Crop": 4})",
     "Augment is not a key of a Hidden layer; it belongs to Input layers"},
    {R"("Sparse": "true")", "Sparse \"true\" is a string; expected true or false"},
    {R"("pDropout": 1)", std::string("pDropout 1 is out of range; ") + kProbability},
    {R"("pDropout": -0.1)", std::string("pDropout -0.1 is out of range; ") + kProbability},
    {R"("pDropout": "0.5")", std::string("pDropout \"0.5\" is a string; ") + kProbability},
    {R"("Source": 3)", "Source 3 is a number; expected a name or an array of names"},
    {R"("Source": ["a", 3])", "Source [\"a\",3] is an array; expected a name or an array of names"},
    {R"("Skip": [])", "Skip [] has no entries; expected a name or an array of names"},
    {R"("Activation": "Tahn")",
     "Activation \"Tahn\" is unknown; did you mean \"Tanh\"? Known: Linear, Sigmoid, Tanh, Relu, "
     "LRelu, ELU, SELU, SoftPlus, SoftSign, GELU, Swish, SoftMax"},
    {R"("Activation": "ReluMax")",
     "Activation \"ReluMax\" is not available: DSSTNE computed Linear for it; write \"Linear\" "
     "for "
     "the same results, or \"Relu\""},
    {R"("Activation": "linearmax")",
     "Activation \"linearmax\" is not available: DSSTNE computed Linear for it; write \"Linear\" "
     "for the same results, or \"Relu\""},
    {R"("Activation": "MaxOut")",
     "Activation \"MaxOut\" is not an activation; write \"Type\": \"Pooling\", \"Function\": "
     "\"Maxout\""},
    {R"("Slope": "x")", std::string("Slope \"x\" is a string; ") + kNumber},
    {R"("ELUAlpha": -1)", std::string("ELUAlpha -1 is out of range; ") + kNumber},
    {R"("SELULambda": -1)", "SELULambda -1 is out of range; expected a number above 0"},
    {R"("WeightInit": "Xavier")", "WeightInit \"Xavier\" is a string; expected an object"},
    {R"("WeightInit": {"Scheme": "Xaver"})",
     "WeightInit: Scheme \"Xaver\" is unknown; did you mean \"Xavier\"? Known: Xavier, "
     "CaffeXavier, Gaussian, Uniform, UnitBall, Constant, SELU"},
    {R"("WeightInit": {"Bias": "x"})", "WeightInit: Bias \"x\" is a string; expected a number"},
    {R"("WeightInit": {"Scale": 1e300})",
     "WeightInit: Scale 1e+300 is out of range; expected a number"},
    {R"("WeightInit": {"Sheme": 1})",
     "WeightInit: unknown key \"Sheme\"; did you mean \"Scheme\"?"},
    {R"("WeightNorm": -1)", std::string("WeightNorm -1 is out of range; ") + kNumber},
    {R"("DeltaNorm": -1)", std::string("DeltaNorm -1 is out of range; ") + kNumber},
    {R"("SharedWeights": "x")",
     "SharedWeights \"x\" is a string; expected an object or an array of objects"},
    {R"("SharedWeights": [1])",
     "SharedWeights: 1 is not an object; expected an object or an array of objects"},
    {R"("SharedWeights": {"InputLayer": "a", "SourceInputLayer": "b"})",
     "SharedWeights: SourceOutputLayer is missing; expected a string"},
    {R"("BatchNormalization": "yes")",
     "BatchNormalization \"yes\" is a string; expected true or false"},
    {R"("SparsenessPenalty": {"q": 1})", "SparsenessPenalty: unknown key \"q\". Known: p, beta"},
    {R"("Function": "Max")",
     "Function is not a key of a FullyConnected layer; it belongs to Hidden and Output layers "
     "with "
     "\"Type\": \"Pooling\""},
    {R"("Type": "Pooling", "Function": "Stochastic")",
     "Function \"Stochastic\" was never implemented, not in DSSTNE either"},
    {R"("Type": "Pooling", "Function": "Mox")",
     "Function \"Mox\" is unknown; did you mean \"Max\"? Known: Max, Average, LRN, Maxout, "
     "DotProduct, Cosine"},
    {R"("Kernel": [1, 2, 3, 4])", std::string("Kernel [1,2,3,4] has 4 entries; ") + kWindows},
    {R"("Kernel": 0)", std::string("Kernel 0 is out of range; ") + kWindows},
    {R"("KernelStride": "2")", std::string("KernelStride \"2\" is a string; ") + kWindows},
    {R"("KernelPadding": 1)", "KernelPadding is computed from Kernel and KernelStride; remove it"},
    {R"("L1Penalty": 1)",
     "L1Penalty was never implemented, not in DSSTNE either; L1 "
     "regularisation is Lambda1 of \"Training\""},
    {R"("Target": "gl_output")",
     "Target was never implemented, not in DSSTNE either; an Output layer's targets are its "
     "DataSet"},
    {R"("Recurrent": "LSTM")", "Recurrent was never implemented, not in DSSTNE either; remove it"},
    {R"("ErrorFunction": "L1")",
     "ErrorFunction is a key of the network, not of a layer; move it there"},
    {R"("Activaton": "Relu")", "unknown key \"Activaton\"; did you mean \"Activation\"?"},
    {R"("qqqqq": 1)",
     "unknown key \"qqqqq\". Known: Name, Kind, Type, N, Sparse, Source, Skip, pDropout, "
     "Activation, RELUSlope, ELUAlpha, SELULambda, SwishBeta, WeightInit, WeightNorm, DeltaNorm, "
     "SharedWeights, BatchNormalization, SparsenessPenalty, Kernel, KernelStride"},
};

TEST(DescriptorErrors, HiddenLayerKeys) {
  for (const auto& [keys, message] : kHiddenFaults)
    EXPECT_EQ(read(with_hidden_keys(keys)).error, "net.json:4: layer \"Hidden\": " + message);
}

TEST(DescriptorErrors, KeysOfOtherKindsAreNamedWithTheirHome) {
  const std::vector<std::pair<std::string, std::string>> input = {
      {R"("Activation": "Relu")",
       "Activation is not a key of an Input layer; it belongs to Hidden and Output layers"},
      {R"("Source": "x")",
       "Source is not a key of an Input layer; it belongs to Hidden, Output and Target layers"},
      {R"("N": "auto")",
       "N \"auto\" needs a DataSet to take the width from; name one, or give a number of units"},
      {R"("InputWeighting": "IDF")", "InputWeighting \"IDF\" is a string; expected an object"},
      {R"("InputWeighting": {"Exponent": 1})",
       "InputWeighting: Scheme is missing; expected one of InverseDocumentFrequency, "
       "InversePopularity"},
      {R"("InputWeighting": {"Scheme": "TFIDF"})",
       "InputWeighting: Scheme \"TFIDF\" is unknown. Known: InverseDocumentFrequency, "
       "InversePopularity"},
      {R"("InputWeighting": {"Scheme": "InversePopularity", "Exponent": 0})",
       "InputWeighting: Exponent 0 is out of range; expected a number above 0"},
      {R"("Augment": true)", "Augment true is a boolean; expected an object"},
      {R"("Augment": {"Crop": -1})",
       "Augment: Crop -1 is out of range; expected a whole number from 0 to 4294967295"},
      {R"("Augment": {"Crop": 1.5})",
       "Augment: Crop 1.5 is not a whole number; expected a whole number from 0 to 4294967295"},
      {R"("Augment": {"Flip": "x"})", "Augment: Flip \"x\" is a string; expected true or false"},
      {R"("Augment": {"Rotate": 5})", "Augment: unknown key \"Rotate\". Known: Crop, Flip"},
  };
  for (const auto& [keys, message] : input)
    EXPECT_EQ(read(with_input_keys(keys)).error, "net.json:3: layer \"Input\": " + message);
  const std::vector<std::pair<std::string, std::string>> output = {
      {R"("BatchNormalization": true)",
       "BatchNormalization is not a key of an Output layer; it belongs to Hidden layers"},
      {R"("SparsenessPenalty": {})",
       "SparsenessPenalty is not a key of an Output layer; it belongs to Hidden layers"},
      {R"("Kind": "Target", "DataSet": "x")",
       "DataSet is not a key of a Target layer; it belongs to Input and Output layers"},
  };
  for (const auto& [keys, message] : output)
    EXPECT_EQ(read(with_output_keys(keys)).error, "net.json:4: layer \"Output\": " + message);
}

TEST(DescriptorErrors, AllAreReportedAtOnceInTheOrderOfLines) {
  EXPECT_EQ(read("{\n\"Layers\": [\n{\"N\": 0},\n{\n\"pDropout\":\n2}],\n\"Nmae\": 1,\n"
                 "\"Decay\": -1}")
                .error,
            "net.json:3: layer \"Input0\": N 0 is out of range; expected a whole number from 1 to "
            "4294967295, an array of 1 to 4 of them, or \"auto\"\n"
            "net.json:5: layer \"Output1\": pDropout 2 is out of range; expected a number of at "
            "least 0 and below 1\n"
            "net.json:7: unknown key \"Nmae\"; did you mean \"Name\"?\n"
            "net.json:8: Decay -1 is out of range; expected a number of at least 0");
}

TEST(DescriptorErrors, NamesThatNoLayerHasAreReportedBesideOtherErrors) {
  EXPECT_EQ(read("{\"Layers\": [\n{\"N\": 0, \"Name\": \"In\"},\n{\"Source\": \"Inn\"}]}").error,
            "net.json:2: layer \"In\": N 0 is out of range; expected a whole number from 1 to "
            "4294967295, an array of 1 to 4 of them, or \"auto\"\n"
            "net.json:3: layer \"Output1\": Source \"Inn\" is not a layer; did you mean \"In\"? "
            "Layers: In, Output1");
}

TEST(DescriptorErrors, ManyAreCutAndCounted) {
  std::string keys;
  for (int i = 0; i < 45; ++i) keys += fmt::format("\"q{}\": 1,\n", i);
  const std::string error = read("{\n" + keys + "\"Layers\": [{}, {}]}").error;
  EXPECT_THAT(error, testing::StartsWith("net.json:2: unknown key \"q0\". Known: "));
  EXPECT_THAT(error, testing::HasSubstr("\nnet.json:41: unknown key \"q39\". Known: "));
  EXPECT_THAT(error, testing::EndsWith("\n5 more errors are not shown; mend these first"));
}

TEST(DescriptorErrors, HavePlacesAndKeysInParts) {
  try {
    parse_network_json(
        "{\"Layers\": [{},\n  {\"Source\": \"Input0\", \"Activation\" : \"Tahn\",\n"
        "\"WeightInit\": {\"Sheme\": 1}, \"SharedWeights\": [{}]}]}",
        "net.json");
    ADD_FAILURE();
  } catch (const ProblemsError& error) {
    using Place = std::tuple<int, int, std::string, std::string>;
    std::vector<Place> places;
    for (const Problem& problem : error.problems()) {
      EXPECT_EQ(problem.file, "net.json");
      places.emplace_back(problem.line, problem.column, problem.key, problem.suggestion());
    }
    EXPECT_THAT(places, testing::ElementsAre(
                            Place{2, 24, "Layers[1].Activation", "Tanh"},
                            Place{3, 16, "Layers[1].WeightInit.Sheme", "Scheme"},
                            Place{3, 47, "Layers[1].SharedWeights.InputLayer", ""},
                            Place{3, 47, "Layers[1].SharedWeights.SourceInputLayer", ""},
                            Place{3, 47, "Layers[1].SharedWeights.SourceOutputLayer", ""}));
  }
}

TEST(DescriptorErrors, NamesOfLayersMustDiffer) {
  EXPECT_EQ(read("{\"Layers\": [{\"Name\": \"x\"},\n{\"Name\": \"y\"},\n{\"Name\": \"x\"}]}").error,
            "net.json:3: layer \"x\": Name is that of layer 0, too (line 1); names of layers must "
            "differ");
  EXPECT_EQ(read("{\"Layers\": [{\"Name\": \"Output1\"},\n{}]}").error,
            "net.json:2: layer \"Output1\": Name is that of layer 0, too (line 1); names of layers "
            "must differ");
}

TEST(DescriptorErrors, LayersMustBeThere) {
  EXPECT_EQ(read("{}").error,
            "net.json:1: Layers is missing; expected an array of layers, or one layer");
  EXPECT_EQ(read(R"({"Layers": []})").error,
            "net.json:1: Layers is empty; a network needs at least one layer");
  EXPECT_EQ(read(R"({"Layers": [{}, 5]})").error,
            "net.json:1: Layers: entry 1 is 5; expected an object");
  EXPECT_EQ(read(R"({"Layers": "x"})").error,
            "net.json:1: Layers \"x\" is a string; expected an array of layers, or one layer");
}

TEST(DescriptorErrors, TextsThatAreNotJson) {
  EXPECT_EQ(read("").error,
            "net.json:1:1: not JSON: Syntax error: value, object or array expected.");
  EXPECT_EQ(read("{\n\"Name\": }").error,
            "net.json:2:9: not JSON: Syntax error: value, object or array expected.");
  EXPECT_EQ(read("[1, 2]").error, "net.json:1: [1,2] is not a network; expected a JSON object");
  EXPECT_EQ(read("{} {}").error, "net.json:1:4: not JSON: Extra non-whitespace after JSON value.");
  EXPECT_THAT(read("{\"Decay\": NaN}").error, testing::StartsWith("net.json:1:11: not JSON: "));
  EXPECT_THAT(read("{\"Decay\": 1e999, \"Layers\": [{}]}").error,
              testing::StartsWith("net.json:1:11: not JSON: "));
  EXPECT_EQ(read(std::string(100000, '[')).error,
            "net.json: the JSON is nested too deeply; a network needs 6 levels");
}

TEST(DescriptorErrors, FilesThatCannotBeRead) {
  const std::filesystem::path folder = NORN_SOURCE_DIR;
  EXPECT_THROW(read_network_json(folder), UsageError);
  try {
    read_network_json("/nowhere/x.json");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "/nowhere/x.json: cannot be read; expected a network descriptor in JSON");
    EXPECT_EQ(error.exit_code(), 2);
  }
}

}  // namespace
}  // namespace norn
