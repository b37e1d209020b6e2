/* run_files.c -- what a run writes into a folder. */
#include "run_files.h"

#include <stdio.h>
#include <unistd.h>

#include "kvt/report.h"
#include "report/report.h"

enum {
    PATH_BYTES = 4096
};

static kvt_status path_of(const struct run_files *files, const char *name, char out[PATH_BYTES],
                          struct kvt_error *err)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", files->dir, name);

    if (length < 0 || length >= PATH_BYTES)
        return kvt_fail(err, KVT_ERR_INVALID, "--out", "the folder's name is too long");
    return KVT_OK;
}

static kvt_status open_out(const struct run_files *files, const char *name,
                           struct kvt_outfile **out, struct kvt_error *err)
{
    char path[PATH_BYTES];
    kvt_status status = path_of(files, name, path, err);

    return status == KVT_OK ? kvt_outfile_open(path, out, err) : status;
}

static kvt_status begin_openmetrics(struct run_files *files, const struct kvt_scenario *scenario,
                                    struct kvt_error *err)
{
    char path[PATH_BYTES];
    kvt_status status = path_of(files, "timeline.om", path, err);

    return status == KVT_OK ? openmetrics_begin(path, scenario, &files->openmetrics, err) : status;
}

void run_files_interval(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    const struct run_files *files = context;
    kvt_report_timeline_row(kvt_outfile_stream(files->timeline), interval, stratum_count);
    openmetrics_interval(files->openmetrics, interval);
    if (files->perfetto)
        perfetto_interval(files->perfetto, interval);
}

const struct kvt_observer *run_files_observer(const struct run_files *files)
{
    return files->perfetto ? perfetto_observer(files->perfetto) : NULL;
}

static kvt_status begin_perfetto(struct run_files *files, const struct kvt_scenario *scenario,
                                 struct kvt_error *err)
{
    kvt_status status = open_out(files, "perfetto.json", &files->perfetto_file, err);

    if (status != KVT_OK)
        return status;
    return perfetto_begin(kvt_outfile_stream(files->perfetto_file), scenario,
                          files->perfetto_from_s, files->perfetto_to_s, files->perfetto_events,
                          &files->perfetto, err);
}

kvt_status run_files_begin(struct run_files *files, const struct kvt_scenario *scenario,
                           struct kvt_error *err)
{
    kvt_status status;

    if (!files->dir)
        return KVT_OK;
    files->made_dir = access(files->dir, F_OK) != 0;
    status = kvt_mkdirs(files->dir, err);
    if (status == KVT_OK)
        status = open_out(files, "timeline.csv", &files->timeline, err);
    if (status == KVT_OK)
        kvt_report_timeline_header(kvt_outfile_stream(files->timeline));
    if (status == KVT_OK)
        status = begin_openmetrics(files, scenario, err);
    if (status == KVT_OK && files->wants_perfetto)
        status = begin_perfetto(files, scenario, err);
    return status;
}

/* Files of an earlier run that are about to be replaced are no part of its result. */
static void remove_old_result(const struct run_files *files)
{
    char path[4096];

    report_remove(files->dir);
    if (snprintf(path, sizeof path, "%s/result.json", files->dir) < (int)sizeof path)
        (void)remove(path);
}

kvt_status run_files_write(struct run_files *files, const struct kvt_run *run,
                           const char *result_text, double wall_s, struct kvt_error *err)
{
    struct kvt_outfile *requests = NULL, *itl = NULL, *result = NULL, *log = NULL,
                       *openmetrics = NULL;
    kvt_status status;

    if (!files->dir)
        return KVT_OK;
    status = open_out(files, "requests.csv", &requests, err);
    if (status == KVT_OK)
        status = open_out(files, "itl.csv", &itl, err);
    if (status == KVT_OK)
        status = open_out(files, "run.log", &log, err);
    if (status == KVT_OK)
        status = open_out(files, "timeline.om", &openmetrics, err);
    if (status == KVT_OK)
        status = openmetrics_write(files->openmetrics, run, kvt_outfile_stream(openmetrics), err);
    if (status == KVT_OK && files->perfetto)
        status = perfetto_end(files->perfetto, run, &files->perfetto_account, err);
    if (status == KVT_OK)
        status = open_out(files, "result.json", &result, err);
    if (status == KVT_OK) {
        kvt_report_requests_csv(run, kvt_outfile_stream(requests));
        kvt_report_itl_csv(run, kvt_outfile_stream(itl));
        fprintf(kvt_outfile_stream(log), "wall_s %.3f\nsimulated_s %.3f\nevents %llu\n", wall_s,
                (double)run->end_ns * 1e-9, (unsigned long long)run->events);
        fputs(result_text, kvt_outfile_stream(result));
        remove_old_result(files);
        struct kvt_outfile **all[] = {
            &files->timeline, &openmetrics, &files->perfetto_file, &requests, &itl, &log, &result};
        for (size_t i = 0; i < sizeof all / sizeof all[0] && status == KVT_OK; i++) {
            if (*all[i])
                status = kvt_outfile_commit(*all[i], err);
            *all[i] = NULL;
        }
    }
    if (status == KVT_OK && !files->leaves_report)
        status = report_write(files->dir, "result.json", err);
    kvt_outfile_discard(requests);
    kvt_outfile_discard(itl);
    kvt_outfile_discard(log);
    kvt_outfile_discard(openmetrics);
    kvt_outfile_discard(result);
    return status;
}

void run_files_end(struct run_files *files, kvt_status status)
{
    kvt_outfile_discard(files->timeline);
    kvt_outfile_discard(files->perfetto_file);
    openmetrics_free(files->openmetrics);
    perfetto_free(files->perfetto);
    files->timeline = files->perfetto_file = NULL;
    files->openmetrics = NULL;
    files->perfetto = NULL;
    if (status != KVT_OK && files->made_dir)
        (void)rmdir(files->dir);
}
