/* Does not get as far as its tables. */
#include <stdlib.h>

#include "kvt/plugin.h"

const struct kvt_plugin_object *kvt_plugin_entry(void)
{
    abort();
}
