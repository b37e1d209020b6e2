/* Cannot choose victims. */
#include "replacement.h"

REPLACEMENT("member-missing", .choose_victims = NULL)
