/* written.h -- a text as a file of the test's own folder, for whoever reads files. */
#ifndef KVT_TESTS_WRITTEN_H
#define KVT_TESTS_WRITTEN_H

#include "support.h"

/* The fixture: the folder. */
void written_folder_make(void);
void written_folder_remove(void);

/* Its path; borrowed until the next one. Over a file of that name. */
const char *written(const char *name, const char *text);

#endif
