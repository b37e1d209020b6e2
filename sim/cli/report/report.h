/* report.h -- report.html: made from the files of a folder, whatever kind of answer they are. */
#ifndef KVT_CLI_REPORT_H
#define KVT_CLI_REPORT_H

#include "page.h"

/* One kind of answer: its schema, or with a '/' at its end how it begins; what the page calls it;
 * and how it becomes one. */
struct report_kind {
    const char *schema, *name;
    /* Adds to the page what the tree, and other files of the folder, hold. */
    kvt_status (*build)(struct report_page *page, const char *dir, const cJSON *tree,
                        struct kvt_error *err);
};

/* The page of what lies in a folder, or of one file: an answer (result.json, compare.json and
 * others), or a page that was written. Refuses a folder with none, or with several answers.
 * *page_path is where the page of it belongs, the caller's to free(). */
KVT_CHECKED kvt_status report_open(const char *path, struct report_page **out, char **page_path,
                                   struct kvt_error *err);

/* Writes DIR/report.html anew from DIR/file, which lies there. */
KVT_CHECKED kvt_status report_write(const char *dir, const char *file, struct kvt_error *err);

/* Takes away a DIR/report.html of an answer that is about to be replaced. */
void report_remove(const char *dir);

/* report_run.c, report_compare.c, report_sweep.c, report_plan.c, report_validate.c, report_any.c:
 * as struct report_kind has it. */
KVT_CHECKED kvt_status report_build_run(struct report_page *page, const char *dir,
                                        const cJSON *tree, struct kvt_error *err);
KVT_CHECKED kvt_status report_build_compare(struct report_page *page, const char *dir,
                                            const cJSON *tree, struct kvt_error *err);
KVT_CHECKED kvt_status report_build_sweep(struct report_page *page, const char *dir,
                                          const cJSON *tree, struct kvt_error *err);
KVT_CHECKED kvt_status report_build_plan(struct report_page *page, const char *dir,
                                         const cJSON *tree, struct kvt_error *err);
KVT_CHECKED kvt_status report_build_validate(struct report_page *page, const char *dir,
                                             const cJSON *tree, struct kvt_error *err);
KVT_CHECKED kvt_status report_build_any(struct report_page *page, const char *dir,
                                        const cJSON *tree, struct kvt_error *err);

/* The page of a tree that the caller has, and that needs no file beside it. */
KVT_CHECKED kvt_status report_write_tree(const cJSON *tree, FILE *stream, struct kvt_error *err);

/* What several kinds say alike. A tree's badge, and at the end the scenario in force. */
void report_add_badge(struct report_page *page, const cJSON *tree);
void report_add_scenario(struct report_page *page, const char *title, const cJSON *scenario);
/* report_explain.c: what binds, and what a change would be worth; false: the result does not say.
 */
bool report_add_explain(struct report_page *page, const cJSON *result);
/* report_faults.c: what failed; nothing where nothing could. */
void report_add_faults(struct report_page *page, const cJSON *result);
/* A number at a path of members, "metrics.mean_tpot_ms", or of the tree itself, ""; NaN: there is
 * none. */
double report_number(const cJSON *tree, const char *path);

#endif
