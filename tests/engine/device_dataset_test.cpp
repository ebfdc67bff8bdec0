// SPDX-License-Identifier: Apache-2.0
// Data sets that stand where the kernels work give the batches, and the training, of those that are
// brought there batch by batch. On the CPU the copy stands in main memory.
#include "src/engine/data/device_dataset.h"

#include "src/data/dataset_writer.h"
#include "src/engine/train/trainer.h"
#include "src/step/device_batch.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"

namespace norn::test {
namespace {

class DeviceDatasetTest : public testing::Test {
 protected:
  template <typename T>
  std::vector<T> on_host(const T* data, Index count) {
    std::vector<T> host(static_cast<std::size_t>(count));
    if (count > 0) context_.compute.memory.read(data, host.data(), std::size_t(count) * sizeof(T));
    return host;
  }
  template <typename T>
  static std::vector<T> copied(const T* data, Index count) {
    return count > 0 ? std::vector<T>(data, data + count) : std::vector<T>();
  }

  // The batch on the device has the contents of the set's own.
  void expect_batch(Dataset& set, Dataset& device, const std::vector<Index>& examples) {
    HostBatch expected, located;
    set.gather(examples, expected);
    device.gather(examples, located);
    ASSERT_NE(located.stored, nullptr);
    BatchView view;
    batch_.load(context_, located);
    WorkQueue& queue = *context_.compute.kernels.queue;
    queue.prepare([&] { view = batch_.view(context_.compute); });
    queue.run([] {});
    queue.wait_for_all();
    EXPECT_EQ(view.examples, expected.examples);
    EXPECT_EQ(view.width, expected.width);
    EXPECT_EQ(on_host(view.weight.data, view.weight.size), expected.weight);
    EXPECT_EQ(on_host(view.example.data, view.example.size), expected.example);
    ASSERT_EQ(view.is_sparse, expected.is_sparse);
    if (!view.is_sparse) {
      const MatrixView<const float> x = expected.matrix();
      ASSERT_EQ(view.dense.rows, x.rows);
      EXPECT_EQ(on_host(view.dense.data, x.size()), copied(x.data, x.size()));
      return;
    }
    const CsrView x = expected.csr();
    const Index entries = x.entries();
    EXPECT_EQ(view.sparse.entry_limit, entries);
    EXPECT_EQ(on_host(view.sparse.row_begin, x.rows + 1), copied(x.row_begin, x.rows + 1));
    EXPECT_EQ(on_host(view.sparse.column, entries), copied(x.column, entries));
    if (entries == 0) return;
    ASSERT_EQ(view.sparse.value == nullptr, x.value == nullptr);
    if (x.value) {
      EXPECT_EQ(on_host(view.sparse.value, entries), copied(x.value, entries));
    }
  }

  // Batches of several sizes, the same row more than once.
  void expect_same_batches(const DatasetInfo& info, Residency residency,
                           const std::shared_ptr<const UnitMatch>& match = nullptr) {
    const auto set = open_dataset(info, residency, Role::input, match);
    DeviceDataset device(open_dataset(info, residency, Role::input, match),
                         context_.compute.memory);
    std::vector<Index> examples;
    for (Index size : {Index(1), Index(2), info.examples, 3 * info.examples}) {
      examples.clear();
      for (Index i = 0; i < size; ++i) examples.push_back((i * 7 + 1) % info.examples);
      expect_batch(*set, device, examples);
    }
  }

  const std::unique_ptr<Runtime> runtime_ = make_test_runtime(2);
  const std::unique_ptr<Communicator> one_ = make_single_process();
  const Context context_ = runtime_->context(*one_);
  DeviceBatch batch_;
  const TempDir folder_;
};

// Of five examples in three stored rows where it is indexed.
DatasetInfo info_of(const char* name, bool sparse, bool boolean, bool indexed) {
  DatasetInfo info;
  info.name = name;
  info.type = boolean ? ElementType::uint32 : ElementType::float32;
  info.extent[0] = 10;
  info.sparse = sparse;
  info.boolean = boolean;
  info.indexed = info.weighted = indexed;
  info.examples = 5;
  info.unique_examples = indexed ? 3 : 5;
  return info;
}

TEST_F(DeviceDatasetTest, GivesTheBatchesOfIndexedWeightedAndLabelledSets) {
  std::vector<DatasetInfo> infos = {
      info_of("shared", true, true, true),  info_of("valued", true, false, true),
      info_of("rows", true, false, false),  info_of("classes", false, true, false),
      info_of("labels", false, true, true), info_of("dense", false, false, true)};
  infos[0].entries = infos[1].entries = 6;
  infos[2].entries = 7;
  DatasetWriter writer(folder_ / "x.nc", infos);
  const std::vector<Column> columns = {1, 8, 0, 3, 4, 9, 2};
  const std::vector<float> values = {2.5f, 1, -3, 4, 0.5f, 6, 7};
  const std::vector<Index> shared_rows = {2, 0, 4}, own_rows = {2, 0, 4, 1, 0};
  const std::span six(columns.data(), 6);
  writer.append_rows(0, shared_rows, six);
  writer.append_rows(1, shared_rows, six, std::span(values.data(), 6));
  writer.append_rows(2, own_rows, columns, values);
  writer.append_classes(3, std::vector<Column>{9, 0, 3, 3, 7});
  writer.append_classes(4, std::vector<Column>{9, 0, 3});
  std::vector<float> dense(30);
  for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = float(i) - 7.5f;
  writer.append_values(5, dense);
  for (int set : {0, 1, 4, 5}) {
    writer.append_index(set, std::vector<Column>{2, 0, 1, 2, 2});
    writer.append_weights(set, std::vector<float>{1, 0.5f, 2, 3, 4});
  }
  writer.commit();
  for (const DatasetInfo& info : list_datasets(folder_ / "x.nc")) {
    SCOPED_TRACE(info.name);
    const auto match = std::make_shared<UnitMatch>();
    match->units = LabelTable::numbers(8);
    match->to = {7, 2, LabelIndex::kUnknown, 0, 6, 1, 3, LabelIndex::kUnknown, 5, 4};
    match->unknown = 2;
    for (Residency residency : {Residency::memory, Residency::stream}) {
      expect_same_batches(info, residency);
      if (info.gives_sparse_batches()) expect_same_batches(info, residency, match);
    }
  }
}

/// Columns, values where there are some, and where rows begin; or whole rows of floats.
std::int64_t bytes_of_rows(const DatasetInfo& info) {
  if (!info.gives_sparse_batches())
    return info.unique_examples * info.width() * std::int64_t(sizeof(float));
  const RowOffset entries = info.sparse ? info.entries : info.unique_examples;
  const auto entry =
      std::int64_t(sizeof(Column) + (info.sparse && !info.boolean ? sizeof(float) : 0));
  return entries * entry + (info.unique_examples + 1) * std::int64_t(sizeof(RowOffset));
}

TEST_F(DeviceDatasetTest, TakesTheBytesOfItsRowsAndNoMore) {
  for (const Recipe& recipe : all_recipes()) {
    write_data(recipe, folder_ / "data.nc");
    for (const DatasetInfo& info : list_datasets(folder_ / "data.nc")) {
      const Memory& memory = context_.compute.memory;
      auto set = open_dataset(info, Residency::stream, Role::input);
      const std::int64_t before = memory.allocated_bytes();
      const DeviceDataset device(std::move(set), context_.compute.memory);
      const std::int64_t taken = memory.allocated_bytes() - before;
      // In main memory, pieces on their way count too.
      EXPECT_GE(taken, bytes_of_rows(info));
      EXPECT_TRUE(memory.is_host() || taken == bytes_of_rows(info)) << taken;
    }
  }
}

std::vector<float> train_on(const Recipe& recipe, const DataSources& sources, bool on_device) {
  const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
  const auto one = make_single_process();
  const Context context = runtime->context(*one);
  DataBinding data(recipe.network, sources, DataBinding::Layers::inputs_and_outputs);
  Network network(make_graph(recipe.network, data.shapes(), "test"), data.shapes(), context,
                  recipe.network.training.batch, Pass::training);
  network.initialise(1);
  if (on_device) data.move_to(context.compute.memory, recipe.network);
  TrainingState state;
  EXPECT_EQ(train(network, data, {}, false, {}, state), TrainingEnd::completed);
  return gather_state(network);
}

TEST_F(DeviceDatasetTest, GivesTheSameTrainingAsBatchesThatAreBroughtThere) {
  for (Recipe recipe : all_recipes()) {
    SCOPED_TRACE(recipe.name);
    recipe.network.training.epochs = 2;
    write_data(recipe, folder_ / "data.nc");
    const DataSources sources{{folder_ / "data.nc"}, {folder_ / "data.nc"}};
    const std::vector<float> expected = train_on(recipe, sources, false);
    EXPECT_EQ(train_on(recipe, sources, true), expected);
  }
}

}  // namespace
}  // namespace norn::test
