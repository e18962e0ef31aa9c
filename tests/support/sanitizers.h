// Which sanitizer this was compiled with.
#pragma once

#ifdef __has_feature
#define FA2_SANITIZES_THREADS __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define FA2_SANITIZES_THREADS 1
#else
#define FA2_SANITIZES_THREADS 0
#endif
