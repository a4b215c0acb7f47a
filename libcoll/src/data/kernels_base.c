/* Kernels for any CPU of the architecture. */
#define KERNEL_SET coll__kernels_base
#include "data/kernel_body.h"
