// Calls with paged K and V.
#pragma once

#include "varlen.h"

namespace fa2::test {

/// Returns the problem with paged K and V. The cache has a few more pages than are in use.
AttentionProblem with_pages(AttentionProblem problem, const Lengths& lengths, Packing packing, int page_size);

/// Makes a table that uses each page once, in random order. Entries that no kernel may read name no page, and with missing_pages
/// each third of the others.
void set_pages(GuardedCall& call, const Lengths& lengths, unsigned seed);

/// Fills with NaN the rows of pages that no query of their sequence sees, and pages of no sequence. The caller must upload
/// the call.
void poison_pages(GuardedCall& call);

/// Returns an uploaded call of with_pages(), with set_pages() and poison_pages().
GuardedCall paged_call(const AttentionProblem& problem, const Lengths& lengths, Packing packing,
                       int page_size, MakeLayout layout = guarded_bshd);

}  // namespace fa2::test
