// Kernel packs in a program's own memory.
#pragma once

#include <fa2/types.h>

#include <cstddef>
#include <string>

namespace fa2 {

/// Adds a kernel pack (`fa2 precompile --out kernels.fa2pack`) that lies in this process's memory, for example because it is linked
/// into the program. Contexts made from now on search it before FA2_CACHE_PATH, and follow its tuning records. The bytes are not
/// copied: they must stay valid and unchanged until the process ends. `name` stands for the pack in messages. Thread-safe.
/// @throws CacheError if this is not a pack, or one that is truncated or damaged.
FA2_API void add_pack(const std::string& name, const void* data, std::size_t bytes);

}  // namespace fa2
