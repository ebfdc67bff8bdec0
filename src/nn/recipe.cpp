// SPDX-License-Identifier: Apache-2.0
// The rules of recipes; docs/user/recipes.md says what each is worth.
#include "src/nn/recipe.h"

#include "src/base/text.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

constexpr double kLeastEpochs = 8.0;  // however large the data are: a schedule needs some
constexpr double kWarmUp = 0.05;      // share of the training

// To so many digits, which two compilers do alike.
double rounded(double value, int digits) {
  if (value == 0.0) return 0.0;
  const double scale = std::pow(10.0, digits - 1 - int(std::floor(std::log10(std::abs(value)))));
  return std::round(value * scale) / scale;
}

// The power of two that is nearest on a logarithmic scale.
Index power_of_two(double value, Index least, Index most) {
  const double nearest = std::exp2(std::round(std::log2(std::max(1.0, value))));
  return Index(std::clamp(nearest, double(least), double(most)));
}

// What the rules are made of.
struct Shape {
  double examples;
  double units;  // of the outputs
  double entries;
  double row;      // entries of an example
  double density;  // share of ones
};

Shape shape_of(const RecipeFacts& facts) {
  Shape shape{};
  shape.examples = double(std::max<Index>(1, facts.examples));
  shape.entries = double(std::max<std::int64_t>(1, facts.entries));
  shape.row = std::max(1.0, shape.entries / shape.examples);
  shape.units = double(std::max<Index>(1, facts.width));
  shape.density = std::clamp(shape.row / shape.units, 1e-9, 0.9);
  return shape;
}

// What differs between the two kinds.
struct Rule {
  double boost = 1.0;
  double bias = 0.0;
  double rate = 0.0;  // times the root of the hidden units
  double steps = 0.0;
  double least_hidden = 0.0;
  float denoising = 0.5f;
  float dropout = 0.0f;
};

Rule rule_of(RecipeKind kind, const Shape& shape) {
  // The longer the rows, the more a step learns, and the sooner by heart.
  const double by_row = std::pow(shape.row, -0.6);
  // What few examples have is learned by heart soonest of all.
  const double rare = std::min(1.0, std::pow(shape.entries / shape.units / 10.0, 0.25));
  const double shorter = std::min(1.0, std::sqrt(32.0 / shape.row));
  Rule rule;
  if (kind == RecipeKind::softmax) {
    rule.rate = std::min(0.035, 0.15 * by_row) * rare;
    rule.steps = 3000.0 * shorter;
    rule.dropout = 0.5f;
    return rule;
  }
  const auto weight = [](double boost) { return rounded(std::clamp(boost, 1.0, 30.0), 2); };
  const double usual = 60.0 / std::sqrt(shape.row);
  // Where ones weigh so much, the output that costs least before anything is learned.
  rule.bias = rounded(std::log(weight(usual) * shape.density / (1.0 - shape.density)), 2);
  // Where most units have but one entry, that one has to say it all.
  const double scarce = std::max(1.0, std::pow(2.0 * shape.units / shape.entries, 1.75));
  rule.boost = weight(usual * scarce);
  rule.rate = std::min(0.05, 0.21 * by_row) * rare;
  rule.steps = 2000.0 * shorter;
  // Few rows of many units have little in common: in few directions they are not told apart. Units
  // that no row has are none of them, and a handful of rows needs no more directions than it is.
  const double seen = std::min(shape.units, shape.entries);
  rule.least_hidden = std::min(1.9 * std::sqrt(seen), shape.examples / 4.0);
  rule.dropout = 0.4f;
  return rule;
}

Index hidden_units(const Rule& rule, const Shape& shape) {
  const double units = std::pow(shape.examples * shape.units, 0.25) * std::sqrt(shape.entries);
  return power_of_two(std::max(units / 110.0, rule.least_hidden), 128, 2048);
}

Index batch_of(const Shape& shape) {
  return std::min(Index(shape.examples), power_of_two(shape.examples / 24.0, 32, 512));
}

LayerDescriptor input_layer() {
  LayerDescriptor layer;
  layer.name = "Input";
  layer.kind = LayerKind::input;
  layer.auto_size = layer.sparse = true;
  layer.dataset = "auto";
  layer.input_weighting = InverseDocumentFrequency{};
  layer.normalize = InputNormalization::l2;
  return layer;
}

LayerDescriptor hidden_layer(Index units, float dropout) {
  LayerDescriptor layer;
  layer.name = "Hidden";
  layer.kind = LayerKind::hidden;
  layer.extent[0] = units;
  layer.sources = {"Input"};
  layer.activation = Activation(Tanh{});
  layer.dropout = dropout;
  return layer;
}

LayerDescriptor output_layer(RecipeKind kind, double bias) {
  LayerDescriptor layer;
  layer.name = "Output";
  layer.kind = LayerKind::output;
  layer.auto_size = true;
  layer.dataset = "auto";
  layer.sources = {"Hidden"};
  if (kind == RecipeKind::softmax) layer.activation = SoftMax{};
  layer.init.bias = float(bias);
  return layer;
}

TrainingDescriptor training_of(const Rule& rule, const Shape& shape, Index hidden,
                               const RecipeWishes& wishes) {
  TrainingDescriptor training;
  training.optimizer = Adam{};
  training.rate = float(rounded(rule.rate / std::sqrt(double(hidden)), 2));
  training.batch = wishes.batch.value_or(batch_of(shape));
  const double epochs = rule.steps * double(training.batch) / shape.examples;
  training.epochs = wishes.epochs.value_or(Index(std::ceil(std::max(kLeastEpochs, epochs))));
  training.lambda = 0.0f;
  training.schedule.kind = RateKind::cosine;
  training.schedule.warm_up = float(rounded(kWarmUp * double(training.epochs), 3));
  return training;
}

// Of the order of what it is added to: entries of a unit, and of a row, their geometric mean.
double ease_lambda(const Shape& shape) {
  return rounded(2.5 * std::max(0.1, shape.entries / std::sqrt(shape.examples * shape.units)), 2);
}

// Embarrassingly Shallow Autoencoders (Steck, WWW 2019): weights from each unit to each other.
NetworkDescriptor make_ease(const Shape& shape) {
  NetworkDescriptor network;
  network.name = recipe_title(RecipeKind::ease);
  network.kind = NetworkKind::auto_encoder;
  network.loss = SquaredError{};
  network.training.method = TrainingMethod::ease;
  network.training.lambda = float(ease_lambda(shape));
  LayerDescriptor input = input_layer();
  input.input_weighting = NoWeighting{};
  input.normalize = InputNormalization::none;
  LayerDescriptor output = output_layer(RecipeKind::ease, 0.0);
  output.sources = {"Input"};
  output.activation = Activation(Linear{});
  network.layers = {input, output};
  return network;
}

}  // namespace

const std::vector<std::string>& recipe_names() {
  static const std::vector<std::string> names = {"sigmoid", "softmax", "ease"};
  return names;
}

std::vector<std::string> run_recipe_names() {
  std::vector<std::string> names = recipe_names();
  names.emplace_back(kAutomaticRecipe);
  return names;
}

std::optional<RecipeKind> recipe_named(const std::string& name) {
  for (std::size_t i = 0; i < recipe_names().size(); ++i)
    if (equal_ignoring_case(name, recipe_names()[i])) return RecipeKind(i);
  return {};
}

std::string recipe_title(RecipeKind kind) {
  return recipe_names()[std::size_t(kind)] + " recipe";
}

std::optional<RecipeKind> recipe_titled(const std::string& title) {
  for (std::size_t i = 0; i < recipe_names().size(); ++i)
    if (title == recipe_title(RecipeKind(i))) return RecipeKind(i);
  return {};
}

NetworkDescriptor make_recipe(RecipeKind kind, const RecipeFacts& facts,
                              const RecipeWishes& wishes) {
  const Shape shape = shape_of(facts);
  if (kind == RecipeKind::ease) return make_ease(shape);
  const Rule rule = rule_of(kind, shape);
  const Index hidden = wishes.hidden.value_or(hidden_units(rule, shape));
  NetworkDescriptor network;
  network.name = recipe_title(kind);
  network.kind = NetworkKind::auto_encoder;
  if (kind == RecipeKind::softmax) network.target_weight = TargetWeight::one;
  network.denoising = rule.denoising;
  network.boost_one = float(rule.boost);
  network.training = training_of(rule, shape, hidden, wishes);
  network.layers = {input_layer(), hidden_layer(hidden, rule.dropout),
                    output_layer(kind, rule.bias)};
  return network;
}

}  // namespace norn
