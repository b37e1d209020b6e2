/* size_log.c -- kvtide size --from-log: what an engine got at its start, and what fits in that.
 *
 *     lines of the log, by the patterns of the engine's file  ->  facts
 *     arguments that it prints, and flags behind --           ->  facts
 *     what kvtide expects of them; the pool that the engine really got in its place; what fits */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../check.h"
#include "../cli.h"
#include "../list.h"
#include "engine.h"
#include "kvt/file.h"
#include "kvt/json.h"

#define GIB ((double)KVT_GIB)

enum {
    ARENA_BYTES = 1 << 16,
    ENGINES_MAX = 32,
    LOG_BYTES_MAX = 256 << 20
};

/* ---- Lines ---------------------------------------------------------------------------------- */

/* A number as logs print it, with commas between thousands; moves on behind it. "nan", "-inf" and
 * what is below 0 are read too: who asked refuses them. */
static bool read_number(const char **text, double *out)
{
    static const char *const words[] = {"nan", "inf"};
    char digits[64];
    size_t length = 0;
    const char *at = *text;

    at += strspn(at, " ");
    double sign = *at == '-' ? -1 : 1;
    at += *at == '-';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strncasecmp(at, words[i], 3) != 0)
            continue;
        *text = at + 3;
        *out = i == 0 ? (double)NAN : sign * (double)INFINITY;
        return true;
    }
    for (; (*at >= '0' && *at <= '9') || *at == ',' || *at == '.'; at++) {
        if (*at == ',' && !(at[1] >= '0' && at[1] <= '9'))
            break;
        if (*at == '.' && !(at[1] >= '0' && at[1] <= '9'))
            break;
        if (*at != ',' && length < sizeof digits - 1)
            digits[length++] = *at;
    }
    digits[length] = '\0';
    *text = at;
    if (length == 0 || kvt_text_real(digits, "", 0, 1e18, out, NULL) != KVT_OK)
        return false;
    *out *= sign;
    return true;
}

/* Where the literal begins in text; a text that a fact takes ends at the last of them. */
static const char *find_literal(const char *text, const char *literal, size_t length, bool last)
{
    const char *found = NULL;

    for (const char *at = text; *at != '\0'; at++) {
        if (strncmp(at, literal, length) == 0) {
            found = at;
            if (!last)
                return found;
        }
    }
    return found;
}

/* One line against one pattern; facts are set when all of it is there. The first line counts: those
 * of a draft model come later, and those of other ranks say the same. *bad is a number of it that
 * none of these facts can be. */
static bool match(const char *line, const char *pattern, struct kvt_arena *arena,
                  struct kvt_engine_facts *facts, double *bad)
{
    size_t count = 0, literal = strcspn(pattern, "{");
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);
    struct kvt_engine_facts found = *facts;
    double wrong = 0;
    const char *at = find_literal(line, pattern, literal, false);

    if (at == NULL)
        return false;
    at += literal;
    pattern += literal;
    while (*pattern == '{') {
        const char *end = strchr(pattern, '}');
        char name[64];
        double number = 0;

        (void)snprintf(name, sizeof name, "%.*s", (int)(end - pattern - 1), pattern + 1);
        pattern = end + 1;
        literal = strcspn(pattern, "{");
        int fact = kvt_engine_fact_find(name);
        if (docs[fact].kind == KVT_FACT_TEXT) {
            const char *stop =
                literal > 0 ? find_literal(at, pattern, literal, true) : at + strlen(at);
            if (stop == NULL)
                return false;
            if (!found.of[fact].is_known)
                kvt_engine_set_text(&found, name,
                                    kvt_arena_printf(arena, "%.*s", (int)(stop - at), at));
            at = stop;
        } else {
            if (!read_number(&at, &number))
                return false;
            if (!isfinite(number) || number < 0)
                wrong = number;
            if (!found.of[fact].is_known)
                kvt_engine_set_number(&found, name, number);
        }
        if (strncmp(at, pattern, literal) != 0)
            return false;
        at += literal;
        pattern += literal;
    }
    *facts = found;
    *bad = wrong;
    return true;
}

static kvt_status refuse_number(const char *path, size_t line, double bad, const char *text,
                                struct kvt_error *err)
{
    char where[512];

    (void)snprintf(where, sizeof where, "%.480s:%zu", path, line);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "found %g, expected a number from 0 on: \"%.100s\"", bad, text);
}

/* Every line against every pattern; *matched: how many lines said something. Progress bars end
 * theirs with a CR. The text is cut up. */
static kvt_status read_log(const char *path, char *text, const struct kvt_engine *engine,
                           struct kvt_arena *arena, struct kvt_engine_facts *facts, size_t *matched,
                           struct kvt_error *err)
{
    size_t line = 1;

    *matched = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, "\r\n");
        char end = text[length];
        bool is_matched = false;
        double bad = 0;

        text[length] = '\0';
        for (uint32_t i = 0; i < engine->log_line_count; i++) {
            is_matched = match(text, engine->log_lines[i].text, arena, facts, &bad) || is_matched;
            if (bad != 0)
                return refuse_number(path, line, bad, text, err);
        }
        *matched += is_matched;
        text[length] = end;
        line += end == '\n';
        text += length + (end != '\0');
    }
    return KVT_OK;
}

/* ---- Which engine ---------------------------------------------------------------------------- */

static kvt_status refuse_log(const char *path, const struct kvt_engine *const *engines,
                             size_t count, struct kvt_error *err)
{
    char sought[384] = "";
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < engines[i]->log_line_count; k++) {
            const char *text = engines[i]->log_lines[k].text;
            int literal = (int)strcspn(text, "{");
            if (used + (size_t)literal + 8 < sizeof sought)
                used += (size_t)snprintf(sought + used, sizeof sought - used, "%s\"%.*s\"",
                                         used > 0 ? ", " : "", literal, text);
        }
    }
    return kvt_fail(err, KVT_ERR_INVALID, path,
                    "no line of an engine's start is in it; looked for %s", sought);
}

/* The engine that was asked for, or that most lines are of. */
static kvt_status choose_engine(const char *path, const char *name, struct kvt_arena *arena,
                                const struct kvt_engine **out, struct kvt_engine_facts *facts,
                                struct kvt_error *err)
{
    const struct kvt_engine *engines[ENGINES_MAX];
    struct list_names names = {NULL, 0};
    size_t count = 0, best = 0, text_bytes = 0;
    char *text = NULL;
    kvt_status status = kvt_file_read(path, LOG_BYTES_MAX, &text, &text_bytes, err);

    *out = NULL;
    if (status == KVT_OK && strlen(text) < text_bytes)
        status = kvt_fail(err, KVT_ERR_PARSE, path, "a NUL byte: this is no log");
    if (status == KVT_OK && name == NULL)
        status = list_names_read("models/engine", &names, err);
    for (size_t i = 0; status == KVT_OK && i < (name != NULL ? 1 : names.count); i++) {
        struct kvt_engine_facts found = {.of = {{0}}};

        if (count == ENGINES_MAX)
            break;
        status = kvt_engine_load(name != NULL ? name : names.items[i], cli_data_dir(), arena,
                                 &engines[count], err);
        if (status == KVT_OK && engines[count] == NULL)
            status = kvt_fail(err, KVT_ERR_INVALID, "size --engine",
                              "\"ideal\" is no engine: it has no log");
        size_t matched = 0;
        if (status == KVT_OK)
            status = read_log(path, text, engines[count], arena, &found, &matched, err);
        if (matched > best) {
            best = matched;
            *out = engines[count];
            *facts = found;
        }
        count++;
    }
    list_names_free(&names);
    free(text);
    return status == KVT_OK && *out == NULL ? refuse_log(path, engines, count, err) : status;
}

static kvt_status read_arguments(const struct kvt_engine *engine,
                                 const struct kvt_engine_facts *log, struct kvt_arena *arena,
                                 struct engine_flags *flags, struct kvt_error *err)
{
    const char *text = kvt_engine_text(log, "log_arguments");
    cJSON *tree = NULL;

    if (text == NULL)
        return KVT_OK;
    tree =
        text[strspn(text, " ")] == '{' ? engine_parse_literal(text) : engine_parse_arguments(text);
    if (!cJSON_IsObject(tree)) {
        cJSON_Delete(tree);
        return engine_note(&flags->ignored, arena,
                           "the arguments that the log prints: they cannot be read")
                   ? KVT_OK
                   : kvt_fail_nomem(err, "a log");
    }
    kvt_status status = engine_read_arguments(engine, tree, arena, flags, err);
    cJSON_Delete(tree);
    return status;
}

/* ---- What it really got ------------------------------------------------------------------- */

static double log_fact(const struct kvt_engine_facts *log, const char *name)
{
    return kvt_engine_number(log, name, 0);
}

/* Bytes of a GPU's pools as the log has them; both 0: it does not say. */
static void real_pools(const struct engine_start *start, const struct kvt_engine_facts *log,
                       double *index_bytes, double *rows_bytes)
{
    const struct kvt_llm *llm = start->scenario.llm;
    const struct kvt_engine_layout *layout = &start->engine->layout;
    bool hierarchy = kvt_engine_is(&start->facts, "hierarchy");
    double payload = kvt_llm_payload_bytes_per_token(llm);
    double index = kvt_llm_index_bytes_per_token(llm);
    double page = llm->index_heads > 0 ? layout->page_tokens : layout->dense_page_tokens;
    double tokens = log_fact(log, "log_tokens"), blocks = log_fact(log, "log_blocks");

    *rows_bytes = 0;
    if (layout->kind == KVT_ENGINE_BLOCKS && hierarchy) {
        double block = (double)kvt_engine_blocks_of(layout, llm).block_bytes;
        *index_bytes = blocks > 0 ? blocks * block : log_fact(log, "log_pool_gib") * GIB;
    } else if (layout->kind == KVT_ENGINE_BLOCKS) {
        *index_bytes = blocks > 0   ? blocks * page * (payload + index)
                       : tokens > 0 ? floor(tokens / page) * page * (payload + index)
                                    : log_fact(log, "log_pool_gib") * GIB;
    } else if (hierarchy && start->engine->host_ratio > 0) {
        double ratio = kvt_engine_number(&start->facts, "host_ratio", start->engine->host_ratio);
        *index_bytes = tokens * ratio * index;
        *rows_bytes = tokens * payload;
    } else {
        *index_bytes = tokens * (payload + index);
    }
}

/* Host bytes of a node as the log has them; what kvtide expects where it says nothing. */
static double real_host_gib(const struct engine_start *start, const struct kvt_engine_facts *log)
{
    const struct kvt_decode_pool *pool = &start->scenario.pools[0];
    double ranks = pool->gpus < pool->gpus_per_node ? pool->gpus : pool->gpus_per_node;
    double replicas = pool->tp < pool->gpus_per_node ? ranks / pool->tp : 1;
    double tokens = log_fact(log, "log_tokens");
    double ratio = kvt_engine_number(&start->facts, "host_ratio", 0);

    if (log_fact(log, "log_host_gib") > 0)
        return log_fact(log, "log_host_gib") * replicas * (pool->host_pool_per_rank ? pool->tp : 1);
    if (log_fact(log, "log_host_gb") > 0)
        return log_fact(log, "log_host_gb") * 1e9 / GIB * ranks;
    if (start->engine->host_ratio > 0 && kvt_engine_is(&start->facts, "hierarchy"))
        return tokens * ratio * kvt_llm_payload_bytes_per_token(start->scenario.llm) / GIB * ranks;
    return pool->host_dram_gib_per_node;
}

/* ---- The answer ---------------------------------------------------------------------------- */

struct log_answer {
    const struct kvt_engine *engine;
    const struct engine_start *start;
    const struct kvt_engine_facts *log;
    struct kvt_scenario scenario; /* with the pools that the engine got */
    struct kvt_size sizes[ENGINE_LENGTHS_MAX];
    uint64_t lengths[ENGINE_LENGTHS_MAX];
    size_t length_count;
    double expected_gib, got_gib; /* of a GPU's pools; got 0: the log does not say */
    double computed;              /* requests of the log's longest length, not rounded down */
    const char *why;              /* the engine's figure and ours differ, or not */
};

/* Requests that the pool holds as the engine would say it: not rounded down. */
static double fraction_of(const struct log_answer *answer, const struct kvt_size *size)
{
    const struct kvt_decode_pool *pool = &answer->scenario.pools[0];
    double all = (double)(pool->index_pool_bytes + pool->rows_pool_bytes);

    return all / (double)size->scenario.session.hbm_bytes;
}

/* Host rows for each row of the device pool, by what was pinned; 0: the log does not say. */
static double real_host_ratio(const struct log_answer *answer)
{
    double tokens = log_fact(answer->log, "log_tokens");

    if (answer->engine->host_ratio <= 0 || tokens <= 0)
        return 0;
    return log_fact(answer->log, "log_host_gb") * 1e9 /
           (tokens * kvt_llm_payload_bytes_per_token(answer->scenario.llm));
}

static const char *explain(const struct log_answer *answer, struct kvt_arena *arena)
{
    double asked = kvt_engine_number(&answer->start->facts, "host_ratio", 0);
    double real = real_host_ratio(answer);
    double says = log_fact(answer->log, "log_requests");
    double ours = answer->computed;
    bool hierarchy = kvt_engine_is(&answer->start->facts, "hierarchy");

    if (hierarchy && real > 0 && fabs(real - asked) > 0.02 * asked)
        return kvt_arena_printf(arena,
                                "host_to_device_ratio %g was asked for, and what is pinned is %.2f "
                                "times the device pool of %.0f tokens: the smaller decides",
                                asked, real, log_fact(answer->log, "log_tokens"));
    if (says <= 0 || ours <= 0)
        return NULL;
    if (fabs(says - ours) < 0.01 * ours + 0.01)
        return "the engine's figure is ours before it is rounded down to whole requests";
    if (hierarchy && says < ours && ours - says < 2)
        return kvt_arena_printf(arena,
                                "the engine lets the last request have its whole window of a "
                                "prefill, the worth of %.2f requests; ours counts what all hold "
                                "while they decode",
                                ours - says);
    if (hierarchy && says < ours)
        return kvt_arena_printf(arena,
                                "the engine's figure is %.2f times ours: another limit than this "
                                "pool, as its host blocks, or another layout than %s",
                                says / ours, answer->engine->name);
    return kvt_arena_printf(arena,
                            "the engine's figure is %.2f times ours: rows of another format, "
                            "other layers or groups than %s counts; --kv-cache-dtype and the "
                            "model are what to look at",
                            says / ours, answer->engine->name);
}

/* Else what a node has is no figure of this start. */
static bool pins_host(const struct engine_start *start)
{
    return kvt_engine_is(&start->facts, "hierarchy") || kvt_engine_is(&start->facts, "offload");
}

static bool add_answer(cJSON *tree, const struct log_answer *answer)
{
    cJSON *log = kvt_json_add_object(tree, "log");
    size_t count = 0;
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);
    bool ok = log != NULL;

    for (size_t i = 0; ok && i < count; i++) {
        if (!answer->log->of[i].is_known || strcmp(docs[i].name, "log_arguments") == 0)
            continue;
        ok = docs[i].kind == KVT_FACT_TEXT
                 ? kvt_json_add_text(log, docs[i].name, answer->log->of[i].text)
                 : kvt_json_add_number(log, docs[i].name, answer->log->of[i].number);
    }
    return ok && kvt_json_add_number(tree, "expected_pool_gib", answer->expected_gib) &&
           kvt_json_add_number(tree, "got_pool_gib",
                               answer->got_gib > 0 ? answer->got_gib : (double)NAN) &&
           kvt_json_add_number(tree, "expected_weights_gib",
                               answer->scenario.pools[0].weights_gib_per_gpu) &&
           kvt_json_add_number(tree, "host_gib_per_node",
                               pins_host(answer->start)
                                   ? answer->scenario.pools[0].host_dram_gib_per_node
                                   : (double)NAN) &&
           kvt_json_add_number(tree, "engine_says", log_fact(answer->log, "log_requests")) &&
           kvt_json_add_number(tree, "computed", answer->computed) &&
           kvt_json_add_number(tree, "host_ratio", real_host_ratio(answer)) &&
           kvt_json_add_text(tree, "difference", answer->why);
}

static kvt_status print_json(const struct log_answer *answer, const struct engine_notes *ignored,
                             struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    cJSON *sizes =
        kvt_size_tree(&answer->scenario, answer->engine, answer->sizes, answer->length_count);
    cJSON *list = tree != NULL ? cJSON_AddArrayToObject(tree, "not_considered") : NULL;
    bool ok = list != NULL && kvt_json_add_text(tree, "schema", "kvtide/size-log/1") &&
              kvt_json_add_text(tree, "engine", answer->engine->name) && add_answer(tree, answer);

    for (size_t i = 0; ok && i < ignored->count; i++)
        ok = cJSON_AddItemToArray(list, cJSON_CreateString(ignored->items[i]));
    ok = ok && sizes != NULL && kvt_json_add(tree, "sizes", sizes);
    kvt_status status = ok ? check_print_tree(tree, err) : kvt_fail_nomem(err, "size --json");
    if (!ok)
        cJSON_Delete(sizes);
    cJSON_Delete(tree);
    return status;
}

static void print_text(const struct log_answer *answer, const struct engine_notes *ignored)
{
    const struct kvt_decode_pool *pool = &answer->scenario.pools[0];
    double says = log_fact(answer->log, "log_requests");

    printf("%s: %s on %u x %s, tp %u, dp %u; residency %s\n", answer->engine->name,
           answer->scenario.llm->name, pool->gpus, pool->hardware->name, pool->tp, pool->dp,
           answer->scenario.residency.info->name);
    printf("%-26s %10s %10s\n", "GiB of each GPU", "expected", "log says");
    printf("%-26s %10.2f ", "  weights", pool->weights_gib_per_gpu);
    if (log_fact(answer->log, "log_weights_gib") > 0)
        printf("%10.2f\n", log_fact(answer->log, "log_weights_gib"));
    else
        printf("%10s\n", "-");
    printf("%-26s %10.2f ", "  KV pool", answer->expected_gib);
    if (answer->got_gib > 0)
        printf("%10.2f\n", answer->got_gib);
    else
        printf("%10s\n", "-");
    if (pins_host(answer->start))
        printf("host DRAM for rows, GiB a node %17.1f\n", pool->host_dram_gib_per_node);
    printf("\n%8s %7s %7s  %-10s %13s | %s\n", "tokens", "replica", "in all", "limited by",
           "host GiB/node", "all in HBM");
    for (size_t i = 0; i < answer->length_count; i++) {
        const struct kvt_size_pool *filled = &answer->sizes[i].scenario.pools[0];
        printf("%8llu %7llu %7llu  %-10s %13.1f | %llu\n",
               (unsigned long long)answer->sizes[i].tokens,
               (unsigned long long)filled->running_per_gpu, (unsigned long long)filled->running,
               kvt_size_limit_name(filled->limited_by), (double)filled->host_bytes_at_limit / GIB,
               (unsigned long long)answer->sizes[i].resident.running);
    }
    if (says > 0)
        printf("\nengine says %.2f requests of %.0f tokens, kvtide computes %.2f\n", says,
               log_fact(answer->log, "log_max_tokens"), answer->computed);
    if (answer->why != NULL) {
        (void)cli_put_wrapped(answer->why, 0, 0);
        putchar('\n');
    }
    if (log_fact(answer->log, "log_seats") > 0)
        printf("the engine lets %.0f run at once\n", log_fact(answer->log, "log_seats"));
    if (ignored->count > 0) {
        printf("%zu flag%s not considered: nothing here knows\n", ignored->count,
               ignored->count == 1 ? "" : "s");
        for (size_t i = 0; i < ignored->count; i++)
            printf("  %s\n", ignored->items[i]);
    }
}

/* ---- The command ---------------------------------------------------------------------------- */

/* The pools that the log has, in place of those expected; sizes of the lengths. */
static kvt_status put_real(struct log_answer *answer, const struct engine_lengths *lengths,
                           struct kvt_arena *arena, struct kvt_error *err)
{
    const struct engine_start *start = answer->start;
    struct kvt_decode_pool *pool = &answer->scenario.pools[0];
    double index_bytes = 0, rows_bytes = 0;
    double most = log_fact(answer->log, "log_max_tokens");
    kvt_status status = KVT_OK;

    answer->scenario = start->scenario;
    answer->expected_gib = (double)(pool->index_pool_bytes + pool->rows_pool_bytes) / GIB;
    real_pools(start, answer->log, &index_bytes, &rows_bytes);
    answer->got_gib = (index_bytes + rows_bytes) / GIB;
    if (answer->got_gib > 0) {
        pool->index_pool_bytes = (uint64_t)index_bytes;
        pool->rows_pool_bytes = (uint64_t)rows_bytes;
        pool->weights_fit = true;
    }
    pool->host_dram_gib_per_node = real_host_gib(start, answer->log);
    if (most > start->scenario.llm->max_position_tokens)
        most = start->scenario.llm->max_position_tokens;
    for (size_t i = 0; i < lengths->count; i++)
        answer->lengths[answer->length_count++] = lengths->of[i];
    for (size_t i = 0; lengths->count == 0 && most <= 0 && i < start->length_count; i++)
        answer->lengths[answer->length_count++] = start->lengths[i];
    if (lengths->count == 0 && most > 0)
        answer->lengths[answer->length_count++] = (uint64_t)most;
    for (size_t i = 0; status == KVT_OK && i < answer->length_count; i++)
        status = kvt_size_at(&answer->scenario, answer->engine, answer->lengths[i],
                             &answer->sizes[i], err);
    if (status == KVT_OK && most > 0) {
        struct kvt_size size;
        status = kvt_size_at(&answer->scenario, answer->engine, (uint64_t)most, &size, err);
        if (status == KVT_OK)
            answer->computed = fraction_of(answer, &size);
    }
    answer->why = explain(answer, arena);
    return status;
}

static kvt_status answer_log(const char *path, const struct engine_question *question,
                             struct kvt_arena *arena, bool *no, struct kvt_error *err)
{
    struct kvt_engine_facts log = {.of = {{0}}};
    struct engine_flags flags = {.ignored = {NULL, 0, 0}};
    struct engine_start start = {.engine = NULL};
    struct log_answer answer = {.log = &log, .start = &start};
    struct engine_lengths lengths = {.option = "size --tokens"};
    kvt_status status = choose_engine(path, question->engine, arena, &answer.engine, &log, err);

    if (status == KVT_OK)
        status = engine_parse_lengths(question->tokens, &lengths, err);
    if (status == KVT_OK)
        status = read_arguments(answer.engine, &log, arena, &flags, err);
    if (status == KVT_OK)
        status = engine_read_words(answer.engine, question->words->items, question->words->count,
                                   arena, &flags, err);
    /* Pools are what the log says that they are. */
    flags.facts.of[kvt_engine_fact_find("pool_blocks")].is_known = false;
    flags.facts.of[kvt_engine_fact_find("pool_gib")].is_known = false;
    if (status == KVT_OK && kvt_engine_knows(&log, "log_max_tokens") &&
        log_fact(&log, "log_max_tokens") < KVT_ENGINE_TOKENS_MIN)
        status = kvt_fail(err, KVT_ERR_INVALID, path,
                          "found a longest context of %g tokens, expected %d or more",
                          log_fact(&log, "log_max_tokens"), KVT_ENGINE_TOKENS_MIN);
    if (status == KVT_OK && kvt_engine_knows(&log, "log_max_tokens") &&
        !kvt_engine_knows(&flags.facts, "max_tokens"))
        kvt_engine_set_number(&flags.facts, "max_tokens", log_fact(&log, "log_max_tokens"));
    if (status == KVT_OK && !kvt_engine_knows(&flags.facts, "model"))
        status = kvt_fail(err, KVT_ERR_INVALID, path,
                          "the log does not say which model it is of; size --from-log FILE -- "
                          "--model NAME does");
    if (status == KVT_OK)
        status = engine_start(answer.engine, &flags.facts, question->hardware, question->sets,
                              &lengths, arena, &start, err);
    if (status == KVT_OK && !start.is_bound)
        status = kvt_fail(err, KVT_ERR_UNSUPPORTED, path, "%s",
                          start.faults.count > 0 ? start.faults.items[0] : "it cannot be sized");
    if (status == KVT_OK)
        status = put_real(&answer, &lengths, arena, err);
    if (status == KVT_OK && question->json)
        status = print_json(&answer, &flags.ignored, err);
    else if (status == KVT_OK)
        print_text(&answer, &flags.ignored);
    *no = true;
    for (size_t i = 0; status == KVT_OK && i < answer.length_count; i++)
        *no = *no && answer.sizes[i].scenario.running == 0;
    engine_start_free(&start);
    return status;
}

int engine_size_log(const char *path, const struct engine_question *question)
{
    struct kvt_error err;
    bool no = false;
    struct kvt_arena *arena = kvt_arena_new(ARENA_BYTES);
    kvt_status status = arena != NULL ? answer_log(path, question, arena, &no, &err)
                                      : kvt_fail_nomem(&err, "a log");

    kvt_arena_free(arena);
    if (status != KVT_OK)
        return cli_fail(&err);
    return no ? CLI_NO : CLI_DONE;
}
