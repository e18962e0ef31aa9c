// What ranks tell each other while they make a plan together. Every rank must call the same functions in the same order.
#pragma once

#include <fa2/communicator.h>

#include <string>
#include <vector>

namespace fa2 {

/// Returns the texts of all ranks, in rank order.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine);

/// Returns the text of rank `root`.
std::string broadcast_text(Communicator& communicator, const std::string& mine, int root = 0);

/// Checks that all ranks have the same text, for example of a problem. @throws InvalidRequest on every rank, which lists the ranks
/// that differ from rank 0.
void require_same(Communicator& communicator, const std::string& name, const std::string& mine);

}  // namespace fa2
