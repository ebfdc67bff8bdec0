# cmake -D BUILD=... -D SOURCE=... -D WORK=... -D COMPILER=... -P install_and_use.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed with ${result}:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/consumer)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE} -B ${WORK}/consumer -D CMAKE_PREFIX_PATH=${WORK}/prefix
  -D CMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)
run(/usr/bin/python3 ${WORK}/prefix/bin/report.py --help)
# What shells and man look for beside the programs.
foreach(name importer trainer predictor evaluator)
  foreach(page man/man1/${name}.1 bash-completion/completions/${name} zsh/site-functions/_${name}
      fish/vendor_completions.d/${name}.fish)
    if(NOT EXISTS ${WORK}/prefix/share/${page})
      message(FATAL_ERROR "share/${page} has not been installed")
    endif()
  endforeach()
endforeach()
