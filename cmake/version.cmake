# COLL_VERSION: given by the caller (setup.py passes the one of setuptools-scm), else what git knows, else the file
# VERSION. COLL_VERSION_NUMBERS is its leading digits, the form that project() accepts.
set(COLL_VERSION "" CACHE STRING "version text; empty: from git, or from the file VERSION")

function(coll_find_version out)
    if(COLL_VERSION)
        set(${out} "${COLL_VERSION}" PARENT_SCOPE)
        return()
    endif()
    file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/VERSION" version LIMIT_COUNT 1)
    find_program(COLL_GIT git)
    mark_as_advanced(COLL_GIT)
    if(COLL_GIT AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.git")
        # v1.2.3-4-gabcdef: four commits after the tag. Without any tag only the hash is known.
        execute_process(
            COMMAND "${COLL_GIT}" describe --tags --long --always --match "v[0-9]*"
            WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
            OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        if(described MATCHES "^v([0-9.]+)-0-g[0-9a-f]+$")
            set(version "${CMAKE_MATCH_1}")
        elseif(described MATCHES "^v([0-9.]+)-([0-9]+)-(g[0-9a-f]+)$")
            set(version "${CMAKE_MATCH_1}.post${CMAKE_MATCH_2}+${CMAKE_MATCH_3}")
        elseif(described MATCHES "^[0-9a-f]+$")
            set(version "${version}.dev0+g${described}")
        endif()
    endif()
    set(${out} "${version}" PARENT_SCOPE)
endfunction()

coll_find_version(COLL_VERSION_TEXT)
if(NOT COLL_VERSION_TEXT MATCHES "^([0-9]+(\\.[0-9]+)?(\\.[0-9]+)?)")
    message(FATAL_ERROR "COLL_VERSION is \"${COLL_VERSION_TEXT}\"; it must start with digits such as 1.2.3")
endif()
set(COLL_VERSION_NUMBERS "${CMAKE_MATCH_1}")
