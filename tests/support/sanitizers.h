// Which sanitizers this was compiled with.
#pragma once

#ifdef __has_feature
#define FA2_SANITIZES_THREADS __has_feature(thread_sanitizer)
#define FA2_SANITIZES_ADDRESSES __has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define FA2_SANITIZES_THREADS 1
#else
#define FA2_SANITIZES_THREADS 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define FA2_SANITIZES_ADDRESSES 1
#else
#define FA2_SANITIZES_ADDRESSES 0
#endif
#endif
