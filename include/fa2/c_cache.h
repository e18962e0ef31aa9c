/* The compiled kernels of a cache directory, in fa2's C interface: the actions of `fa2 cache`. */
#ifndef FA2_C_CACHE_H
#define FA2_C_CACHE_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a JSON object to *json: "directory", "bytes", "entries" (one per kernel, the last used first) and "damaged", the number of
 * entries that cannot be used. `directory` NULL: the user's own cache. If `verify` is not 0, reads every file and checks its
 * checksums, else only its header. Free *json with fa2_string_free(); it is NULL on failure. */
FA2_C_API fa2_status fa2_cache_list(const char* directory, int32_t verify, char** json);

/* Removes damaged files, then the least recently used ones until at most `max_bytes` remain; if negative, FA2_CACHE_MAX_MB applies.
 * Writes a JSON object to *json: "directory", "removed_files", "removed_bytes", and "entries" and "bytes" of the rest. */
FA2_C_API fa2_status fa2_cache_prune(const char* directory, int64_t max_bytes, char** json);

#ifdef __cplusplus
}
#endif

#endif
