/* files.c -- names to files, files to trees, and a hash of everything that was read. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "load.h"

enum {
    FILE_BYTES_MAX = 64 << 20, /* a result with a long timeline stays far below */
    CHUNK_BYTES = 1 << 20,
    NAMES_BYTES = 400,
    NAMES_MAX = 256
};

bool kvt_is_path(const char *text)
{
    size_t length = strlen(text);
    return strchr(text, '/') != NULL || (length > 5 && strcmp(text + length - 5, ".json") == 0);
}

const char *kvt_path_from(struct kvt_arena *arena, const char *folder, const char *text)
{
    if (text[0] == '/' || folder[0] == '\0')
        return kvt_arena_strdup(arena, text);
    return kvt_arena_printf(arena, "%s/%s", folder, text);
}

const char *kvt_folder_of(struct kvt_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return kvt_arena_strdup(arena, "");
    if (slash == path)
        return kvt_arena_strdup(arena, "/");
    return kvt_arena_printf(arena, "%.*s", (int)(slash - path), path);
}

/* ---- Shipped files ------------------------------------------------------------ */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the .json files of a folder, without the ending; returns how many. */
static size_t collect_names(DIR *folder, char *names[NAMES_MAX])
{
    size_t count = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL && count < NAMES_MAX;
         entry = readdir(folder)) {
        size_t length = strlen(entry->d_name);
        if (length <= 5 || strcmp(entry->d_name + length - 5, ".json") != 0)
            continue;
        char *name = strdup(entry->d_name);
        if (name == NULL)
            break;
        name[length - 5] = '\0';
        names[count++] = name;
    }
    return count;
}

/* "a, b, c" of what is shipped there, for a message; empty where nothing is. */
static void list_shipped(const char *path, char out[NAMES_BYTES])
{
    char *names[NAMES_MAX];
    size_t used = 0;
    out[0] = '\0';
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    size_t count = collect_names(folder, names);
    (void)closedir(folder);
    qsort(names, count, sizeof names[0], compare_names);
    for (size_t i = 0; i < count; i++) {
        int wrote =
            snprintf(out + used, NAMES_BYTES - used, "%s%s", used > 0 ? ", " : "", names[i]);
        if (wrote > 0 && (size_t)wrote < NAMES_BYTES - used)
            used += (size_t)wrote;
        else
            out[used] = '\0';
        free(names[i]);
    }
}

static kvt_status find_shipped(struct kvt_load *load, const char *text, const char *folder,
                               const char *noun, const char *where, struct kvt_found *out,
                               struct kvt_error *err)
{
    const char *data_dir = load->options->data_dir != NULL ? load->options->data_dir : "";
    out->name = kvt_arena_printf(load->arena, "%s/%s.json", folder, text);
    if (out->name == NULL)
        return kvt_fail_nomem(err, "a scenario");
    out->path = kvt_path_from(load->arena, data_dir, out->name);
    if (out->path == NULL)
        return kvt_fail_nomem(err, "a scenario");

    struct stat facts;
    if (stat(out->path, &facts) == 0)
        return KVT_OK;
    char names[NAMES_BYTES];
    const char *shipped = kvt_path_from(load->arena, data_dir, folder);
    if (shipped == NULL)
        return kvt_fail_nomem(err, "a scenario");
    list_shipped(shipped, names);
    if (names[0] == '\0') {
        return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                        "\"%.60s\": no such %s, and none are shipped in \"%s\"; a path has a '/' "
                        "or ends in \".json\"",
                        text, noun, shipped);
    }
    return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                    "\"%.60s\": no such %s; there are: %s; a path has a '/' or ends in \".json\"",
                    text, noun, names);
}

kvt_status kvt_find_file(struct kvt_load *load, const char *text, const char *folder,
                         const char *noun, const char *from, const char *where,
                         struct kvt_found *out, struct kvt_error *err)
{
    if (!kvt_is_path(text))
        return find_shipped(load, text, folder, noun, where, out, err);
    out->path = kvt_path_from(load->arena, from, text);
    if (out->path == NULL)
        return kvt_fail_nomem(err, "a scenario");
    out->name = out->path;
    struct stat facts;
    if (stat(out->path, &facts) != 0 && errno == ENOENT) {
        return kvt_fail(err, KVT_ERR_NOT_FOUND, where, "\"%s\": no such %s file", out->path, noun);
    }
    return KVT_OK;
}

/* ---- Reading --------------------------------------------------------------------- */

static kvt_status note_input(struct kvt_load *load, const char *name, uint64_t hash,
                             struct kvt_error *err)
{
    char digits[17];
    (void)snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    cJSON *node = kvt_tree_text(load->arena, &load->derived, digits);
    const char *key = kvt_arena_strdup(load->arena, name);
    if (node == NULL || key == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_set(load->inputs, key, node);
    return KVT_OK;
}

kvt_status kvt_parse_tree(struct kvt_load *load, const char *text, size_t text_bytes,
                          const char *name, const cJSON **out, struct kvt_error *err)
{
    cJSON *parsed = NULL;
    kvt_status status = kvt_json_parse(text, text_bytes, name, 1, &parsed, err);
    if (status != KVT_OK)
        return status;
    *out = kvt_tree_copy(load->arena, &load->defaults, parsed);
    cJSON_Delete(parsed);
    if (*out == NULL)
        return kvt_fail_nomem(err, "a scenario");
    return note_input(load, name, kvt_hash_bytes(0, text, text_bytes), err);
}

kvt_status kvt_read_tree(struct kvt_load *load, const struct kvt_found *found, const cJSON **out,
                         struct kvt_error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = kvt_file_read(found->path, FILE_BYTES_MAX, &text, &text_bytes, err);
    if (status != KVT_OK)
        return status;
    status = kvt_parse_tree(load, text, text_bytes, found->name, out, err);
    free(text);
    return status;
}

/* Chained over chunks, so that a trace of any size needs one chunk of memory. */
static bool hash_stream(FILE *stream, unsigned char *chunk, uint64_t *hash)
{
    *hash = 0;
    for (;;) {
        size_t got = fread(chunk, 1, CHUNK_BYTES, stream);
        if (got > 0)
            *hash = kvt_hash_bytes(*hash, chunk, got);
        if (got < CHUNK_BYTES)
            return ferror(stream) == 0;
    }
}

kvt_status kvt_hash_input(struct kvt_load *load, const struct kvt_found *file, const char *where,
                          struct kvt_error *err)
{
    const char *path = file->path;
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return kvt_fail(err, errno == ENOENT ? KVT_ERR_NOT_FOUND : KVT_ERR_IO, where, "\"%s\": %s",
                        path, errno == ENOENT ? "no such file" : "this file cannot be looked at");
    }
    if (!S_ISREG(facts.st_mode)) {
        return kvt_fail(err, KVT_ERR_IO, where,
                        "\"%s\" is not an ordinary file; one is needed, which can be read twice",
                        path);
    }
    FILE *stream = NULL;
    if (kvt_file_open(path, &stream, NULL) != KVT_OK)
        return kvt_fail(err, KVT_ERR_IO, where, "\"%s\": this file cannot be opened", path);
    unsigned char *chunk = malloc(CHUNK_BYTES);
    uint64_t hash = 0;
    bool is_read = chunk != NULL && hash_stream(stream, chunk, &hash);
    (void)fclose(stream);
    if (chunk == NULL)
        return kvt_fail_nomem(err, "reading a file");
    free(chunk);
    if (!is_read)
        return kvt_fail(err, KVT_ERR_IO, where, "\"%s\": this file cannot be read", path);
    return note_input(load, file->name, hash, err);
}
