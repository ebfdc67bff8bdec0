// SPDX-License-Identifier: Apache-2.0
// Files whose rows overlap, leave gaps and are unordered become rows of their own on a device. The
// files are ncgen's, which GPU machines need not have.
#include "src/engine/data/device_dataset.h"
#include "tests/data/support.h"

namespace norn::test {
namespace {

TEST(DeviceDatasetFile, MakesRowsOfTheirOwnOfRowsThatOverlapAndLeaveGaps) {
  const TempDir folder;
  for (const bool valued : {false, true}) {
    write_cdl(folder / "x.nc",
              std::string("netcdf x { dimensions: examplesDim0 = 3; sparseDataDim0 = 7; variables: "
                          "uint64 sparseStart0(examplesDim0), sparseEnd0(examplesDim0); "
                          "uint sparseIndex0(sparseDataDim0); ") +
                  (valued ? "float sparseData0(sparseDataDim0); " : "") +
                  ":datasets = 1u; :name0 = \"in\"; :kind0 = 0u; :dimensions0 = 1u; "
                  ":width0 = 7u; " +
                  (valued ? ":attributes0 = 1u; :dataType0 = 4u; "
                          : ":attributes0 = 3u; :dataType0 = 0u; ") +
                  "data: sparseStart0 = 4, 0, 1; sparseEnd0 = 6, 3, 5; "
                  "sparseIndex0 = 5, 1, 6, 0, 2, 4, 3; " +
                  (valued ? "sparseData0 = 2.5, 1, -3, 4, 0.5, 6, 7; }" : "}"));
    const DatasetInfo info = list_datasets(folder / "x.nc").at(0);
    for (Residency residency : {Residency::memory, Residency::stream}) {
      const auto set = open_dataset(info, residency, Role::input);
      DeviceDataset device(open_dataset(info, residency, Role::input), host_memory());
      HostBatch expected, located;
      const std::vector<Index> examples = {2, 0, 1, 2};
      set->gather(examples, expected);
      device.gather(examples, located);
      ASSERT_NE(located.stored, nullptr);
      const CsrView x = expected.csr(), stored = located.stored->sparse;
      EXPECT_EQ(located.entries, x.entries());
      ASSERT_EQ(stored.value == nullptr, x.value == nullptr);
      for (Index i = 0; i < x.rows; ++i) {
        const RowOffset from = stored.row_begin[located.row[std::size_t(i)]];
        for (RowOffset k = x.row_begin[i]; k < x.row_begin[i + 1]; ++k) {
          const RowOffset at = from + k - x.row_begin[i];
          ASSERT_EQ(stored.column[at], x.column[k]);
          ASSERT_TRUE(!x.value || stored.value[at] == x.value[k]);
        }
        ASSERT_EQ(stored.row_begin[located.row[std::size_t(i)] + 1] - from,
                  x.row_begin[i + 1] - x.row_begin[i]);
      }
    }
  }
}

}  // namespace
}  // namespace norn::test
