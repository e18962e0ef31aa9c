// The library's version, from the header that programs can ask too.
#include <fa2/context.h>
#include <fa2/version.h>

namespace fa2 {

#define FA2_TEXT(x) #x
#define FA2_DOTTED(major, minor, patch) FA2_TEXT(major) "." FA2_TEXT(minor) "." FA2_TEXT(patch)

const char* version() {
  return FA2_DOTTED(FA2_VERSION_MAJOR, FA2_VERSION_MINOR, FA2_VERSION_PATCH);
}

}  // namespace fa2
