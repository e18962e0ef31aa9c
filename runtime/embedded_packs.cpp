// The packs in this process's memory. Programs add theirs before main(), so the list is made when it is first used.
#include <runtime/pack.h>

#include <mutex>
#include <utility>

namespace fa2 {
namespace {

struct Packs {
  std::mutex mutex;
  std::vector<std::shared_ptr<const Pack>> all;
};

Packs& packs() {
  static Packs& packs =
      *new Packs;  // never destroyed: a Context may be made while other statics are destroyed
  return packs;
}

}  // namespace

void add_embedded_pack(const std::string& name, std::span<const std::byte> bytes) {
  auto pack = Pack::of_memory(name, bytes);
  const std::lock_guard lock(packs().mutex);
  packs().all.push_back(std::move(pack));
}

std::vector<std::shared_ptr<const Pack>> embedded_packs() {
  const std::lock_guard lock(packs().mutex);
  return packs().all;
}

}  // namespace fa2
