/* validate_answer.h -- how an answer of `kvtide validate` is given. */
#ifndef KVT_CLI_VALIDATE_ANSWER_H
#define KVT_CLI_VALIDATE_ANSWER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

#include "kvt/error.h"

/* An answer: its tree, and how it is printed for people. */
struct answer {
    const void *plan, *outcome;
    cJSON *tree;
    void (*print)(const struct answer *answer);
    const char *page_name; /* of the tree's page, beside it; NULL: none is written */
};

struct answer_place {
    const char *dir; /* NULL: nothing is written */
    bool json;       /* on stdout, instead of what print() prints */
    bool quiet;
};

/* On stdout, and whole in its folder: the page, and validate.json last. */
KVT_CHECKED kvt_status answer_give(const struct answer *answer, const struct answer_place *place,
                                   struct kvt_error *err);

#endif
