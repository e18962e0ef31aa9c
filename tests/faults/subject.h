// What fa2 keeps on disk, as the suite sees it: a good state, operations that use it, and a judge. A new kind of file is a
// Subject in a file of its own and a line in subjects().
#pragma once

#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "campaign.h"

namespace fa2::test {

using Random = std::mt19937_64;

/// Returns a number from 0 to below `end`, which must be above 0.
inline std::size_t below(Random& random, std::size_t end) {
  return static_cast<std::size_t>(random() % end);
}

struct Operation {
  std::string name;
  /// Runs it in the folder. The verdict is about its results, not about the folder afterwards.
  std::function<Verdict(const std::filesystem::path& root)> run;
  /// Returns whether the folder holds what run() said it stored. nullptr: it stores nothing.
  std::function<bool(const std::filesystem::path& root)> is_stored = nullptr;
};

struct Subject {
  std::string name;
  /// Fills an empty folder with a good state.
  std::function<void(const std::filesystem::path& root)> make;
  std::vector<Operation> operations;
  /// Returns the files that make() writes.
  std::function<std::vector<std::filesystem::path>(const std::filesystem::path& root)> files;
  /// Returns the contents of a file with right checksums that no version of fa2 writes.
  std::function<std::string(Random& random)> forge;
  /// Judges the folder when no fault happens any more: it is used again, and must hold the new results afterwards.
  /// `complete`: what make() wrote must still be there.
  std::function<Verdict(const std::filesystem::path& root, bool complete)> judge;
  /// Returns the file that operations lock. nullptr: they lock none.
  std::function<std::filesystem::path(const std::filesystem::path& root)> lock = nullptr;
  /// Removes what killed processes have left, if it is older than an hour. nullptr: they leave nothing.
  std::function<void(const std::filesystem::path& root)> reap = nullptr;
};

Subject kernel_subject();
Subject read_only_subject();
Subject pack_subject();
Subject record_subject();
/// Tuning records whose last line ends in the middle, as a killed writer leaves it.
Subject torn_record_subject();
std::vector<Subject> subjects();

/// Returns whether fa2 has logged `text`, in a first or repeated warning, since forget_warnings(). Nothing is printed.
bool has_warned(const std::string& text = "not ");
void forget_warnings();

/// Returns the number of system calls of an operation in a good state.
std::uint64_t count_calls(const Subject& subject, const Operation& operation);

/// Returns the size of a regular file, also while system calls fail; 0 if there is none.
std::size_t bytes_in(const std::filesystem::path& path);

/// Returns `wrong` if the folder holds a file with this extension.
Verdict without_leftovers(const std::filesystem::path& root, const std::string& extension = ".tmp");

}  // namespace fa2::test
