// Turns exceptions of the standard library into Errors.
#include <api/boundary.h>
#include <fa2/errors.h>
#include <fmt/format.h>

#include <exception>
#include <new>
#include <system_error>

namespace fa2 {

void rethrow_as_error() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::internal, "out of host memory");
  } catch (const std::system_error& error) {  // files, as in TMPDIR, and threads
    throw Unavailable(fmt::format("the operating system refused: {}", error.what()));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::internal,
                fmt::format("unexpected exception, a bug in fa2; please report it: {}", error.what()));
  } catch (...) {
    throw Error(ErrorCode::internal,
                "unexpected exception of an unknown type, a bug in fa2; please report it");
  }
}

}  // namespace fa2
