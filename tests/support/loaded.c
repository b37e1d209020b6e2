/* loaded.c -- scenarios loaded from a folder like the installed one. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvt/json.h"
#include "loaded.h"

/* A data folder that looks like an installed one, and holds the files of a test. */
static struct support_folder folder;

const struct support_folder *loaded_folder(void)
{
    return &folder;
}

static void link_data(const char *name, const char *target)
{
    char path[SUPPORT_PATH_BYTES];
    char here[SUPPORT_PATH_BYTES];
    char absolute[2 * SUPPORT_PATH_BYTES];
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    (void)snprintf(absolute, sizeof absolute, "%s/%s", target[0] != '/' ? here : "", target);
    ck_assert_int_eq(symlink(absolute, support_path(&folder, name, path)), 0);
}

void loaded_folder_make(void)
{
    support_folder_make(&folder);
    link_data("models", KVT_TEST_ROOT "/models");
    link_data("scenarios", KVT_TEST_ROOT "/workloads/scenarios");
}

void loaded_folder_remove(void)
{
    support_folder_remove(&folder);
}

struct kvt_scenario_options loaded_options(const char *const sets[LOADED_SETS_MAX], bool for_size)
{
    struct kvt_scenario_options options = {
        .data_dir = folder.path, .sets = sets, .for_size = for_size};
    while (sets != NULL && options.set_count < LOADED_SETS_MAX && sets[options.set_count] != NULL)
        options.set_count++;
    return options;
}

struct loaded loaded_from(const char *source, const char *const sets[LOADED_SETS_MAX])
{
    struct loaded loaded = {.arena = kvt_arena_new(LOADED_ARENA_BYTES)};
    const struct kvt_scenario_options options = loaded_options(sets, false);
    loaded.status =
        kvt_scenario_load(source, &options, loaded.arena, &loaded.scenario, &loaded.err);
    return loaded;
}

struct loaded loaded_for_size(const char *source, const char *const sets[LOADED_SETS_MAX])
{
    struct loaded loaded = {.arena = kvt_arena_new(LOADED_ARENA_BYTES)};
    const struct kvt_scenario_options options = loaded_options(sets, true);
    loaded.status =
        kvt_scenario_load(source, &options, loaded.arena, &loaded.scenario, &loaded.err);
    return loaded;
}

struct loaded loaded_text(const char *text, const char *set, bool for_size)
{
    struct loaded loaded = {.arena = kvt_arena_new(LOADED_ARENA_BYTES)};
    const char *const sets[LOADED_SETS_MAX] = {set};
    const struct kvt_scenario_options options = loaded_options(sets, for_size);
    loaded.status = kvt_scenario_parse(text, strlen(text), "t.json", &options, loaded.arena,
                                       &loaded.scenario, &loaded.err);
    return loaded;
}

struct loaded loaded_over(const char *members, const char *set, bool for_size)
{
    char text[LOADED_TEXT_BYTES];
    (void)snprintf(text, sizeof text,
                   "{\"schema\": \"kvtide/scenario/1\", \"extends\": \"glm-5.3-100k\"%s%s}",
                   members[0] != '\0' ? ", " : "", members);
    return loaded_text(text, set, for_size);
}

void loaded_check_ok(const struct loaded *loaded)
{
    ck_assert_msg(loaded->status == KVT_OK, "%s: %s", loaded->err.where, loaded->err.message);
}

void loaded_check_refused(const struct loaded *loaded, kvt_status status, const char *where,
                          const char *words)
{
    ck_assert_str_eq(kvt_status_name(loaded->status), kvt_status_name(status));
    ck_assert_str_eq(loaded->err.where, where);
    ck_assert_msg(strstr(loaded->err.message, words) != NULL, "\"%s\" does not say \"%s\"",
                  loaded->err.message, words);
}

const struct cJSON *loaded_at(const struct loaded *loaded, const char *dotted)
{
    char path[128];
    const cJSON *node = loaded->scenario.tree;
    (void)snprintf(path, sizeof path, "%s", dotted);
    for (char *rest = path; node != NULL && rest != NULL;) {
        char *dot = strchr(rest, '.');
        if (dot != NULL)
            *dot = '\0';
        node =
            cJSON_IsArray(node) ? cJSON_GetArrayItem(node, atoi(rest)) : kvt_json_find(node, rest);
        rest = dot != NULL ? dot + 1 : NULL;
    }
    return node;
}
