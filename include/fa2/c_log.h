/* fa2's log, in fa2's C interface: one per process, on stderr or in the program's own logger. */
#ifndef FA2_C_LOG_H
#define FA2_C_LOG_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The level of a message. Only fa2_set_log_level() takes FA2_LOG_OFF; no message has it. */
enum {
  FA2_LOG_TRACE = 0,
  FA2_LOG_DEBUG = 1,
  FA2_LOG_INFO = 2,
  FA2_LOG_WARN = 3,
  FA2_LOG_ERROR = 4,
  FA2_LOG_CRITICAL = 5,
  FA2_LOG_OFF = 6
};

/* Takes one message: UTF-8, without a newline at its end. `message` is valid during the call only. */
typedef void (*fa2_log_callback)(void* data, int32_t level, const char* message);

/* Sends messages to `callback`, called with `data`, instead of stderr; NULL sends them to stderr again. The log belongs to the
 * process, not to a context.
 *
 * Threads that call fa2, and compiling threads of fa2, call `callback`; their calls may overlap. fa2 may hold locks meanwhile, so
 * `callback` must not call fa2, and must not wait for a lock that another thread holds while it calls fa2. It must not longjmp.
 *
 * Thread-safe. Waits until no call of the previous callback runs: its data may be freed then. FA2_INVALID_REQUEST if a callback
 * calls it. */
FA2_C_API fa2_status fa2_set_log(fa2_log_callback callback, void* data);

/* Drops messages below `level`, in place of the environment variable FA2_LOG. Thread-safe. */
FA2_C_API fa2_status fa2_set_log_level(int32_t level);

/* Returns the level of fa2_set_log_level(), else that of FA2_LOG, else FA2_LOG_WARN. */
FA2_C_API int32_t fa2_log_level(void);

#ifdef __cplusplus
}
#endif

#endif
