// The doors to packs in memory.
#include <api/boundary.h>
#include <api/c_guard.h>
#include <api/c_structs.h>
#include <fa2/c_pack.h>
#include <fa2/pack.h>
#include <runtime/pack.h>

namespace fa2 {

void add_pack(const std::string& name, const void* data, std::size_t bytes) try {
  add_embedded_pack(name, {static_cast<const std::byte*>(data), bytes});
} catch (...) {
  rethrow_as_error();
}

}  // namespace fa2

using namespace fa2;

fa2_status fa2_pack_add(const char* name, const void* data, size_t bytes) {
  return guarded([&] {
    add_pack(&required(name, "name"), &required(static_cast<const std::byte*>(data), "data"), bytes);
  });
}
