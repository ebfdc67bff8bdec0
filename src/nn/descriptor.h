// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"
#include "kernels/initializer.h"
#include "kernels/pooling.h"
#include "kernels/update_rule.h"
#include "src/nn/entry_weights.h"
#include "src/nn/feature_table.h"
#include "src/nn/input_weighting.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Networks as plain values, with every default in place. JSON is one way to fill them
/// (nn/descriptor_json.h).
namespace norn {

enum class NetworkKind { feed_forward = 0, auto_encoder = 1 };
enum class LayerKind { input = 0, hidden = 1, output = 2, target = 3 };
enum class LayerType { fully_connected = 0, convolutional = 1, pooling = 2 };
/// In the numbers of the model file.
enum class PoolingFunction {
  none = 0,
  max = 1,
  average = 2,
  lrn = 3,
  maxout = 4,
  dot_product = 5,
  cosine = 6
};
enum class InputNormalization { none, l2 };

/// A pointwise activation or SoftMax.
using LayerActivation = std::variant<Activation, SoftMax>;

struct SparsenessPenalty {
  float p = 0.0f;
  float beta = 0.0f;
};

/// What training does to the images of an Input layer: src/data/image_augmentation.h.
struct Augmentation {
  Index crop = 0;     ///< units of the border on each side, out of which a part is cropped
  bool flip = false;  ///< every other image is mirrored along x
  bool is_on() const { return crop > 0 || flip; }
  bool operator==(const Augmentation&) const = default;
};

struct WeightInit {
  Initializer scheme = Xavier{};
  float bias = 0.0f;
};

/// The weights from input_layer to the layer that says so are those from source_input_layer to
/// source_output_layer.
struct SharedWeights {
  std::string input_layer;
  std::string source_input_layer;
  std::string source_output_layer;
  bool transposed = false;
};

/// A place in a text; 0: not known. The column counts bytes from 1.
struct TextPlace {
  int line = 0;
  int column = 0;
};

/// How a factored output layer makes its steps: by its gradient, or by that times the inverse of
/// the mean covariance of what it reads. none: its weights are stored and updated one by one.
enum class FactoredRule { none, newton, sgd };
struct FactoredOutput {
  FactoredRule rule = FactoredRule::none;
  std::optional<float> rate;      ///< nothing: Newton 0.02, SGD the network's
  float damping = 0.1f;           ///< Newton: of the covariance, in means of its diagonal
  std::optional<int> fold_every;  ///< steps; nothing: such that it costs an eighth of the rest
  bool is_on() const { return rule != FactoredRule::none; }
};

struct LayerDescriptor {
  std::string name;
  LayerKind kind = LayerKind::hidden;
  LayerType type = LayerType::fully_connected;
  std::array<Index, 4> extent = {1, 1, 1, 1};  ///< x, y, z, w: units along each axis
  int dimensions = 1;
  bool auto_size = false;  ///< "N": "auto": extent comes from the data set
  std::string dataset;
  std::vector<std::string> sources;
  std::vector<std::string> skips;
  bool sparse = false;   ///< JSON "Sparse"
  float dropout = 0.0f;  ///< pDropout
  InputNormalization normalize = InputNormalization::none;
  InputWeighting input_weighting = NoWeighting{};
  EntryWeights entry_weights;
  Augmentation augment;

  LayerActivation activation = Activation(Sigmoid{});
  WeightInit init;
  float weight_norm = 0.0f;  ///< 0: off
  float delta_norm = 0.0f;   ///< 0: off
  std::vector<SharedWeights> shared_weights;
  bool batch_normalization = false;
  std::optional<SparsenessPenalty> sparseness;  ///< overrides the network's
  FactoredOutput factored;
  std::string features;  ///< of an Output layer: the data set of its units' features; empty: none
  /// That data set, once it is there. What is learnt of features is the layer feature_layer().
  std::shared_ptr<const FeatureTable> feature_table;

  PoolingFunction function = PoolingFunction::none;
  std::array<Index, 3> kernel = {1, 1, 1};
  std::array<Index, 3> stride = {1, 1, 1};
  std::array<Index, 3> padding = {0, 0, 0};  ///< computed by make_graph()
  int kernel_dimensions = 0;

  /// Where its keys, and under "" the layer itself, stand in the text that it was read from, for
  /// messages; empty when there is none.
  std::map<std::string, TextPlace> places;

  std::string feature_layer() const { return name + " features"; }
  Index units() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
};

/// Finds what does not fit between a layer and its sources, and sets the layer's extent, dimensions
/// and padding where these follow from theirs. Returns what does not fit, or nothing; the layer is
/// left alone then.
using ShapeInference = std::string(LayerDescriptor& layer,
                                   const std::vector<const LayerDescriptor*>& sources);
// Of src/nn/shapes.h.
ShapeInference infer_convolution;
ShapeInference infer_pooling;

/// What a layer of a kind is for.
struct LayerKindRules {
  const char* name;    ///< in descriptors
  const char* phrase;  ///< in messages
  bool has_data;       ///< of a data set, whose width it may take with "N": "auto"
};
/// By LayerKind, as model files number them.
inline constexpr std::array kLayerKinds = {LayerKindRules{"Input", "an Input layer", true},
                                           LayerKindRules{"Hidden", "a Hidden layer", false},
                                           LayerKindRules{"Output", "an Output layer", true},
                                           LayerKindRules{"Target", "a Target layer", false}};
constexpr const LayerKindRules& rules_of(LayerKind kind) {
  return kLayerKinds.at(std::size_t(kind));
}

/// How the units of a source lead to those of a layer.
enum class EdgeKind { matrix = 0, skip = 1, own = 2, features = 3 };
struct EdgeKindRules {
  const char* name;  ///< in plans and records of runs
  const char* key;   ///< of descriptors, that names the source
  bool by_unit;      ///< without weights that are learnt: src/step/edges makes steps of it
  bool from_all;     ///< of these: from all units of the source, not that of the same number
};
/// By EdgeKind.
inline constexpr std::array kEdgeKinds = {
    EdgeKindRules{"weights", "Source", false, false},    // a matrix
    EdgeKindRules{"skip", "Skip", true, false},          // as they are
    EdgeKindRules{"own", "Source", false, false},        // as the layer's type computes
    EdgeKindRules{"features", "Features", true, true}};  // by the units' features
constexpr const EdgeKindRules& rules_of(EdgeKind kind) {
  return kEdgeKinds.at(std::size_t(kind));
}

/// What layers of a type are, and how their sources feed them.
struct LayerTypeRules {
  const char* name;             ///< in descriptors
  EdgeKind edges;               ///< from its sources
  bool adds_up;                 ///< its units add up bias and edges: the room is Hidden or Output
  ShapeInference* infer_shape;  ///< null: any sources fit
  const char* shape_key;        ///< the key of the descriptor that what it finds is about
  bool has_window;              ///< Kernel and KernelStride mean something
  bool computes_size;           ///< N follows from the sources and is left out
  bool has_activation;          ///< its units have an Activation and pDropout
};
/// By LayerType, as model files number them.
inline constexpr std::array kLayerTypes = {
    LayerTypeRules{"FullyConnected", EdgeKind::matrix, true, nullptr, "", false, false, true},
    LayerTypeRules{"Convolutional", EdgeKind::matrix, false, infer_convolution, "Kernel", true,
                   false, true},
    LayerTypeRules{"Pooling", EdgeKind::own, false, infer_pooling, "Function", true, true, false}};
constexpr const LayerTypeRules& rules_of(LayerType type) {
  return kLayerTypes.at(std::size_t(type));
}

enum class ValidationBy { user, entry };

/// How a run is validated, and what follows from it.
struct ValidationDescriptor {
  float split = 0.0f;  ///< share of the data that is held back; 0: none
  ValidationBy by = ValidationBy::user;
  std::optional<std::uint64_t> seed;  ///< that it is drawn with; none: that of the training
  Index every = 1;                    ///< epochs
  std::string metrics_at = "20";      ///< lengths of the lists
  std::string early_stop;             ///< the metric that stops the run; empty: none
  std::string keep_best;  ///< the metric by which the best model is the result; empty: none
  Index patience = 5;     ///< validations without improvement before the run stops
  std::optional<float> stop_from;  ///< share of the epochs before which it does not stop
  float min_delta = 0.0f;          ///< what counts as one must be larger
};

enum class RateKind { constant, step, cosine, plateau };

/// How the learning rate changes in the course of a run; docs/user/numerics.md has the formulas.
struct RateSchedule {
  RateKind kind = RateKind::constant;
  float warm_up = 0.0f;     ///< epochs in which it rises to alpha, step by step
  Index interval = 20;      ///< step: epochs between changes
  float multiplier = 0.5f;  ///< step and plateau: of every change
  Index patience = 3;       ///< plateau: epochs, or validations, without improvement before one
  float minimum = 0.0f;     ///< cosine and plateau: the share of alpha below which it never falls
};

/// Where weights come from: steps along gradients, or a closed form.
enum class TrainingMethod { steps, ease };

/// How to train. Command line options win over it; the effective values are saved with the model.
struct TrainingDescriptor {
  TrainingMethod method = TrainingMethod::steps;
  UpdateRule optimizer = Sgd{};
  float rate = 0.025f;  ///< alpha
  Index batch = 1024;
  Index epochs = 40;         ///< that the schedule is for
  Index last_epoch = 0;      ///< after which the run ends all the same; 0: all epochs
  bool refit = false;        ///< last_epoch is, or is to be, the best of a validated run
  float lambda = 0.0001f;    ///< L2 regularisation
  float lambda1 = 0.0f;      ///< L1 regularisation
  float ease_weight = 0.0f;  ///< of EASE's scores beside the network's own; 0: none
  float ease_lambda = 0.0f;  ///< EASE's
  std::uint64_t seed = 12134;
  RateSchedule schedule;
  float clip_gradient = 0.0f;  ///< elements of gradients are held within +-this; 0: off
  ValidationDescriptor validation;

  /// The epochs that the run makes.
  Index epochs_made() const { return last_epoch > 0 ? std::min(last_epoch, epochs) : epochs; }
  /// What the part that is held back is drawn with.
  std::uint64_t validation_seed() const { return validation.seed.value_or(seed); }
  /// Whether validation still has to choose the length.
  bool refits_later() const { return refit && last_epoch == 0; }
};

struct NetworkDescriptor {
  std::string name;
  NetworkKind kind = NetworkKind::feed_forward;
  Loss loss = CrossEntropy{};
  TargetWeight target_weight = TargetWeight::inverse_count;
  bool shuffle = true;
  SparsenessPenalty sparseness;  ///< on when beta > 0, for hidden layers that say "Sparse": true
  float denoising = 0.0f;        ///< for input layers that say "Sparse": true
  float boost_one = 1.0f;
  float boost_zero = 1.0f;
  LocalResponseNormalization lrn;
  int maxout_k = 2;
  float decay = 0.0f;  ///< rate / (1 + decay * batches so far)
  TrainingDescriptor training;
  std::vector<LayerDescriptor> layers;

  const LayerDescriptor* find(const std::string& layer_name) const;
};

}  // namespace norn
