// SPDX-License-Identifier: Apache-2.0
// A walk over an HDF5 file's links, following none that leads elsewhere.

#include "hdf5_structure.h"

#include "netcdf_calls.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <hdf5.h>

namespace norn {

namespace {

constexpr std::ptrdiff_t kMostLevels = 32;
constexpr const char* kReadAlone = "of a file only what it holds itself is read";

/// An identifier of the library that is closed again.
class Opened {
 public:
  using Close = herr_t (*)(hid_t);
  Opened(hid_t id, Close close) : id_(id), close_(close) {
    if (id_ < 0) throw NetcdfProblem{nc_strerror(NC_EHDFERR)};
  }
  ~Opened() { close_(id_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

/// A name that may hold anything, for a message.
std::string shown(std::string_view name) {
  constexpr std::size_t kLongest = 60;
  std::string text(name.substr(0, kLongest));
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text + (name.size() > kLongest ? "..." : "");
}

void require_own_elements(hid_t file, const char* name) {
  const Opened data(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
  const Opened how(H5Dget_create_plist(data), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(how);
  const int elsewhere = layout == H5D_CONTIGUOUS ? H5Pget_external_count(how) : 0;
  if (layout < 0 || elsewhere < 0) throw NetcdfProblem{nc_strerror(NC_EHDFERR)};
  if (layout == H5D_VIRTUAL)
    throw NetcdfProblem{
        fmt::format("\"{}\" is made up of parts of other files, {}", shown(name), kReadAlone)};
  if (elsewhere > 0)
    throw NetcdfProblem{
        fmt::format("\"{}\" has its elements in another file, {}", shown(name), kReadAlone)};
}

class Walk {
 public:
  explicit Walk(hid_t file) : file_(file) { enter("/"); }

  /// What the library calls for every link; exceptions do not pass through it.
  static herr_t take(hid_t, const char* name, const H5L_info_t* link, void* self) {
    auto& walk = *static_cast<Walk*>(self);
    try {
      walk.look_at(name, *link);
      return 0;
    } catch (const NetcdfProblem& found) {
      walk.problem_ = found.text;
    } catch (const std::bad_alloc&) {
      walk.problem_ = "has more items than there is memory for";
    }
    return -1;
  }
  const std::string& problem() const { return problem_; }

 private:
  void look_at(const char* name, const H5L_info_t& link) {
    if (link.type != H5L_TYPE_HARD)
      throw NetcdfProblem{fmt::format("\"{}\" is a link to {}, {}", shown(name),
                                      link.type == H5L_TYPE_SOFT ? "a name" : "another file",
                                      kReadAlone)};
    if (std::ranges::count(std::string_view(name), '/') >= kMostLevels)
      throw NetcdfProblem{fmt::format("has groups of more than {} levels", kMostLevels)};
    enter(name);
  }

  void enter(const char* name) {
    H5O_info_t object{};
    if (H5Oget_info_by_name2(file_, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      throw NetcdfProblem{nc_strerror(NC_EHDFERR)};
    if (object.type == H5O_TYPE_DATASET) return require_own_elements(file_, name);
    if (object.type == H5O_TYPE_GROUP && !groups_.insert(object.addr).second)
      throw NetcdfProblem{fmt::format("the group \"{}\" is within two groups", shown(name))};
  }

  hid_t file_;
  std::set<haddr_t> groups_;
  std::string problem_;
};

}  // namespace

void require_self_contained(const std::filesystem::path& file) {
  // What HDF5 has to say of a damaged file goes to nobody's screen.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  if (H5Fis_hdf5(file.c_str()) <= 0) return;
  const Opened opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  Walk walk(opened);
  if (H5Lvisit(opened, H5_INDEX_NAME, H5_ITER_NATIVE, Walk::take, &walk) >= 0) return;
  throw NetcdfProblem{walk.problem().empty() ? nc_strerror(NC_EHDFERR) : walk.problem()};
}

}  // namespace norn
