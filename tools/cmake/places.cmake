# Where programs and the shared library lie, and how one finds the other: beside each other, so that build folders and
# installations can be moved.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
file(RELATIVE_PATH libraries_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(CMAKE_INSTALL_RPATH $ORIGIN/${libraries_from_programs})
# CUDA's libraries, where the system does not know them.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
# RUNPATH, which gives way to LD_LIBRARY_PATH, and not RPATH.
add_link_options(LINKER:--enable-new-dtags)
# Programs that only programs start; below the folder of an installation, or of a build.
set(NORN_LIBEXEC_FOLDER ${CMAKE_INSTALL_LIBEXECDIR}/norn)
