/* Included by the compiler's command line before every file of libcoll: with -fvisibility=hidden, exactly what the
 * public header declares is visible. The map in coll.map says the same to the linker. */
#pragma GCC visibility push(default)
#include <coll.h>
#pragma GCC visibility pop
