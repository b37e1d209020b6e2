/* sweep_csv.c -- results as R, pandas and DuckDB read them: one row a point, or a run. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kvt/json.h"
#include "sweep_results.h"

/* Quoted where it has to be, which takes a quote inside twice. */
static void put_text(FILE *stream, const char *text)
{
    size_t length = strlen(text);
    bool is_plain = strcspn(text, ",\"\r\n") == length &&
                    (length == 0 || (text[0] != ' ' && text[length - 1] != ' '));

    if (is_plain) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
    fputc('"', stream);
}

static void put_number(FILE *stream, double value)
{
    char text[32];

    fputc(',', stream);
    if (!isfinite(value))
        return;
    kvt_json_print_number(value, text);
    fputs(text, stream);
}

static void put_hash(FILE *stream, uint64_t hash, bool is_known)
{
    if (is_known)
        fprintf(stream, ",%016" PRIx64, hash);
    else
        fputc(',', stream);
}

/* ---- Both tables ----------------------------------------------------------------------------- */

static void put_axes_header(FILE *stream, const struct sweep_grid *grid)
{
    size_t group = 0;

    fputs("point", stream);
    for (size_t a = 0; a < grid->axis_count; a++) {
        fputc(',', stream);
        put_text(stream, sweep_grid_axis(grid, a, &group)->path);
    }
}

static void put_axes(FILE *stream, const struct sweep_grid *grid, size_t point)
{
    fprintf(stream, "%zu", point);
    for (size_t a = 0; a < grid->axis_count; a++) {
        const char *value = sweep_grid_value(grid, point, a);
        fputc(',', stream);
        put_text(stream, value != NULL ? value : "");
    }
}

static void put_facts_header(FILE *stream)
{
    fputs(",status,message,bound,basis,scenario_hash,decision_hash", stream);
}

static void put_facts(FILE *stream, enum sweep_outcome outcome, const char *message, bool is_bound,
                      const char *basis, uint64_t scenario_hash, uint64_t decision_hash)
{
    bool has_run = outcome == SWEEP_OK;

    fprintf(stream, ",%s,", sweep_outcome_name(outcome));
    put_text(stream, message);
    fprintf(stream, ",%s,", !has_run ? "" : is_bound ? "true" : "false");
    put_text(stream, basis);
    put_hash(stream, scenario_hash, outcome != SWEEP_REFUSED);
    put_hash(stream, decision_hash, has_run && decision_hash != 0);
}

/* ---- A row a point -----------------------------------------------------------------------------
 */

void sweep_csv_header(FILE *stream, const struct sweep_table *table)
{
    put_axes_header(stream, &table->grid);
    put_facts_header(stream);
    fputs(",seeds", stream);
    for (size_t m = 0; m < table->metric_count; m++) {
        const char *name = table->metrics[m].name;
        fprintf(stream, ",%s", name);
        if (table->seed_count > 1)
            fprintf(stream, ",%s_ci95_low,%s_ci95_high", name, name);
    }
    fputc('\n', stream);
}

void sweep_csv_row(FILE *stream, const struct sweep_table *table, const struct sweep_row *row)
{
    const struct kvt_estimate none = {(double)NAN, (double)NAN, (double)NAN};

    put_axes(stream, &table->grid, row->point);
    put_facts(stream, row->outcome, row->message, row->is_bound, row->basis, row->scenario_hash,
              row->decision_hash);
    fprintf(stream, ",%zu", table->seed_count);
    for (size_t m = 0; m < table->metric_count; m++) {
        const struct kvt_estimate *estimate = row->estimate != NULL ? &row->estimate[m] : &none;
        put_number(stream, estimate->mean);
        if (table->seed_count > 1) {
            put_number(stream, estimate->low);
            put_number(stream, estimate->high);
        }
    }
    fputc('\n', stream);
}

/* ---- A row a run ----------------------------------------------------------------------------- */

void sweep_csv_runs_header(FILE *stream, const struct sweep_table *table)
{
    put_axes_header(stream, &table->grid);
    fputs(",seed", stream);
    put_facts_header(stream);
    for (size_t m = 0; m < table->metric_count; m++)
        fprintf(stream, ",%s", table->metrics[m].name);
    fputc('\n', stream);
}

void sweep_csv_runs_rows(FILE *stream, const struct sweep_table *table, const struct sweep_row *row)
{
    for (size_t s = 0; s < table->seed_count; s++) {
        const struct sweep_record *record = &row->records[s];
        put_axes(stream, &table->grid, row->point);
        put_number(stream, table->seeds[s]);
        put_facts(stream, record->outcome, record->message, record->is_bound, record->basis,
                  record->scenario_hash, record->decision_hash);
        for (size_t m = 0; m < table->metric_count; m++)
            put_number(stream, record->metrics != NULL ? record->metrics[m] : (double)NAN);
        fputc('\n', stream);
    }
}
