// Ranks of the C interface whose communicators are of C++.
#pragma once

#include <doctest/doctest.h>
#include <fa2/c_context_parallel.h>
#include <fa2/communicator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fa2::test {

/// Returns functions that call a communicator of C++.
inline fa2_communicator_functions functions_of(Communicator& own) {
  fa2_communicator_functions functions = FA2_COMMUNICATOR_FUNCTIONS_INIT;
  functions.rank = own.rank(), functions.size = own.size();
  functions.data = &own;
  functions.exchange = [](void* data, const fa2_transfer* transfers, size_t count, void* stream,
                          uint64_t* number) -> int32_t {
    std::vector<Transfer> group;
    for (size_t i = 0; i < count; ++i)
      group.push_back({transfers[i].receives != 0 ? Transfer::Kind::receive : Transfer::Kind::send,
                       transfers[i].peer, transfers[i].data, transfers[i].bytes});
    *number =
        static_cast<Communicator*>(data)->exchange(group.data(), group.size(), static_cast<Stream>(stream));
    return 0;
  };
  functions.wait = [](void* data, uint64_t number) -> int32_t {
    static_cast<Communicator*>(data)->wait(number);
    return 0;
  };
  functions.all_gather = [](void* data, const void* mine, size_t bytes, void* all) -> int32_t {
    static_cast<Communicator*>(data)->all_gather(mine, bytes, all);
    return 0;
  };
  return functions;
}

template <class Handle>
using Owned = std::unique_ptr<Handle, fa2_status (*)(Handle*)>;

inline void require_ok(fa2_status status) {
  REQUIRE_MESSAGE(status == FA2_OK, fa2_last_error());
}

/// Returns a communicator that calls one of C++, which must outlive it.
inline Owned<fa2_communicator> c_communicator(Communicator& own) {
  const fa2_communicator_functions functions = functions_of(own);
  fa2_communicator* made = nullptr;
  require_ok(fa2_communicator_create(&functions, &made));
  return {made, fa2_communicator_destroy};
}

}  // namespace fa2::test
