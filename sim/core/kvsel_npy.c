/* kvsel_npy.c -- the indexer top-k that an engine returned, as NumPy wrote it, into our file.
 *
 *     pass 1: which layers hold anything, and, unless it is told, the fewest rows that all
 *             selections fit into: max over (token t, layer) of largest row + 1 - t. One number
 *             far above all others is damage, and does not say how long a context was
 *     pass 2: token by token, each layer's rows into its block
 *
 * NumPy's format is that of its numpy/lib/format.py: a magic, a version, a header that is a
 * literal of Python, and the numbers. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvsel_private.h"
#include "kvt/file.h"

enum {
    NPY_MAGIC_BYTES = 8, /* with the version */
    NPY_HEADER_BYTES_MAX = 65536,
    NPY_DIMENSIONS = 3,
};

struct npy {
    const char *path;
    FILE *stream;
    uint64_t data_at;
    uint32_t tokens, layers, top_k;
    unsigned char *token; /* [layers][top_k] int32, little-endian: one token's */
};

/* ---- The header ---------------------------------------------------------------------- */

/* What is left of the header's text. */
struct literal {
    const char *at;
};

static void skip_blanks(struct literal *text)
{
    text->at += strspn(text->at, " \t\n");
}

static bool take(struct literal *text, const char *word)
{
    skip_blanks(text);
    size_t length = strlen(word);
    if (strncmp(text->at, word, length) != 0)
        return false;
    text->at += length;
    return true;
}

static bool take_number(struct literal *text, uint64_t *out)
{
    skip_blanks(text);
    if (text->at[0] < '0' || text->at[0] > '9')
        return false;
    uint64_t value = 0;
    for (; text->at[0] >= '0' && text->at[0] <= '9'; text->at++) {
        value = value * 10 + (uint64_t)(text->at[0] - '0');
        if (value > UINT64_MAX / 16) /* one more digit fits */
            return false;
    }
    *out = value;
    return true;
}

static bool take_shape(struct literal *text, uint64_t shape[NPY_DIMENSIONS])
{
    if (!take(text, "("))
        return false;
    for (int d = 0; d < NPY_DIMENSIONS; d++) {
        if ((d > 0 && !take(text, ",")) || !take_number(text, &shape[d]))
            return false;
    }
    (void)take(text, ",");
    return take(text, ")");
}

/* What stands for a value, up to `end` or the end of what a message has room for. */
static int found_bytes(const struct literal *text, const char *end)
{
    enum {
        FOUND_BYTES_MAX = 48
    };
    size_t bytes = strcspn(text->at, end);
    return (int)(bytes < FOUND_BYTES_MAX ? bytes : FOUND_BYTES_MAX);
}

static kvt_status refuse_value(struct literal *text, const char *end, const char *path,
                               const char *what, const char *expected, struct kvt_error *err)
{
    (void)take(text, ":");
    skip_blanks(text);
    return kvt_fail(err, KVT_ERR_PARSE, path, "an array of %s %.*s%s; %s is expected", what,
                    found_bytes(text, end), text->at,
                    end[0] == ')' && text->at[strcspn(text->at, ")")] == ')' ? ")" : "", expected);
}

/* The value behind a key: an array of just that. */
static kvt_status take_value(struct literal *text, const char *value, const char *path,
                             const char *what, const char *expected, struct kvt_error *err)
{
    struct literal before = *text;
    return take(text, ":") && take(text, value)
               ? KVT_OK
               : refuse_value(&before, ",}\n", path, what, expected, err);
}

static kvt_status parse_literal(const char *header, size_t bytes, const char *path,
                                uint64_t shape[NPY_DIMENSIONS], struct kvt_error *err)
{
    assert(header != NULL);
    struct literal text = {header};
    bool has_type = false, has_order = false, has_shape = false;
    bool is_sound = take(&text, "{");
    kvt_status status = KVT_OK;
    while (is_sound && !take(&text, "}")) {
        if (!has_type && take(&text, "'descr'")) {
            has_type = true;
            status = take_value(&text, "'<i4'", path, "type", "int32, little-endian ('<i4'),", err);
        } else if (!has_order && take(&text, "'fortran_order'")) {
            has_order = true;
            status = take_value(&text, "False", path, "fortran_order", "C order (False)", err);
        } else if (!has_shape && take(&text, "'shape'")) {
            struct literal before = text;
            has_shape = true;
            if (!take(&text, ":") || !take_shape(&text, shape))
                status = refuse_value(&before, ")", path, "shape", "(tokens, layers, k)", err);
        } else {
            is_sound = false;
        }
        if (status != KVT_OK)
            return status;
        is_sound = is_sound && (take(&text, ",") || text.at[strspn(text.at, " \t\n")] == '}');
    }
    skip_blanks(&text);
    if (!is_sound || !has_type || !has_order || !has_shape || text.at != header + bytes)
        return kvt_fail(err, KVT_ERR_PARSE, path,
                        "the header is not the one NumPy writes: {'descr': '<i4', "
                        "'fortran_order': False, 'shape': (tokens, layers, k), }");
    return KVT_OK;
}

static kvt_status fail_to_read(const struct npy *npy, struct kvt_error *err)
{
    if (ferror(npy->stream) != 0)
        return kvt_fail(err, KVT_ERR_IO, npy->path, "the file cannot be read: %s", strerror(errno));
    return kvt_fail(err, KVT_ERR_PARSE, npy->path, "the file ends too early; it was cut");
}

/* The literal, NUL-terminated, for free(). */
static kvt_status read_literal(struct npy *npy, char **out, size_t *out_bytes,
                               struct kvt_error *err)
{
    unsigned char magic[NPY_MAGIC_BYTES], length[4] = {0};
    size_t got = fread(magic, 1, sizeof magic, npy->stream);
    if (got < sizeof magic || memcmp(magic, "\x93NUMPY", 6) != 0)
        return kvt_fail(err, KVT_ERR_PARSE, npy->path, "this is no NumPy file (.npy)");
    if (magic[6] < 1 || magic[6] > 3 || magic[7] != 0)
        return kvt_fail(err, KVT_ERR_PARSE, npy->path,
                        "version %d.%d of NumPy's format; 1.0, 2.0 or 3.0 is expected", magic[6],
                        magic[7]);
    size_t length_bytes = magic[6] == 1 ? 2 : 4;
    if (fread(length, 1, length_bytes, npy->stream) < length_bytes)
        return fail_to_read(npy, err);
    uint32_t bytes = kvsel_u32(length);
    if (bytes > NPY_HEADER_BYTES_MAX)
        return kvt_fail(err, KVT_ERR_PARSE, npy->path,
                        "a header of %u bytes; at most %d are expected", bytes,
                        NPY_HEADER_BYTES_MAX);
    char *text = malloc((size_t)bytes + 1);
    if (text == NULL)
        return kvt_fail_nomem(err, npy->path);
    if (fread(text, 1, bytes, npy->stream) < bytes) {
        free(text);
        return fail_to_read(npy, err);
    }
    text[bytes] = '\0';
    npy->data_at = NPY_MAGIC_BYTES + length_bytes + bytes;
    *out = text;
    *out_bytes = bytes;
    return KVT_OK;
}

/* The file holds just the numbers that its header promises: looked at before anything is
 * allocated for them. */
static kvt_status check_size(struct npy *npy, const uint64_t shape[NPY_DIMENSIONS],
                             struct kvt_error *err)
{
    static const char *const names[NPY_DIMENSIONS] = {"tokens", "layers", "rows a selection"};
    static const uint64_t largest[NPY_DIMENSIONS] = {KVT_KVSEL_ROWS_MAX, KVT_KVSEL_STREAMS_MAX,
                                                     KVT_KVSEL_ROWS_MAX};
    for (int d = 0; d < NPY_DIMENSIONS; d++) {
        if (shape[d] < 1 || shape[d] > largest[d])
            return kvt_fail(err, KVT_ERR_PARSE, npy->path, "%llu %s; 1 to %llu are expected",
                            (unsigned long long)shape[d], names[d], (unsigned long long)largest[d]);
    }
    if (fseeko(npy->stream, 0, SEEK_END) != 0)
        return kvt_fail(err, KVT_ERR_IO, npy->path, "the file's size cannot be found: %s",
                        strerror(errno));
    uint64_t held = (uint64_t)ftello(npy->stream) - npy->data_at;
    uint64_t token_numbers = shape[1] * shape[2]; /* below 2^50 */
    if (held / 4 / token_numbers != shape[0] || held % (4 * token_numbers) != 0)
        return kvt_fail(err, KVT_ERR_PARSE, npy->path,
                        "%llu bytes of numbers; the header promises %llu x %llu x %llu of 4 bytes",
                        (unsigned long long)held, (unsigned long long)shape[0],
                        (unsigned long long)shape[1], (unsigned long long)shape[2]);
    npy->tokens = (uint32_t)shape[0];
    npy->layers = (uint32_t)shape[1];
    npy->top_k = (uint32_t)shape[2];
    return KVT_OK;
}

static void npy_close(struct npy *npy)
{
    if (npy->stream != NULL)
        (void)fclose(npy->stream);
    free(npy->token);
}

/* On failure too, npy_close() is due. */
static kvt_status npy_open(struct npy *npy, const char *path, struct kvt_error *err)
{
    *npy = (struct npy){.path = path};
    char *header = NULL;
    size_t header_bytes = 0;
    uint64_t shape[NPY_DIMENSIONS] = {0};
    kvt_status status = kvt_file_open(path, &npy->stream, err);
    if (status == KVT_OK)
        status = read_literal(npy, &header, &header_bytes, err);
    if (status == KVT_OK)
        status = parse_literal(header, header_bytes, path, shape, err);
    free(header);
    if (status == KVT_OK)
        status = check_size(npy, shape, err);
    if (status != KVT_OK)
        return status;
    assert(npy->layers > 0 && npy->top_k > 0);
    npy->token = malloc((size_t)npy->layers * npy->top_k * 4);
    return npy->token != NULL ? KVT_OK : kvt_fail_nomem(err, path);
}

static kvt_status rewind_to_data(struct npy *npy, struct kvt_error *err)
{
    if (fseeko(npy->stream, (off_t)npy->data_at, SEEK_SET) != 0)
        return kvt_fail(err, KVT_ERR_IO, npy->path, "the file cannot be read twice: %s",
                        strerror(errno));
    return KVT_OK;
}

static kvt_status read_token(struct npy *npy, struct kvt_error *err)
{
    size_t bytes = (size_t)npy->layers * npy->top_k * 4;
    return fread(npy->token, 1, bytes, npy->stream) == bytes ? KVT_OK : fail_to_read(npy, err);
}

/* Of the token last read; -1 where there is none. */
static int64_t row_at(const struct npy *npy, uint32_t layer, uint32_t i)
{
    return (int32_t)kvsel_u32(npy->token + ((size_t)layer * npy->top_k + i) * 4);
}

/* ---- Pass 1 -------------------------------------------------------------------------- */

/* The numbers so far: how many are rows, and what the two of the longest histories ask for. */
struct survey {
    uint64_t count;
    int64_t longest, second; /* rows of the first token's history; at least 1 */
    uint32_t token, layer;   /* of the longest */
    int64_t row;
};

static void note(struct survey *survey, uint32_t token, uint32_t layer, int64_t row)
{
    int64_t history = row + 1 - token;

    survey->count++;
    if (history <= survey->longest) {
        survey->second = history > survey->second ? history : survey->second;
        return;
    }
    survey->second = survey->longest;
    survey->longest = history;
    survey->token = token;
    survey->layer = layer;
    survey->row = row;
}

/* Of n rows at random, the highest lies about 1/n of them all above the next; a page more, and 20
 * times that, is no chance. */
static kvt_status judge(const struct survey *survey, const char *path, struct kvt_error *err)
{
    double gap = (double)(survey->longest - survey->second);

    if (survey->count > 1 &&
        gap > KVT_PAGE_ROWS + 20.0 * (double)survey->second / (double)survey->count)
        return kvt_fail(err, KVT_ERR_PARSE, path,
                        "token %u, layer %u: row %lld, and no other number asks for a history of "
                        "more than %lld rows; where it is right, --context-rows must say how many "
                        "rows the first token sees",
                        survey->token, survey->layer, (long long)survey->row,
                        (long long)survey->second);
    if (survey->longest > KVT_KVSEL_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_PARSE, path,
                        "a row at place %lld of the first token's history; at most %u rows are "
                        "expected",
                        (long long)survey->longest - 1, KVT_KVSEL_ROWS_MAX);
    return KVT_OK;
}

/* Sets is_heard[layer] where a layer holds any row. */
static kvt_status survey_file(struct npy *npy, bool *is_heard, struct survey *survey,
                              struct kvt_error *err)
{
    kvt_status status = rewind_to_data(npy, err);
    *survey = (struct survey){.longest = 1, .second = 1};
    for (uint32_t t = 0; t < npy->tokens && status == KVT_OK; t++) {
        status = read_token(npy, err);
        for (uint32_t layer = 0; layer < npy->layers && status == KVT_OK; layer++) {
            for (uint32_t i = 0; i < npy->top_k; i++) {
                int64_t row = row_at(npy, layer, i);
                if (row < -1)
                    return kvt_fail(err, KVT_ERR_PARSE, npy->path,
                                    "token %u, layer %u: row %lld; a row or -1 is expected", t,
                                    layer, (long long)row);
                if (row < 0)
                    continue;
                is_heard[layer] = true;
                note(survey, t, layer, row);
            }
        }
    }
    return status;
}

/* ---- Pass 2 -------------------------------------------------------------------------- */

struct conversion {
    struct npy npy;
    struct kvt_kvsel_npy found;
    bool *is_heard;                  /* [layers] */
    struct kvt_kvsel_coder **coders; /* [layers], NULL for silent ones */
    uint64_t *set;
    struct kvt_kvsel_writer *writer;
};

/* One layer's selection of the token last read, into conversion->set. */
static kvt_status gather(struct conversion *conversion, uint32_t token, uint32_t layer,
                         size_t words, struct kvt_error *err)
{
    const struct npy *npy = &conversion->npy;
    uint64_t visible = (uint64_t)conversion->found.first_rows + token;
    uint32_t count = 0;
    memset(conversion->set, 0, words * sizeof *conversion->set);
    for (uint32_t i = 0; i < npy->top_k; i++) {
        int64_t row = row_at(npy, layer, i);
        if (row < 0)
            continue;
        if ((uint64_t)row >= visible)
            return kvt_fail(err, KVT_ERR_PARSE, npy->path,
                            "token %u, layer %u: row %lld; it sees %llu rows", token, layer,
                            (long long)row, (unsigned long long)visible);
        if (kvt_row_is_in(conversion->set, (uint32_t)row))
            return kvt_fail(err, KVT_ERR_PARSE, npy->path,
                            "token %u, layer %u: row %lld is selected twice", token, layer,
                            (long long)row);
        conversion->set[row / 64] |= UINT64_C(1) << row % 64;
        count++;
    }
    uint64_t due = visible < npy->top_k ? visible : npy->top_k;
    if (count != due)
        return kvt_fail(err, KVT_ERR_PARSE, npy->path,
                        "token %u, layer %u: %u rows are selected; of the %llu that it sees %llu "
                        "are expected",
                        token, layer, count, (unsigned long long)visible, (unsigned long long)due);
    return KVT_OK;
}

static kvt_status convert_token(struct conversion *conversion, uint32_t token,
                                struct kvt_error *err)
{
    uint32_t in_block = token % KVT_KVSEL_BLOCK_TOKENS, left = conversion->npy.tokens - token;
    size_t words = kvt_row_words(conversion->found.first_rows + token);
    uint32_t stream = 0;
    kvt_status status = KVT_OK;
    for (uint32_t layer = 0; layer < conversion->npy.layers && status == KVT_OK; layer++) {
        struct kvt_kvsel_coder *coder = conversion->coders[layer];
        if (coder == NULL)
            continue;
        status = gather(conversion, token, layer, words, err);
        if (status == KVT_OK && in_block == 0)
            status = kvt_kvsel_coder_begin(
                coder, stream, token, left < KVT_KVSEL_BLOCK_TOKENS ? left : KVT_KVSEL_BLOCK_TOKENS,
                err);
        if (status == KVT_OK)
            status = kvt_kvsel_coder_add(coder, conversion->set, NULL, words, err);
        if (status == KVT_OK && (left == 1 || in_block == KVT_KVSEL_BLOCK_TOKENS - 1)) {
            unsigned char *block = NULL;
            status = kvt_kvsel_coder_finish(coder, &block, err);
            if (status == KVT_OK)
                status = kvt_kvsel_put(conversion->writer, block, err);
            free(block);
        }
        stream++;
    }
    return status;
}

/* Coders and the file for the layers that were heard. */
static kvt_status begin(struct conversion *conversion, const char *to_path, struct kvt_error *err)
{
    const struct npy *npy = &conversion->npy;
    struct kvt_kvsel_shape shape = {
        .top_k = npy->top_k, .first_rows = conversion->found.first_rows, .tokens_per_row = 1};
    struct kvt_kvsel_header header = {.top_k = npy->top_k, .request_count = 1};
    struct kvt_kvsel_shape *shapes = calloc(npy->layers, sizeof *shapes);
    conversion->coders = calloc(npy->layers, sizeof(struct kvt_kvsel_coder *));
    conversion->set =
        malloc(kvt_row_words(shape.first_rows + npy->tokens) * sizeof *conversion->set);
    bool has_memory = shapes != NULL && conversion->coders != NULL && conversion->set != NULL;
    for (uint32_t layer = 0; layer < npy->layers && has_memory; layer++) {
        if (!conversion->is_heard[layer])
            continue;
        shapes[header.selector_count++] = shape;
        conversion->coders[layer] = kvt_kvsel_coder_new(&shape);
        has_memory = conversion->coders[layer] != NULL;
    }
    kvt_status status = has_memory ? KVT_OK : kvt_fail_nomem(err, npy->path);
    if (status == KVT_OK && header.selector_count == 0)
        status =
            kvt_fail(err, KVT_ERR_PARSE, npy->path, "no layer selects anything: all of it is -1");
    if (status == KVT_OK)
        status = kvt_kvsel_create(to_path, &header, shapes, &conversion->writer, err);
    conversion->found.silent_layers = npy->layers - header.selector_count;
    free(shapes);
    return status;
}

static void conversion_fini(struct conversion *conversion)
{
    for (uint32_t layer = 0; conversion->coders != NULL && layer < conversion->npy.layers; layer++)
        kvt_kvsel_coder_free(conversion->coders[layer]);
    free(conversion->coders);
    free(conversion->is_heard);
    free(conversion->set);
    kvt_kvsel_discard(conversion->writer);
    npy_close(&conversion->npy);
}

static kvt_status convert(struct conversion *conversion, const char *to_path, uint32_t first_rows,
                          struct kvt_error *err)
{
    struct npy *npy = &conversion->npy;
    assert(npy->layers > 0);
    if (first_rows > KVT_KVSEL_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, npy->path,
                        "%u rows visible to the first token; at most %u are expected", first_rows,
                        KVT_KVSEL_ROWS_MAX);
    conversion->is_heard = calloc(npy->layers, sizeof *conversion->is_heard);
    if (conversion->is_heard == NULL)
        return kvt_fail_nomem(err, npy->path);
    struct kvt_kvsel_npy *found = &conversion->found;
    *found =
        (struct kvt_kvsel_npy){.tokens = npy->tokens, .layers = npy->layers, .top_k = npy->top_k};
    struct survey survey;
    kvt_status status = survey_file(npy, conversion->is_heard, &survey, err);
    if (status == KVT_OK && first_rows == 0)
        status = judge(&survey, npy->path, err);
    found->first_rows = first_rows > 0 ? first_rows : (uint32_t)survey.longest;
    if (status == KVT_OK)
        status = begin(conversion, to_path, err);
    if (status == KVT_OK)
        status = rewind_to_data(npy, err);
    for (uint32_t t = 0; t < npy->tokens && status == KVT_OK; t++) {
        status = read_token(npy, err);
        if (status == KVT_OK)
            status = convert_token(conversion, t, err);
    }
    if (status != KVT_OK)
        return status;
    status = kvt_kvsel_commit(conversion->writer, err);
    conversion->writer = NULL;
    return status;
}

kvt_status kvt_kvsel_from_npy(const char *path, const char *to_path, uint32_t first_rows,
                              struct kvt_kvsel_npy *out, struct kvt_error *err)
{
    struct conversion conversion = {.writer = NULL};
    kvt_status status = npy_open(&conversion.npy, path, err);
    if (status == KVT_OK)
        status = convert(&conversion, to_path, first_rows, err);
    if (status == KVT_OK)
        *out = conversion.found;
    conversion_fini(&conversion);
    return status;
}
