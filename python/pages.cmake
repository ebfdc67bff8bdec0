# Manual pages and completion of the program norn, from its tables of options and those of the programs. A wheel puts them into share of
# the environment, `cmake --install` beside those of the programs. PYTHONPATH is how pip shows what it installed for the build: numpy is found
# there and nowhere else.
set(pages ${CMAKE_BINARY_DIR}/share/norn)
set(tables ${PROJECT_SOURCE_DIR}/tools)
file(GLOB tables CONFIGURE_DEPENDS norn/*.py ${tables}/*.py norn/tune/options.py norn/daily/options.py)
add_custom_command(OUTPUT ${pages}/man/man1/norn.1
  COMMAND ${CMAKE_COMMAND} -E env --modify PYTHONPATH=path_list_prepend:${CMAKE_BINARY_DIR}/python NORN_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    ${Python_EXECUTABLE} -B -m norn._pages ${pages}
  DEPENDS _processor ${programs} ${tables} VERBATIM COMMENT "Writing the manual pages and completions of norn")
add_custom_target(norn_python_pages ALL DEPENDS ${pages}/man/man1/norn.1)
add_dependencies(norn_python norn_python_pages)
if(SKBUILD_DATA_DIR)
  set(share ${SKBUILD_DATA_DIR}/share)
else()
  set(share ${CMAKE_INSTALL_DATADIR})
endif()
install(DIRECTORY ${pages}/ DESTINATION ${share} COMPONENT python EXCLUDE_FROM_ALL)
install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_DATADIR})
