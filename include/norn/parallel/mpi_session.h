// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

/// MPI, for programs whose processes are ranks.
namespace norn {

class Communicator;
struct Place;
struct WorldState;

/// The usual time limit of a collective.
constexpr double kCollectiveSeconds = 300.0;

/// Owns MPI_Init_thread and MPI_Finalize. Construct once, in main(); collectives may then be called
/// by one thread at a time. Without an MPI launcher (mpirun, srun) MPI is not begun: one rank.
///
/// When a collective failed, or an exception ends the session, MPI_Finalize is left out, because it
/// would wait for ranks that may be gone: the launcher then ends the other ranks.
///
/// A rank that fails calls abort(), which tells the others before it ends them: their collectives
/// throw RunEnded. A rank that dies without a word is noticed at once by the ranks of its machine,
/// by the others when their time is up; theirs throw CommunicationError.
class MpiSession {
 public:
  /// Throws CommunicationError when a launcher started several processes and MPI says that they are
  /// alone.
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// Waits until all ranks are done with their work, at most as long as the last world() said: MPI
  /// itself waits for ever for a rank that never comes to its end. All ranks call it together,
  /// last. Throws CommunicationError.
  void finish();
  /// Ends all ranks at once with that exit code: the answer to an error on one of them.
  [[noreturn]] void abort(int exit_code);
  /// For a rank that failed with that exit code, before it says why and calls abort(): of several
  /// that fail at once the lowest does. Returns nothing when it is this one, else the exit code
  /// with which another has called abort(). Waits for lower ranks until they work or have failed,
  /// too, and at most some 15 s for those that do neither.
  std::optional<int> ended_by_another(int exit_code);
  /// For a rank that another one ends: lets that one say why. Returns after some seconds, when the
  /// launcher should long have ended this rank.
  void wait_to_be_ended();
  /// MPI's world on host memory; make_single_process() when the world has one rank. All ranks call
  /// it together. The limit holds for each message of at most 32 MiB, so a large collective that
  /// makes progress never exceeds it.
  std::shared_ptr<Communicator> world(double timeout_seconds = kCollectiveSeconds);
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Where this rank's communicator stood when an error ended it.
  Place place() const;

 private:
  int rank_ = 0;
  int size_ = 1;
  bool begun_ = false;
  double timeout_ = kCollectiveSeconds;
  std::shared_ptr<WorldState> world_;  ///< shared with the communicators
};

}  // namespace norn
