/* Built for another ABI. */
#include "replacement.h"

#undef KVT_ABI_VERSION
#define KVT_ABI_VERSION 99u

REPLACEMENT("abi-other", .on_promoted = NULL)
