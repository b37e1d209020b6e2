/* cmd_sweep.c -- kvtide sweep: many points of one scenario, on threads, ranks and machines. */
#define _GNU_SOURCE 1 /* sched_getaffinity() */

#include <cjson/cJSON.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../report/report.h"
#include "../run_sets.h"
#include "sweep.h"

enum {
    DIRS_MAX = SWEEP_SHARDS_MAX,
    REPORTED_BYTES_MAX = 64 << 20 /* of results.json, ten thousand points or so */
};

#define NOT_GIVEN UINT64_MAX

struct options {
    struct cli_texts positional, varied, zips;
    struct run_sets scenario;
    const char *points, *shard, *cache, *out;
    uint64_t seeds, jobs, threads;
    bool merge, resume, dry_run, mpi, no_report, json, quiet;
};

/* ---- A sweep -----------------------------------------------------------------------------------
 */

/* How many CPUs this process may use: a launcher may have bound it to some. */
static unsigned own_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > CLI_THREADS_MAX ? CLI_THREADS_MAX : (unsigned)count;
}

static kvt_status gather(const struct options *options, struct kvt_arena *arena,
                         struct sweep_question *question, struct kvt_error *err)
{
    size_t most = options->scenario.sets.count + RUN_SETS_MORE;
    const char **sets = kvt_arena_array(arena, most, sizeof *sets, _Alignof(const char *));
    char(*texts)[RUN_SETS_BYTES] = kvt_arena_array(arena, RUN_SETS_MORE, sizeof *texts, 1);

    if (sets == NULL || texts == NULL)
        return kvt_fail_nomem(err, "a sweep");
    if (!run_sets_gather(&options->scenario, texts, sets, &question->set_count))
        return kvt_fail(err, KVT_ERR_INVALID, "sweep", "an option's value is too long");
    question->sets = sets;
    question->source = options->positional.count > 0 ? options->positional.items[0] : "quickstart";
    question->data_dir = cli_data_dir();
    question->seed_count = (size_t)options->seeds;
    question->arena = arena;
    kvt_status status = sweep_grid_parse(&options->varied, &options->zips, options->points, arena,
                                         &question->grid, err);
    if (status == KVT_OK && question->grid.point_count > SWEEP_RUNS_MAX / question->seed_count)
        status = kvt_fail(err, KVT_ERR_INVALID, "sweep",
                          "%zu points on %zu seeds are more runs than the %d that are taken",
                          question->grid.point_count, question->seed_count, SWEEP_RUNS_MAX);
    return status;
}

/* The journal that this sweep goes on in. */
static kvt_status open_journal(const struct options *options, const cJSON *header,
                               struct sweep_journal **out, struct kvt_error *err)
{
    struct sweep_journal *journal = NULL;
    kvt_status status =
        options->resume ? sweep_journal_open(options->out, true, &journal, err) : KVT_ERR_NOT_FOUND;

    if (status == KVT_ERR_NOT_FOUND) {
        char *text = sweep_print_line(header);
        status = text != NULL ? sweep_journal_create(options->out, text, out, err)
                              : kvt_fail_nomem(err, "a sweep");
        free(text);
        return status;
    }
    if (status == KVT_OK)
        status =
            sweep_header_check(header, sweep_journal_question(journal), options->out, true, err);
    if (status == KVT_OK && sweep_journal_dropped_bytes(journal) > 0 && !options->quiet)
        fprintf(stderr, "kvtide: %s: the journal's last line was torn and is dropped\n",
                options->out);
    if (status != KVT_OK) {
        sweep_journal_close(journal);
        return status;
    }
    *out = journal;
    return KVT_OK;
}

static size_t count_done(const struct sweep_question *question, const struct sweep_journal *journal,
                         size_t *all)
{
    size_t done = 0;

    *all = 0;
    for (size_t p = question->shard; p < question->grid.point_count; p += question->shard_count) {
        *all += question->seed_count;
        for (size_t s = 0; s < question->seed_count; s++)
            done += sweep_journal_has(journal, p * question->seed_count + s);
    }
    return done;
}

static void tell_counts(const struct options *options, const struct sweep_counts *counts)
{
    if (counts->failed_points > 0)
        fprintf(stderr, "kvtide: sweep: %zu of %zu points failed; %s\n", counts->failed_points,
                counts->points, counts->first_message);
    if (!options->json)
        printf("%zu point%s, %zu of them with results: %s/results.csv, %s/results.json\n",
               counts->points, counts->points == 1 ? "" : "s", counts->ok_points, options->out,
               options->out);
}

/* Of a sweep so large that its page would take gigabytes to make, it is left out, and that is
 * told. */
static kvt_status write_report(const struct options *options, struct kvt_error *err)
{
    char path[4200];
    struct stat found;

    report_remove(options->out);
    if (options->no_report)
        return KVT_OK;
    (void)snprintf(path, sizeof path, "%s/results.json", options->out);
    if (stat(path, &found) != 0 || found.st_size <= REPORTED_BYTES_MAX)
        return report_write(options->out, "results.json", err);
    if (!options->quiet)
        fprintf(stderr,
                "kvtide: sweep: report.html is left out, for results.json has more than %d MiB; "
                "kvtide report %s makes it where there is memory for it\n",
                REPORTED_BYTES_MAX >> 20, options->out);
    return KVT_OK;
}

/* After everything of the shard was run. */
static kvt_status tell(const struct options *options, const struct sweep_question *question,
                       struct sweep_journal *journal, bool *answer_is_no, struct kvt_error *err)
{
    struct sweep_counts counts;
    size_t all = 0, done = count_done(question, journal, &all);

    if (question->shard_count > 1) {
        if (!options->json)
            printf("shard %u/%u: %zu runs are in %s; when all shards are done, kvtide sweep "
                   "--merge DIR.. --out DIR makes results of them\n",
                   question->shard + 1, question->shard_count, done, options->out);
        return KVT_OK;
    }
    const struct sweep_results results = {
        .header = sweep_journal_question(journal), .journals = &journal, .journal_count = 1};
    kvt_status status = sweep_results_write(&results, options->out, options->json, &counts, err);
    if (status == KVT_OK)
        status = write_report(options, err);
    if (status == KVT_OK) {
        tell_counts(options, &counts);
        *answer_is_no = counts.ok_points == 0;
    }
    return status;
}

/* What is kept, and how to go on with it; before the error itself is told. */
static void tell_kept(const struct options *options, const struct sweep_question *question,
                      const struct sweep_journal *journal)
{
    size_t all = 0, done = count_done(question, journal, &all);

    fprintf(stderr,
            "kvtide: sweep: %zu of %zu runs are kept in %s; the same command with --resume goes "
            "on with the rest\n",
            done, all, options->out);
}

static kvt_status run_here(const struct options *options, const struct sweep_question *question,
                           const struct sweep_run_options *run, bool *answer_is_no,
                           struct kvt_error *err)
{
    struct sweep_journal *journal = NULL;
    cJSON *header = NULL;
    bool interrupted = false;
    size_t all = 0;
    kvt_status status = sweep_header(question, &header, err);

    if (status == KVT_OK)
        status = open_journal(options, header, &journal, err);
    cJSON_Delete(header);
    if (status != KVT_OK)
        return status;
    size_t before = count_done(question, journal, &all);
    if (before > 0 && !options->quiet)
        fprintf(stderr, "kvtide: sweep: %zu of %zu runs are there already\n", before, all);
    status = sweep_run(question, run, journal, &interrupted, err);
    if (status == KVT_OK && interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "sweep", "interrupted by a signal");
    if (status == KVT_OK)
        status = tell(options, question, journal, answer_is_no, err);
    if (status != KVT_OK)
        tell_kept(options, question, journal);
    sweep_journal_close(journal);
    return status;
}

static kvt_status sweep_here(const struct options *options, struct sweep_question *question,
                             struct sweep_run_options *run, bool *answer_is_no,
                             struct kvt_error *err)
{
    unsigned threads = run->jobs * run->threads;
    kvt_status status = sweep_look(question, threads < CLI_THREADS_MAX ? threads : CLI_THREADS_MAX,
                                   options->quiet, err);

    if (status != KVT_OK)
        return status;
    return options->dry_run ? sweep_dry(question, run, options->json, err)
                            : run_here(options, question, run, answer_is_no, err);
}

/* ---- Alone, or as one rank of several ----------------------------------------------------------
 */

static kvt_status work(const struct options *options, struct kvt_arena *arena,
                       struct sweep_team *team, uint32_t shard, uint32_t shards, bool *answer_is_no,
                       struct kvt_error *err)
{
    struct sweep_question question = {.shard = shard, .shard_count = shards};
    struct sweep_run_options run = {
        .threads = (unsigned)options->threads, .quiet = options->quiet, .team = team};
    kvt_status status = gather(options, arena, &question, err);

    run.jobs = options->jobs != NOT_GIVEN ? (unsigned)options->jobs
               : team->transport != NULL  ? 1
                                          : own_cpus();
    if (run.jobs * run.threads > CLI_THREADS_MAX)
        run.jobs = CLI_THREADS_MAX / run.threads;
    if (status == KVT_OK)
        status = cli_cache_dir(options->cache, arena, &run.cache_dir, err);
    if (team->rank == 0)
        return status == KVT_OK ? sweep_here(options, &question, &run, answer_is_no, err) : status;
    if (status == KVT_OK)
        return sweep_serve(&question, &run, err);
    /* Rank 0 tells it, for it may be this machine's fault alone. */
    struct sweep_message message = {.verb = SWEEP_FAIL, .text = err->message};
    (void)!sweep_team_send(team, 0, &message, NULL);
    return status;
}

static int sweep(const struct options *options, uint32_t shard, uint32_t shards)
{
    struct kvt_error err;
    struct kvt_arena *arena = kvt_arena_new(1 << 18);
    struct sweep_team team = {.rank_count = 1};
    bool answer_is_no = false;
    int exit_code = CLI_DONE;
    kvt_status status = arena != NULL ? KVT_OK : kvt_fail_nomem(&err, "a sweep");

    /* Ranks that were given a shard each know nothing of each other. */
    if (status == KVT_OK && (options->mpi || (shards == 1 && sweep_team_is_launched())))
        status = sweep_team_begin(&team, &err);
    cli_catch_signals(); /* behind MPI's own */
    if (status == KVT_OK)
        status = work(options, arena, &team, shard, shards, &answer_is_no, &err);
    if (status != KVT_OK && team.rank == 0)
        exit_code = cli_fail(&err);
    else if (answer_is_no)
        exit_code = CLI_NO;
    kvt_arena_free(arena);
    /* Whoever is in the middle of a run would hear of its end too late. */
    if (status != KVT_OK && team.rank == 0 && team.has_handed_out)
        sweep_team_abandon(&team, exit_code);
    sweep_team_end(&team);
    return exit_code;
}

/* ---- Merging ------------------------------------------------------------------------------------
 */

static int merge(const struct options *options)
{
    struct kvt_error err;
    struct sweep_counts counts;
    kvt_status status =
        sweep_merge(&options->positional, options->out, options->json, &counts, &err);

    if (status == KVT_OK)
        status = write_report(options, &err);
    if (status != KVT_OK)
        return cli_fail(&err);
    tell_counts(options, &counts);
    return counts.ok_points == 0 ? CLI_NO : CLI_DONE;
}

/* An option that --merge leaves nothing to do for; NULL: none was given. */
static const char *idle_of_merge(const struct options *options)
{
    const struct run_sets *sets = &options->scenario;

    return options->varied.count > 0 ? "--vary"
           : options->zips.count > 0 ? "--zip"
           : options->points != NULL ? "--points"
           : options->shard != NULL  ? "--shard"
           : options->resume         ? "--resume"
           : options->dry_run        ? "--dry-run"
           : options->mpi            ? "--mpi"
           : sets->sets.count > 0    ? "--set"
           : sets->seed != NULL      ? "--seed"
           : sets->backend != NULL   ? "--backend"
           : sets->fidelity != NULL  ? "--fidelity"
                                     : NULL;
}

/* ---- The command --------------------------------------------------------------------------------
 */

static int check_limits(const struct options *options)
{
    if (options->merge && idle_of_merge(options) != NULL)
        return cli_malformed("sweep --merge: %s has no effect on what has been run; leave it out",
                             idle_of_merge(options));
    if (options->merge && options->positional.count == 0)
        return cli_malformed("sweep --merge: no folder given; it takes those of all shards");
    if (!options->merge && options->positional.count > 1)
        return cli_malformed("sweep: %zu scenarios given; it takes one, and --vary PATH=V1,V2,.. "
                             "says what varies",
                             options->positional.count);
    if (options->out == NULL && !options->dry_run)
        return cli_malformed("sweep: --out DIR is missing: where runs are kept as they end");
    if (options->out != NULL && options->out[0] == '\0')
        return cli_malformed("sweep --out: an empty name; a folder is expected");
    if (options->dry_run && options->resume)
        return cli_malformed("sweep --dry-run: nothing is run, so that --resume has no effect");
    if (options->scenario.sets.count + RUN_SETS_MORE > SWEEP_SETS_MAX)
        return cli_malformed("sweep --set: given %zu times, at most %d are taken",
                             options->scenario.sets.count, SWEEP_SETS_MAX - RUN_SETS_MORE);
    if (options->seeds < 1 || options->seeds > SWEEP_SEEDS_MAX)
        return cli_malformed("sweep --seeds: found %llu, expected 1 to %d",
                             (unsigned long long)options->seeds, SWEEP_SEEDS_MAX);
    if (options->jobs != NOT_GIVEN && (options->jobs < 1 || options->jobs > CLI_THREADS_MAX))
        return cli_malformed("sweep --jobs: found %llu, expected 1 to %d",
                             (unsigned long long)options->jobs, CLI_THREADS_MAX);
    return cli_check_threads("sweep", options->threads, CLI_THREADS_MAX);
}

static int run_command(const struct options *options)
{
    uint32_t shard = 0, shards = 1;
    int exit_code = check_limits(options);

    if (exit_code == CLI_DONE)
        exit_code =
            cli_parse_shard("sweep --shard", options->shard, SWEEP_SHARDS_MAX, &shard, &shards);
    if (exit_code != CLI_DONE)
        return exit_code;
    return options->merge ? merge(options) : sweep(options, shard, shards);
}

int kvt_cmd_sweep(const struct cli_command *command, int argc, char **argv)
{
    struct options options = {.seeds = 1, .jobs = NOT_GIVEN, .threads = 1};
    int exit_code = CLI_DONE;
    const struct cli_option table[] = {
        {"--vary", "PATH=V1,V2,..",
         "values of a key, or LOW:HIGH:STEP, LOW:HIGH:*FACTOR; repeatable", CLI_TEXTS,
         &options.varied},
        {"--zip", "PATH=V.. PATH=V..", "keys whose values go together; repeatable", CLI_GROUPS,
         &options.zips},
        {"--points", "FILE.csv", "a row a point, below a header of dotted paths", CLI_TEXT,
         &options.points},
        {"--seeds", "N", "runs each point on N seeds, from the scenario's own on (1)", CLI_COUNT,
         &options.seeds},
        RUN_SETS_OPTIONS(options.scenario),
        CLI_PLUGIN_OPTION,
        {"--out", "DIR", "keeps runs there as they end, then results.csv, .json and report.html",
         CLI_TEXT, &options.out},
        {"--resume", NULL, "goes on with the sweep in DIR; begins one where none is", CLI_FLAG,
         &options.resume},
        {"--shard", "I/N", "every Nth point from the Ith on, in a DIR of its own", CLI_TEXT,
         &options.shard},
        {"--merge", NULL, "DIR.. of all shards into results in --out DIR", CLI_FLAG,
         &options.merge},
        {"--mpi", NULL, "shares the points among the ranks that mpirun or srun started", CLI_FLAG,
         &options.mpi},
        {"--jobs", "N", "runs at once (CPUs; with --mpi 1, a rank); never changes a result",
         CLI_COUNT, &options.jobs},
        {"--threads", "N", "threads of each run (1); never changes a result", CLI_COUNT,
         &options.threads},
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &options.cache},
        {"--dry-run", NULL, "points, time and memory; writes nothing", CLI_FLAG, &options.dry_run},
        {"--no-report", NULL, "without report.html, which kvtide report can make later", CLI_FLAG,
         &options.no_report},
        {"--json", NULL, "prints results.json instead of the last line", CLI_FLAG, &options.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &options.quiet},
    };
    const size_t option_count = sizeof table / sizeof table[0];

    if (cli_parse(command, argc, argv, table, option_count, 0, DIRS_MAX, &options.positional,
                  &exit_code))
        exit_code = run_command(&options);
    cli_parsed_free(table, option_count, &options.positional);
    return exit_code;
}
