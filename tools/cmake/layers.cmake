# norn_layer(NAME [SOURCES folder...] DEPENDS lib... PRIVATE_DEPENDS lib...)
# One static library per layer of the house, from src/NAME unless folders are named. Layers link downward only.
function(norn_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES src/${name})
  endif()
  list(TRANSFORM ARG_SOURCES APPEND /*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${ARG_SOURCES})
  add_library(norn_${name} STATIC ${sources})
  add_library(norn::${name} ALIAS norn_${name})
  target_include_directories(norn_${name}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/src/${name})
  target_link_libraries(norn_${name} PUBLIC ${ARG_DEPENDS}
    PRIVATE $<BUILD_INTERFACE:norn_flags> ${ARG_PRIVATE_DEPENDS})
  target_compile_features(norn_${name} PUBLIC cxx_std_20)
  set_target_properties(norn_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY NORN_LAYERS norn_${name})
endfunction()
