/* sweep_dry.c -- what would be run, and about how long it would take.
 *
 * The estimate is measured: the first point that can be run is begun on its first seed, for a few
 * seconds. What is prepared once (selections, miss surfaces) is told apart from what every run
 * takes; that is, from then on, time over the share that was done. Every run is taken to be like
 * this one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kvt/json.h"
#include "sweep.h"

enum {
    SHOWN_MAX = 10,
    LOOK_NS = KVT_NS_PER_S / 4 /* simulated, between two looks at the clock */
};

static const double prepare_s = 10, run_s = 3; /* of the trial, at most */

/* What one run takes; NaN: not known. */
struct trial {
    struct kvt_wall start;
    double prepared_s;      /* from the start to the end of preparing */
    double prepare_done;    /* share of it; 1: all */
    double whole_run_s;     /* of one run that is prepared */
    double peak_bytes;      /* of this process */
    const char *is_refused; /* why the run could not begin; NULL: it could */
};

/* ---- The trial ------------------------------------------------------------------------------- */

static bool note_preparing(void *context, double fraction, const char *what)
{
    struct trial *trial = context;

    (void)what;
    trial->prepared_s = kvt_wall_seconds_since(trial->start);
    trial->prepare_done = fraction >= 0 && fraction <= 1 ? fraction : 0;
    return trial->prepared_s < prepare_s && !cli_interrupted();
}

static kvt_status advance(struct kvt_sim *sim, struct trial *trial, struct kvt_error *err)
{
    struct kvt_wall begun = kvt_wall_now();
    bool more = true;
    kvt_status status = KVT_OK;

    while (status == KVT_OK && more && kvt_wall_seconds_since(begun) < run_s &&
           !cli_interrupted()) {
        status = kvt_sim_run_until(sim, kvt_sim_now_ns(sim) + LOOK_NS, &more, err);
        if (status == KVT_OK && more)
            status = kvt_sim_step(sim, &more, err);
    }
    /* Mean values are worked out before there is a run, and so is all that is opened for one. */
    double took_s = kvt_wall_seconds_since(trial->start) - trial->prepared_s;
    double done = more ? kvt_sim_progress(sim) : 1;
    trial->whole_run_s = status == KVT_OK && done > 0 ? took_s / done : (double)NAN;
    return status;
}

/* From the point's number on, as a run of the sweep goes. */
static kvt_status try_once(const struct sweep_question *question, size_t point,
                           const struct kvt_sim_options *options, struct trial *trial,
                           struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario scenario;
    struct kvt_sim *sim = NULL;
    uint64_t hash = 0;

    trial->start = kvt_wall_now();
    trial->prepared_s = 0;
    kvt_status status = arena != NULL
                            ? sweep_load_point(question, point, arena, &scenario, &hash, err)
                            : kvt_fail_nomem(err, "a trial");
    if (status == KVT_OK)
        status = kvt_sim_new(&scenario, options, &sim, err);
    if (status == KVT_OK)
        status = advance(sim, trial, err);
    kvt_sim_free(sim);
    kvt_arena_free(arena);
    return status;
}

/* Twice where the first took no time but to prepare: the second finds that done. */
static kvt_status try_point(const struct sweep_question *question, size_t point,
                            const struct sweep_run_options *run, struct trial *trial,
                            struct kvt_error *err)
{
    struct kvt_surfaces *surfaces = NULL;
    kvt_status status = kvt_surfaces_new(&surfaces, err);
    const struct kvt_sim_options options = {.threads = run->threads,
                                            .cache_dir = run->cache_dir,
                                            .surfaces = surfaces,
                                            .on_prepare = note_preparing,
                                            .prepare_context = trial};

    if (status == KVT_OK)
        status = try_once(question, point, &options, trial, err);
    if (status == KVT_OK && trial->whole_run_s < run_s) {
        double prepared_s = trial->prepared_s;
        status = try_once(question, point, &options, trial, err);
        trial->prepared_s = prepared_s;
    }
    kvt_surfaces_free(surfaces);
    return status;
}

static kvt_status measure(const struct sweep_question *question,
                          const struct sweep_run_options *run, struct trial *trial,
                          struct kvt_error *err)
{
    struct kvt_error why;
    struct rusage usage;
    size_t first = 0;

    *trial = (struct trial){.prepare_done = 1, .whole_run_s = (double)NAN};
    while (question->points[first].status != KVT_OK)
        first++;
    kvt_status tried = try_point(question, first, run, trial, &why);
    if (cli_interrupted())
        return kvt_fail(err, KVT_ERR_INTERRUPTED, "sweep --dry-run", "interrupted");
    if (tried == KVT_OK)
        trial->prepare_done = 1;
    else if (tried != KVT_ERR_INTERRUPTED)
        trial->is_refused = kvt_arena_printf(question->arena, "%s%s%s", why.where,
                                             why.where[0] != '\0' ? ": " : "", why.message);
    trial->peak_bytes =
        getrusage(RUSAGE_SELF, &usage) == 0 ? 1024.0 * (double)usage.ru_maxrss : (double)NAN;
    return KVT_OK;
}

/* ---- Points that are one --------------------------------------------------------------------- */

struct twin {
    uint64_t hash;
    size_t point;
};

static int compare_twins(const void *a, const void *b)
{
    const struct twin *one = a, *other = b;

    if (one->hash != other->hash)
        return one->hash < other->hash ? -1 : 1;
    return one->point < other->point ? -1 : one->point > other->point;
}

/* first_of[p]: the lowest point of the same scenario, p itself where there is none before it or it
 * is refused. */
static kvt_status find_twins(const struct sweep_question *question, size_t *first_of,
                             struct kvt_error *err)
{
    size_t count = question->grid.point_count, first = 0;
    struct twin *twins = calloc(count, sizeof *twins);

    if (twins == NULL)
        return kvt_fail_nomem(err, "points");
    for (size_t p = 0; p < count; p++)
        twins[p] = (struct twin){question->points[p].hash, p};
    qsort(twins, count, sizeof *twins, compare_twins);
    for (size_t i = 0; i < count; i++) {
        if (twins[i].hash != twins[first].hash)
            first = i;
        bool is_run = question->points[twins[i].point].status == KVT_OK;
        first_of[twins[i].point] = is_run ? twins[first].point : twins[i].point;
    }
    free(twins);
    return KVT_OK;
}

/* ---- Telling -----------------------------------------------------------------------------------
 */

struct found {
    const struct sweep_question *question;
    const struct sweep_run_options *run;
    const size_t *first_of; /* [point_count] */
    struct trial trial;
    size_t points, refused, twins, runs; /* of the shard */
    double total_s;                      /* NaN: not known */
};

static void count(struct found *found)
{
    const struct sweep_question *question = found->question;
    const struct trial *trial = &found->trial;

    for (size_t p = question->shard; p < question->grid.point_count; p += question->shard_count) {
        found->points++;
        found->refused += question->points[p].status != KVT_OK;
        found->twins += found->first_of[p] != p;
    }
    found->runs = (found->points - found->refused) * question->seed_count;
    double rounds = ceil((double)found->runs / found->run->jobs);
    double prepare_rounds = ceil((double)question->seed_count / found->run->jobs);
    found->total_s = trial->prepare_done < 1
                         ? (double)NAN
                         : prepare_rounds * trial->prepared_s + rounds * trial->whole_run_s;
}

static void print_refused(const struct found *found)
{
    const struct sweep_question *question = found->question;
    size_t shown = 0;

    for (size_t p = question->shard; p < question->grid.point_count; p += question->shard_count) {
        if (question->points[p].status != KVT_OK && shown++ < SHOWN_MAX)
            printf("  point %zu is refused: %s\n", p, question->points[p].message);
    }
    if (shown > SHOWN_MAX)
        printf("  and %zu more\n", shown - SHOWN_MAX);
}

static void print_twins(const struct found *found)
{
    const struct sweep_question *question = found->question;
    size_t shown = 0;

    for (size_t p = question->shard; p < question->grid.point_count; p += question->shard_count) {
        if (found->first_of[p] != p && shown++ < SHOWN_MAX)
            printf("  point %zu is the same scenario as point %zu\n", p, found->first_of[p]);
    }
    if (shown > SHOWN_MAX)
        printf("  and %zu more\n", shown - SHOWN_MAX);
}

static void print_duration(double seconds)
{
    if (seconds < 120)
        printf("%.3g s", seconds);
    else if (seconds < 7200)
        printf("%.0f min", seconds / 60);
    else
        printf("%.1f h", seconds / 3600);
}

static void print_time(const struct found *found)
{
    const struct trial *trial = &found->trial;

    printf("time    ");
    if (trial->is_refused != NULL) {
        printf("not known: the first point cannot be run: %s\n", trial->is_refused);
    } else if (trial->prepare_done < 1) {
        printf("not known: after %.0f s the first point was not prepared yet (%.0f %%), once for "
               "all like it\n",
               trial->prepared_s, 100 * trial->prepare_done);
    } else {
        printf("about ");
        print_duration(found->total_s);
        printf(", as the first point: ");
        print_duration(trial->whole_run_s);
        printf(" a run, %u at once", found->run->jobs);
        if (trial->prepared_s > 0.1) {
            printf(", after ");
            print_duration(trial->prepared_s);
            printf(" to prepare%s, once for all like it",
                   found->question->seed_count > 1 ? " each seed" : "");
        }
        putchar('\n');
    }
    printf("memory  about %.0f MiB for the first point, so %.0f MiB for %u at once\n",
           trial->peak_bytes / (1 << 20), trial->peak_bytes / (1 << 20) * found->run->jobs,
           found->run->jobs);
}

static void print_all(const struct found *found)
{
    const struct sweep_question *question = found->question;
    size_t group = 0;

    for (size_t a = 0; a < question->grid.axis_count; a++) {
        const struct cli_axis *axis = sweep_grid_axis(&question->grid, a, &group);
        printf("axis    %s: %zu values\n", axis->path, axis->value_count);
    }
    printf("points  %zu", found->points);
    if (question->shard_count > 1)
        printf(" of %zu, shard %u/%u", question->grid.point_count, question->shard + 1,
               question->shard_count);
    printf(", %zu refused, %zu the same as another\n", found->refused, found->twins);
    print_refused(found);
    print_twins(found);
    printf("runs    %zu: %zu points on %zu seed%s\n", found->runs, found->points - found->refused,
           question->seed_count, question->seed_count > 1 ? "s" : "");
    print_time(found);
}

static bool add_points(cJSON *tree, const struct found *found)
{
    const struct sweep_question *question = found->question;
    cJSON *refused = cJSON_AddArrayToObject(tree, "refused");
    cJSON *twins = cJSON_AddArrayToObject(tree, "duplicates");
    bool ok = refused != NULL && twins != NULL;

    for (size_t p = question->shard; ok && p < question->grid.point_count;
         p += question->shard_count) {
        const struct sweep_point *point = &question->points[p];
        cJSON *entry = NULL;
        if (point->status != KVT_OK)
            ok = (entry = kvt_json_add_element(refused)) != NULL &&
                 kvt_json_add_number(entry, "point", (double)p) &&
                 kvt_json_add_text(entry, "message", point->message);
        else if (found->first_of[p] != p)
            ok = (entry = kvt_json_add_element(twins)) != NULL &&
                 kvt_json_add_number(entry, "point", (double)p) &&
                 kvt_json_add_number(entry, "same_as", (double)found->first_of[p]);
    }
    return ok;
}

static kvt_status print_json(const struct found *found, struct kvt_error *err)
{
    const struct trial *trial = &found->trial;
    cJSON *tree = cJSON_CreateObject();
    bool ok = tree != NULL && kvt_json_add_text(tree, "schema", "kvtide/sweep-dry-run/1") &&
              kvt_json_add_number(tree, "points", (double)found->points) &&
              kvt_json_add_number(tree, "seeds", (double)found->question->seed_count) &&
              kvt_json_add_number(tree, "runs", (double)found->runs) && add_points(tree, found) &&
              kvt_json_add_number(tree, "jobs", found->run->jobs) &&
              kvt_json_add_number(tree, "prepare_s", trial->prepared_s) &&
              kvt_json_add_number(tree, "prepare_done", trial->prepare_done) &&
              kvt_json_add_number(tree, "run_s", trial->whole_run_s) &&
              kvt_json_add_number(tree, "total_s", found->total_s) &&
              kvt_json_add_number(tree, "peak_bytes_of_one", trial->peak_bytes) &&
              kvt_json_add_text(tree, "cannot_run", trial->is_refused);
    char *text = ok ? kvt_json_print(tree) : NULL;

    cJSON_Delete(tree);
    if (text == NULL)
        return kvt_fail_nomem(err, "a dry run");
    puts(text);
    free(text);
    return KVT_OK;
}

kvt_status sweep_dry(const struct sweep_question *question, const struct sweep_run_options *options,
                     bool json, struct kvt_error *err)
{
    struct found found = {.question = question, .run = options};
    size_t *first_of = calloc(question->grid.point_count, sizeof *first_of);
    kvt_status status =
        first_of != NULL ? find_twins(question, first_of, err) : kvt_fail_nomem(err, "points");

    if (status == KVT_OK)
        status = measure(question, options, &found.trial, err);
    if (status == KVT_OK) {
        found.first_of = first_of;
        count(&found);
        if (json)
            status = print_json(&found, err);
        else
            print_all(&found);
    }
    free(first_of);
    return status;
}
