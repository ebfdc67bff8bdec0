// SPDX-License-Identifier: Apache-2.0
// "DataSet": "auto": which data sets are meant, and what recipes are told of them.
#include "src/engine/data/data_names.h"

#include "norn/base/error.h"
#include "src/data/dataset_writer.h"
#include "tests/data/support.h"

#include <gmock/gmock.h>

namespace norn::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Sparse sets of three examples over 9 units with 1, 2 and 0 entries.
void write_sets(const std::filesystem::path& path, const std::vector<std::string>& names) {
  std::vector<DatasetInfo> infos;
  for (const std::string& name : names) {
    DatasetInfo info;
    info.name = name;
    info.extent[0] = 9;
    info.sparse = info.boolean = true;
    info.examples = info.unique_examples = 3;
    info.entries = 3;
    infos.push_back(info);
  }
  DatasetWriter writer(path, infos);
  for (std::size_t set = 0; set < names.size(); ++set)
    writer.append_rows(int(set), std::vector<Index>{1, 2, 0}, std::vector<Column>{4, 0, 8});
  writer.commit();
}

NetworkDescriptor with_data_sets(const std::vector<std::pair<LayerKind, std::string>>& layers) {
  NetworkDescriptor network;
  for (const auto& [kind, dataset] : layers) {
    LayerDescriptor layer;
    layer.kind = kind;
    layer.dataset = dataset;
    network.layers.push_back(layer);
  }
  return network;
}

std::vector<std::string> names_in(const NetworkDescriptor& network) {
  std::vector<std::string> names;
  for (const LayerDescriptor& layer : network.layers) names.push_back(layer.dataset);
  return names;
}

class AutoDataSets : public testing::Test {
 protected:
  DataSources files(const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
    write_sets(folder_ / "in.nc", inputs);
    write_sets(folder_ / "out.nc", outputs);
    return {{folder_ / "in.nc"}, {folder_ / "out.nc"}};
  }
  std::vector<std::string> named(const DataSources& sources) {
    NetworkDescriptor network = with_data_sets({{LayerKind::input, "auto"},
                                                {LayerKind::input, "auto"},
                                                {LayerKind::hidden, ""},
                                                {LayerKind::output, "auto"},
                                                {LayerKind::output, "other"}});
    name_data_sets(network, sources);
    return names_in(network);
  }

  TempDir folder_;
};

TEST_F(AutoDataSets, WithANameThatNoDescriptorKeepsAreRefused) {
  const DataSources sources = files({"a\xff_input"}, {"a\xff_output"});
  EXPECT_THAT(message_of<DataError>([&] { named(sources); }),
              HasSubstr("the name of the data sets \"a\xff_input\" and \"a\xff_output\" is not "
                        "UTF-8, as that of a descriptor is; "
                        "write them again with another one"));
  EXPECT_EQ(named(files({"\xc3\xbc_input"}, {"\xc3\xbc_output"})).front(), "\xc3\xbc_input");
}

TEST_F(AutoDataSets, AreThePairOfThatRole) {
  EXPECT_THAT(named(files({"a_input", "b_input", "a_output"}, {"c_output", "d"})),
              ElementsAre("a_input", "a_input", "", "a_output", "other"));
  EXPECT_THAT(named(files({"my_input_input"}, {"my_input_output"})),
              ElementsAre("my_input_input", "my_input_input", "", "my_input_output", "other"));
}

TEST_F(AutoDataSets, AreToldFromASetOfThatName) {
  EXPECT_THAT(named(files({"auto", "a_input"}, {"a_output"})),
              ElementsAre("auto", "auto", "", "auto", "other"));
}

TEST_F(AutoDataSets, WithoutOnePairAreRefusedNamingTheSets) {
  const auto message = [&](const DataSources& sources) {
    try {
      named(sources);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(files({"a_input", "x"}, {"b_output"})),
              AllOf(HasSubstr("they hold no NAME_input with a NAME_output"),
                    HasSubstr("They hold: a_input, x, b_output")));
  EXPECT_THAT(message(files({"a_input", "b_input"}, {"a_output", "b_output"})),
              AllOf(HasSubstr("they hold 2 pairs of NAME_input and NAME_output"),
                    HasSubstr("a_input, b_input, a_output, b_output")));
}

TEST_F(AutoDataSets, AreNoFeaturesOfUnits) {
  DataSources sources = files({"a_input", "kinds_input"}, {"kinds_output", "a_output"});
  NetworkDescriptor network =
      with_data_sets({{LayerKind::input, "auto"}, {LayerKind::output, "auto"}});
  network.layers[1].features = "kinds_input";
  name_data_sets(network, sources);
  EXPECT_THAT(names_in(network), ElementsAre("a_input", "a_output"));
  sources.features = {"kinds_output"};
  EXPECT_EQ(recipe_facts("auto", sources).examples, 3);
}

TEST_F(AutoDataSets, TellOfFeaturesThatNoFileHolds) {
  DataSources sources = files({"a_input", "kinds_input"}, {"kinds_output", "a_output"});
  const auto told = [&](const std::string& name) {
    sources.features = {name};
    return message_of<DataError>([&] { recipe_facts("auto", sources); });
  };
  const std::string held = " They hold: a_input, kinds_input, kinds_output, a_output";
  EXPECT_EQ(
      told("kinds"),
      "data set \"kinds\", which has features of items, is in none of the files; did you mean "
      "\"kinds_input\"?" +
          held);
  EXPECT_EQ(
      told("kind_input"),
      "data set \"kind_input\", which has features of items, is in none of the files; did you "
      "mean \"kinds_input\"?" +
          held);
  EXPECT_EQ(told("else"),
            "data set \"else\", which has features of items, is in none of the files." + held);
}

TEST_F(AutoDataSets, LeaveFilesAloneWhereNothingIsAuto) {
  NetworkDescriptor network = with_data_sets({{LayerKind::input, "a"}});
  EXPECT_NO_THROW(name_data_sets(network, {{folder_ / "missing.nc"}, {}}));
  EXPECT_THAT(names_in(network), ElementsAre("a"));
}

TEST_F(AutoDataSets, TellRecipesOfTheOutputs) {
  const DataSources sources = files({"a_input", "a_output", "labels"}, {"b"});
  for (const char* name : {"auto", "labels"}) {
    const RecipeFacts facts = recipe_facts(name, sources);
    EXPECT_EQ(facts.examples, 3);
    EXPECT_EQ(facts.width, 9);
    EXPECT_EQ(facts.entries, 3);
  }
}

TEST_F(AutoDataSets, ThatAreDenseHaveNoRecipe) {
  DatasetInfo info;
  info.name = "a_output";
  info.extent[0] = 2;
  info.type = ElementType::float32;
  info.examples = info.unique_examples = 1;
  DatasetWriter writer(folder_ / "dense.nc", {info});
  writer.append_values(0, std::vector<float>{1.0f, 2.0f});
  writer.commit();
  try {
    recipe_facts("a_output", {{folder_ / "dense.nc"}, {}});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("dense.nc: data set \"a_output\" is dense, and recipes are for sparse "
                          "ones; write a descriptor for it (docs/user/descriptor.md)"));
  }
}

}  // namespace
}  // namespace norn::test
