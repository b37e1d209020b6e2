/* mrc_files.c -- files of selections, and which store each selector reads. */
#include <stdio.h>
#include <stdlib.h>

#include "kvt/json.h"
#include "mrc.h"

/* "stores" of the note: the store of each selector. */
static kvt_status follow_note(const cJSON *stores, const char *where, struct mrc_file *file,
                              uint32_t selectors, struct kvt_error *err)
{
    if (cJSON_GetArraySize(stores) != (int)selectors)
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "\"stores\" has %d entries; one for each of %u selectors is expected",
                        cJSON_GetArraySize(stores), selectors);
    uint32_t s = 0;
    for (const cJSON *item = stores->child; item != NULL; item = item->next, s++) {
        if (!kvt_json_is_count(item) || item->valuedouble >= selectors)
            return kvt_fail(err, KVT_ERR_PARSE, where,
                            "\"stores\": entry %u is no store; a number below %u is expected", s,
                            selectors);
        file->selector_stores[s] = (uint32_t)item->valuedouble;
        if (file->selector_stores[s] >= file->store_count)
            file->store_count = file->selector_stores[s] + 1;
    }
    return KVT_OK;
}

static kvt_status read_note(const struct kvt_kvsel_header *header, const char *path,
                            struct mrc_file *file, struct kvt_error *err)
{
    char where[512];
    cJSON *tree = NULL;
    const cJSON *stores = NULL;
    (void)snprintf(where, sizeof where, "%s, note", path);
    kvt_status status = kvt_json_parse(header->note, header->note_bytes, where, 1, &tree, err);
    if (status == KVT_OK && cJSON_IsObject(tree))
        status = kvt_json_get_array(tree, where, "stores", false, &stores, err);
    if (status == KVT_OK && stores != NULL)
        status = follow_note(stores, where, file, header->selector_count, err);
    cJSON_Delete(tree);
    return status;
}

static kvt_status name_stores(const char *path, struct mrc_file *file, struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_reader_header(file->reader);
    file->selector_stores = calloc(header->selector_count, sizeof *file->selector_stores);
    if (file->selector_stores == NULL)
        return kvt_fail_nomem(err, path);
    kvt_status status = header->note != NULL ? read_note(header, path, file, err) : KVT_OK;
    if (status != KVT_OK || file->store_count > 0)
        return status;
    for (uint32_t s = 0; s < header->selector_count; s++)
        file->selector_stores[s] = s;
    file->store_count = header->selector_count;
    return KVT_OK;
}

kvt_status mrc_file_open(const char *path, bool (*on_read)(void *, double), void *context,
                         struct mrc_file *out, struct kvt_error *err)
{
    struct mrc_file file = {.reader = NULL};
    kvt_status status = kvt_kvsel_open(path, on_read, context, &file.reader, err);
    if (status == KVT_OK)
        status = name_stores(path, &file, err);
    if (status != KVT_OK) {
        mrc_file_close(&file);
        return status;
    }
    *out = file;
    return KVT_OK;
}

void mrc_file_close(struct mrc_file *file)
{
    kvt_kvsel_close(file->reader);
    free(file->selector_stores);
    *file = (struct mrc_file){.reader = NULL};
}
