/* goodput.c -- --goodput ttft:2000 tpot:50, vLLM's spelling, as one SLO class for all requests. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "kvt/arena.h"
#include "kvt/file.h"
#include "kvt/json.h"

enum {
    BOUNDS = 3,
    WORD_BYTES = 48
};

static const char where[] = "run --goodput";

static const char *const bound_names[BOUNDS] = {"ttft", "tpot", "e2el"};

/* Bounds by name; 0: not given. */
struct bounds {
    double ms[BOUNDS];
};

static kvt_status refuse_word(const char *word, struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "\"%.40s\" is no bound; expected ttft:MS, tpot:MS or e2el:MS", word);
}

/* One word, "tpot:50". */
static kvt_status parse_bound(const char *word, struct bounds *bounds, struct kvt_error *err)
{
    char place[WORD_BYTES + sizeof where];
    size_t name_length = strcspn(word, ":");
    size_t b = 0;

    while (b < BOUNDS && (strlen(bound_names[b]) != name_length ||
                          memcmp(bound_names[b], word, name_length) != 0))
        b++;
    if (b == BOUNDS || word[name_length] == '\0')
        return refuse_word(word, err);
    if (bounds->ms[b] > 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%s is given twice", bound_names[b]);
    (void)snprintf(place, sizeof place, "%s %s", where, word);
    return kvt_text_real(word + name_length + 1, place, 0.001, 1e9, &bounds->ms[b], err);
}

/* Words with commas between. */
static kvt_status parse_bounds(const char *text, struct bounds *bounds, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    bool more = true;

    while (status == KVT_OK && more) {
        char word[WORD_BYTES];
        size_t length = strcspn(text, ",");
        if (length >= sizeof word)
            return refuse_word(text, err);
        memcpy(word, text, length);
        word[length] = '\0';
        status = parse_bound(word, bounds, err);
        more = text[length] == ',';
        text += length + (more ? 1 : 0);
    }
    return status;
}

kvt_status cli_goodput_set(const struct cli_texts *words, struct kvt_arena *arena, const char **set,
                           struct kvt_error *err)
{
    struct bounds bounds = {{0}};
    char members[BOUNDS * WORD_BYTES] = "";
    size_t used = 0;

    for (size_t i = 0; i < words->count; i++) {
        kvt_status status = parse_bounds(words->items[i], &bounds, err);
        if (status != KVT_OK)
            return status;
    }
    for (size_t b = 0; b < BOUNDS; b++) {
        char number[32];
        if (bounds.ms[b] == 0)
            continue;
        kvt_json_print_number(bounds.ms[b], number);
        used += (size_t)snprintf(members + used, sizeof members - used, ", \"%s_ms\": %s",
                                 bound_names[b], number);
    }
    *set = kvt_arena_printf(arena, "slo.classes=[{\"name\": \"all\", \"share\": 1%s}]", members);
    return *set != NULL ? KVT_OK : kvt_fail_nomem(err, "a class of service");
}
