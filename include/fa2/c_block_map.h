/* Maps of the blocks that the text of a mask shows, held between calls, in fa2's C interface. See fa2/block_map.h. */
#ifndef FA2_C_BLOCK_MAP_H
#define FA2_C_BLOCK_MAP_H

#include <fa2/c_api.h>
#include <fa2/c_backward.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a map without any blocks yet, for fa2_args::block_map. `version`: the caller's name for what captures and tables of lengths
 * hold; a call whose block_map_version is another fails with FA2_INVALID_REQUEST. */
FA2_C_API fa2_status fa2_block_map_create(uint64_t version, fa2_block_map** map);

/* Finds the blocks that fa2_attention() and fa2_attention_backward() of the same arguments visit. `block_map` of the arguments is
 * ignored. Calls on other streams must be ordered behind it. */
FA2_C_API fa2_status fa2_map_blocks(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                                    fa2_block_map* map, void* stream);
FA2_C_API fa2_status fa2_map_blocks_of_backward(fa2_context* context, const fa2_problem* problem,
                                                const fa2_backward_args* args, fa2_block_map* map,
                                                void* stream);

/* Frees a map, which may be NULL. Launches that read it must have ended, or its memory be of fa2_launch::allocate, whose
 * `release` is called. */
FA2_C_API fa2_status fa2_block_map_destroy(fa2_block_map* map);

#ifdef __cplusplus
}
#endif

#endif
