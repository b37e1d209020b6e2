/* trace_requests.h -- kvtide trace on traces of requests. */
#ifndef KVT_CLI_TRACE_REQUESTS_H
#define KVT_CLI_TRACE_REQUESTS_H

#include "trace.h"

/* What only they are asked; both actions have it. */
struct trace_requests_question {
    const char *format, *window, *rate_scale; /* NULL: not given */
    uint64_t seed;                            /* TRACE_NOT_GIVEN */
};

/* Rows of an action's table of options. */
#define TRACE_REQUESTS_OPTIONS(question)                                                           \
    {"--format", "FORMAT", "the files' format; without it, by their content", CLI_TEXT,            \
     &(question).format},                                                                          \
        {"--window", "FROM:TO", "seconds after the first arrival; either may be left out",         \
         CLI_TEXT, &(question).window},                                                            \
        {"--rate-scale", "X", "how many times faster than recorded", CLI_TEXT,                     \
         &(question).rate_scale},                                                                  \
    {                                                                                              \
        "--seed", "N", "for formats that give rates only (servegen); 1", CLI_COUNT,                \
            &(question).seed                                                                       \
    }

bool trace_requests_are_asked(const struct trace_requests_question *question);

/* To be counted, or to be written. */
struct kvt_trace;
KVT_CHECKED kvt_status trace_requests_open(const struct trace_requests_question *question,
                                           const char *path, bool counts, struct kvt_trace **out,
                                           struct kvt_error *err);

/* Nothing is printed before every file has been read. */
KVT_CHECKED kvt_status trace_requests_stats(const struct trace_requests_question *question,
                                            const char *const *paths, size_t count, bool json,
                                            struct kvt_error *err);

/* Into kvtide's own CSV. */
KVT_CHECKED kvt_status trace_requests_convert(const struct trace_requests_question *question,
                                              const char *path, const char *to, bool quiet,
                                              struct kvt_error *err);

#endif
