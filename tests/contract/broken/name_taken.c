/* Calls itself as a built-in policy is called. */
#include "replacement.h"

REPLACEMENT("clock", .on_promoted = NULL)
