# Writes which sources a build is made of: cmake -D SOURCE=... -D TEMPLATE=... -D OUTPUT=... -P source_version.cmake
# Runs with every build, and leaves the file alone where nothing has changed, so that a commit compiles one small file.
set(NORN_SOURCE_VERSION unknown)
find_program(git git)
if(git)
  # Not the repository of somebody who has unpacked these sources into theirs.
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  get_filename_component(source ${SOURCE} REALPATH)
  if(NOT failed AND top)
    get_filename_component(top ${top} REALPATH)
  endif()
  if(NOT failed AND top STREQUAL source)
    execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit ERROR_QUIET
      OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    execute_process(COMMAND ${git} -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
    if(NOT failed)
      set(NORN_SOURCE_VERSION "${commit}")
      if(changes)
        string(APPEND NORN_SOURCE_VERSION ", modified")
      endif()
    endif()
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
