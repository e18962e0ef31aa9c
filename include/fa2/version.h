/* The version of these headers, for C and C++; fa2_version() returns the library's. CMake reads it here. */
#ifndef FA2_VERSION_H
#define FA2_VERSION_H

#define FA2_VERSION_MAJOR 0
#define FA2_VERSION_MINOR 1
#define FA2_VERSION_PATCH 0

#endif
