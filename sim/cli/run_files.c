/* run_files.c -- what a run writes into a folder. */
#include "run_files.h"

#include <stdio.h>
#include <unistd.h>

#include "kvt/report.h"
#include "report/report.h"

static kvt_status open_out(const struct run_files *files, const char *name,
                           struct kvt_outfile **out, struct kvt_error *err)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", files->dir, name);

    if (length < 0 || (size_t)length >= sizeof path)
        return kvt_fail(err, KVT_ERR_INVALID, "--out", "the folder's name is too long");
    return kvt_outfile_open(path, out, err);
}

void run_files_interval(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    const struct run_files *files = context;
    kvt_report_timeline_row(kvt_outfile_stream(files->timeline), interval, stratum_count);
}

kvt_status run_files_begin(struct run_files *files, struct kvt_error *err)
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
    struct kvt_outfile *requests = NULL, *itl = NULL, *result = NULL, *log = NULL;
    kvt_status status;

    if (!files->dir)
        return KVT_OK;
    status = open_out(files, "requests.csv", &requests, err);
    if (status == KVT_OK)
        status = open_out(files, "itl.csv", &itl, err);
    if (status == KVT_OK)
        status = open_out(files, "run.log", &log, err);
    if (status == KVT_OK)
        status = open_out(files, "result.json", &result, err);
    if (status == KVT_OK) {
        kvt_report_requests_csv(run, kvt_outfile_stream(requests));
        kvt_report_itl_csv(run, kvt_outfile_stream(itl));
        fprintf(kvt_outfile_stream(log), "wall_s %.3f\nsimulated_s %.3f\nevents %llu\n", wall_s,
                (double)run->end_ns * 1e-9, (unsigned long long)run->events);
        fputs(result_text, kvt_outfile_stream(result));
        remove_old_result(files);
        struct kvt_outfile **all[] = {&files->timeline, &requests, &itl, &log, &result};
        for (size_t i = 0; i < sizeof all / sizeof all[0] && status == KVT_OK; i++) {
            status = kvt_outfile_commit(*all[i], err);
            *all[i] = NULL;
        }
    }
    if (status == KVT_OK && !files->leaves_report)
        status = report_write(files->dir, "result.json", err);
    kvt_outfile_discard(requests);
    kvt_outfile_discard(itl);
    kvt_outfile_discard(log);
    kvt_outfile_discard(result);
    return status;
}

void run_files_end(struct run_files *files, kvt_status status)
{
    kvt_outfile_discard(files->timeline);
    files->timeline = NULL;
    if (status != KVT_OK && files->made_dir)
        (void)rmdir(files->dir);
}
