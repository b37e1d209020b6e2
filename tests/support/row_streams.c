/* row_streams.c -- rows that are read one after the other, for caches under test. */
#include "row_streams.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/rng.h"
#include "law_setting.h"

extern const struct kvt_law kvt_law_score;

const char *row_stream_name(enum row_stream_kind kind)
{
    static const char *const names[ROW_STREAM_KINDS] = {"zipf", "loop", "scans", "shifts",
                                                        "selections"};
    return names[kind];
}

/* Of weights 1, 1/2, 1/3 ..; in whole numbers. */
static uint32_t draw_zipf(struct kvt_rng *rng)
{
    enum {
        UNIT = 1 << 20
    };
    uint64_t sum = 0;

    for (uint32_t r = 0; r < ROW_STREAM_ROWS; r++)
        sum += UNIT / (r + 1);
    uint64_t at = kvt_rng_below(rng, sum);
    uint32_t rank = 0;
    for (; at >= UNIT / (rank + 1); rank++)
        at -= UNIT / (rank + 1);
    return rank;
}

static uint32_t row_of_rank(uint32_t rank, uint32_t turn)
{
    return (rank * 199 + turn * 37) % ROW_STREAM_ROWS; /* 199 is odd: each rank a row */
}

static void make_drawn(struct row_stream *stream, enum row_stream_kind kind, uint64_t seed)
{
    struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 77);
    uint32_t scanned = 0, scan_row = 0;

    stream->count = ROW_STREAM_LENGTH;
    for (uint32_t i = 0; i < ROW_STREAM_LENGTH; i++) {
        uint32_t row = row_of_rank(draw_zipf(&rng), kind == ROW_STREAM_SHIFTS ? i / 1000 : 0);
        if (kind == ROW_STREAM_LOOP)
            row = i % 100;
        if (kind == ROW_STREAM_SCANS && scanned == 0 && kvt_rng_below(&rng, 500) == 0)
            scanned = 150;
        if (scanned > 0) {
            row = scan_row++ % ROW_STREAM_ROWS;
            scanned--;
        }
        stream->rows[i] = row;
    }
}

static void make_selections(struct row_stream *stream, uint64_t seed)
{
    enum {
        TOP_K = 24,
        BEGIN = 200
    };
    struct law_setting setting;
    static uint32_t rows[ROW_STREAM_ROWS];

    law_setting_init(&setting, &kvt_law_score, TOP_K);
    setting.env.run_seed = seed;
    void *data = law_prepared(&kvt_law_score, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, BEGIN, ROW_STREAM_ROWS);
    void *law = law_stream_new(&kvt_law_score, data, &env);
    stream->count = 0;
    for (uint32_t visible = BEGIN + 1; visible <= ROW_STREAM_ROWS; visible++) {
        uint32_t count = law_select_one(&kvt_law_score, data, law, visible, rows);
        for (uint32_t i = 0; i < count && stream->count < ROW_STREAM_LENGTH; i++)
            stream->rows[stream->count++] = rows[i];
    }
    free(law);
    kvt_law_score.free(data);
}

void row_stream_make(struct row_stream *stream, enum row_stream_kind kind, uint64_t seed)
{
    uint32_t last[ROW_STREAM_ROWS];

    if (kind == ROW_STREAM_SELECTIONS)
        make_selections(stream, seed);
    else
        make_drawn(stream, kind, seed);
    memset(last, 0xff, sizeof last);
    for (uint32_t i = stream->count; i-- > 0;) {
        uint32_t later = last[stream->rows[i]];
        stream->next[i] = later == UINT32_MAX ? UINT32_MAX : later - i;
        last[stream->rows[i]] = i;
    }
}
