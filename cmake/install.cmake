# find_package(fa2) for users: the shared library, the public headers, the fa2 command.
include(CMakePackageConfigHelpers)
install(TARGETS fa2 EXPORT fa2-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(FA2_BUILD_TOOLS)
  install(TARGETS fa2_command DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY include/fa2 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT fa2-targets NAMESPACE fa2:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fa2)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/fa2-config.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/fa2-targets.cmake)\n")
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/fa2-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fa2-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/fa2-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fa2)
