// Threads whose work may wait.
#pragma once

namespace fa2 {

/// Makes the calling thread yield to others: it gets less of the CPU, as do threads that it starts, and its driver calls neither
/// disturb a capture on another thread nor fail because of it. For a thread's whole life.
void work_in_background();

}  // namespace fa2
