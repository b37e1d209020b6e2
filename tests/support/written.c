/* written.c -- a text as a file of the test's own folder. */
#include "written.h"

#include <string.h>

static struct support_folder folder;

void written_folder_make(void)
{
    support_folder_make(&folder);
}

void written_folder_remove(void)
{
    support_folder_remove(&folder);
}

const char *written(const char *name, const char *text)
{
    static char path[SUPPORT_PATH_BYTES];

    support_write(support_path(&folder, name, path), text, strlen(text));
    return path;
}
