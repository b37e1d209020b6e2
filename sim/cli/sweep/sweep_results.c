/* sweep_results.c -- question and records into files, whoever ran what. */
#include "sweep_results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "kvt/json.h"

struct files {
    struct kvt_outfile *csv, *runs, *json;
};

struct writing {
    const struct sweep_results *results;
    struct sweep_table table;
    struct kvt_arena *arena;
    struct sweep_record *records;  /* [seed_count] of the point in hand, and so are these: */
    cJSON **trees;                 /* [seed_count] */
    double *metrics;               /* [seed_count][metric_count] */
    double *column;                /* [seed_count] of one metric */
    struct kvt_estimate *estimate; /* [metric_count] */
};

/* ---- A point -------------------------------------------------------------------------------- */

static const struct sweep_journal *journal_of(const struct sweep_results *results, size_t run)
{
    for (size_t i = 0; i < results->journal_count; i++) {
        if (sweep_journal_has(results->journals[i], run))
            return results->journals[i];
    }
    return NULL;
}

static kvt_status read_record(struct writing *writing, size_t point, size_t seed,
                              struct kvt_error *err)
{
    size_t run = point * writing->table.seed_count + seed;
    const struct sweep_journal *journal = journal_of(writing->results, run);

    if (journal == NULL)
        return kvt_fail(err, KVT_ERR_INTERNAL, "sweep", "run %zu has no record", run);
    kvt_status status = sweep_journal_read(journal, run, &writing->trees[seed], err);
    if (status == KVT_OK)
        status = sweep_record_read(writing->trees[seed], sweep_journal_dir(journal),
                                   writing->metrics + seed * writing->table.metric_count,
                                   &writing->records[seed], err);
    return status;
}

static void estimate(struct writing *writing)
{
    const struct sweep_table *table = &writing->table;

    for (size_t m = 0; m < table->metric_count; m++) {
        for (size_t s = 0; s < table->seed_count; s++)
            writing->column[s] = writing->metrics[s * table->metric_count + m];
        kvt_estimate_of(writing->column, table->seed_count, &writing->estimate[m]);
    }
}

static void sum_up(struct writing *writing, size_t point, struct sweep_row *row)
{
    const struct sweep_record *records = writing->records;
    size_t seeds = writing->table.seed_count;

    *row = (struct sweep_row){.point = point,
                              .message = "",
                              .basis = records[0].basis,
                              .scenario_hash = records[0].scenario_hash,
                              .decision_hash = seeds == 1 ? records[0].decision_hash : 0,
                              .records = records};
    for (size_t s = 0; s < seeds; s++) {
        if (records[s].outcome > row->outcome) {
            row->outcome = records[s].outcome;
            row->message = records[s].message;
        }
        if (row->message[0] == '\0')
            row->message = records[s].message;
        row->is_bound = row->is_bound || records[s].is_bound;
        if (seeds > 1 && records[s].decision_hash != 0)
            row->decision_hash = kvt_chain64(row->decision_hash, records[s].decision_hash);
        kvt_badge_join(&row->badge, &records[s].badge);
    }
    if (row->outcome == SWEEP_OK) {
        estimate(writing);
        row->estimate = writing->estimate;
    }
}

static void count_row(const struct sweep_row *row, struct sweep_counts *counts)
{
    counts->points++;
    if (row->outcome == SWEEP_OK) {
        counts->ok_points++;
        return;
    }
    if (counts->failed_points++ == 0)
        (void)snprintf(counts->first_message, sizeof counts->first_message, "point %zu %s: %s",
                       row->point, row->outcome == SWEEP_REFUSED ? "is refused" : "failed",
                       row->message);
}

static void forget_point(struct writing *writing)
{
    for (size_t s = 0; s < writing->table.seed_count; s++) {
        cJSON_Delete(writing->trees[s]);
        writing->trees[s] = NULL;
    }
}

/* ---- The files --------------------------------------------------------------------------------
 */

static kvt_status write_point(struct writing *writing, size_t point, const struct files *files,
                              struct sweep_counts *counts, struct kvt_error *err)
{
    const struct sweep_table *table = &writing->table;
    struct sweep_row row;
    kvt_status status = KVT_OK;

    for (size_t s = 0; status == KVT_OK && s < table->seed_count; s++)
        status = read_record(writing, point, s, err);
    if (status == KVT_OK) {
        sum_up(writing, point, &row);
        count_row(&row, counts);
        sweep_csv_row(kvt_outfile_stream(files->csv), table, &row);
        if (files->runs != NULL)
            sweep_csv_runs_rows(kvt_outfile_stream(files->runs), table, &row);
        status = sweep_json_row(kvt_outfile_stream(files->json), table, &row, err);
    }
    forget_point(writing);
    return status;
}

static kvt_status open_file(const char *dir, const char *name, struct kvt_outfile **out,
                            struct kvt_error *err)
{
    char path[4200];
    int length = snprintf(path, sizeof path, "%s/%s", dir, name);

    if (length < 0 || (size_t)length >= sizeof path)
        return kvt_fail(err, KVT_ERR_INVALID, "--out", "the folder's name is too long");
    return kvt_outfile_open(path, out, err);
}

static kvt_status open_files(const struct writing *writing, const char *dir, struct files *files,
                             struct kvt_error *err)
{
    kvt_status status = open_file(dir, "results.csv", &files->csv, err);

    if (status == KVT_OK && writing->table.seed_count > 1)
        status = open_file(dir, "runs.csv", &files->runs, err);
    return status == KVT_OK ? open_file(dir, "results.json", &files->json, err) : status;
}

/* What is NULL has been committed or never opened. */
static void discard_files(struct files *files)
{
    kvt_outfile_discard(files->csv);
    kvt_outfile_discard(files->runs);
    kvt_outfile_discard(files->json);
}

static kvt_status commit(struct kvt_outfile **file, struct kvt_error *err)
{
    struct kvt_outfile *whole = *file;

    *file = NULL;
    return whole != NULL ? kvt_outfile_commit(whole, err) : KVT_OK;
}

static kvt_status write_files(struct writing *writing, struct files *files,
                              struct sweep_counts *counts, struct kvt_error *err)
{
    const struct sweep_table *table = &writing->table;
    FILE *json = kvt_outfile_stream(files->json);

    sweep_csv_header(kvt_outfile_stream(files->csv), table);
    if (files->runs != NULL)
        sweep_csv_runs_header(kvt_outfile_stream(files->runs), table);
    kvt_status status = sweep_json_begin(json, table, err);
    for (size_t p = 0; status == KVT_OK && p < table->grid.point_count; p++)
        status = write_point(writing, p, files, counts, err);
    sweep_json_end(json, counts);
    if (status == KVT_OK)
        status = commit(&files->csv, err);
    if (status == KVT_OK)
        status = commit(&files->runs, err);
    return status == KVT_OK ? commit(&files->json, err) : status;
}

/* ---- Both -------------------------------------------------------------------------------------
 */

static void *array_of(struct writing *writing, size_t count, size_t bytes)
{
    return kvt_arena_array(writing->arena, count, bytes, _Alignof(max_align_t));
}

static kvt_status prepare(struct writing *writing, struct kvt_error *err)
{
    struct sweep_table *table = &writing->table;
    const cJSON *seeds = NULL;
    const char *where = sweep_journal_dir(writing->results->journals[0]);
    size_t s = 0;

    table->header = writing->results->header;
    table->metrics = kvt_metric_docs(&table->metric_count);
    kvt_status status = sweep_grid_from_json(kvt_json_find(table->header, "axes"), where,
                                             writing->arena, &table->grid, err);
    if (status == KVT_OK)
        status = kvt_json_get_array(table->header, where, "seeds", true, &seeds, err);
    if (status != KVT_OK)
        return status;
    table->seed_count = (size_t)cJSON_GetArraySize(seeds);
    double *numbers = array_of(writing, table->seed_count + 1, sizeof *numbers);
    writing->records = array_of(writing, table->seed_count + 1, sizeof *writing->records);
    writing->trees = array_of(writing, table->seed_count + 1, sizeof(cJSON *));
    writing->column = array_of(writing, table->seed_count + 1, sizeof *writing->column);
    writing->metrics =
        array_of(writing, (table->seed_count + 1) * table->metric_count, sizeof(double));
    writing->estimate = array_of(writing, table->metric_count, sizeof *writing->estimate);
    if (numbers == NULL || writing->records == NULL || writing->trees == NULL ||
        writing->column == NULL || writing->metrics == NULL || writing->estimate == NULL)
        return kvt_fail_nomem(err, "results");
    for (const cJSON *item = seeds->child; item != NULL; item = item->next)
        numbers[s++] = item->valuedouble;
    table->seeds = numbers;
    return KVT_OK;
}

static kvt_status print_file(const char *dir, struct kvt_error *err)
{
    char path[4200], block[4096];
    FILE *stream = NULL;
    size_t got;

    (void)snprintf(path, sizeof path, "%s/results.json", dir);
    kvt_status status = kvt_file_open(path, &stream, err);
    if (status != KVT_OK)
        return status;
    while ((got = fread(block, 1, sizeof block, stream)) > 0)
        fwrite(block, 1, got, stdout);
    (void)fclose(stream);
    return KVT_OK;
}

kvt_status sweep_results_write(const struct sweep_results *results, const char *dir,
                               bool print_json, struct sweep_counts *counts, struct kvt_error *err)
{
    struct writing writing = {.results = results, .arena = kvt_arena_new(1 << 16)};
    struct files files = {NULL, NULL, NULL};
    kvt_status status =
        writing.arena != NULL ? prepare(&writing, err) : kvt_fail_nomem(err, "results");

    *counts = (struct sweep_counts){.points = 0};
    if (status == KVT_OK)
        status = open_files(&writing, dir, &files, err);
    if (status == KVT_OK)
        status = write_files(&writing, &files, counts, err);
    discard_files(&files);
    kvt_arena_free(writing.arena);
    return status == KVT_OK && print_json ? print_file(dir, err) : status;
}
