/* acceptance.h -- how likely a draft is to be accepted once all before it are: the
 * tables of models/acceptance/NAME.json. */
#ifndef KVT_MODELS_SPECULATION_ACCEPTANCE_H
#define KVT_MODELS_SPECULATION_ACCEPTANCE_H

#include "kvt/speculation.h"

enum {
    DRAFTS_MAX = KVT_QUERIES_MAX - 1 /* positions of a table */
};

struct acceptance_list {
    double chances[DRAFTS_MAX]; /* conditional, the last of the file's repeated to the end */
};

struct acceptance {
    enum kvt_basis basis;
    uint32_t task_count;
    struct acceptance_list *lists; /* [task_count] as the run's tasks are numbered */
};

/* Reads a file of schema "kvtide/acceptance/1" for the tasks of a run; a task that the file
 * does not name has the list "default". fini() frees the lists, and takes what is zeroed. */
KVT_CHECKED kvt_status acceptance_load(const char *path, const char *const *tasks,
                                       uint32_t task_count, struct acceptance *out,
                                       struct kvt_error *err);
void acceptance_fini(struct acceptance *acceptance);

/* The parameter that names the file. */
#define ACCEPTANCE_PARAM(default_, calibrated_to_)                                                 \
    {                                                                                              \
        .name = "acceptance",                                                                      \
        .help = "How likely drafts are to be accepted: a shipped table or the path of a file.",    \
        .type = KVT_PARAM_TEXT, .minimum = 1, .maximum = 4096, .default_text = (default_),         \
        .calibrated_to = (calibrated_to_)                                                          \
    }

#endif
