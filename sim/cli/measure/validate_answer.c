/* validate_answer.c -- how an answer of `kvtide validate` is given: on stdout, and in its folder.
 */
#include "validate_answer.h"

#include <stdlib.h>

#include "../report/report.h"
#include "kvt/file.h"
#include "kvt/json.h"

static kvt_status open_out(const char *dir, const char *name, struct kvt_outfile **out,
                           struct kvt_error *err)
{
    char path[4096];

    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return kvt_fail(err, KVT_ERR_INVALID, "--out", "the folder's name is too long");
    kvt_status status = kvt_mkdirs(dir, err);
    return status == KVT_OK ? kvt_outfile_open(path, out, err) : status;
}

/* Both are open before either is there. */
static kvt_status write_files(const char *dir, const struct answer *answer, const char *text,
                              struct kvt_error *err)
{
    struct kvt_outfile *page = NULL, *tree = NULL;
    kvt_status status = open_out(dir, "validate.json", &tree, err);

    if (status == KVT_OK && answer->page_name)
        status = open_out(dir, answer->page_name, &page, err);
    if (status == KVT_OK && page)
        status = report_write_tree(answer->tree, kvt_outfile_stream(page), err);
    if (status == KVT_OK && page) {
        status = kvt_outfile_commit(page, err);
        page = NULL;
    }
    if (status == KVT_OK) {
        fprintf(kvt_outfile_stream(tree), "%s\n", text);
        status = kvt_outfile_commit(tree, err);
        tree = NULL;
    }
    kvt_outfile_discard(page);
    kvt_outfile_discard(tree);
    return status;
}

static void tell_files(const char *dir, const struct answer *answer)
{
    if (answer->page_name)
        fprintf(stderr, "written: %s/{%s,validate.json}\n", dir, answer->page_name);
    else
        fprintf(stderr, "written: %s/validate.json\n", dir);
}

kvt_status answer_give(const struct answer *answer, const struct answer_place *place,
                       struct kvt_error *err)
{
    char *text = kvt_json_print(answer->tree);
    kvt_status status = text ? KVT_OK : kvt_fail_nomem(err, "the result of a validation");

    if (status == KVT_OK && place->json)
        puts(text);
    else if (status == KVT_OK)
        answer->print(answer);
    (void)fflush(stdout);
    if (status == KVT_OK && place->dir)
        status = write_files(place->dir, answer, text, err);
    if (status == KVT_OK && place->dir && !place->quiet)
        tell_files(place->dir, answer);
    free(text);
    return status;
}
