/* sorted.c -- rows of a file that is out of order, held compactly and sorted.
 *
 * A row takes 48 bytes; in files that say more than times, lengths and sessions, 40 more; and 8 for
 * each page whose key only the file knows. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace_file.h"

struct entry {
    int64_t time_ns;
    uint64_t session, line;
    uint32_t ordinal; /* place in the file */
    uint32_t input_tokens, output_tokens, turn;
    uint16_t names[KVT_TRACE_NAME_KINDS];
};

/* What a row has beside, in files where any has it. */
struct extra {
    uint64_t prefix_group;
    int64_t think_ns;
    size_t first_key;
    uint32_t prefix_tokens, key_count;
    bool follows, has_page_keys;
};

struct kvt_trace_sorted {
    const char *path;      /* borrowed */
    struct entry *entries; /* [capacity] */
    struct extra *extras;  /* [capacity] by ordinal; NULL: no row has any */
    size_t count, capacity, next;
    uint64_t *keys; /* [key_count] */
    size_t key_count, key_capacity;
};

kvt_status kvt_trace_sorted_new(const char *path, uint64_t requests, uint32_t fields,
                                struct kvt_trace_sorted **out, struct kvt_error *err)
{
    const uint32_t extra_fields =
        UINT32_C(1) << KVT_TRACE_PREFIX_TOKENS | UINT32_C(1) << KVT_TRACE_THINK_S |
        UINT32_C(1) << KVT_TRACE_HASH_IDS | UINT32_C(1) << KVT_TRACE_CHAT_ID |
        UINT32_C(1) << KVT_TRACE_SUB_REQUESTS;
    if (requests > UINT32_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, path,
                        "%" PRIu64 " requests out of order; up to %" PRIu32
                        " are sorted here, so sort the file",
                        requests, UINT32_MAX);
    struct kvt_trace_sorted *sorted = calloc(1, sizeof *sorted);
    if (sorted == NULL)
        return kvt_fail_nomem(err, "an out-of-order trace");
    bool has_extras = (fields & extra_fields) != 0;
    sorted->path = path;
    sorted->capacity = (size_t)requests;
    sorted->entries = malloc(sorted->capacity * sizeof *sorted->entries);
    if (has_extras)
        sorted->extras = malloc(sorted->capacity * sizeof *sorted->extras);
    if (sorted->entries == NULL || (has_extras && sorted->extras == NULL)) {
        kvt_trace_sorted_free(sorted);
        return kvt_fail_nomem(err, "an out-of-order trace");
    }
    *out = sorted;
    return KVT_OK;
}

void kvt_trace_sorted_free(struct kvt_trace_sorted *sorted)
{
    if (sorted == NULL)
        return;
    free(sorted->entries);
    free(sorted->extras);
    free(sorted->keys);
    free(sorted);
}

static kvt_status keep_keys(struct kvt_trace_sorted *sorted, const struct kvt_trace_row *row,
                            struct kvt_error *err)
{
    size_t wanted = sorted->key_count + row->page_key_count;
    if (wanted > sorted->key_capacity) {
        size_t capacity = wanted + wanted / 2;
        uint64_t *keys = realloc(sorted->keys, capacity * sizeof *keys);
        if (keys == NULL)
            return kvt_fail_nomem(err, "the page keys of an out-of-order trace");
        sorted->keys = keys;
        sorted->key_capacity = capacity;
    }
    if (row->page_key_count > 0)
        memcpy(&sorted->keys[sorted->key_count], row->page_keys,
               row->page_key_count * sizeof row->page_keys[0]);
    sorted->key_count = wanted;
    return KVT_OK;
}

kvt_status kvt_trace_sorted_add(struct kvt_trace_sorted *sorted, const struct kvt_trace_row *row,
                                const uint16_t names[KVT_TRACE_NAME_KINDS], struct kvt_error *err)
{
    if (sorted->count == sorted->capacity)
        return kvt_fail(err, KVT_ERR_IO, sorted->path, "the file changed while it was read");
    sorted->entries[sorted->count] = (struct entry){
        .time_ns = row->time_ns,
        .session = row->session,
        .line = row->line,
        .ordinal = (uint32_t)sorted->count,
        .input_tokens = row->input_tokens,
        .output_tokens = row->output_tokens,
        .turn = row->turn,
    };
    memcpy(sorted->entries[sorted->count].names, names, sizeof sorted->entries[0].names);
    if (sorted->extras != NULL)
        sorted->extras[sorted->count] = (struct extra){
            .prefix_group = row->prefix_group,
            .think_ns = row->think_ns,
            .first_key = sorted->key_count,
            .prefix_tokens = row->prefix_tokens,
            .key_count = row->page_key_count,
            .follows = row->follows,
            .has_page_keys = row->has_page_keys,
        };
    sorted->count++;
    return keep_keys(sorted, row, err);
}

static int by_time_then_place(const void *a, const void *b)
{
    const struct entry *first = a;
    const struct entry *second = b;
    if (first->time_ns != second->time_ns)
        return first->time_ns < second->time_ns ? -1 : 1;
    return (first->ordinal > second->ordinal) - (first->ordinal < second->ordinal);
}

void kvt_trace_sorted_sort(struct kvt_trace_sorted *sorted)
{
    qsort(sorted->entries, sorted->count, sizeof *sorted->entries, by_time_then_place);
}

bool kvt_trace_sorted_next(struct kvt_trace_sorted *sorted, struct kvt_trace_row *row,
                           uint16_t names[KVT_TRACE_NAME_KINDS])
{
    if (sorted->next == sorted->count)
        return false;
    const struct entry *entry = &sorted->entries[sorted->next++];
    *row = kvt_trace_row_at(entry->line);
    row->time_ns = entry->time_ns;
    row->input_tokens = entry->input_tokens;
    row->output_tokens = entry->output_tokens;
    row->session = entry->session;
    row->turn = entry->turn;
    memcpy(names, entry->names, sizeof entry->names);
    if (sorted->extras == NULL)
        return true;
    const struct extra *extra = &sorted->extras[entry->ordinal];
    row->prefix_group = extra->prefix_group;
    row->prefix_tokens = extra->prefix_tokens;
    row->follows = extra->follows;
    row->think_ns = extra->think_ns;
    row->has_page_keys = extra->has_page_keys;
    row->page_key_count = extra->key_count;
    if (extra->key_count > 0)
        row->page_keys = &sorted->keys[extra->first_key];
    return true;
}
