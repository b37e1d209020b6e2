/* Has optional pages, and no way to get them back. */
#include "residency.h"

RESIDENCY("no-reclaim", .reclaim = NULL)
