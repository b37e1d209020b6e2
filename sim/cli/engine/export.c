/* export.c -- a scenario as an engine's flags, or what of it no flag can say. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "../cli.h"
#include "../list.h"
#include "engine.h"
#include "kvt/json.h"

/* ---- Obstacles ---------------------------------------------------------------------------- */

static bool is_obstacle(const struct kvt_engine_rule *rule, const struct kvt_engine_facts *facts)
{
    return (rule->effect == KVT_ENGINE_REFUSES || rule->effect == KVT_ENGINE_CANNOT) &&
           kvt_engine_applies(rule, facts);
}

static kvt_status find_obstacles(struct engine_export *export, struct kvt_arena *arena,
                                 struct kvt_error *err)
{
    const struct kvt_engine *engine = export->engine;

    export->obstacles = kvt_arena_array(arena, engine->rule_count + 1u, sizeof *export->obstacles,
                                        _Alignof(struct engine_obstacle));
    if (export->obstacles == NULL)
        return kvt_fail_nomem(err, "an export");
    for (uint32_t i = 0; i < engine->rule_count; i++) {
        const struct kvt_engine_rule *rule = &engine->rules[i];
        const char *says = NULL;

        if (rule->effect == KVT_ENGINE_OFF || rule->effect == KVT_ENGINE_WARNS) {
            if (kvt_engine_applies(rule, &export->facts) &&
                !engine_note(&export->warnings, arena,
                             kvt_engine_sentence(rule->says, &export->facts, arena)))
                return kvt_fail_nomem(err, "an export");
            continue;
        }
        if (!is_obstacle(rule, &export->facts))
            continue;
        says = kvt_engine_sentence(rule->says, &export->facts, arena);
        if (says == NULL)
            return kvt_fail_nomem(err, "an export");
        export->obstacles[export->obstacle_count++] = (struct engine_obstacle){
            rule, says,
            rule->instead != NULL ? kvt_engine_sentence(rule->instead, &export->facts, arena)
                                  : NULL};
    }
    return KVT_OK;
}

/* ---- Flags -------------------------------------------------------------------------------- */

static const char *their_word(const struct kvt_engine_flag *flag, const char *ours)
{
    for (uint32_t i = 0; i < flag->word_count; i++) {
        if (strcmp(flag->words[i].ours, ours) == 0)
            return flag->words[i].theirs;
    }
    return ours;
}

/* Where the facts say something that an engine would do without being told, nothing is written. */
static bool is_default(const struct kvt_engine *engine, const struct kvt_engine_flag *flag,
                       const struct kvt_engine_facts *facts)
{
    size_t count = 0;
    const char *name = kvt_engine_facts(&count)[flag->fact].name;
    double value = facts->of[flag->fact].number;

    if (strcmp(name, "memory_fraction") == 0)
        return value == engine->memory_fraction;
    if (strcmp(name, "pp") == 0 || strcmp(name, "dcp") == 0 || strcmp(name, "dp") == 0 ||
        strcmp(name, "ep") == 0 || strcmp(name, "world_tp") == 0)
        return value == 1;
    if (strcmp(name, "prefill") == 0)
        return strcmp(facts->of[flag->fact].text, "colocated") == 0 ||
               strcmp(engine->family, "sglang") != 0 || !kvt_engine_is(facts, "hierarchy");
    return false;
}

/* Is it to be written, for these facts? */
static bool is_written(const struct kvt_engine *engine, const struct kvt_engine_flag *flag,
                       const struct kvt_engine_facts *facts)
{
    if (flag->no_export)
        return false;
    if (flag->export_when >= 0 &&
        !(facts->of[flag->export_when].is_known && facts->of[flag->export_when].number != 0))
        return false;
    if (flag->constant != NULL)
        return true;
    if (!facts->of[flag->fact].is_known)
        return false;
    if (flag->is_switch)
        return (facts->of[flag->fact].number != 0) == flag->sets;
    if (flag->is != NULL)
        return facts->of[flag->fact].number != 0;
    return !is_default(engine, flag, facts);
}

/* The value as a JSON node, or as text of a word by itself. */
static cJSON *value_of(const struct kvt_engine_flag *flag, const struct kvt_engine_facts *facts)
{
    size_t count = 0;
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);

    if (flag->constant != NULL)
        return cJSON_CreateString(flag->constant);
    if (flag->is != NULL)
        return cJSON_CreateString(flag->is);
    if (docs[flag->fact].kind == KVT_FACT_BOOL)
        return cJSON_CreateBool(facts->of[flag->fact].number != 0);
    if (docs[flag->fact].kind == KVT_FACT_TEXT)
        return cJSON_CreateString(their_word(flag, facts->of[flag->fact].text));
    return cJSON_CreateNumber((facts->of[flag->fact].number - flag->plus) *
                              (flag->per > 0 ? flag->per : 1));
}

/* Sets a.b.c of an object, making what is missing. */
static bool set_dotted(cJSON *object, const char *path, cJSON *value)
{
    char name[128];
    const char *dot = NULL;

    for (; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        (void)snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        cJSON *inner = cJSON_GetObjectItemCaseSensitive(object, name);
        object = inner != NULL ? inner : kvt_json_add_object(object, name);
        if (object == NULL) {
            cJSON_Delete(value);
            return false;
        }
    }
    return kvt_json_add(object, path, value);
}

/* All members of one JSON flag, on one line, between single quotes. */
static kvt_status write_json(struct engine_export *export, const char *name,
                             struct kvt_arena *arena, struct kvt_error *err)
{
    cJSON *object = cJSON_CreateObject();
    bool ok = object != NULL, any = false;

    for (uint32_t i = 0; ok && i < export->engine->flag_count; i++) {
        const struct kvt_engine_flag *flag = &export->engine->flags[i];
        if (flag->member == NULL || strcmp(flag->flag, name) != 0 ||
            !is_written(export->engine, flag, &export->facts))
            continue;
        any = true;
        ok = set_dotted(object, flag->member, value_of(flag, &export->facts));
    }
    char *text = ok ? cJSON_PrintUnformatted(object) : NULL;
    ok = text != NULL && (!any || engine_note(&export->lines, arena,
                                              kvt_arena_printf(arena, "%s '%s'", name, text)));
    cJSON_free(text);
    cJSON_Delete(object);
    return ok ? KVT_OK : kvt_fail_nomem(err, "an export");
}

static kvt_status write_plain(struct engine_export *export, const struct kvt_engine_flag *flag,
                              struct kvt_arena *arena, struct kvt_error *err)
{
    cJSON *value = NULL;
    char number[32];
    bool ok = true;

    if (!is_written(export->engine, flag, &export->facts))
        return KVT_OK;
    if (flag->is_switch) {
        ok = engine_note(&export->lines, arena, flag->flag);
    } else {
        value = value_of(flag, &export->facts);
        if (cJSON_IsNumber(value))
            kvt_json_print_number(value->valuedouble, number);
        ok = value != NULL &&
             engine_note(&export->lines, arena,
                         kvt_arena_printf(arena, "%s %s", flag->flag,
                                          cJSON_IsNumber(value)   ? number
                                          : cJSON_IsString(value) ? value->valuestring
                                          : cJSON_IsTrue(value)   ? "true"
                                                                  : "false"));
    }
    cJSON_Delete(value);
    return ok ? KVT_OK : kvt_fail_nomem(err, "an export");
}

/* Did an earlier entry of the same flag write all of its members? */
static bool is_repeated(const struct kvt_engine *engine, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (engine->flags[i].member != NULL &&
            strcmp(engine->flags[i].flag, engine->flags[at].flag) == 0)
            return true;
    }
    return false;
}

static kvt_status write_flags(struct engine_export *export, struct kvt_arena *arena,
                              struct kvt_error *err)
{
    const struct kvt_engine *engine = export->engine;
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; status == KVT_OK && i < engine->flag_count; i++) {
        const struct kvt_engine_flag *flag = &engine->flags[i];
        if (flag->member == NULL)
            status = write_plain(export, flag, arena, err);
        else if (!is_repeated(engine, i))
            status = write_json(export, flag->flag, arena, err);
    }
    return status;
}

/* A limit below what fits: the engine counts a replica's requests or all, the limit is of all. */
static void limit_requests(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                           uint64_t most, struct kvt_engine_facts *facts)
{
    double of_one = ceil((double)most / (engine->seats_of_all ? 1 : scenario->pools[0].dp));
    double fits = kvt_engine_number(facts, "max_requests", INFINITY);

    if (most > 0 && of_one < fits)
        kvt_engine_set_number(facts, "max_requests", of_one);
}

kvt_status engine_export(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                         uint64_t most, struct kvt_arena *arena, struct engine_export *out,
                         struct kvt_error *err)
{
    *out = (struct engine_export){.engine = engine, .scenario = scenario};
    engine_scenario_facts(engine, scenario, &out->facts);
    limit_requests(engine, scenario, most, &out->facts);
    kvt_status status = find_obstacles(out, arena, err);
    return status == KVT_OK ? write_flags(out, arena, err) : status;
}

/* ---- The nearest engine ------------------------------------------------------------------- */

struct nearest {
    const struct kvt_engine *engine;
    size_t obstacles, fatal; /* fatal: of them, those that leave no hierarchy */
    struct kvt_engine_facts facts;
};

static struct nearest look_at(const struct kvt_engine *engine, const struct kvt_scenario *scenario)
{
    struct nearest at = {.engine = engine};

    engine_scenario_facts(engine, scenario, &at.facts);
    for (uint32_t i = 0; i < engine->rule_count; i++) {
        bool stands = is_obstacle(&engine->rules[i], &at.facts);
        at.obstacles += stands;
        at.fatal += stands && engine->rules[i].is_fatal;
    }
    return at;
}

/* One without a hierarchy is farther than any with one; then the fewest obstacles are nearest. */
static bool is_nearer(const struct nearest *a, const struct nearest *b)
{
    return a->fatal != b->fatal ? a->fatal < b->fatal : a->obstacles < b->obstacles;
}

/* Among what is shipped and the one that was asked for, which is the nearest of equals. */
static kvt_status find_nearest(const struct engine_export *export, struct kvt_arena *arena,
                               struct nearest *out, cJSON *beside, struct kvt_error *err)
{
    struct list_names names;
    kvt_status status = list_names_read("models/engine", &names, err);

    *out = look_at(export->engine, export->scenario);
    for (size_t i = 0; status == KVT_OK && i < names.count; i++) {
        const struct kvt_engine *engine = NULL;

        status = kvt_engine_load(names.items[i], cli_data_dir(), arena, &engine, err);
        if (status != KVT_OK)
            break;
        struct nearest at = look_at(engine, export->scenario);
        cJSON *entry = kvt_json_add_element(beside);
        if (entry == NULL || !kvt_json_add_text(entry, "engine", engine->name) ||
            !kvt_json_add_number(entry, "obstacles", (double)at.obstacles) ||
            !kvt_json_add_bool(entry, "hierarchy", at.fatal == 0))
            status = kvt_fail_nomem(err, "an export");
        if (is_nearer(&at, out))
            *out = at;
    }
    list_names_free(&names);
    return status;
}

/* ---- The answer --------------------------------------------------------------------------- */

static bool add_obstacles(cJSON *tree, const struct engine_export *export)
{
    cJSON *array = cJSON_AddArrayToObject(tree, "obstacles");
    bool ok = array != NULL;

    for (size_t i = 0; ok && i < export->obstacle_count; i++) {
        const struct engine_obstacle *obstacle = &export->obstacles[i];
        cJSON *entry = kvt_json_add_element(array);
        ok = entry != NULL && kvt_json_add_text(entry, "id", obstacle->rule->id) &&
             kvt_json_add_text(entry, "says", obstacle->says) &&
             kvt_json_add_text(entry, "instead", obstacle->instead) &&
             kvt_json_add_text(entry, "source", obstacle->rule->source);
    }
    return ok;
}

static bool add_lines(cJSON *tree, const char *key, const struct engine_notes *notes)
{
    cJSON *array = cJSON_AddArrayToObject(tree, key);

    for (size_t i = 0; array != NULL && i < notes->count; i++) {
        if (!cJSON_AddItemToArray(array, cJSON_CreateString(notes->items[i])))
            return false;
    }
    return array != NULL;
}

static void print_obstacles(const struct engine_export *export, const struct nearest *nearest,
                            const cJSON *beside, struct kvt_arena *arena)
{
    const cJSON *entry = NULL;
    bool any_free = nearest->obstacles == 0;

    printf("%s does not run this scenario; %zu obstacle%s\n", export->engine->name,
           export->obstacle_count, export->obstacle_count == 1 ? "" : "s");
    for (size_t i = 0; i < export->obstacle_count; i++) {
        fputs("  - ", stdout);
        (void)cli_put_wrapped(export->obstacles[i].says, 4, 4);
        printf("\n    [");
        (void)cli_put_wrapped(export->obstacles[i].rule->source, 5, 5);
        puts("]");
    }
    fputs(any_free ? "engines      " : "no public engine runs it: ", stdout);
    cJSON_ArrayForEach(entry, beside)
    {
        printf("%s%s %g", entry == beside->child ? "" : ", ",
               kvt_json_find(entry, "engine")->valuestring,
               kvt_json_find(entry, "obstacles")->valuedouble);
    }
    puts(" obstacles");
    printf("nearest is %s; what would be given up:\n", nearest->engine->name);
    for (uint32_t i = 0; i < nearest->engine->rule_count; i++) {
        const struct kvt_engine_rule *rule = &nearest->engine->rules[i];
        if (!is_obstacle(rule, &nearest->facts))
            continue;
        fputs("  - ", stdout);
        (void)cli_put_wrapped(rule->instead != NULL
                                  ? kvt_engine_sentence(rule->instead, &nearest->facts, arena)
                                  : kvt_engine_sentence(rule->says, &nearest->facts, arena),
                              4, 4);
        putchar('\n');
    }
}

/* Puts what was found into the tree, that of the other engines too. */
static kvt_status fill_tree(const struct engine_export *export, struct kvt_arena *arena,
                            cJSON *tree, struct nearest *nearest, struct kvt_error *err)
{
    cJSON *beside = tree != NULL ? cJSON_AddArrayToObject(tree, "engines") : NULL;
    kvt_status status = beside != NULL ? find_nearest(export, arena, nearest, beside, err)
                                       : kvt_fail_nomem(err, "an export");

    if (status == KVT_OK &&
        !(kvt_json_add_text(tree, "schema", "kvtide/engine-export/1") &&
          kvt_json_add_text(tree, "engine", export->engine->name) &&
          kvt_json_add_bool(tree, "runs", export->obstacle_count == 0) &&
          add_lines(tree, "flags", &export->lines) && add_obstacles(tree, export) &&
          add_lines(tree, "warnings", &export->warnings) &&
          kvt_json_add_text(tree, "nearest", nearest->engine->name)))
        status = kvt_fail_nomem(err, "an export");
    return status;
}

kvt_status engine_export_tree(const struct engine_export *export, struct kvt_arena *arena,
                              cJSON **out, struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    struct nearest nearest;
    kvt_status status = fill_tree(export, arena, tree, &nearest, err);

    if (status == KVT_OK)
        *out = tree;
    else
        cJSON_Delete(tree);
    return status;
}

kvt_status engine_print_export(const struct engine_export *export, bool json,
                               struct kvt_arena *arena, bool *runs, struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    struct nearest nearest;
    kvt_status status = fill_tree(export, arena, tree, &nearest, err);

    *runs = export->obstacle_count == 0;
    if (status == KVT_OK && json) {
        status = check_print_tree(tree, err);
    } else if (status == KVT_OK && *runs) {
        for (size_t i = 0; i < export->lines.count; i++)
            puts(export->lines.items[i]);
        for (size_t i = 0; i < export->warnings.count; i++)
            fprintf(stderr, "kvtide: %s: %s\n", export->engine->name, export->warnings.items[i]);
    } else if (status == KVT_OK) {
        print_obstacles(export, &nearest, kvt_json_find(tree, "engines"), arena);
    }
    cJSON_Delete(tree);
    return status;
}
