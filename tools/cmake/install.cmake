# Headers, libraries and a CMake package, so that find_package(norn) gives norn::engine.
include(CMakePackageConfigHelpers)
get_property(layers GLOBAL PROPERTY NORN_LAYERS)
install(TARGETS ${layers} EXPORT norn-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/norn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
