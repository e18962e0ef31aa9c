// A file of tuning records, as they ship with fa2.
#pragma once

#include <autotune/tuning_store.h>

#include <filesystem>
#include <vector>

namespace fa2::tools {

/// Returns the records in a file; none if it does not exist.
/// @throws InvalidRequest that names the first line that is not a record; CacheError if the file cannot be
/// read.
std::vector<TuningRecord> read_records(const std::filesystem::path& file);

/// Puts a record into the file, in place of the one for its GPU and bucket. Sorts the lines, one per record:
/// d64 before d128, forwards before backwards. Other lines stay word for word. On return everything is on
/// disk. If the process is killed, the file is the old one or the new one. @throws as read_records(),
/// FileError.
void add_record(const std::filesystem::path& file, const TuningRecord& record);

}  // namespace fa2::tools
