// Damages a file, as disks, programs and people do.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "subject.h"

namespace fa2::test {

/// The ways of damage; each is a row of the table.
const std::vector<std::string>& kinds_of_damage();

/// Damages one of the subject's files in `root` in a way of this kind. Returns what was done.
std::string damage(const std::string& kind, const Subject& subject, const std::filesystem::path& root,
                   Random& random);

}  // namespace fa2::test
