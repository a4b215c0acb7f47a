# Compiler flags of the library and of its tests, carried by one interface target.
add_library(coll_flags INTERFACE)
target_compile_definitions(coll_flags INTERFACE _GNU_SOURCE)
target_compile_options(coll_flags INTERFACE -Wall -Wextra
    # Sums must not depend on whether this CPU level has fused multiply-add.
    -ffp-contract=off)
if(COLL_DEVELOPER)
    target_compile_options(coll_flags INTERFACE -Werror)
endif()

set(coll_sanitizers "${COLL_SANITIZE}")
string(REPLACE "," ";" coll_sanitizers "${coll_sanitizers}")
foreach(sanitizer IN LISTS coll_sanitizers)
    if(NOT sanitizer MATCHES "^(address|undefined|thread)$")
        message(FATAL_ERROR "COLL_SANITIZE names \"${sanitizer}\"; allowed are address, undefined and thread")
    endif()
endforeach()
if("address" IN_LIST coll_sanitizers AND "thread" IN_LIST coll_sanitizers)
    message(FATAL_ERROR "COLL_SANITIZE: address and thread cannot be combined")
endif()
if(coll_sanitizers)
    string(REPLACE ";" "," coll_sanitize_flag "${coll_sanitizers}")
    # Instrumented code confuses GCC's analysis of uninitialised variables; the plain build has that warning.
    target_compile_options(coll_flags INTERFACE
        -fsanitize=${coll_sanitize_flag} -fno-omit-frame-pointer -Wno-maybe-uninitialized)
    target_link_options(coll_flags INTERFACE -fsanitize=${coll_sanitize_flag})
    if("thread" IN_LIST coll_sanitizers AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # GCC warns that its ThreadSanitizer sees no order between data in a fence. Ours are not for that: they keep a
        # waker's flag and the look after it apart (base/segment.h), and all data has acquire and release of its own.
        target_compile_options(coll_flags INTERFACE -Wno-tsan)
    endif()
    if("undefined" IN_LIST coll_sanitizers)
        target_compile_options(coll_flags INTERFACE -fno-sanitize-recover=undefined)
    endif()
    if("thread" IN_LIST coll_sanitizers)
        # It does not follow fences, and gcc says so. Those here order the sleeping flags, which are atomic themselves.
        target_compile_options(coll_flags INTERFACE -Wno-tsan)
    endif()
endif()
