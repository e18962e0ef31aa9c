# Script: writes OUTPUT, a C++ source with the text of every template under DIRECTORY, sorted by name.
file(GLOB_RECURSE files RELATIVE ${DIRECTORY} ${DIRECTORY}/*.cuh ${DIRECTORY}/*.cu)
list(SORT files)
set(rows "")
foreach(name IN LISTS files)
  file(READ ${DIRECTORY}/${name} text)
  string(APPEND rows "    {\"${name}\", R\"fa2text(${text})fa2text\"},\n")
endforeach()
file(WRITE ${OUTPUT}.new
"// Generated from templates/ by cmake/write_embedded_templates.cmake.
#include <generator/embedded.h>

namespace fa2 {

static constexpr EmbeddedFile kFiles[] = {
${rows}};

std::span<const EmbeddedFile> embedded_templates() { return kFiles; }

}  // namespace fa2
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
