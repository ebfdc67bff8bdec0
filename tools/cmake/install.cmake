# Headers, the library, programs and a CMake package, so that find_package(norn) gives norn::run.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/norn)
install(TARGETS norn EXPORT norn-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/norn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(FILES LICENSE NOTICE THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/norn/configs)
install(EXPORT norn-targets NAMESPACE norn:: DESTINATION ${package_folder})
configure_package_config_file(tools/cmake/norn-config.cmake.in ${CMAKE_BINARY_DIR}/norn-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/norn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/norn-config.cmake ${CMAKE_BINARY_DIR}/norn-config-version.cmake
  DESTINATION ${package_folder})
