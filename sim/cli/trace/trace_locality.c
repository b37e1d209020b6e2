/* trace_locality.c -- trace stats of selections: when rows come again, which pages they lie in, and
 * the law that is nearest. */
#include "trace_locality.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/json.h"

static const double quantiles[] = {0.5, 0.9, 0.99};
static const char *const quantile_names[] = {"p50", "p90", "p99"};
enum {
    QUANTILES = sizeof quantiles / sizeof quantiles[0]
};

struct work {
    const struct kvt_kvsel *file;
    bool (*tell)(void *context, double fraction);
    void *context;
};

/* ---- Counting -------------------------------------------------------------------------------- */

static kvt_status tell(const struct work *work, double fraction, struct kvt_error *err)
{
    if (work->tell == NULL || work->tell(work->context, fraction))
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INTERRUPTED, "trace stats", "interrupted");
}

/* The first `tokens` selections of a stream. */
static kvt_status add_stream(const struct work *work, const struct kvt_kvsel_stream *stream,
                             enum figures_parts parts, uint32_t tokens, struct figures *figures,
                             struct kvt_error *err)
{
    const struct kvt_kvsel_shape *shape = &stream->shape;
    const struct kvt_kvsel_map as_it_is = {.old_rows = shape->first_rows,
                                           .stream_rows = shape->first_rows};
    if (tokens == 0)
        return KVT_OK;
    uint32_t rows_max = kvt_kvsel_visible(shape, tokens - 1);
    struct figures_meter *meter = NULL;
    kvt_status status = figures_meter_new(parts, shape->top_k, rows_max,
                                          figures_page_rows(shape->tokens_per_row), &meter, err);
    uint64_t *set = status == KVT_OK ? malloc(kvt_row_words(rows_max) * sizeof *set) : NULL;
    if (status == KVT_OK && set == NULL)
        status = kvt_fail_nomem(err, "a selection");
    for (uint32_t token = 0; status == KVT_OK && token < tokens; token++) {
        const struct kvt_kvsel_place place = {.token = token};
        uint32_t visible = kvt_kvsel_visible(shape, token);
        kvt_kvsel_read(stream, &place, 1, &as_it_is, &set, kvt_row_words(visible));
        status = figures_take(meter, set, visible, err);
        if (status == KVT_OK && token % 256 == 0)
            status = tell(work, -1, err);
    }
    if (status == KVT_OK)
        figures_add(meter, figures);
    figures_meter_free(meter);
    free(set);
    return status;
}

/* Of at most three streams the first, the last and what lies between, that have tokens enough which
 * select a part; all for as many tokens as the shortest of them has. */
static void choose_sample(const struct kvt_kvsel *file, struct nearest_sample *sample)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(file);
    uint32_t streams = header->request_count * header->selector_count;
    uint32_t wanted = streams < NEAREST_STREAMS ? streams : NEAREST_STREAMS;
    *sample = (struct nearest_sample){
        .top_k = header->top_k, .selector_count = header->selector_count, .tokens = NEAREST_TOKENS};
    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t s = wanted > 1 ? (uint32_t)((uint64_t)i * (streams - 1) / (wanted - 1)) : 0;
        uint32_t request = s / header->selector_count, selector = s % header->selector_count;
        const struct kvt_kvsel_stream *stream = kvt_kvsel_stream_of(file, request, selector);
        if (stream->shape.first_rows <= header->top_k || stream->token_count < NEAREST_TOKENS_MIN)
            continue;
        if (stream->token_count < sample->tokens)
            sample->tokens = stream->token_count;
        sample->streams[sample->stream_count].request = request;
        sample->streams[sample->stream_count].selector = selector;
        sample->streams[sample->stream_count].first_rows = stream->shape.first_rows;
        sample->streams[sample->stream_count].tokens_per_row = stream->shape.tokens_per_row;
        sample->stream_count++;
    }
}

static kvt_status find_law(const struct work *work, struct trace_locality *out,
                           struct kvt_error *err)
{
    struct nearest_sample sample;
    struct figures figures = {0};
    kvt_status status = KVT_OK;
    choose_sample(work->file, &sample);
    out->sampled_streams = sample.stream_count;
    out->sampled_tokens = sample.tokens;
    for (size_t i = 0; status == KVT_OK && i < sample.stream_count; i++)
        status = add_stream(
            work,
            kvt_kvsel_stream_of(work->file, sample.streams[i].request, sample.streams[i].selector),
            FIGURES_ALL, sample.tokens, &figures, err);
    if (status == KVT_OK && sample.stream_count > 0)
        status = nearest_laws(&sample, &figures, work->tell, work->context, out->laws, err);
    return status;
}

kvt_status trace_locality_of(const struct kvt_kvsel *file,
                             bool (*on_progress)(void *context, double fraction), void *context,
                             struct trace_locality *out, struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(file);
    struct work work = {.file = file, .tell = on_progress, .context = context};
    kvt_status status = KVT_OK;
    *out = (struct trace_locality){.top_k = header->top_k};
    for (uint32_t r = 0; r < header->request_count; r++) {
        for (uint32_t s = 0; status == KVT_OK && s < header->selector_count; s++) {
            const struct kvt_kvsel_stream *stream = kvt_kvsel_stream_of(file, r, s);
            status =
                add_stream(&work, stream, FIGURES_ROWS, stream->token_count, &out->figures, err);
        }
        if (status == KVT_OK)
            status = tell(&work, (double)(r + 1) / header->request_count, err);
        if (status != KVT_OK)
            return status;
    }
    return find_law(&work, out, err);
}

/* ---- Figures --------------------------------------------------------------------------------- */

static double share(const struct trace_locality *locality, uint64_t rows)
{
    const struct figures *figures = &locality->figures;
    return figures->selected > 0 ? (double)rows / (double)figures->selected : (double)NAN;
}

/* The depth over k within which such a share of the rows that come again does; NaN: beyond all. */
static double depth_of(const struct trace_locality *locality, double quantile)
{
    const struct figures *figures = &locality->figures;
    double due = quantile * (double)(figures->selected - figures->first), within = 0;
    for (size_t i = 0; i < FIGURES_DEPTHS; i++) {
        within += (double)figures->depths[i];
        if (within >= due && within > 0)
            return figures_depth(i);
    }
    return (double)NAN;
}

static size_t ages_used(const struct figures *figures)
{
    size_t used = FIGURES_AGES;
    while (used > 0 && figures->ages[used - 1] == 0)
        used--;
    return used;
}

/* "4-7" */
static void age_name(size_t i, char name[32])
{
    uint64_t from = UINT64_C(1) << i;
    if (i == 0)
        (void)snprintf(name, 32, "1");
    else
        (void)snprintf(name, 32, "%" PRIu64 "-%" PRIu64, from, 2 * from - 1);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_ages(const struct trace_locality *locality)
{
    size_t used = ages_used(&locality->figures);
    printf("  selected rows by tokens since they last were, shares\n");
    for (size_t from = 0; from <= used; from += 6) { /* the last is those never before */
        char name[32];
        printf(" ");
        for (size_t i = from; i < from + 6 && i <= used; i++) {
            age_name(i, name);
            printf(" %11s", i < used ? name : "never");
        }
        printf("\n ");
        for (size_t i = from; i < from + 6 && i <= used; i++)
            printf(" %11.4f",
                   share(locality, i < used ? locality->figures.ages[i] : locality->figures.first));
        (void)putchar('\n');
    }
}

static void print_law(const struct trace_locality *locality)
{
    if (locality->sampled_streams == 0) {
        printf("  nearest law     not told: no stream has %d tokens that select a part\n",
               NEAREST_TOKENS_MIN);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        const struct nearest_law *law = &locality->laws[i];
        printf("  %-15s ", i == 0 ? "nearest law" : "second");
        if (isnan(law->distance))
            printf("none with such a k\n");
        else
            printf("score, set %s, %s; distance %.4f\n", law->set, law->preset, law->distance);
    }
}

void trace_locality_print(const struct trace_locality *locality)
{
    const struct figures *figures = &locality->figures;
    if (figures->selections == 0)
        return;
    print_ages(locality);
    printf("  stack distance  ");
    for (size_t q = 0; q < QUANTILES; q++) {
        double depth = depth_of(locality, quantiles[q]);
        if (isnan(depth))
            printf("%s more", quantile_names[q]);
        else
            printf("%s %.2f", quantile_names[q], depth);
        printf("%s", q + 1 < QUANTILES ? ", " : " k, of rows that come again\n");
    }
    printf("  pages           %.4f a row; hottest 1, 10, 50 %% have %.3f %.3f %.3f\n",
           share(locality, figures->pages), share(locality, figures->hot[0]),
           share(locality, figures->hot[1]), share(locality, figures->hot[2]));
    print_law(locality);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool add_ages(cJSON *object, const struct trace_locality *locality)
{
    cJSON *ages = kvt_json_add_object(object, "tokens_since_selected");
    bool is_whole = ages != NULL;
    for (size_t i = 0; is_whole && i < ages_used(&locality->figures); i++) {
        char name[32];
        age_name(i, name);
        is_whole = kvt_json_add_number(ages, name, share(locality, locality->figures.ages[i]));
    }
    return is_whole && kvt_json_add_number(ages, "never", share(locality, locality->figures.first));
}

static bool add_depths(cJSON *object, const struct trace_locality *locality)
{
    cJSON *depths = kvt_json_add_object(object, "stack_distance_over_k");
    bool is_whole = depths != NULL;
    for (size_t q = 0; is_whole && q < QUANTILES; q++)
        is_whole = kvt_json_add_number(depths, quantile_names[q], depth_of(locality, quantiles[q]));
    return is_whole;
}

static bool add_pages(cJSON *object, const struct trace_locality *locality)
{
    const struct figures *figures = &locality->figures;
    cJSON *pages = kvt_json_add_object(object, "pages");
    return pages != NULL &&
           kvt_json_add_number(pages, "touched_per_row", share(locality, figures->pages)) &&
           kvt_json_add_number(pages, "hottest_1_percent", share(locality, figures->hot[0])) &&
           kvt_json_add_number(pages, "hottest_10_percent", share(locality, figures->hot[1])) &&
           kvt_json_add_number(pages, "hottest_50_percent", share(locality, figures->hot[2]));
}

static bool add_laws(cJSON *object, const struct trace_locality *locality)
{
    cJSON *laws = cJSON_AddArrayToObject(object, "nearest_laws");
    bool is_whole = laws != NULL;
    for (size_t i = 0; is_whole && locality->sampled_streams > 0 && i < NEAREST_LAWS; i++) {
        cJSON *law = kvt_json_add_element(laws);
        is_whole = law != NULL && kvt_json_add_text(law, "law", "score") &&
                   kvt_json_add_text(law, "set", locality->laws[i].set) &&
                   kvt_json_add_text(law, "preset", locality->laws[i].preset) &&
                   kvt_json_add_number(law, "distance", locality->laws[i].distance);
    }
    return is_whole;
}

bool trace_locality_add(cJSON *object, const struct trace_locality *locality)
{
    return add_ages(object, locality) && add_depths(object, locality) &&
           add_pages(object, locality) && add_laws(object, locality);
}
