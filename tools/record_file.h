// A file of tuning records as they ship with fa2.
#pragma once

#include <autotune/tuning_store.h>

#include <filesystem>
#include <vector>

namespace fa2::tools {

/// The records of a file; none if there is no such file.
/// @throws InvalidRequest naming the first line that is no record; CacheError if the file cannot be read.
std::vector<TuningRecord> read_records(const std::filesystem::path& file);

/// Puts a record into the file, in place of the one of its GPU and bucket, and sorts: one line a record, in a reader's
/// order, d64 before d128, forwards before backwards. Other lines are kept word for word. On return all of it is on disk; a process that is killed
/// leaves the file as it was before or as it is after. @throws as read_records(), FileError.
void add_record(const std::filesystem::path& file, const TuningRecord& record);

}  // namespace fa2::tools
