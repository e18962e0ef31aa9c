// What ranks tell each other while they make a plan together. Every rank must call the same functions in the same order.
#pragma once

#include <fa2/communicator.h>

#include <functional>
#include <string>
#include <vector>

namespace fa2 {

/// Returns the texts of all ranks, in rank order.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine);

/// Returns the text of rank `root`.
std::string broadcast_text(Communicator& communicator, const std::string& mine, int root = 0);

/// One part of a rank's request, as text without a character 0.
struct Statement {
  std::string name;
  std::string text;
};

/// Checks that all ranks say the same of everything, and that no rank found a broken rule. `mine` must have the same names on all ranks.
/// @throws InvalidRequest on every rank: with `found` if it is not empty, else with what other ranks found, or say otherwise than rank 0.
void require_same(Communicator& communicator, const std::vector<Statement>& mine,
                  std::vector<Violation> found = {});

/// Runs `make`, and returns when all ranks have. @throws what `make` throws; CommunicationError if it threw on another rank.
void make_together(Communicator& communicator, const std::function<void()>& make);

}  // namespace fa2
