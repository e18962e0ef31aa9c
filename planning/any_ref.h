// A reference to one of several structs, for code that only hands it on.
#pragma once

#include <fa2/errors.h>

namespace fa2 {

/// Refers to a problem or to arguments, whose type depends on the operation. The referred object must outlive it.
class AnyRef {
 public:
  template <class Object>
  AnyRef(const Object& object) : object_(&object), type_(&kType<Object>) {}

  /// Returns the object. @throws Error(internal) if it has another type.
  template <class Object>
  const Object& as() const {
    if (type_ != &kType<Object>) throw Error(ErrorCode::internal, "a step got another operation's arguments");
    return *static_cast<const Object*>(object_);
  }
  /// Returns the object; null if it has another type.
  template <class Object>
  const Object* find() const {
    return type_ == &kType<Object> ? static_cast<const Object*>(object_) : nullptr;
  }

 private:
  template <class Object>
  static constexpr char kType = 0;  // only its address matters

  const void* object_;
  const char* type_;
};

}  // namespace fa2
