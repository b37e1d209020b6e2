/* page_read.c -- the document of a page out of report.html. */
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "page_tree.h"

enum {
    PAGE_BYTES_MAX = 256 << 20
};

#define DATA_BEGIN "<script type=\"application/json\" id=\"page\">"
#define DATA_END "</script>"

/* That every block is of a kind with what writers take for granted. */
static bool is_sound(const cJSON *tree)
{
    const cJSON *section = NULL, *block = NULL, *row = NULL;

    if (strcmp(report_text(tree, "schema"), REPORT_PAGE_SCHEMA) != 0 ||
        !cJSON_IsArray(kvt_json_find(tree, "sections")))
        return false;
    cJSON_ArrayForEach(section, kvt_json_find(tree, "sections"))
    {
        cJSON_ArrayForEach(block, kvt_json_find(section, "blocks"))
        {
            const char *type = report_text(block, "type"), *id = report_text(block, "id");
            bool is_data = strcmp(type, "chart") == 0 || strcmp(type, "table") == 0;
            if (type[0] == '\0' || (is_data && !report_is_file_name(id)))
                return false;
            if (is_data && (!cJSON_IsArray(kvt_json_find(block, "columns")) ||
                            !cJSON_IsArray(kvt_json_find(block, "rows"))))
                return false;
            cJSON_ArrayForEach(row, kvt_json_find(block, "rows"))
            {
                if (!cJSON_IsArray(row))
                    return false;
            }
        }
    }
    return true;
}

kvt_status report_page_read(const char *path, struct report_page **out, struct kvt_error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    cJSON *tree = NULL;
    kvt_status status = kvt_file_read(path, PAGE_BYTES_MAX, &text, &text_bytes, err);

    if (status != KVT_OK)
        return status;
    char *begin = strstr(text, DATA_BEGIN), *end = NULL;
    if (begin != NULL) {
        begin += strlen(DATA_BEGIN);
        end = strstr(begin, DATA_END);
    }
    if (end == NULL)
        status = kvt_fail(err, KVT_ERR_PARSE, path, "this is no page that kvtide wrote");
    else
        status = kvt_json_parse(begin, (size_t)(end - begin), path, 1, &tree, err);
    if (status == KVT_OK && !is_sound(tree))
        status = kvt_fail(err, KVT_ERR_INVALID, path, "found no page of schema \"%s\" in it",
                          REPORT_PAGE_SCHEMA);
    if (status == KVT_OK) {
        *out = report_page_of(tree);
        if (*out == NULL)
            status = kvt_fail_nomem(err, "a report");
    } else {
        cJSON_Delete(tree);
    }
    free(text);
    return status;
}
