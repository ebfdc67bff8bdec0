// SPDX-License-Identifier: Apache-2.0
// Which images training may move and mirror, and along which axes.
#include "norn/base/problem.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <gtest/gtest.h>

namespace norn {
namespace {

Graph graph_of(const std::string& layers) {
  const std::vector<DatasetShape> data = {{"users", 1, {10, 1, 1}, true},
                                          {"images", 3, {32, 32, 3}, false}};
  return make_graph(parse_network_json("{\"Layers\": [" + layers + "]}", "net.json"), data, "net");
}

std::string fault_of(const std::string& layers) {
  try {
    graph_of(layers);
    return "none";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Augment, IsForDenseDataAndMovesByLessThanTheirSize) {
  const auto with = [&](const std::string& keys, const std::string& augment,
                        const std::string& next = R"({"N": 3})") {
    return fault_of("{" + keys + R"(, "Augment": )" + augment + "}, " + next);
  };
  const std::string images = R"("N": "auto", "DataSet": "images")";  // 32 x 32 x 3
  EXPECT_EQ(with(images, R"({"Crop": 31, "Flip": true})"), "none");
  EXPECT_EQ(with(R"("N": [7, 1])", R"({"Crop": 6})"), "none");
  EXPECT_EQ(with(R"("N": "auto", "DataSet": "users")", "{}"), "none");
  EXPECT_EQ(with(R"("N": "auto", "DataSet": "users")", R"({"Flip": true})"),
            "net:1: layer \"Input0\": Augment is for images, which are dense, and data set "
            "\"users\" is sparse; remove the key, or import the data as dense");
  EXPECT_EQ(with(R"("N": 3073, "DataSet": "images")", R"({"Crop": 1})"),
            "net:1: layer \"Input0\": Augment needs images as large as the layer, but N is 3073 "
            "and data set \"images\" is 32 x 32 x 3; give N the data set's size");
  EXPECT_EQ(with(R"("N": [9, 5])", R"({"Crop": 5})"),
            "net:1: layer \"Input0\": Augment Crop 5 would move images of 5 units along y out of "
            "sight: N is 9 x 5; give Crop less than 5");
  EXPECT_EQ(with(R"("N": [5, 9])", R"({"Crop": 9})"),
            "net:1: layer \"Input0\": Augment Crop 9 would move images of 5 units along x out of "
            "sight: N is 5 x 9; give Crop less than 5");
  EXPECT_EQ(with(images, R"({"Crop": 32})"),
            "net:1: layer \"Input0\": Augment Crop 32 would move images of 32 units along x out of "
            "sight: N is 32 x 32 x 3; give Crop less than 32");
  EXPECT_EQ(with(R"("N": [9, 5], "Type": "Convolutional")", R"({"Crop": 5})",
                 R"({"N": 4, "Type": "Convolutional", "Kernel": 3}, {"N": 2})"),
            "none");
}

TEST(Augment, MovesAlongTheAxesThatWindowsGoOver) {
  const auto axes = [](const std::string& layers) { return image_axes(graph_of(layers), 0); };
  EXPECT_EQ(axes(R"({"N": 784}, {"N": 3})"), 1);
  EXPECT_EQ(axes(R"({"N": [28, 28]}, {"N": 3})"), 2);
  EXPECT_EQ(axes(R"({"N": [8, 8, 5, 3]}, {"N": 3})"), 2);
  const auto with_window = [&](const std::string& n, const std::string& window) {
    return axes(R"({"N": )" + n + R"(, "Type": "Convolutional"}, )" + window + R"(, {"N": 2})");
  };
  EXPECT_EQ(with_window("[28, 6]", R"({"N": 4, "Type": "Convolutional", "Kernel": 3})"), 1);
  EXPECT_EQ(with_window("[28, 6]", R"({"N": 4, "Type": "Convolutional", "Kernel": [3, 3]})"), 2);
  EXPECT_EQ(with_window("[9, 8, 3]", R"({"N": 4, "Type": "Convolutional", "Kernel": [3, 3]})"), 2);
  EXPECT_EQ(with_window("[9, 8]", R"({"Type": "Pooling", "Function": "Max", "Kernel": 3})"), 1);
}

}  // namespace
}  // namespace norn
