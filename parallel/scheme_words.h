// Words of the enumerators of context parallelism.
#pragma once

#include <core/enum_words.h>
#include <fa2/context_parallel.h>

namespace fa2 {

template <>
inline constexpr EnumWord<ContextParallelScheme> kWords<ContextParallelScheme>[] = {
    {ContextParallelScheme::automatic, "automatic"}, {ContextParallelScheme::gather_heads, "gather_heads"},
    {ContextParallelScheme::local, "local"},         {ContextParallelScheme::all_to_all, "all_to_all"},
    {ContextParallelScheme::staged, "staged"},
};

}  // namespace fa2
