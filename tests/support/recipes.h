// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/unit_features.h"
#include "tests/support/training_recipe.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

/// Networks for whole runs: between them every mechanism of the engine, odd widths, a smaller last
/// batch, and layers with fewer blocks than there are ranks.
namespace norn::test {

inline Recipe recipe_base(std::string name, const UpdateRule& optimizer, float rate) {
  Recipe recipe;
  recipe.name = std::move(name);
  TrainingDescriptor& training = recipe.network.training;
  training.optimizer = optimizer;
  training.rate = rate;
  training.batch = 37;
  training.lambda = 1e-3f;
  training.lambda1 = 1e-5f;
  training.seed = 4711;
  recipe.network.decay = 0.01f;
  return recipe;
}

/// 333 inputs, 77 and 50 hidden units, 1003 outputs, with dropout and denoising.
inline Recipe deep_recipe(std::string name, const UpdateRule& optimizer, float rate,
                          const LayerActivation& output) {
  Recipe recipe = recipe_base(std::move(name), optimizer, rate);
  recipe.network.layers = {input_layer("In", 333), hidden_layer("First", 77, {"In"}),
                           hidden_layer("Second", 50, {"First"}, Activation(Relu{})),
                           output_layer("Out", 1003, {"Second"}, output)};
  recipe.network.denoising = 0.3f;
  recipe.network.layers[0].sparse = true;
  recipe.network.layers[1].dropout = 0.3f;
  recipe.network.layers[2].dropout = 0.2f;
  return recipe;
}

/// Batches and widths for which a GPU computes the loss inside the products of its output layer,
/// but for the last batch of an epoch; blocks are several a call there, and the last one is narrow.
inline Recipe fused_recipe(const LayerActivation& output) {
  Recipe recipe = recipe_base("fused with the loss", Adam{}, 0.003f);
  recipe.network.layers = {input_layer("In", 333), hidden_layer("Hidden", 72, {"In"}),
                           output_layer("Out", 1290, {"Hidden"}, output)};
  recipe.network.training.batch = 100;
  recipe.network.boost_one = 3.0f;
  recipe.examples = 330;
  recipe.targets.low = 0.1f;
  recipe.blocks = {.minimum_width = 128, .maximum_width = 128, .multiple = 128};
  return recipe;
}

/// Wide layers that feed narrow ones, so that weights are shared out by source units: a chain of
/// them, one beside a sparse input, a layer that a skip passes by, a hidden and an output layer
/// that one source feeds.
inline Recipe by_source_recipe(std::string name, const UpdateRule& optimizer, float rate) {
  Recipe recipe = recipe_base(std::move(name), optimizer, rate);
  recipe.network.layers = {input_layer("In", 333),
                           hidden_layer("Wide", 407, {"In"}, Activation(Relu{})),
                           hidden_layer("Narrow", 61, {"Wide"}),
                           hidden_layer("Narrower", 15, {"Narrow", "In"}),
                           hidden_layer("Wide2", 407, {"Narrower"}, Activation(Selu{})),
                           output_layer("Near", 37, {"Wide", "In"}, Activation(Sigmoid{})),
                           output_layer("Far", 101, {"Wide2"}, SoftMax{})};
  recipe.network.layers[1].dropout = 0.2f;
  recipe.network.layers[2].batch_normalization = true;
  recipe.network.layers[4].skips = {"Wide"};
  recipe.blocks.gathered_elements = 1;
  return recipe;
}

/// The caps and penalties of the others, in layers that edges by source lead to or from.
inline Recipe by_source_recipe_with_penalties() {
  Recipe recipe = by_source_recipe("by source with penalties", AdaGrad{}, 0.01f);
  recipe.network.layers[1].sparse = true;
  recipe.network.layers[1].activation = Activation(Sigmoid{});
  recipe.network.layers[2].delta_norm = 0.05f;
  recipe.network.layers[3].dropout = 0.2f;
  recipe.network.layers[4].batch_normalization = true;
  recipe.network.layers[5].delta_norm = 0.4f;
  recipe.network.layers[6].delta_norm = 0.4f;
  recipe.network.sparseness = {0.3f, 0.01f};
  return recipe;
}

/// An output layer whose weights are a product, folded at every fifth step.
inline Recipe factored_recipe(FactoredRule rule, const UpdateRule& optimizer) {
  Recipe recipe = recipe_base("factored", optimizer, 0.003f);
  recipe.network.loss = SquaredError{};
  recipe.network.training.lambda = recipe.network.training.lambda1 = 0.0f;
  recipe.network.boost_one = 7.0f;
  recipe.network.boost_zero = 0.5f;
  recipe.network.denoising = 0.3f;
  recipe.network.layers = {input_layer("In", 333), hidden_layer("Hidden", 50, {"In"}),
                           output_layer("Out", 1003, {"Hidden"}, Activation(Linear{}))};
  recipe.network.layers[0].sparse = true;
  recipe.network.layers[1].dropout = 0.3f;
  recipe.network.layers[2].factored = {rule, 0.02f, 0.1f, 5};
  recipe.targets = {.valued = true};
  return recipe;
}

/// Weights that decay beside the averages of their gradients.
inline Recipe recipe_with_decoupled_decay() {
  Recipe recipe = deep_recipe("decoupled decay", AdamW{}, 0.003f, SoftMax{});
  recipe.network.training.lambda = 0.1f;
  recipe.network.layers[1].activation = Activation(Swish{});
  return recipe;
}

/// Hidden layers that keep their pre-activations: with dropout and a penalty, behind batch
/// normalisation with a skip, and shared out by source units.
inline Recipe recipe_with_slopes_in_z() {
  Recipe recipe = by_source_recipe("slopes in z", AmsGrad{}, 0.003f);
  for (const std::size_t layer : {1, 2, 3, 4})
    recipe.network.layers[layer].activation = Activation(Gelu{});
  recipe.network.layers[2].activation = Activation(Swish{.beta = 1.5f});
  recipe.network.layers[1].sparse = true;
  recipe.network.layers[3].dropout = 0.2f;
  recipe.network.sparseness = {0.3f, 0.01f};
  return recipe;
}

/// Layers by example and by unit in both orders, layers that feed both, skips past a layer, and all
/// that sums over examples.
inline Recipe by_example_recipe(const UpdateRule& optimizer, float rate) {
  Recipe recipe = recipe_base("by example", optimizer, rate);
  recipe.inputs = {.name = "dense", .sparse = false};
  recipe.network.layers = {input_layer("In", 45),
                           hidden_layer("First", 61, {"In"}, Activation(Relu{})),
                           hidden_layer("Second", 29, {"First", "In"}),
                           hidden_layer("Middle", 77, {"Second", "First"}),
                           hidden_layer("Third", 61, {"Middle", "Second"}, Activation(Gelu{})),
                           hidden_layer("Side", 61, {"Middle"}),
                           output_layer("Out", 103, {"Third", "First"}, SoftMax{})};
  recipe.network.layers[1].dropout = 0.2f;
  recipe.network.layers[2].batch_normalization = true;
  recipe.network.layers[4].skips = {"First", "Side"};
  recipe.network.layers[4].dropout = 0.3f;
  recipe.network.layers[4].batch_normalization = true;
  recipe.by_example = {"First", "Second", "Third"};
  return recipe;
}

/// Of two axes, for images of three dimensions.
inline LayerDescriptor convolution(const std::string& name, Index channels, Index kernel,
                                   Index stride, std::vector<std::string> sources) {
  LayerDescriptor layer = hidden_layer(name, channels, std::move(sources), Activation(Relu{}));
  layer.type = LayerType::convolutional;
  layer.kernel = {kernel, kernel, 1};
  layer.kernel_dimensions = 2;
  layer.stride = {stride, stride, 1};
  return layer;
}

/// Convolutions that feed each other and layers by unit, with all that sums over examples.
inline Recipe convolution_recipe() {
  Recipe recipe = recipe_base("convolution", Adam{}, 0.003f);
  recipe.inputs = {.name = "dense", .sparse = false};
  LayerDescriptor image = input_layer("In", 1);
  image.extent = {7, 9, 3, 1};
  image.dimensions = 3;
  recipe.network.layers = {image,
                           convolution("First", 5, 3, 1, {"In"}),
                           convolution("Second", 9, 3, 2, {"First", "In"}),
                           convolution("Third", 5, 3, 2, {"In"}),
                           hidden_layer("Full", 41, {"Second", "First", "Third"}),
                           output_layer("Out", 53, {"Full"}, SoftMax{})};
  recipe.network.layers[1].batch_normalization = true;
  recipe.network.layers[1].dropout = 0.2f;
  recipe.network.layers[2].weight_norm = 0.7f;
  recipe.network.layers[3].shared_weights = {{"In", "In", "First", false}};
  return recipe;
}

/// Of `kernel` units along the first two axes.
inline LayerDescriptor pooling(const std::string& name, PoolingFunction function, Index kernel,
                               Index stride, std::vector<std::string> sources) {
  LayerDescriptor layer = pooling_layer(name, function, std::move(sources));
  layer.kernel = {kernel, kernel, 1};
  layer.kernel_dimensions = 2;
  layer.stride = {stride, stride, 1};
  return layer;
}

/// Every function of Pooling layers, by example and by unit, with layers that feed both.
inline Recipe pooling_recipe() {
  using enum PoolingFunction;
  Recipe recipe = recipe_base("pooling", Adam{}, 0.003f);
  recipe.inputs = {.name = "dense", .sparse = false};
  LayerDescriptor image = input_layer("In", 1);
  image.extent = {9, 7, 3, 1};
  image.dimensions = 3;
  recipe.network.layers = {image,
                           convolution("First", 5, 3, 1, {"In"}),
                           pooling_layer("Responses", lrn, {"First"}),
                           pooling("Largest", max, 3, 2, {"Responses", "First"}),
                           convolution("Second", 9, 3, 1, {"Largest"}),
                           convolution("Third", 9, 3, 1, {"Largest"}),
                           pooling_layer("Larger", maxout, {"Second", "Third"}),
                           pooling("Mean", average, 2, 2, {"Larger"}),
                           pooling_layer("Alike", cosine, {"Second", "Third", "Larger"}),
                           hidden_layer("Left", 41, {"Mean", "Larger"}),
                           hidden_layer("Right", 41, {"Mean"}),
                           pooling_layer("Both", maxout, {"Left", "Right"}),
                           pooling_layer("Towers", dot_product, {"Left", "Right", "Both"}),
                           hidden_layer("Full", 17, {"Both", "Towers", "Alike"}),
                           output_layer("Out", 53, {"Full"}, SoftMax{})};
  recipe.network.layers[1].dropout = 0.2f;
  recipe.network.layers[4].batch_normalization = true;
  return recipe;
}

/// Convolutions and poolings as wide as tiles want them, which a GPU may have in bf16 alone: with
/// dropout, strides, responses, means, and images whose windows stride.
inline Recipe wide_convolution_recipe() {
  using enum PoolingFunction;
  Recipe recipe = recipe_base("wide convolution", Momentum{}, 0.003f);
  recipe.inputs = {.name = "dense", .sparse = false};
  LayerDescriptor image = input_layer("In", 1);
  image.extent = {15, 13, 3, 1};
  image.dimensions = 3;
  recipe.network.layers = {image,
                           convolution("First", 32, 3, 1, {"In"}),
                           convolution("Second", 40, 3, 2, {"First"}),
                           pooling_layer("Responses", lrn, {"Second"}),
                           pooling("Largest", max, 3, 2, {"Responses"}),
                           convolution("Third", 32, 3, 1, {"Largest"}),
                           convolution("Folded", 32, 7, 4, {"In"}),
                           pooling("Mean", average, 2, 2, {"Folded"}),
                           hidden_layer("Full", 41, {"Third", "Mean"}),
                           output_layer("Out", 53, {"Full"}, SoftMax{})};
  recipe.network.layers[1].dropout = 0.2f;
  recipe.network.layers[2].activation = Activation(LeakyRelu{0.1f});
  return recipe;
}

/// An image and clicks that rank items together: batches of 100 and a short last one.
inline Recipe images_and_clicks_recipe() {
  using enum PoolingFunction;
  Recipe recipe = recipe_base("images and clicks", Adam{}, 0.003f);
  recipe.network.training.batch = 100;
  recipe.examples = 437;
  recipe.images = "Image";
  LayerDescriptor image = input_layer("Image", 1);
  image.extent = {12, 10, 3, 1};
  image.dimensions = 3;
  recipe.network.layers = {image,
                           input_layer("Clicks", 205),
                           convolution("First", 8, 3, 1, {"Image"}),
                           convolution("Second", 8, 3, 1, {"First"}),
                           pooling("Largest", max, 2, 2, {"Second"}),
                           pooling_layer("Responses", lrn, {"Largest"}),
                           convolution("Third", 16, 3, 2, {"Responses"}),
                           hidden_layer("Hidden", 64, {"Third", "Clicks"}),
                           output_layer("Items", 405, {"Hidden", "Third"}, SoftMax{})};
  recipe.network.layers[2].batch_normalization = true;
  recipe.network.layers[3].skips = {"First"};
  recipe.network.layers[3].dropout = 0.2f;
  recipe.network.layers[6].batch_normalization = true;
  recipe.network.layers[7].dropout = 0.2f;
  recipe.network.denoising = 0.2f;
  recipe.network.layers[1].sparse = true;
  return recipe;
}

/// Pooling layers of layers by unit, one of them of several blocks, with layers that feed both.
inline Recipe towers_recipe() {
  using enum PoolingFunction;
  Recipe recipe = recipe_base("towers", Adam{}, 0.003f);
  recipe.network.layers = {input_layer("In", 333),
                           hidden_layer("Left", 77, {"In"}),
                           hidden_layer("Right", 77, {"In"}, Activation(Relu{})),
                           pooling_layer("Larger", maxout, {"Left", "Right"}),
                           hidden_layer("Third", 77, {"Larger", "Left"}),
                           pooling_layer("Alike", cosine, {"Third", "Left", "Larger", "Right"}),
                           pooling_layer("Products", dot_product, {"Right", "Third"}),
                           output_layer("Out", 203, {"Larger", "Alike", "Products"}, SoftMax{})};
  recipe.network.layers[1].dropout = 0.2f;
  return recipe;
}

/// Values of targets become weights of their entries, some of them near 0.
inline void weigh_entries(Recipe& recipe) {
  for (LayerDescriptor& layer : recipe.network.layers)
    if (layer.kind == LayerKind::output) layer.entry_weights.scheme = EntryWeightScheme::value;
  recipe.targets.valued = true;
  recipe.targets.low = 0.0f;
  recipe.targets.high = 4.0f;
}

inline Recipe recipe_with_weights_of_entries() {
  Recipe recipe = deep_recipe("weights of entries", Adam{}, 0.003f, Activation(Sigmoid{}));
  weigh_entries(recipe);
  return recipe;
}

/// Random features of the units of the output layer `name`; the last units have none, and some
/// others. Weights of features that are not 0, so that deltas go through them.
inline void give_features(NetworkDescriptor& network, const std::string& name, Index features,
                          bool valued, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto table = std::make_shared<FeatureTable>();
  table->features = features;
  const auto layer = std::size_t(std::ranges::find(network.layers, name, &LayerDescriptor::name) -
                                 network.layers.begin());
  const Index units = network.layers[layer].units();
  for (Index unit = 0; unit + 2 < units || unit < 1; ++unit) {
    for (Index f = 0; f < features; ++f) {
      if (random() % 4 != 0 && unit > 0) continue;
      table->column.push_back(Column(f));
      if (valued) table->value.push_back(float(random() % 1000) / 500.0f - 1.0f);
    }
    table->row_begin.push_back(RowOffset(table->column.size()));
  }
  network.layers[layer].features = "features";
  add_features(network, layer, std::move(table));
  network.layers.back().init.scheme = Xavier{};
}

inline Recipe recipe_with_features(bool valued) {
  Recipe recipe =
      valued ? deep_recipe("features", Adam{}, 0.003f, SoftMax{})
             : deep_recipe("features of sigmoid units", Adam{}, 0.003f, Activation(Sigmoid{}));
  give_features(recipe.network, "Out", valued ? 45 : 7, valued, 11);
  return recipe;
}

inline std::vector<Recipe> all_recipes() {
  std::vector<Recipe> all = {deep_recipe("softmax", Adam{}, 0.003f, SoftMax{})};

  all.push_back(deep_recipe("sigmoid", RmsProp{}, 0.001f, Activation(Sigmoid{})));
  all.back().inputs.valued = true;
  all.back().network.layers[1].weight_norm = 0.8f;
  all.back().network.layers[2].extent[0] = 10;  // one block
  all.back().network.layers[3].weight_norm = 0.5f;

  all.push_back(recipe_base("tied", Momentum{}, 0.01f));
  all.back().network.layers = {input_layer("In", 333), hidden_layer("Hidden", 77, {"In"}),
                               output_layer("Out", 333, {"Hidden"}, Activation(Sigmoid{}))};
  all.back().network.layers[2].shared_weights = {{"Hidden", "In", "Hidden", true}};

  all.push_back(recipe_base("batch normalisation", Nesterov{}, 0.02f));
  all.back().network.layers = {input_layer("In", 333), hidden_layer("First", 77, {"In"}),
                               hidden_layer("Second", 50, {"First"}, SoftMax{}),
                               hidden_layer("Third", 77, {"Second"}, Activation(Selu{})),
                               output_layer("Out", 203, {"Third"}, SoftMax{})};
  all.back().network.layers[1].batch_normalization = true;
  all.back().network.layers[3].batch_normalization = true;
  all.back().network.layers[3].skips = {"First"};
  all.back().network.layers[3].dropout = 0.2f;

  all.push_back(deep_recipe("delta norm", AdaGrad{}, 0.01f, SoftMax{}));
  all.back().network.layers[1].delta_norm = 0.05f;
  all.back().network.layers[3].delta_norm = 0.8f;
  all.back().network.loss = ScaledMarginalCrossEntropy{};

  all.push_back(recipe_base("two outputs", AdaDelta{}, 1.0f));
  all.back().network.layers = {
      input_layer("In", 333), hidden_layer("First", 77, {"In"}, Activation(Elu{})),
      output_layer("Near", 402, {"First", "In"}, SoftMax{}),
      hidden_layer("Second", 50, {"First"}, Activation(Sigmoid{})),
      output_layer("Far", 301, {"Second", "First"}, Activation(Sigmoid{}))};
  all.back().network.layers[3].sparse = true;
  all.back().network.sparseness = {0.3f, 0.01f};
  all.back().inputs.weighted = true;

  all.push_back(recipe_base("dense", Sgd{}, 1.0f));
  all.back().network.layers = {input_layer("In", 123), hidden_layer("Hidden", 77, {"In"}),
                               output_layer("Out", 203, {"Hidden", "In"}, SoftMax{})};
  all.back().network.layers[0].dropout = 0.2f;
  all.back().network.layers[0].normalize = InputNormalization::l2;
  all.back().network.loss = SquaredError{};
  all.back().inputs = {.name = "dense", .sparse = false};

  all.push_back(by_source_recipe("by source", Adam{}, 0.003f));
  all.push_back(recipe_with_slopes_in_z());
  all.push_back(recipe_with_decoupled_decay());
  all.push_back(by_source_recipe_with_penalties());
  all.push_back(by_example_recipe(Adam{}, 0.003f));
  all.push_back(convolution_recipe());
  all.push_back(factored_recipe(FactoredRule::newton, Adam{}));
  all.insert(all.end(), {pooling_recipe(), wide_convolution_recipe(), images_and_clicks_recipe(),
                         recipe_with_weights_of_entries(), towers_recipe(),
                         recipe_with_features(true), recipe_with_features(false)});
  return all;
}

}  // namespace norn::test
