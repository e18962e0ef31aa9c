// The context behind a fa2_context of the C interface.
#pragma once

#include <fa2/c_api.h>
#include <fa2/context.h>

struct fa2_context {
  fa2::Context context;
};

namespace fa2 {

inline Context& context_of(fa2_context* context) {
  return context != nullptr ? context->context : Context::default_context();
}

}  // namespace fa2
