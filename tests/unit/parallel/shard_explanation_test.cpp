// What a plan of a shard says of itself.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>

#include <string>

using namespace fa2;

TEST_CASE("explanation of a shard: the scheme, the groups of both passes, and the bytes of each rank") {
  ContextParallelExplanation e;
  e.reason = "asked for";
  e.ranks = 2, e.groups = 2;
  e.tokens = 8, e.needed_keys = 16, e.pairs = 100;
  e.sent_bytes = {0, 64}, e.received_bytes = {0, 32};
  e.transport = "the communicator: why";
  e.workspace_bytes = 256;
  const std::string rest =
      "\n8 tokens see 16 keys, 100 pairs per head; workspace 256 bytes\n"
      "messages travel by the communicator: why\n"
      "rank 1: sends 64 bytes, receives 32\n";
  CHECK(to_string(e) == "rank 0 of 2: gather_heads (asked for), 2 groups" + rest);
  e.backward_groups = 2;
  CHECK(to_string(e) == "rank 0 of 2: gather_heads (asked for), 2 groups" + rest);
  e.backward_groups = 1;
  CHECK(to_string(e) == "rank 0 of 2: gather_heads (asked for), 2 groups, in the backward 1" + rest);
  e.scheme = ContextParallelScheme::staged, e.groups = 1;
  CHECK(to_string(e) == "rank 0 of 2: staged (asked for), 1 stage" + rest);
}
