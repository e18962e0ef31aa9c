// A plan of a shard in words.
#include <fmt/format.h>
#include <parallel/scheme_words.h>

namespace fa2 {

std::string_view to_string(ContextParallelScheme scheme) {
  return word_of(scheme);
}

std::string to_string(const ContextParallelExplanation& e) {
  const bool differs = e.backward_groups != 0 && e.backward_groups != e.groups;
  std::string text = fmt::format(
      "rank {} of {}: {} ({}), {} {}{}{}\n{} tokens see {} keys, {} pairs per head; workspace {} bytes\n",
      e.rank, e.ranks, to_string(e.scheme), e.reason, e.groups,
      e.scheme == ContextParallelScheme::staged ? "stage" : "group", e.groups == 1 ? "" : "s",
      differs ? fmt::format(", in the backward {}", e.backward_groups) : "", e.tokens, e.needed_keys, e.pairs,
      e.workspace_bytes);
  if (!e.transport.empty()) text += fmt::format("messages travel by {}\n", e.transport);
  for (int rank = 0; rank < e.ranks; ++rank)
    if (rank != e.rank)
      text += fmt::format("rank {}: sends {} bytes, receives {}\n", rank, e.sent_bytes[rank],
                          e.received_bytes[rank]);
  return text;
}

}  // namespace fa2
