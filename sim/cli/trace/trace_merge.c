/* trace_merge.c -- kvtide trace merge: recordings of several files, one after the other.
 *
 *     header: as all files have it; streams and requests of file 1, of file 2, ..
 *     for each file, for each stream, for each block: renumber, put
 *
 * Each file is read through once to be checked, and once to be copied; a block of one is in
 * memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "trace.h"
#include "trace_note.h"

/* What the command was asked. */
struct question {
    const char *to;
    bool json, quiet;
};

/* One of the files. */
struct part {
    const char *path;
    struct kvt_kvsel_reader *reader;
    const struct kvt_kvsel_header *header;
    cJSON *note; /* NULL: it has none */
};

struct merged {
    struct part *parts; /* [count] */
    size_t count;
    struct kvt_kvsel_header header;
    struct kvt_kvsel_shape *shapes; /* [header.request_count * header.selector_count] */
    char *note;                     /* NULL: none */
    uint64_t tokens;
};

static void fini(struct merged *merged)
{
    for (size_t i = 0; i < merged->count; i++) {
        cJSON_Delete(merged->parts[i].note);
        kvt_kvsel_close(merged->parts[i].reader);
    }
    free(merged->parts);
    free(merged->shapes);
    free(merged->note);
}

/* ---- What they have in common ------------------------------------------------------------- */

static kvt_status check_part(const struct part *first, const struct part *part,
                             struct kvt_error *err)
{
    const struct kvt_kvsel_header *a = first->header, *b = part->header;
    if (b->top_k != a->top_k || b->selector_count != a->selector_count)
        return kvt_fail(err, KVT_ERR_INVALID, part->path,
                        "%u rows a selection of %u selectors; %u of %u are expected, as in %s",
                        b->top_k, b->selector_count, a->top_k, a->selector_count, first->path);
    if (b->side_paths != a->side_paths || b->side_tokens != a->side_tokens)
        return kvt_fail(err, KVT_ERR_INVALID, part->path,
                        "%u rejected drafts of %u tokens after each token; %u of %u are expected, "
                        "as in %s",
                        b->side_paths, b->side_tokens, a->side_paths, a->side_tokens, first->path);
    for (uint32_t s = 0; s < a->selector_count; s++) {
        uint32_t there = kvt_kvsel_reader_stream(first->reader, s)->shape.tokens_per_row;
        uint32_t here = kvt_kvsel_reader_stream(part->reader, s)->shape.tokens_per_row;
        if (here != there)
            return kvt_fail(err, KVT_ERR_INVALID, part->path,
                            "selector %u gains a row every %u tokens; every %u is expected, as in "
                            "%s",
                            s, here, there, first->path);
    }
    return KVT_OK;
}

static kvt_status open_parts(struct merged *merged, const char *const *paths, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    uint64_t requests = 0;
    for (size_t i = 0; i < merged->count && status == KVT_OK; i++) {
        struct part *part = &merged->parts[i];
        part->path = paths[i];
        status = kvt_kvsel_open(part->path, NULL, NULL, &part->reader, err);
        if (status != KVT_OK)
            break;
        part->header = kvt_kvsel_reader_header(part->reader);
        status = trace_note_read(part->header, part->path, &part->note, err);
        if (status == KVT_OK)
            status = check_part(&merged->parts[0], part, err);
        requests += part->header->request_count;
        if (status == KVT_OK && requests * part->header->selector_count > KVT_KVSEL_STREAMS_MAX)
            status = kvt_fail(err, KVT_ERR_UNSUPPORTED, part->path,
                              "with it %" PRIu64 " requests of %u selectors; a file has at most %u "
                              "streams",
                              requests, part->header->selector_count, KVT_KVSEL_STREAMS_MAX);
    }
    if (status == KVT_OK) {
        merged->header = *merged->parts[0].header;
        merged->header.request_count = (uint32_t)requests;
        merged->header.key = 0;
    }
    return status;
}

static kvt_status gather_shapes(struct merged *merged, struct kvt_error *err)
{
    size_t next = 0, all = (size_t)merged->header.request_count * merged->header.selector_count;
    merged->shapes = malloc((all + 1) * sizeof *merged->shapes);
    if (merged->shapes == NULL)
        return kvt_fail_nomem(err, "trace merge");
    for (size_t i = 0; i < merged->count; i++) {
        const struct part *part = &merged->parts[i];
        uint32_t streams = part->header->request_count * part->header->selector_count;
        for (uint32_t s = 0; s < streams; s++)
            merged->shapes[next++] = kvt_kvsel_reader_stream(part->reader, s)->shape;
    }
    return KVT_OK;
}

/* ---- The note ------------------------------------------------------------------------------- */

/* A request of a file, by number. */
struct owner {
    double request;
    size_t part;
};

static int by_request(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;
    return (x->request > y->request) - (x->request < y->request);
}

static const cJSON *requests_of(const struct part *part)
{
    const cJSON *requests = part->note != NULL ? kvt_json_find(part->note, "requests") : NULL;
    return cJSON_IsArray(requests) ? requests : NULL;
}

/* Every file says whose its recordings are, and no two speak of a request of one number. */
static kvt_status find_clash(const struct merged *merged, bool *is_clear, struct kvt_error *err)
{
    size_t count = 0;
    struct owner *owners = malloc(((size_t)merged->header.request_count + 1) * sizeof *owners);
    if (owners == NULL)
        return kvt_fail_nomem(err, "trace merge");
    *is_clear = true;
    for (size_t i = 0; i < merged->count; i++) {
        const cJSON *requests = requests_of(&merged->parts[i]), *item = NULL;
        uint32_t of_part = 0;
        cJSON_ArrayForEach(item, requests)
        {
            const cJSON *number = kvt_json_find(item, "request");
            if (!cJSON_IsNumber(number) || of_part == merged->parts[i].header->request_count)
                break;
            owners[count++] = (struct owner){.request = number->valuedouble, .part = i};
            of_part++;
        }
        if (item != NULL || of_part != merged->parts[i].header->request_count)
            *is_clear = false;
    }
    qsort(owners, count, sizeof *owners, by_request);
    for (size_t i = 1; i < count && *is_clear; i++)
        *is_clear =
            owners[i].request > owners[i - 1].request || owners[i].part == owners[i - 1].part;
    free(owners);
    return KVT_OK;
}

/* Stores where all files name the same; requests where no two numbers clash. */
static bool fill_note(const struct merged *merged, bool has_requests, cJSON *note)
{
    const cJSON *stores =
        merged->parts[0].note != NULL ? kvt_json_find(merged->parts[0].note, "stores") : NULL;
    for (size_t i = 1; i < merged->count && stores != NULL; i++) {
        const cJSON *other =
            merged->parts[i].note != NULL ? kvt_json_find(merged->parts[i].note, "stores") : NULL;
        if (other == NULL || !cJSON_Compare(stores, other, true))
            stores = NULL;
    }
    if (!kvt_json_add_text(note, "schema", TRACE_NOTE_SCHEMA) ||
        (stores != NULL && !kvt_json_add(note, "stores", cJSON_Duplicate(stores, true))))
        return false;
    cJSON *all = cJSON_CreateArray();
    if (!has_requests) {
        cJSON_Delete(all);
        return true;
    }
    if (!kvt_json_add(note, "requests", all))
        return false;
    for (size_t i = 0; i < merged->count; i++) {
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, requests_of(&merged->parts[i]))
        {
            if (!cJSON_AddItemToArray(all, cJSON_Duplicate(item, true)))
                return false;
        }
    }
    return true;
}

static kvt_status make_note(struct merged *merged, bool *has_requests, struct kvt_error *err)
{
    merged->header.note = NULL;
    merged->header.note_bytes = 0;
    kvt_status status = find_clash(merged, has_requests, err);
    cJSON *note = status == KVT_OK ? cJSON_CreateObject() : NULL;
    if (status != KVT_OK)
        return status;
    if (note != NULL && fill_note(merged, *has_requests, note))
        merged->note = kvt_json_print(note);
    cJSON_Delete(note);
    if (merged->note == NULL)
        return kvt_fail_nomem(err, "the note of a recording");
    merged->header.note = merged->note;
    merged->header.note_bytes = strlen(merged->note);
    return KVT_OK;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static kvt_status copy_block(const unsigned char *from, uint32_t stream, unsigned char **copy,
                             size_t *capacity, struct kvt_kvsel_writer *writer,
                             struct kvt_error *err)
{
    size_t bytes = kvt_kvsel_block_bytes(from);
    if (*copy == NULL || bytes > *capacity) {
        unsigned char *larger = realloc(*copy, bytes);
        if (larger == NULL)
            return kvt_fail_nomem(err, "a block of selections");
        *copy = larger;
        *capacity = bytes;
    }
    memcpy(*copy, from, bytes);
    kvt_kvsel_block_renumber(*copy, stream);
    return kvt_kvsel_put(writer, *copy, err);
}

static kvt_status copy_part(struct merged *merged, const struct part *part, uint32_t first_stream,
                            struct kvt_kvsel_writer *writer, struct kvt_error *err)
{
    uint32_t streams = part->header->request_count * part->header->selector_count;
    struct kvt_kvsel_cursor *cursor = NULL;
    unsigned char *copy = NULL;
    size_t capacity = 0;
    kvt_status status = kvt_kvsel_cursor_new(part->reader, &cursor, err);
    for (uint32_t s = 0; s < streams && status == KVT_OK; s++) {
        uint32_t tokens = kvt_kvsel_reader_stream(part->reader, s)->token_count;
        merged->tokens += tokens;
        for (uint32_t b = 0; b * UINT64_C(64) < tokens && status == KVT_OK; b++) {
            const unsigned char *block = NULL;
            status = kvt_kvsel_cursor_block(cursor, s, b, &block, err);
            if (status == KVT_OK)
                status = copy_block(block, first_stream + s, &copy, &capacity, writer, err);
            if (status == KVT_OK && cli_interrupted())
                status = kvt_fail(err, KVT_ERR_INTERRUPTED, "trace merge", "interrupted");
        }
    }
    free(copy);
    kvt_kvsel_cursor_free(cursor);
    return status;
}

static kvt_status write_merged(struct merged *merged, const char *to, struct kvt_error *err)
{
    struct kvt_kvsel_writer *writer = NULL;
    uint32_t first_stream = 0;
    kvt_status status = kvt_kvsel_create(to, &merged->header, merged->shapes, &writer, err);
    for (size_t i = 0; i < merged->count && status == KVT_OK; i++) {
        const struct part *part = &merged->parts[i];
        status = copy_part(merged, part, first_stream, writer, err);
        first_stream += part->header->request_count * part->header->selector_count;
    }
    if (status != KVT_OK) {
        kvt_kvsel_discard(writer);
        return status;
    }
    return kvt_kvsel_commit(writer, err);
}

/* ---- The command ------------------------------------------------------------------------------
 */

static kvt_status print_answer(const struct question *question, const struct merged *merged,
                               bool has_requests, struct kvt_error *err)
{
    if (!question->json) {
        printf("%s: %" PRIu32 " requests of %" PRIu32 " selectors, %" PRIu64
               " tokens of %zu files%s\n",
               question->to, merged->header.request_count, merged->header.selector_count,
               merged->tokens, merged->count,
               has_requests ? "" : "; whose they are is left out, as numbers clash");
        return KVT_OK;
    }
    cJSON *answer = cJSON_CreateObject();
    bool is_whole = answer != NULL && kvt_json_add_text(answer, "file", question->to) &&
                    kvt_json_add_number(answer, "files", (double)merged->count) &&
                    kvt_json_add_number(answer, "requests", merged->header.request_count) &&
                    kvt_json_add_number(answer, "selectors", merged->header.selector_count) &&
                    kvt_json_add_number(answer, "tokens", (double)merged->tokens) &&
                    kvt_json_add_bool(answer, "has_requests", has_requests);
    char *text = is_whole ? kvt_json_print(answer) : NULL;
    cJSON_Delete(answer);
    if (text == NULL)
        return kvt_fail_nomem(err, "trace merge");
    puts(text);
    free(text);
    return KVT_OK;
}

static int act(const struct question *question, const char *const *paths, size_t count)
{
    struct kvt_error err;
    struct merged merged = {.parts = calloc(count, sizeof *merged.parts), .count = count};
    bool has_requests = false;
    if (merged.parts == NULL) {
        (void)kvt_fail_nomem(&err, "trace merge");
        return cli_fail(&err);
    }
    kvt_status status = open_parts(&merged, paths, &err);
    if (status == KVT_OK)
        status = gather_shapes(&merged, &err);
    if (status == KVT_OK)
        status = make_note(&merged, &has_requests, &err);
    if (status == KVT_OK)
        status = write_merged(&merged, question->to, &err);
    if (status == KVT_OK)
        status = print_answer(question, &merged, has_requests, &err);
    fini(&merged);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

static int check(const struct question *question, const struct cli_texts *paths)
{
    int exit_code = trace_check_kvsel("merge", question->to);
    if (exit_code != CLI_DONE)
        return exit_code;
    if (paths->count < 2)
        return cli_malformed("trace merge: merge takes two files or more; one is given");
    for (size_t i = 0; i < paths->count; i++) {
        if (kvt_file_is_same(paths->items[i], question->to))
            return cli_malformed("trace merge: --to %s is a file that is read, %s; another one is "
                                 "expected",
                                 question->to, paths->items[i]);
    }
    return CLI_DONE;
}

int trace_merge(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {0};
    const struct cli_option options[] = {
        {"--to", "OUT.kvsel", "the file to write", CLI_TEXT, &question.to},
        {"--json", NULL, "prints the answer as JSON", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts paths = {0};
    int exit_code = CLI_DONE;
    if (cli_parse(command, argc, argv, options, option_count, 1, SIZE_MAX, &paths, &exit_code)) {
        exit_code = check(&question, &paths);
        if (exit_code == CLI_DONE) {
            cli_catch_signals();
            exit_code = act(&question, paths.items, paths.count);
        }
    }
    cli_parsed_free(options, option_count, &paths);
    return exit_code;
}
