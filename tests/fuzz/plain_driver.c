/* plain_driver.c -- a fuzz target without a fuzzer: files of a corpus, then inputs drawn from a
 * seed.
 *
 *     PROGRAM [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-artifact_prefix=PATH] FOLDER..
 *
 * Options that it shares with libFuzzer mean the same; others are passed over. What is drawn are
 * bytes of a length drawn too, or a file of the corpus with some bytes changed: it finds what is
 * near, and no more. An input that ends the process is left in PATHcrash-input. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/clock.h"
#include "kvt/file.h"
#include "kvt/rng.h"

enum {
    INPUT_BYTES_MAX = 4096,
    CORPUS_MAX = 1024,
    CHANGES_MAX = 16
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

struct input {
    uint8_t *bytes;
    size_t byte_count;
};

static struct input corpus[CORPUS_MAX];
static size_t corpus_count;

/* Kept on disk while it is tried, so that it is there after a crash. */
static void try_input(const struct input *input, const char *prefix)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s%s", prefix, "crash-input");
    FILE *file = fopen(path, "wb");

    if (file != NULL) {
        (void)fwrite(input->bytes, 1, input->byte_count, file);
        (void)fclose(file);
    }
    (void)LLVMFuzzerTestOneInput(input->bytes, input->byte_count);
    (void)remove(path);
}

static bool read_folder(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    bool ok = count >= 0;

    for (int i = 0; i < count; i++) {
        char name[4096];
        char *bytes = NULL;
        size_t byte_count = 0;
        (void)snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && corpus_count < CORPUS_MAX) {
            ok = ok && kvt_file_read(name, INPUT_BYTES_MAX, &bytes, &byte_count, NULL) == KVT_OK;
            corpus[corpus_count++] = (struct input){(uint8_t *)bytes, byte_count};
        }
        free(entries[i]);
    }
    free(entries);
    return ok;
}

static void draw_input(struct kvt_rng *rng, struct input *out)
{
    const struct input *from = corpus_count > 0 ? &corpus[kvt_rng_below(rng, corpus_count)]
                                                : &(struct input){.bytes = NULL};

    if (from->byte_count == 0 || kvt_rng_below(rng, 2) == 0) {
        out->byte_count = 1 + (size_t)kvt_rng_below(rng, INPUT_BYTES_MAX);
        for (size_t i = 0; i < out->byte_count; i++)
            out->bytes[i] = (uint8_t)kvt_rng_below(rng, 256);
        return;
    }
    out->byte_count = from->byte_count;
    memcpy(out->bytes, from->bytes, from->byte_count);
    for (uint64_t i = kvt_rng_below(rng, CHANGES_MAX); i > 0; i--)
        out->bytes[kvt_rng_below(rng, out->byte_count)] = (uint8_t)kvt_rng_below(rng, 256);
}

/* The text of "-name=TEXT", or the number; false where it is another option. */
static bool read_text(const char *argument, const char *name, const char **out)
{
    size_t length = strlen(name);

    if (strncmp(argument, name, length) != 0)
        return false;
    *out = argument + length;
    return true;
}

static bool read_option(const char *argument, const char *name, uint64_t *out)
{
    const char *text = NULL;

    if (!read_text(argument, name, &text))
        return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[INPUT_BYTES_MAX];
    struct input drawn = {.bytes = bytes};
    uint64_t runs = UINT64_MAX, seconds = 0, seed = 1, done = 0;
    const char *prefix = "";
    struct kvt_wall start = kvt_wall_now();

    for (int i = 1; i < argc; i++) {
        bool known = read_option(argv[i], "-runs=", &runs) ||
                     read_option(argv[i], "-max_total_time=", &seconds) ||
                     read_option(argv[i], "-seed=", &seed) ||
                     read_text(argv[i], "-artifact_prefix=", &prefix);
        if (!known && argv[i][0] != '-' && !read_folder(argv[i])) {
            (void)fprintf(stderr, "%s: this folder of inputs cannot be read\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    for (size_t i = 0; i < corpus_count; i++)
        try_input(&corpus[i], prefix);
    struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
    for (; done < runs && (seconds == 0 || kvt_wall_seconds_since(start) < (double)seconds);
         done++) {
        draw_input(&rng, &drawn);
        try_input(&drawn, prefix);
    }
    for (size_t i = 0; i < corpus_count; i++)
        free(corpus[i].bytes);
    printf("%zu inputs of the corpus, %llu drawn ones\n", corpus_count, (unsigned long long)done);
    done += corpus_count;
    printf("%llu passed, 0 failed\n", (unsigned long long)done);
    return EXIT_SUCCESS;
}
