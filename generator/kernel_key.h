// What a compiled kernel is called in caches and packs.
#pragma once

#include <generator/kernel_source.h>

#include <string>
#include <vector>

namespace fa2 {

/// Returns everything that the binary depends on. `source` must have its arch, entry and options. `template_digest`: of the
/// kernel's templates. `rendered`: headers that were rendered for this spec.
std::vector<KeyPart> key_parts(const KernelSource& source, const std::string& template_digest,
                               const std::vector<SourceFile>& rendered);

/// Returns the hash of the parts, 32 hex digits.
std::string key_of(const std::vector<KeyPart>& parts);

}  // namespace fa2
