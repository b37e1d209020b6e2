/* loaded.h -- scenarios loaded for tests: shipped ones, files, texts, and what was refused. */
#ifndef KVT_TESTS_LOADED_H
#define KVT_TESTS_LOADED_H

#include "kvt/scenario.h"
#include "support.h"

#define LOADED_SCHEMA "\"schema\": \"kvtide/scenario/1\""

enum {
    LOADED_ARENA_BYTES = 1 << 16,
    LOADED_TEXT_BYTES = 4096,
    LOADED_SETS_MAX = 4
};

/* The fixture: a data folder that looks like an installed one, and holds the files of
 * a test. Every load below reads from it. */
void loaded_folder_make(void);
void loaded_folder_remove(void);
const struct support_folder *loaded_folder(void);

/* One load: what was asked, what came back. The arena is the caller's to free. */
struct loaded {
    struct kvt_arena *arena;
    struct kvt_scenario scenario;
    struct kvt_error err;
    kvt_status status;
};

/* sets is NULL or holds "PATH=VALUE", NULL after the last where there are fewer. */
struct kvt_scenario_options loaded_options(const char *const sets[LOADED_SETS_MAX], bool for_size);

/* A scenario's name or its file. */
struct loaded loaded_from(const char *source, const char *const sets[LOADED_SETS_MAX]);
struct loaded loaded_for_size(const char *source, const char *const sets[LOADED_SETS_MAX]);

/* A text, as the file t.json; set is one "PATH=VALUE" or NULL. */
struct loaded loaded_text(const char *text, const char *set, bool for_size);

/* The shipped glm-5.3-100k with these members over it, as t.json. */
struct loaded loaded_over(const char *members, const char *set, bool for_size);

void loaded_check_ok(const struct loaded *loaded);

/* Refused with this status, at exactly this place, in a message that holds `words`. */
void loaded_check_refused(const struct loaded *loaded, kvt_status status, const char *where,
                          const char *words);

/* The member in force at a path of names, by a walk of our own; NULL where there is none. */
const struct cJSON *loaded_at(const struct loaded *loaded, const char *dotted);

#endif
