/* docs.c -- the table of keys, flat, for people. */
#include <stdio.h>
#include <string.h>

#include "keys.h"
#include "kvt/arena.h"
#include "kvt/json.h"
#include "kvt/scenario.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

enum {
    RANGE_BYTES = 512
};

/* Counts on a first pass, when docs is NULL; writes on a second. Paths go to the
 * arena on both, which is cheaper than to do without them on one. */
struct pages {
    struct kvt_arena *arena;
    struct kvt_key_doc *docs;
    size_t count;
    bool is_short; /* of memory */
};

static const char *type_name(enum kvt_key_type type)
{
    switch (type) {
    case KVT_KEY_COUNT:
    case KVT_KEY_HOT:
        return "count";
    case KVT_KEY_REAL:
        return "real";
    case KVT_KEY_BOOL:
        return "bool";
    case KVT_KEY_TEXT:
    case KVT_KEY_EXTENDS:
    case KVT_KEY_FILE:
        return "text";
    case KVT_KEY_CHOICE:
        return "choice";
    case KVT_KEY_NUMBERS:
    case KVT_KEY_RECORDS:
    case KVT_KEY_LIST:
        return "list";
    case KVT_KEY_OBJECT:
    case KVT_KEY_PLUGIN:
        break;
    }
    return "object";
}

static const char *kept(struct pages *pages, const char *text)
{
    const char *copy = text[0] != '\0' ? kvt_arena_strdup(pages->arena, text) : "";
    if (copy == NULL) {
        pages->is_short = true;
        return "";
    }
    return copy;
}

/* path lies in the arena; NULL when that was short. */
static void add(struct pages *pages, const struct kvt_key *key, const char *path, const char *range,
                const char *dflt)
{
    pages->is_short |= path == NULL;
    if (pages->docs != NULL) {
        struct kvt_key_doc *doc = &pages->docs[pages->count];
        doc->path = path;
        doc->type = type_name(key->type);
        doc->range = kept(pages, range);
        doc->dflt = kept(pages, dflt);
        doc->help = key->help;
        char takes[RANGE_BYTES];
        doc->takes = kept(pages, kvt_idle_cures(key->idle, takes, sizeof takes));
        doc->refused = key->refused;
    }
    pages->count++;
}

/* ---- Plug-ins -------------------------------------------------------------------- */

/* A parameter's default as JSON; "" where there is none. */
static const char *param_default(const struct kvt_param_spec *spec, char *out, size_t out_bytes)
{
    char number[32];
    double value = spec->default_number;
    out[0] = '\0';
    switch (spec->type) {
    case KVT_PARAM_COUNT:
    case KVT_PARAM_REAL:
        if (!(value >= spec->minimum && value <= spec->maximum))
            return out;
        kvt_json_print_number(value, number);
        (void)snprintf(out, out_bytes, "%s", number);
        break;
    case KVT_PARAM_BOOL:
        (void)snprintf(out, out_bytes, "%s", value != 0 ? "true" : "false");
        break;
    case KVT_PARAM_CHOICE:
    case KVT_PARAM_TEXT:
        if (spec->default_text != NULL)
            (void)snprintf(out, out_bytes, "\"%s\"", spec->default_text);
        break;
    case KVT_PARAM_LIST:
    case KVT_PARAM_RECORDS:
        /* An empty list of records says that there is no default. */
        if (spec->default_text != NULL &&
            !(spec->type == KVT_PARAM_RECORDS && strcmp(spec->default_text, "[]") == 0))
            (void)snprintf(out, out_bytes, "%s", spec->default_text);
        break;
    }
    return out;
}

static void add_params(struct pages *pages, const struct kvt_plugin_info *info, const char *path)
{
    for (size_t i = 0; i < info->param_count; i++) {
        char range[RANGE_BYTES];
        char dflt[RANGE_BYTES];
        const struct kvt_key key = kvt_key_of_param(&info->params[i]);
        (void)kvt_key_range(&key, range, sizeof range);
        if (key.type == KVT_KEY_RECORDS) {
            char names[RANGE_BYTES / 2];
            const struct kvt_key choice = {.type = KVT_KEY_CHOICE, .choices = key.choices};
            (void)snprintf(range, sizeof range, "objects of: %s",
                           kvt_key_range(&choice, names, sizeof names));
        }
        const char *full = kvt_arena_printf(pages->arena, "%s(%s).%s", path, info->name, key.name);
        add(pages, &key, full, range, param_default(&info->params[i], dflt, sizeof dflt));
    }
}

/* The name key, then each plug-in's parameters. */
static void add_plugins(struct pages *pages, const struct kvt_key *key, const char *path)
{
    char names[RANGE_BYTES] = "";
    size_t used = 0;
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, key->kind, &count);
    for (size_t i = 0; i < count && used < sizeof names; i++) {
        int wrote =
            snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? " | " : "", list[i]->name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    const struct kvt_key name = {.type = KVT_KEY_CHOICE, .help = key->help};
    add(pages, &name, kvt_arena_printf(pages->arena, "%s.%s", path, key->name_key), names,
        key->dflt);
    for (size_t i = 0; i < count; i++)
        add_params(pages, list[i], path);
}

/* ---- All keys ------------------------------------------------------------------------ */

static void add_member(struct pages *pages, const struct kvt_key *key, const char *prefix)
{
    char range[RANGE_BYTES];
    const char *dot = prefix[0] != '\0' ? "." : "";
    const char *path = kvt_arena_printf(pages->arena, "%s%s%s", prefix, dot, key->name);
    (void)kvt_key_range(key, range, sizeof range);
    if (key->type == KVT_KEY_FILE)
        (void)snprintf(range, sizeof range, "a shipped name, a path, or an object with \"base\"");
    add(pages, key, path, range, key->dflt != NULL && key->type != KVT_KEY_PLUGIN ? key->dflt : "");
    if (key->refused != NULL || pages->is_short)
        return;
    if (key->type == KVT_KEY_PLUGIN)
        add_plugins(pages, key, path);
    const char *within =
        key->type == KVT_KEY_LIST ? kvt_arena_printf(pages->arena, "%s[]", path) : path;
    pages->is_short |= within == NULL;
    for (const struct kvt_key *member = key->members; !pages->is_short && kvt_key_is_one(member);
         member++)
        add_member(pages, member, within);
}

static void add_all(struct pages *pages)
{
    const struct kvt_key *root = kvt_keys_root();
    pages->count = 0;
    for (const struct kvt_key *member = root->members; kvt_key_is_one(member); member++)
        add_member(pages, member, "");
}

kvt_status kvt_scenario_keys(struct kvt_arena *arena, const struct kvt_key_doc **out, size_t *count,
                             struct kvt_error *err)
{
    struct pages pages = {.arena = arena};
    add_all(&pages);
    if (pages.is_short)
        return kvt_fail_nomem(err, "the table of keys");
    pages.docs =
        kvt_arena_array(arena, pages.count, sizeof *pages.docs, _Alignof(struct kvt_key_doc));
    if (pages.docs == NULL)
        return kvt_fail_nomem(err, "the table of keys");
    add_all(&pages);
    if (pages.is_short)
        return kvt_fail_nomem(err, "the table of keys");
    *out = pages.docs;
    *count = pages.count;
    return KVT_OK;
}

/* NOLINTEND(misc-no-recursion) */
