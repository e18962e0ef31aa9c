# find_package(fa2) and pkg-config for users: the shared library, the public headers, the fa2 command.
include(CMakePackageConfigHelpers)
install(TARGETS fa2 EXPORT fa2-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(FA2_BUILD_TOOLS)
  install(TARGETS fa2_command EXPORT fa2-targets DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY include/fa2 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT fa2-targets NAMESPACE fa2:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fa2)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/fa2-config.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/fa2-targets.cmake)
include(\${CMAKE_CURRENT_LIST_DIR}/kernel_pack.cmake)\n")
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/fa2-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fa2-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/fa2-config-version.cmake
              cmake/kernel_pack.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fa2)

# From its own place, so that what is installed can be moved.
file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH to_headers ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
string(REGEX REPLACE "/$" "" to_prefix ${to_prefix})
configure_file(cmake/fa2.pc.in fa2.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fa2.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
