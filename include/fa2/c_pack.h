/* Kernel packs in a program's own memory, in fa2's C interface. */
#ifndef FA2_C_PACK_H
#define FA2_C_PACK_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds a kernel pack (`fa2 precompile --out kernels.fa2pack`) that lies in this process's memory, for example because it is linked
 * into the program. Contexts made from now on search it before FA2_CACHE_PATH, and follow its tuning records; the default context is
 * made by the first call. The bytes are not copied: they must stay valid and unchanged until the process ends. `name` stands for the
 * pack in messages. Returns FA2_CACHE if this is not a pack, or one that is truncated or damaged. Thread-safe. */
FA2_C_API fa2_status fa2_pack_add(const char* name, const void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
